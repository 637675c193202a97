"""The HTTP adapter: a frozen request sent once, and lookups that read what a destination has for an action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from opsledger.destinations.credentials import CredentialMissing, credential_headers
from opsledger.destinations.transport import AddressGuard, Proxy, SendLimits, WireRequest, send
from opsledger.rules.definitions import ActionDefinition, DestinationDefinition
from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus, SendFact
from opsledger.rules.matching import found_fields
from opsledger.rules.profile import ActionProfile
from opsledger.rules.reading import ABSENT, Absent, Unreadable, Value, at, read_json, reference_at, text_at
from opsledger.rules.rendering import Missing, RenderedRequest, render_read, render_search

RECORDS_MAX = 50
_ABSENT_STATUSES = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Wire:
    """How this installation reaches the world: which private networks are allowed, and through which proxy."""

    guard: AddressGuard
    proxy: Proxy | None = None

    def send(self, request: WireRequest, limits: SendLimits) -> SendFact:
        return send(request, limits, self.guard, self.proxy)


def limits_of(profile: ActionProfile) -> SendLimits:
    timing = profile.timing
    return SendLimits(timing.connect_seconds, timing.total_seconds, profile.reply.bytes_max)


def wire_request(
    destination: DestinationDefinition,
    method: str,
    url: str,
    headers: Mapping[str, str] | list[Any],
    body: bytes,
) -> WireRequest:
    """The frozen request with the credential's header, which goes to the destination's own origin only.

    CredentialMissing where there is none, or one that no header can carry. What was frozen can be sent (rules.rendering).
    """
    pairs = tuple(
        (str(name), str(value))
        for name, value in (headers.items() if isinstance(headers, Mapping) else headers)
    )
    if _origin(url) != _origin(destination.base_url):
        raise CredentialMissing(f"{url} is not at {destination.base_url}; the credential stays here.")
    return WireRequest(method, url, (*pairs, *credential_headers(destination)), body)


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


# Lookups: they read, they never write


@dataclass(frozen=True, slots=True)
class Lookup:
    """One reading of a destination, and what the final effect is by its status, where the profile reads one."""

    fact: LookupFact
    content: bytes = b""  # first bytes of the last reply
    status: int | None = None
    final: str = ""  # confirmed, failed or "" (not yet, or not read)


def search(
    wire: Wire,
    destination: DestinationDefinition,
    action: ActionDefinition,
    identity: str,
    params: Mapping[str, Any],
) -> Lookup:
    """All records that the destination finds for our identity. All pages are read, or the answer is not complete."""
    template = action.search
    if template is None:
        return Lookup(LookupFact(LookupStatus.NO_ANSWER, error="no_search"))
    rendered = render_search(action, identity, destination.base_url, params=params)
    if isinstance(rendered, Missing):
        return Lookup(LookupFact(LookupStatus.NO_ANSWER, error="search_not_rendered"))
    found: list[FoundRecord] = []
    raw: list[Value] = []
    url, fact = rendered.url, None
    for _ in range(template.pages_max):
        fact = _call(wire, destination, action, rendered, url)
        answer, refused = _answer(fact)
        if refused is not None:
            return Lookup(refused, fact.body[:16_384], fact.status)
        rows = at(answer, template.records)
        if not isinstance(rows, list):
            return Lookup(
                LookupFact(LookupStatus.NO_ANSWER, error="unexpected_answer"), fact.body[:16_384], fact.status
            )
        for row in rows[: RECORDS_MAX - len(found)]:
            found.append(_record(row, template.reference, action))
            raw.append(row)
        following = at(answer, template.next_page) if template.next_page else None
        if following in (None, "", False, ABSENT):
            complete = len(found) < RECORDS_MAX
            looked = LookupFact(LookupStatus.RECORDS, tuple(found), complete=complete, searched=True)
            return Lookup(looked, fact.body[:16_384], fact.status, _final(action, raw))
        next_url = _next_url(rendered.url, template.next_query, following, destination)
        if next_url is None:
            break  # there is more, but not in a form, or not at a place, that can be followed
        url = next_url
    incomplete = LookupFact(LookupStatus.RECORDS, tuple(found), complete=False, searched=True)
    return Lookup(incomplete, fact.body[:16_384] if fact else b"", fact.status if fact else None)


def read(wire: Wire, destination: DestinationDefinition, action: ActionDefinition, reference: str) -> Lookup:
    """One record by its reference. 404 here means that this reference does not exist; it proves nothing about our action,
    and its fact does not say that anything was searched."""
    if action.read is None:
        return Lookup(LookupFact(LookupStatus.NO_ANSWER, error="no_read"))
    rendered = render_read(action, reference, destination.base_url)
    if isinstance(rendered, Missing):
        return Lookup(LookupFact(LookupStatus.NO_ANSWER, error="read_not_rendered"))
    fact = _call(wire, destination, action, rendered, rendered.url)
    if fact.complete and fact.status in _ABSENT_STATUSES:
        return Lookup(LookupFact(LookupStatus.RECORDS), fact.body[:16_384], fact.status)
    answer, refused = _answer(fact)
    if refused is not None:
        return Lookup(refused, fact.body[:16_384], fact.status)
    row = at(answer, action.read.record)
    if not isinstance(row, dict):
        return Lookup(
            LookupFact(LookupStatus.NO_ANSWER, error="unexpected_answer"), fact.body[:16_384], fact.status
        )
    record = _record(row, action.read.reference, action)
    return Lookup(
        LookupFact(LookupStatus.RECORDS, (record,)), fact.body[:16_384], fact.status, _final(action, [row])
    )


def _call(
    wire: Wire,
    destination: DestinationDefinition,
    action: ActionDefinition,
    rendered: RenderedRequest,
    url: str,
) -> SendFact:
    request = wire_request(destination, rendered.method, url, list(rendered.headers), rendered.body)
    return wire.send(request, limits_of(action.profile))


def _answer(fact: SendFact) -> tuple[Value | Absent, LookupFact | None]:
    """The parsed reply, or what it is instead of an answer. Errors, timeouts and 404 on a search are no answer."""
    if fact.status in {401, 403}:
        return ABSENT, LookupFact(LookupStatus.ACCESS_REFUSED, error=f"status_{fact.status}")
    if not fact.complete or fact.status is None or not 200 <= fact.status < 300:
        return ABSENT, LookupFact(LookupStatus.NO_ANSWER, error=fact.error or f"status_{fact.status}")
    try:
        return read_json(fact.body), None
    except Unreadable:
        return ABSENT, LookupFact(LookupStatus.NO_ANSWER, error="unexpected_answer")


def _record(row: Value, reference: str, action: ActionDefinition) -> FoundRecord:
    lookup = action.profile.lookup
    identity = text_at(row, lookup.identity) if lookup and lookup.identity else None
    return FoundRecord(reference_at(row, reference) or "", identity, found_fields(row, lookup))


def _next_url(
    url: str, query_field: str, following: Value | Absent, destination: DestinationDefinition
) -> str | None:
    """The next page's address, at the destination's own origin: the credential goes nowhere else. None for any other."""
    if not isinstance(following, str):
        return None
    if query_field:
        joint = "&" if "?" in url else "?"
        return f"{url}{joint}{quote(query_field, safe='')}={quote(following, safe='')}"
    try:
        joined = urljoin(url, following)
        return joined if _origin(joined) == _origin(destination.base_url) else None
    except ValueError:  # brackets that do not close, a port that is none
        return None


def _final(action: ActionDefinition, rows: list[Value]) -> str:
    if action.status is None or len(rows) != 1:
        return ""
    value = text_at(rows[0], action.status.field)
    if value in action.status.confirmed:
        return "confirmed"
    return "failed" if value in action.status.failed else ""

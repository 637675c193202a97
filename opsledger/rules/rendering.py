"""Requests and titles from templates. Rendered once; the bytes and digests are what is approved and sent.

A value keeps its type where the template is nothing but its placeholder, and numbers keep their original
digits; in the middle of a text every value is text. In addresses values are percent-encoded, so none can
leave its segment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from opsledger.rules.building import Problems
from opsledger.rules.definition_types import ActionDefinition, DestinationDefinition
from opsledger.rules.filling import (
    Find,
    Values,
    Write,
    WriteIfThere,
    address_writer,
    as_text,
    finder,
    header_writer,
    json_text,
    json_writer,
    object_writer,
    query_writer,
)
from opsledger.rules.profile import Protection, ProtectionKind
from opsledger.rules.sendable import unsendable
from opsledger.rules.templates import ABSENT, parse, placeholders

__all__ = [
    "MASK",
    "CompiledRequest",
    "Missing",
    "RenderedRequest",
    "as_text",
    "compiled",
    "json_text",
    "keyless_digest",
    "mask",
    "mask_fields",
    "record_page",
    "render_read",
    "render_request",
    "render_search",
    "render_text",
    "request_digest",
]

Pairs = tuple[tuple[str, str], ...]

MASK = "••••"
_SHOWN_MAX = 4  # characters of a sensitive value that stay readable
# one word with a digit in it, or digits in groups; not an e-mail address, not a sentence
_ID_OR_NUMBER = re.compile(
    r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9._:/#-]{0,127}|\+?[0-9(][0-9 ().,/-]{0,63}", re.ASCII
)
_DIGEST_FORMAT = b"opsledger request 1"
_SAFE_PATH = "/:@!$&'()*+,;=%"
_SAFE_ADDRESS = _SAFE_PATH + "?${}"
_KEYED = frozenset({ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID})


class RenderedRequest(NamedTuple):
    """What goes out, without credentials. Digests are SHA-256 in hex over length-prefixed parts."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    digest: str
    content_digest: str  # the same request with the key left out

    def header(self, name: str) -> str | None:
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Missing:
    """The request can't be rendered: which values, and why each."""

    problems: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.problems))


def render_request(
    action: ActionDefinition,
    params: Mapping[str, Any],
    step_identity: str,
    references: Mapping[str, str],
    key: str,
    base_url: str,
    *,
    operation_id: str = "",
    content: Mapping[str, Any] | None = None,
) -> RenderedRequest | Missing:
    """The request of a step, by templates that are compiled for this once."""
    request = compiled(action, base_url)
    return request.render(params, step_identity, references, key, operation_id=operation_id, content=content)


def compiled(action: ActionDefinition, base_url: str) -> CompiledRequest:
    """The action's request at this address, which is resolved: compile it once, render it often."""
    request, protection = action.request, action.profile.protection
    where, _, place = (protection.key_in if protection.kind in _KEYED else "").partition(":")
    headers = tuple((name, header_writer(name, value)) for name, value in request.headers)
    if request.body is not None and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (*headers, ("Content-Type", header_writer("Content-Type", "application/json")))
    around = [request.path, *(value for _, value in (*request.query, *request.headers))]
    made = CompiledRequest(
        method=request.method,
        url=_url(base_url, request.path, request.query),
        headers=headers,
        body=None if request.body is None else json_writer(request.body),
        keyed_body=object_writer(_with_key(request.body, place.split("."))) if where == "body" else None,
        key_header=place if where == "header" else "",
        key_length_max=protection.key_length_max,
        names_operation=any(one.path[0] == "operation" for one in placeholders([*around, request.body])),
    )
    if any(placeholders(around)):
        return made
    return replace(made, fixed=made.fixed_envelope())


@dataclass(frozen=True, slots=True)
class CompiledRequest:
    """An action's request with its templates ready to be filled."""

    method: str
    url: Write
    headers: tuple[tuple[str, Write], ...]
    body: WriteIfThere | None
    keyed_body: Write | None  # where the key stands in the body
    key_header: str  # "" where it stands in none
    key_length_max: int
    names_operation: bool  # our public id of the operation stands in it
    fixed: _Envelope | None = None  # all but body and key, where nothing of it is filled in

    def render(
        self,
        params: Mapping[str, Any],
        step_identity: str,
        references: Mapping[str, str],
        key: str,
        *,
        operation_id: str = "",
        content: Mapping[str, Any] | None = None,
    ) -> RenderedRequest | Missing:
        """The request of a step, or what it lacks or holds that can't be sent.

        `references` are those of earlier steps by name; `operation_id` is our public id.
        """
        values: dict[str, Any] = {
            "params": params,
            "content": content or {},
            "step": {"identity": step_identity},
            "steps": {name: {"reference": reference} for name, reference in references.items()},
            "operation": {"id": operation_id},
        }
        problems = Problems()
        envelope = self.fixed or self._envelope(values, problems)
        text = "" if self.body is None else self.body(values, problems)
        if text is None:
            problems.add("body", "is missing")
        if len(key) > self.key_length_max and (self.key_header or self.keyed_body):
            problems.add("key", f"is longer than the {self.key_length_max} characters that fit")
        if problems or text is None:
            return Missing(tuple(problems.found))
        body = keyed = text.encode("ascii")
        if self.keyed_body is not None:
            keyed = self.keyed_body({**values, "key": {"value": key}}, problems).encode("ascii")
        return envelope.closed(body, keyed, key)

    def _envelope(self, values: Values, problems: Problems) -> _Envelope:
        url = self.url(values, problems)
        headers = tuple([(name, write(values, problems)) for name, write in self.headers])
        return _Envelope.of(self.method, url, headers, self.key_header)

    def fixed_envelope(self) -> _Envelope | None:
        """The envelope of every request; None where something is wrong with it, which each request then says."""
        problems = Problems()
        envelope = self._envelope({}, problems)
        sample = envelope.closed(b"{}", b"{}", "key")
        names = {name.lower() for name, _ in envelope.headers}
        if problems or isinstance(sample, Missing) or "content-length" in names:
            return None
        return replace(envelope, sendable=True)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """Everything of a request but its body and its key, and what its digests begin with."""

    method: str
    url: str
    headers: Pairs
    key_header: str
    start: bytes
    keyed_start: bytes
    sendable: bool = False  # it is known that no body and no plain key make it one that can't be sent

    @classmethod
    def of(cls, method: str, url: str, headers: Pairs, key_header: str) -> _Envelope:
        start = _digest_start(method, url, headers)
        keyed = _digest_start(method, url, headers, key_header) if key_header else start
        return cls(method, url, headers, key_header, start, keyed)

    def closed(self, bare: bytes, keyed: bytes, key: str) -> RenderedRequest | Missing:
        """With its body, as it is sent and as it is without the key."""
        headers = (*self.headers, (self.key_header, key)) if self.key_header else self.headers
        if not (self.sendable and key.isalnum() and key.isascii()):
            wrong = unsendable(self.method, self.url, headers, keyed)
            if wrong:
                return Missing(wrong)
        content_digest = digest = hashlib.sha256(self.start + _sized(bare)).hexdigest()
        if self.key_header:
            digest = hashlib.sha256(self.keyed_start + _sized_text(key) + _sized(keyed)).hexdigest()
        elif keyed is not bare:
            digest = hashlib.sha256(self.start + _sized(keyed)).hexdigest()
        return RenderedRequest(self.method, self.url, headers, keyed, digest, content_digest)


def _with_key(body: Any, path: list[str]) -> Any:
    """The body's template with a place for the key."""
    inner = "{key.value}" if len(path) == 1 else _with_key(body.get(path[0], {}), path[1:])
    return {**body, path[0]: inner}


@lru_cache(maxsize=1024)
def _url(base_url: str, path: str, query: Pairs) -> Write:
    base, write = base_url.rstrip("/"), query_writer(path, query, _SAFE_PATH)
    return lambda values, problems: base + write(values, problems)


def render_search(
    action: ActionDefinition,
    step_identity: str,
    base_url: str,
    *,
    params: Mapping[str, Any] | None = None,
    operation_id: str = "",
) -> RenderedRequest | Missing:
    """The first page of the action's search. ValueError when the action has none."""
    if action.search is None:
        raise ValueError("this action has no search")
    values = {"step": {"identity": step_identity}, "params": params or {}, "operation": {"id": operation_id}}
    return _without_body(
        action.search.method, _url(base_url, action.search.path, action.search.query), values
    )


def render_read(action: ActionDefinition, reference: str, base_url: str) -> RenderedRequest | Missing:
    """The read of one record by its reference. ValueError when the action has none."""
    if action.read is None:
        raise ValueError("this action has no read")
    return _without_body("GET", _url(base_url, action.read.path, ()), {"reference": reference})


def _without_body(method: str, write_url: Write, values: Values) -> RenderedRequest | Missing:
    problems = Problems()
    url = write_url(values, problems)
    if problems:
        return Missing(tuple(problems.found))
    digest = request_digest(method, url, (), b"")
    return RenderedRequest(method, url, (), b"", digest, digest)


def record_page(destination: DestinationDefinition, reference: str = "", identity: str = "") -> str:
    """The address of a found record for people, else of a search for it; "" where there is none."""
    values = {"reference": reference or None, "identity": identity or None}
    for template in (destination.record_url, destination.search_url):
        problems = Problems()
        address = address_writer(template, safe=_SAFE_ADDRESS)(values, problems) if template else ""
        if address and not problems:
            return destination.base_url.rstrip("/") + address if address.startswith("/") else address
    return ""


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """A title for people; a value that is missing shows as an ellipsis."""
    return "".join(
        [part if isinstance(part, str) else _shown(part(values)) for part in _title_parts(template)]
    )


@lru_cache(maxsize=1024)
def _title_parts(template: str) -> tuple[str | Find, ...]:
    return tuple(part if isinstance(part, str) else finder(part.path) for part in parse(template))


def _shown(found: Any) -> str:
    return "…" if found is ABSENT else as_text(found)


def mask(value: Any) -> str:
    """A sensitive value as lists and logs show it: `••••4417` for an id or a number, by which people tell records apart.

    Short ones are hidden whole, and so is everything that people read: names, addresses, free texts.
    """
    text = as_text(value)
    keeps_tail = len(text) > 2 * _SHOWN_MAX - 1 and _ID_OR_NUMBER.fullmatch(text) is not None
    return MASK + text[-_SHOWN_MAX:] if keeps_tail else MASK


def mask_fields(body: Any, paths: Iterable[str]) -> Any:
    """A copy of a request's body in which what stands at these dotted paths is masked."""
    for path in paths:
        body = _replaced(body, path.split("."))
    return body


def _replaced(body: Any, path: list[str]) -> Any:
    if not isinstance(body, Mapping) or path[0] not in body:
        return body
    inner = mask(body[path[0]]) if len(path) == 1 else _replaced(body[path[0]], path[1:])
    return {**body, path[0]: inner}


def keyless_digest(
    protection: Protection, method: str, url: str, headers: list[tuple[str, str]], body: bytes, parsed: Any
) -> str:
    """The digest of a frozen request with the key left out, made from what is about to be sent.

    `parsed` is the body's JSON value, needed where the key stands in the body.
    """
    where, _, place = (protection.key_in if protection.kind in _KEYED else "").partition(":")
    if where == "header":  # the key was put behind the others
        last = next((n for n in reversed(range(len(headers))) if headers[n][0] == place), None)
        headers = [pair for index, pair in enumerate(headers) if index != last]
    if where == "body":
        body = json_text(_without_key(parsed, place.split("."))).encode("ascii")
    return request_digest(method, url, headers, body)


def _without_key(body: Any, path: list[str]) -> Any:
    if not isinstance(body, Mapping) or path[0] not in body:
        return body
    if len(path) == 1:
        return {name: value for name, value in body.items() if name != path[0]}
    return {**body, path[0]: _without_key(body[path[0]], path[1:])}


def request_digest(method: str, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> str:
    """Every part with its length before it, so that no part can lend bytes to its neighbour."""
    return hashlib.sha256(_digest_start(method, url, headers) + _sized(body)).hexdigest()


def _digest_start(
    method: str, url: str, headers: Sequence[tuple[str, str]], one_more: str | None = None
) -> bytes:
    """What a digest is fed before the body. `one_more`: the name of a last header, whose value is still to come."""
    texts = [method, url, str(len(headers) + (one_more is not None))]
    for name, value in headers:
        texts += (name.lower(), value)
    if one_more is not None:
        texts.append(one_more.lower())
    return _DIGEST_FORMAT + b"".join([_sized_text(text) for text in texts])


def _sized_text(text: str) -> bytes:
    return _sized(text.encode("utf-8", "surrogatepass"))


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part

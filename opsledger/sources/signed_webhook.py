"""The generic kind of source: JSON objects by POST, signed over their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from opsledger.lib.strict_json import dumps, projection
from opsledger.rules.definition_types import SourceDefinition
from opsledger.rules.identity import canonical_json, refuse_operation_id
from opsledger.rules.templates import ABSENT, Absent, Placeholder, look_up, parse
from opsledger.sources.bodies import BYTES_MAX_DEFAULT, Body, check_size, read_body
from opsledger.sources.refusals import Refusal
from opsledger.sources.signatures import Headers, Secret, single_header, verify
from opsledger.sources.times import TEXT_MAX, read_time

EVENT_ID_LENGTH_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that happened at a source, as one delivery tells it.

    `event_id` and `operation_id` are byte-exact. `occurred_at` is None where the source says nothing plausible; then
    `occurred_text` has what it says and `flagged` is set. `operation_id` is "" when nothing is to be started, or when
    that can't be named: no reason to refuse what happened. Then `unnamed` says why.
    """

    event_id: str
    topic: str
    occurred_at: datetime | None
    occurred_text: str
    flagged: bool
    operation_id: str
    params: dict[str, Any]
    said: str  # what its body says, as canonical JSON: to the last digit and character
    projection: dict[str, Any]  # the copy of it that can be stored and searched
    secret_name: str = ""
    unnamed: tuple[str, ...] = ()  # why what is to be started can't be named so; then `operation_id` is ""


def receive(
    source: SourceDefinition,
    headers: Headers,
    raw: bytes,
    now: datetime,
    secrets: Iterable[Secret],
    *,
    bytes_max: int = BYTES_MAX_DEFAULT,
) -> Occurrence | Refusal:
    """One delivery, in the only safe order: size, signature over the received bytes, body, identity.

    `source` is completed from its delivery profile; `headers` as received, `now` aware.
    """
    too_large = check_size(len(raw), bytes_max)
    if too_large:
        return too_large
    verified = verify(source, headers, raw, now, secrets)
    if isinstance(verified, Refusal):
        return verified
    kind, encoding = _last(headers, "content-type"), _last(headers, "content-encoding")
    body = read_body(raw, kind, encoding, source, bytes_max=bytes_max)
    if isinstance(body, Refusal):
        return body
    return normalise(source, headers, body, now, secret_name=verified.secret_name)


def normalise(
    source: SourceDefinition, headers: Headers, body: Body, now: datetime, *, secret_name: str = ""
) -> Occurrence | Refusal:
    """What a verified delivery says: which event, about what, when, and what it starts."""
    event_id = _identity(source.event_id, headers, body)
    if isinstance(event_id, Refusal):
        return event_id
    topic = _as_identifier(_found(source.topic, headers, body))
    starts = bool(source.starts) and (not source.topics or topic in source.topics)
    operation_id, unnamed = _operation_id(source, event_id, topic, body) if starts else ("", ())
    occurred = _found(source.occurred_at, headers, body)
    occurred_at = read_time(occurred, now)
    told = not isinstance(occurred, Absent)
    return Occurrence(
        event_id=event_id,
        topic=projection(topic),
        occurred_at=occurred_at,
        occurred_text=_shortened(occurred) if told else "",
        flagged=told and occurred_at is None,
        operation_id=operation_id,
        params=_params(source, headers, body) if starts else {},
        said=canonical_json(body.value),
        projection=body.projection,
        secret_name=secret_name,
        unnamed=unnamed,
    )


def _identity(place: str, headers: Headers, body: Body) -> str | Refusal:
    """The event's id, byte-exact: never trimmed, folded, normalised or cut."""
    event_id = _as_identifier(_found(place, headers, body))
    if not event_id:
        return Refusal(
            "event_id_missing", 400, f"The event has no id at {place}; without one it can't be told apart."
        )
    if len(event_id) > EVENT_ID_LENGTH_MAX:
        limit = EVENT_ID_LENGTH_MAX
        return Refusal(
            "event_id_too_long", 400, f"The event's id is longer than {limit} characters, which is the limit."
        )
    if any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in event_id):
        return Refusal("event_id_unusable", 400, "The event's id holds NUL or half of a surrogate pair.")
    return event_id


def _operation_id(
    source: SourceDefinition, event_id: str, topic: str, body: Body
) -> tuple[str, tuple[str, ...]]:
    """The operation that the event asks for, or why it can't be named so; nothing of the event is quoted.

    Where several values are put together, each is percent-encoded, so that different values can't give the same id.
    """
    values = {"event": {"id": event_id, "topic": topic}, "body": body.value}
    parts = parse(source.operation_id)
    several = sum(isinstance(part, Placeholder) for part in parts) > 1
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
            continue
        found = _as_identifier(look_up(values, part.path))
        if not found:
            return "", (f"can't be made: the event has no {part.name}, which its operation is named after",)
        text += quote(found, safe="", errors="surrogatepass") if several else found
    reasons = tuple(refuse_operation_id(text))
    return ("", reasons) if reasons else (text, ())


def _params(source: SourceDefinition, headers: Headers, body: Body) -> dict[str, Any]:
    """The mapped values as they stand in the event; what it does not have is left out, and told by the workflow."""
    found = {name: _found(place, headers, body) for name, place in source.params}
    return {name: value for name, value in found.items() if not isinstance(value, Absent)}


def _found(place: str, headers: Headers, body: Body) -> Any:
    where, colon, path = place.partition(":")
    if not place:
        return ABSENT
    if colon and where == "header":
        value = single_header(headers, path)
        return ABSENT if isinstance(value, Refusal) else value
    at: Any = body.value
    for name in (path if colon and where == "body" else place).split("."):
        if isinstance(at, list) and name.isascii() and name.isdigit() and int(name) < len(at):
            at = at[int(name)]
        elif isinstance(at, dict) and name in at:
            at = at[name]
        else:
            return ABSENT
    return ABSENT if at is None else at


def _as_identifier(value: Any) -> str:
    """Text as it is, a number by its digits; nothing else names anything."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return ""
    return str(value)


def _shortened(value: Any) -> str:
    shown = projection(value)
    text: str = shown if isinstance(shown, str) and shown else dumps(shown)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "…"


def _last(headers: Headers, name: str) -> str:
    """A header that describes the body; of several the last, as servers that join them do."""
    values = [value for key, value in headers if key.lower() == name]
    found = values[-1] if values else ""
    return found.decode("latin-1") if isinstance(found, bytes) else found

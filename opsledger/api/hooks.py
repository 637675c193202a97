"""`POST /hooks/{source}`: deliveries. Raw body first, the signature over these bytes, 2xx only after the commit.

A slug belongs to a team, so several teams may have a source of one name. The signature says whose delivery it is; a team
that adds such a source takes nothing away from another. Where two of them have the same secret nobody guesses.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from opsledger.api.answers import respond
from opsledger.api.problems import KINDS, Problem, busy, problem_response
from opsledger.api.problems import respond as respond_problem
from opsledger.api.reading import raw_body
from opsledger.engine import bell
from opsledger.ledger import definitions
from opsledger.ledger.actions.events import NewEvent, record_refusal
from opsledger.ledger.actions.intake import Busy, Delivered, Taken, Wanted, open_delivery
from opsledger.ledger.actions.wanted import refused
from opsledger.lib.env import Env
from opsledger.lib.ids import parse, public
from opsledger.lib.recent import Recent
from opsledger.lib.strict_json import dumps
from opsledger.rules.definition_types import SourceDefinition
from opsledger.sources.refusals import Refusal
from opsledger.sources.registry import answer_status, receive
from opsledger.sources.signatures import Headers, Secret, configured_secrets
from opsledger.sources.signed_webhook import Occurrence

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """A source as it is now."""

    id: UUID
    version_id: UUID
    team_id: UUID
    slug: str


@csrf_exempt
def deliver(request: HttpRequest, source: str) -> HttpResponse:
    """One delivery. Every refusal is counted with its reason; none of them is a 500."""
    if request.method != "POST":
        return respond_problem(Problem("method", "Send POST.", headers={"Allow": "POST"}))
    try:
        raw = raw_body(request)
    except Problem as problem:
        named = _sources.get(source)
        _count(named, Refusal(problem.code, problem.kind.status, problem.kind.title))
        return respond_problem(problem) if named else _unknown()
    named = _sources.get(source)
    if not named:
        _count((), Refusal("unknown_source", 404, "A delivery came to a source that does not exist."))
        return _unknown()
    return _receive(request, named, raw)


def _receive(request: HttpRequest, named: Sequence[Known], raw: bytes) -> HttpResponse:
    """The one source of this name that the signature belongs to takes it.

    Where it belongs to none, each of them counts why; where it belongs to several, nothing is recorded for any.
    """
    now, headers = datetime.now(UTC), headers_of(request)
    told = [(known, _told(known, headers, raw, now)) for known in named]
    signed = [(known, one) for known, one in told if not _is_strange(one)]
    if len(signed) > 1:
        _count([known for known, _ in signed], _AMBIGUOUS)
        return _refused(_AMBIGUOUS)
    if not signed:
        for known, refusal in told:
            if isinstance(refusal, Refusal):
                _count([known], refusal)
        return _refused(max((one for _, one in told if isinstance(one, Refusal)), key=lambda one: one.status))
    known, occurrence = signed[0]
    request.log_ids = {"source": known.slug, "team_id": known.team_id}  # type: ignore[attr-defined]
    if isinstance(occurrence, Refusal):
        _count([known], occurrence)
        return _refused(occurrence)
    return _record(request, known, raw, occurrence)


def _told(known: Known, headers: Headers, raw: bytes, now: datetime) -> Occurrence | Refusal:
    source, secrets = definitions.source(known.version_id), _secrets.get(known.version_id)
    return receive(source, headers, raw, now, secrets, bytes_max=settings.INTAKE_BODY_BYTES_MAX)


def _is_strange(told: Occurrence | Refusal) -> bool:
    """No secret of this source signed it, as far as is known here: 401, or 503 where the secret is not configured."""
    return isinstance(told, Refusal) and told.status in {401, 503}


_AMBIGUOUS = Refusal(
    "several_sources",
    409,
    "Sources of several teams have this name and this secret, so it can't be told whose delivery it is.",
)


def _record(request: HttpRequest, known: Known, raw: bytes, told: Occurrence) -> HttpResponse:
    definition = definitions.source(known.version_id)
    event = _event(known, request, raw, told)
    try:
        delivered = open_delivery(event, _wanted(definition, told), source=known.slug, told=told.projection)
    except Busy:
        return respond_problem(busy())
    bell.ring()
    log.info("delivery", extra={"event_id": str(delivered.event.id), "secret": told.secret_name})
    return _answer(definition, delivered)


def _event(known: Known, request: HttpRequest, raw: bytes, told: Occurrence) -> NewEvent:
    return NewEvent(
        team_id=known.team_id,
        source_id=known.id,
        source_version_id=known.version_id,
        event_id=told.event_id,
        raw=raw,
        said=told.said,
        content_type=request.META.get("CONTENT_TYPE", ""),
        content_encoding=request.headers.get("Content-Encoding", ""),
        topic=_storable(told.topic),
        occurred_at=told.occurred_at,
        occurred_text=_storable(told.occurred_text),
        occurred_flagged=told.flagged,
        projection=dumps(told.projection),
        secret_name=told.secret_name,
    )


def _storable(text: str) -> str:
    return text.replace("\x00", "␀").encode("utf-8", "replace").decode("utf-8")


def _wanted(definition: SourceDefinition, told: Occurrence) -> Wanted | Taken | None:
    if told.unnamed:
        return refused(*(("operation_id", why) for why in told.unnamed))
    if not told.operation_id:
        return None
    return Wanted(operation_id=told.operation_id, workflow=definition.starts, params=told.params)


def _answer(definition: SourceDefinition, delivered: Delivered) -> HttpResponse:
    """What this source wants to hear: done, or accepted and not done yet."""
    event = delivered.event
    body = {
        "event": public("evt", event.id),
        "deliveries": event.delivery_count,
        "operation": public("op", delivered.operation.id) if delivered.operation else None,
        "state": "held"
        if delivered.held
        else str(delivered.operation.state)
        if delivered.operation
        else "recorded",
    }
    return respond(answer_status(definition, done=delivered.done), body)


def headers_of(request: HttpRequest) -> Headers:
    """The request's headers as received; the server has joined repeated ones with a comma."""
    return [(name, value) for name, value in request.headers.items()]


# Refusals


def _unknown() -> HttpResponse:
    return respond_problem(Problem("not_found", "There is no such source."))


def _refused(refusal: Refusal) -> HttpResponse:
    codes = {413: "body_too_large", 415: "content_type"}
    code = codes.get(refusal.status, "bad_json")
    title, todo = _TITLES.get(refusal.status, (KINDS[code].title, KINDS[code].todo))
    body = {
        "type": f"/api/docs#refusal-{refusal.status}",
        "title": title,
        "status": refusal.status,
        "code": refusal.reason,
        "detail": f"{refusal.sentence} Nothing was recorded.",
        "todo": todo,
    }
    headers = {"Retry-After": "60"} if refusal.status == 503 else {}
    return problem_response(refusal.status, body, headers)


_TITLES = {
    401: ("The signature can’t be verified", "Sign the exact bytes with the secret that both sides have."),
    409: ("Several sources have this name", "Deliver to the address with the source's own id, /hooks/src_…."),
    503: ("This source is not ready", "Send it again; the operators have been told."),
}


def _count(named: Sequence[Known], refusal: Refusal) -> None:
    """With each source that it may have been meant for; without any, with none."""
    whose: list[tuple[str, UUID | None]] = [(known.slug, known.team_id) for known in named]
    try:
        for slug, team_id in whose or [("", None)]:
            record_refusal(slug, team_id, refusal.reason, refusal.sentence)
    except DatabaseError as why:  # the sender still gets its answer
        log.warning("a refusal was not counted: %s", type(why).__name__)


# Sources and their secrets, a few seconds old at most


def _find(name: str) -> tuple[Known, ...]:
    """The one of this `src_…` id, or all of this slug, the oldest first."""
    number = parse("src", name)
    condition, value = ("id = %s", number) if number else ("slug = %s", name)
    if "\x00" in name:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, current_id, team_id, slug FROM ledger_definition"
            f" WHERE kind = 'source' AND current_id IS NOT NULL AND {condition} ORDER BY id",
            [value],
        )
        return tuple(Known(*row) for row in cursor.fetchall())


def _read_secrets(version_id: UUID) -> tuple[Secret, ...]:
    return configured_secrets(definitions.source(version_id), Env().text)


_sources: Recent[str, tuple[Known, ...]] = Recent(_find, keep_seconds=2.0, count_max=1024)
_secrets: Recent[UUID, tuple[Secret, ...]] = Recent(_read_secrets, keep_seconds=2.0)


def forget() -> None:
    """For tests, whose sources come and go."""
    _sources.forget()
    _secrets.forget()

"""`POST /hooks/{source}`: deliveries. Raw body first, the signature over these bytes, 2xx only after the commit."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from opsledger.api.answers import respond
from opsledger.api.problems import KINDS, Problem, problem_response
from opsledger.api.problems import respond as respond_problem
from opsledger.api.reading import raw_body
from opsledger.engine import bell
from opsledger.ledger import definitions
from opsledger.ledger.actions.events import NewEvent, record_refusal
from opsledger.ledger.actions.intake import Delivered, Wanted, open_delivery
from opsledger.lib.env import Env
from opsledger.lib.ids import parse, public
from opsledger.lib.recent import Recent
from opsledger.lib.strict_json import dumps
from opsledger.rules.definition_types import SourceDefinition
from opsledger.rules.identity import canonical_json
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
        known = _sources.get(source)
    except Problem as problem:
        known = _sources.get(source)
        _count(known, Refusal(problem.code, problem.kind.status, problem.kind.title))
        return respond_problem(problem) if known else _unknown()
    if known is None:
        _count(None, Refusal("unknown_source", 404, "A delivery came to a source that does not exist."))
        return _unknown()
    request.log_ids = {"source": known.slug, "team_id": known.team_id}  # type: ignore[attr-defined]
    return _receive(request, known, raw)


def _receive(request: HttpRequest, known: Known, raw: bytes) -> HttpResponse:
    definition = definitions.source(known.version_id)
    told = receive(
        definition,
        headers_of(request),
        raw,
        datetime.now(UTC),
        _secrets.get(known.version_id),
        bytes_max=settings.INTAKE_BODY_BYTES_MAX,
    )
    if isinstance(told, Refusal):
        _count(known, told)
        return _refused(told)
    event = _event(known, request, raw, told)
    delivered = open_delivery(event, _wanted(definition, told), source=known.slug, told=told.projection)
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
        said=canonical_json(told.projection),
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


def _wanted(definition: SourceDefinition, told: Occurrence) -> Wanted | None:
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
    503: ("This source is not ready", "Send it again; the operators have been told."),
}


def _count(known: Known | None, refusal: Refusal) -> None:
    try:
        record_refusal(
            known.slug if known else "", known.team_id if known else None, refusal.reason, refusal.sentence
        )
    except DatabaseError as why:  # the sender still gets its answer
        log.warning("a refusal was not counted: %s", type(why).__name__)


# Sources and their secrets, a few seconds old at most


def _find(name: str) -> Known | None:
    """By slug where only one team has it, else by `src_…`."""
    number = parse("src", name)
    condition, value = ("id = %s", number) if number else ("slug = %s", name)
    if "\x00" in name:
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, current_id, team_id, slug FROM ledger_definition"
            f" WHERE kind = 'source' AND current_id IS NOT NULL AND {condition} LIMIT 2",
            [value],
        )
        rows = cursor.fetchall()
    return Known(*rows[0]) if len(rows) == 1 else None


def _read_secrets(version_id: UUID) -> tuple[Secret, ...]:
    return configured_secrets(definitions.source(version_id), Env().text)


_sources: Recent[str, Known | None] = Recent(_find, keep_seconds=2.0, count_max=1024)
_secrets: Recent[UUID, tuple[Secret, ...]] = Recent(_read_secrets, keep_seconds=2.0)


def forget() -> None:
    """For tests, whose sources come and go."""
    _sources.forget()
    _secrets.forget()

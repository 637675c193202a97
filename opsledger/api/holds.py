"""Holds: listed, read, settled, assigned, noted, checked. Every decision carries the version that it was made on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from opsledger.accounts.permissions import Permission, to_answer
from opsledger.accounts.roles import people_who_may
from opsledger.api.answers import hold_answer, plain, respond
from opsledger.api.caller import Caller
from opsledger.api.operations import operation_id_of, refused
from opsledger.api.paging import LIMIT_MAX, cursor_of, held_by
from opsledger.api.problems import Problem
from opsledger.api.reading import invalid
from opsledger.api.shapes.decisions import Assignment, Check, Note, Settlement, StepAnswer
from opsledger.api.versions import tagged, version_of
from opsledger.engine import bell
from opsledger.engine.reading import Reading, read_reference
from opsledger.ledger import records
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import By, Refused, Stale
from opsledger.ledger.actions.destinations import settle_resume
from opsledger.ledger.actions.event_questions import EVENT_ANSWERS, settle_event_hold
from opsledger.ledger.actions.interventions import settle_check
from opsledger.ledger.actions.notes import settle_note
from opsledger.ledger.actions.settle import NEEDS_REFERENCE, Decision, settle_hold
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold, Operation, Step
from opsledger.ledger.queries import inbox
from opsledger.ledger.queries.answer_proposals import open_proposals_of
from opsledger.ledger.queries.hold_lines import Place
from opsledger.ledger.queries.holds import hold_of
from opsledger.ledger.queries.if_nobody import Outlook, outlooks
from opsledger.lib.ids import parse, public
from opsledger.lib.places import place_text, read_place
from opsledger.rules.answers import Answer, answers_for
from opsledger.rules.states import HoldReason

NO_HOLD = "This team has no such hold."
GO_ON = "go_on"
RATE_DEFAULT = 10.0
_NOBODY = UUID(int=0)


def find(caller: Caller, text: str) -> Hold:
    number = parse("hold", text)
    found = hold_of(number, [caller.team_id]) if number else None
    if found is None:
        raise Problem("not_found", NO_HOLD)
    return found


def shown(hold: Hold) -> dict[str, Any]:
    proposals = open_proposals_of([hold.pk]).get(hold.pk, ())
    return hold_answer(hold, answers_of([hold])[hold.pk], _outlooks([hold]).get(hold.pk), proposals)


def _outlooks(holds: Sequence[Hold]) -> dict[UUID, Outlook]:
    """What happens if nobody acts, by hold; for open ones, which are of one team."""
    found = [hold for hold in holds if hold.closed_at is None]
    if not found:
        return {}
    versions = [(hold, hold.operation.workflow_version_id if hold.operation else None) for hold in found]
    told = outlooks(found[0].team_id, versions, database_now())
    return {hold.pk: outlook for hold, outlook in zip(found, told, strict=True)}


def answers_of(holds: Sequence[Hold]) -> dict[UUID, Sequence[str]]:
    """The answers that are valid now, by hold; none for a closed one."""
    operation_ids = {hold.operation_id for hold in holds if hold.operation_id and hold.closed_at is None}
    loaded = records.load(operation_ids) if operation_ids else {}
    found: dict[UUID, Sequence[str]] = {hold.pk: () for hold in holds}
    for hold in holds:
        if hold.closed_at is not None:
            continue
        if hold.operation_id is None:
            found[hold.pk] = (GO_ON,) if hold.destination_id else EVENT_ANSWERS
            continue
        record = loaded[hold.operation_id].record
        known = next((one for one in record.holds if one.id == str(hold.pk)), None)
        found[hold.pk] = [answer.value for answer in answers_for(record, known)] if known else ()
    return found


# Reading


def listed(caller: Caller, request: HttpRequest) -> HttpResponse:
    """Open holds, the one that is due first at the top."""
    wanted, after, limit = _wanted(caller, request.GET.dict())
    page = inbox.page_of(wanted, after=after, size=limit)
    ids = [line.id for line in page.lines]
    rows = Hold.objects.select_related("step", "event", "owner", "operation").in_bulk(ids)
    holds = [rows[hold_id] for hold_id in ids if hold_id in rows]
    answers, told, proposals = answers_of(holds), _outlooks(holds), open_proposals_of(ids)
    last = page.lines[-1].place if page.has_later and page.lines else None
    following = cursor_of(place_text("hold", last.due_at, last.id)) if last else None
    items = [
        hold_answer(hold, answers[hold.pk], told.get(hold.pk), proposals.get(hold.pk, ())) for hold in holds
    ]
    return respond(200, {"items": items, "next": following})


def _wanted(caller: Caller, given: Mapping[str, Any]) -> tuple[inbox.Wanted, Place | None, int]:
    problems: list[tuple[str, str]] = []
    reason = given.get("reason", "")
    if reason and reason not in {one.value for one in HoldReason}:
        problems.append(("reason", f"must be one of {', '.join(one.value for one in HoldReason)}"))
    unowned = given.get("unowned", "false")
    if unowned not in {"true", "false"}:
        problems.append(("unowned", "must be true or false"))
    limit = given.get("limit", str(inbox.PAGE))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 6 and 1 <= int(limit) <= LIMIT_MAX):
        problems.append(("limit", f"must be a whole number from 1 to {LIMIT_MAX}"))
    after = _place(given["cursor"]) if given.get("cursor") else None
    if given.get("cursor") and after is None:
        problems.append(("cursor", "can't be read; begin again without it"))
    owner = _owner(caller, given["owner"]) if given.get("owner") and not problems else None
    if given.get("owner") and owner is None and not problems:
        problems.append(("owner", "must be the sign-in name of a person who may settle here"))
    if problems:
        raise invalid(problems)
    return (
        inbox.Wanted(
            team_id=caller.team_id,
            person_id=caller.by.person_id or _NOBODY,
            reason=HoldReason(reason) if reason else None,
            destination=given.get("destination", ""),
            workflow=given.get("workflow", ""),
            owner=owner,
            unowned=unowned == "true",
        ),
        after,
        int(limit),
    )


def _place(cursor: str) -> Place | None:
    found = read_place("hold", held_by(cursor) or "")
    return Place(*found) if found else None


def read_one(caller: Caller, request: HttpRequest, hold: str) -> HttpResponse:
    found = find(caller, hold)
    return respond(200, shown(found), tagged(found.version))


# Deciding


def stale(hold: Hold) -> Problem:
    current = hold_of(hold.pk, [hold.team_id])
    assert current is not None  # nothing is ever deleted
    now = "was settled" if current.closed_at else f"is at version {current.version}"
    return Problem(
        "stale",
        f"The hold {now} by now. Nothing was changed.",
        headers=tagged(current.version),
        current=plain(shown(current)),
    )


def fresh(caller: Caller, request: HttpRequest, text: str) -> Hold:
    """The open hold at the version that the caller read."""
    hold, version = find(caller, text), version_of(request)
    if hold.version != version or hold.closed_at is not None:
        raise stale(hold)
    return hold


def settle(caller: Caller, request: HttpRequest, hold: str, given: Settlement) -> HttpResponse:
    """One answer. A typed reference is read at the destination first, and compared where that is possible."""
    found = find(caller, hold)
    caller.require(_permission(found, given.answer))
    version = version_of(request)
    reading = None
    try:
        if found.destination_id is not None:
            _go_on(found, given, version, caller.by)
        elif found.event_id is not None:
            _judge_event(caller, found, given, version)
        else:
            if found.version != version or found.closed_at is not None:
                raise stale(found)
            reading = read_compared(found, given.answer, given.reference, given.accept_difference)
            settle_hold(
                found.pk, decision_of(found, given, version, reading), caller.by, extra=evidence_of(reading)
            )
    except Stale as why:
        raise stale(why.hold) from why
    except Refused as why:
        raise refused(why) from why
    bell.ring()
    return settled(caller, found, reading)


def _permission(hold: Hold, answer: str) -> Permission:
    if hold.destination_id is not None:
        return Permission.RESUME_DESTINATION
    if answer not in {one.value for one in Answer}:
        return Permission.SETTLE
    return to_answer(Answer(answer))


def settled(caller: Caller, hold: Hold, reading: Reading | None) -> HttpResponse:
    current = hold_of(hold.pk, [caller.team_id])
    assert current is not None  # nothing is ever deleted
    state = None
    if hold.operation_id:
        state = Operation.objects.values_list("state", flat=True).get(pk=hold.operation_id)
    body = {
        "hold": shown(current),
        "operation_state": state,
        "reading": _reading(reading) if reading else None,
    }
    return respond(200, body, tagged(current.version))


def _go_on(hold: Hold, given: Settlement, version: int, by: By) -> None:
    if given.answer != GO_ON:
        raise Refused(f"A hold at a destination is answered with {GO_ON}.", field="answer")
    settle_resume(hold.pk, version, given.rate_per_second or RATE_DEFAULT, given.reason, by)


def _judge_event(caller: Caller, hold: Hold, given: Settlement, version: int) -> None:
    operation = operation_id_of(caller, given.operation) if given.operation else None
    settle_event_hold(hold.pk, given.answer, version, given.reason, caller.by, operation=operation)


def decision_of(hold: Hold, given: StepAnswer, version: int, reading: Reading | None) -> Decision:
    if given.answer not in {one.value for one in Answer}:
        raise Refused("This is no answer to a hold about a step; its `answers` are.", field="answer")
    return Decision(
        answer=Answer(given.answer),
        reason=given.reason,
        version=version,
        reference=given.reference,
        no_reference_why=given.no_reference_why,
        checked_how=given.checked_how,
        tries=given.tries,
        next_check_at=given.next_check_at,
        keep_later=_keep_later(hold, given.keep_later),
        compared=compared_with(reading),
        replaced_by=given.replaced_by,
        ticket=given.ticket,
        others=given.others,
        params=given.params,
        content=(given.content.content_id, given.content.version) if given.content else None,
    )


def _keep_later(hold: Hold, names: Sequence[str]) -> frozenset[int]:
    if not names or hold.operation_id is None:
        return frozenset()
    known = dict(Step.objects.filter(operation_id=hold.operation_id).values_list("name", "number"))
    wrong = [name for name in names if name not in known]
    if wrong:
        raise Refused(f"names {wrong[0]}, which is not a step of this operation", field="keep_later")
    return frozenset(known[name] for name in names)


def read_compared(hold: Hold, answer: str, reference: str | None, accept_difference: bool) -> Reading | None:
    """Read and compared before it confirms. A difference has to be accepted in so many words."""
    if not reference or answer not in {one.value for one in NEEDS_REFERENCE} or hold.step_id is None:
        return None
    reading = read_reference(hold.step_id, reference)
    accepted = accept_difference or answer == Answer.OURS.value
    if reading.compared and not reading.matches and not accepted:
        raise Problem(
            "reference_differs",
            f"{reading.why} Nothing was changed.",
            reading=_reading(reading),
        )
    return reading


def _reading(reading: Reading) -> dict[str, Any]:
    rows = [
        {"field": row.field, "ours": row.ours, "theirs": row.theirs, "match": row.match}
        for row in reading.rows
    ]
    return {"compared": reading.compared, "why": reading.why, "rows": rows}


def compared_with(reading: Reading | None) -> str:
    """The digest of what a reference was compared with; "" where nothing was compared."""
    return reading.evidence.digest.hex() if reading and reading.compared and reading.evidence else ""


def evidence_of(reading: Reading | None) -> tuple[Any, ...]:
    return (reading.evidence,) if reading and reading.evidence else ()


# Who has it, and what is said about it


def assign(caller: Caller, request: HttpRequest, hold: str, given: Assignment) -> HttpResponse:
    found = fresh(caller, request, hold)
    owner_id = None
    if given.owner is not None:
        owner_id = _owner(caller, given.owner)
        if owner_id is None:
            raise invalid([("owner", "must be the sign-in name of an active person who may settle here")])
    changed = settle_assign([found.pk], owner_id, caller.by, versions={found.pk: found.version})
    if not changed and found.owner_id != owner_id:
        raise stale(found)
    return settled(caller, found, None)


def _owner(caller: Caller, name: str) -> UUID | None:
    people = people_who_may(Permission.SETTLE, caller.token.team)
    return next((person.pk for person in people if person.email == name.strip().lower()), None)


def note(caller: Caller, request: HttpRequest, hold: str, given: Note) -> HttpResponse:
    found = fresh(caller, request, hold)
    try:
        settle_note(found.pk, given.text, caller.by)
    except Refused as why:
        raise refused(why) from why
    return respond(200, {"hold": public("hold", found.pk), "version": found.version})


def check(caller: Caller, request: HttpRequest, hold: str, given: Check) -> HttpResponse:
    """A lookup now, or at the given time. It reads; nothing is sent."""
    found = fresh(caller, request, hold)
    if found.operation_id is None or found.step is None:
        raise Problem("not_now", "There is nothing to look up for this hold. Nothing was changed.")
    try:
        settle_check(found.operation_id, found.step.number, given.at, caller.by)
    except Refused as why:
        raise refused(why) from why
    bell.ring("reconcile")
    return settled(caller, found, None)

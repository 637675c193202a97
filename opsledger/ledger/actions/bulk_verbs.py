"""What each verb of a bulk run does to one batch of holds. Every item gets an ordinary line on its own subject, which names
the run. All run inside the batch's transaction, with its operations and holds locked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.accounts.roles import is_member
from opsledger.journal.append import Line, append, keep_text
from opsledger.ledger.actions.assign import tell_owner
from opsledger.ledger.actions.bulk import CHANGED, DONE, AtHand, Batch, Said
from opsledger.ledger.actions.change import Change, change_here
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.hold_lines import TOLD_WITH_OWNER, line_on_subject
from opsledger.ledger.actions.interventions import cancel_waiting
from opsledger.ledger.actions.settle import Decision, answer_change
from opsledger.ledger.models import Hold
from opsledger.ledger.queries.bulk import text_of
from opsledger.ledger.records import Loaded
from opsledger.rules import transitions
from opsledger.rules.answers import Answer
from opsledger.rules.bulk import BulkResult
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment, NotNow

NOT_ABOUT_A_STEP = "This hold is not about a step; there is nothing to do of this kind."
OWNER_GONE = "Its new owner is not in the team any more."
PASSED = "The chosen time has passed by now; nothing was changed."
ERASED = "What was written with this run has been erased, so it can’t be applied any more."


# Who has them


def take(batch: Batch) -> dict[UUID, Said]:
    return _give(batch, batch.by.person_id, "It was yours already.")


def assign(batch: Batch) -> dict[UUID, Said]:
    """`owner` of the run's facts: a person's id, or null for nobody."""
    owner = batch.facts["owner"]
    if owner and not is_member(owner, batch.run.team_id):
        return _all(batch, Said(BulkResult.REFUSED, OWNER_GONE))
    return _give(batch, owner, "It was there already." if owner else "It was unowned already.")


_GIVE = f"""
UPDATE ledger_hold SET owner_id = %s, version = version + 1, told_at = {TOLD_WITH_OWNER} WHERE id = ANY(%s)
"""


def _give(batch: Batch, owner_id: Any, there_already: str) -> dict[UUID, Said]:
    moves = [one.hold for one in batch.items if str(one.hold.owner_id) != str(owner_id)]
    facts = {"owner": str(owner_id) if owner_id else None, "bulk": str(batch.run.pk)}
    with connection.cursor() as cursor:
        cursor.execute(_GIVE, [owner_id, [hold.pk for hold in moves]])
    append(line_on_subject(hold, "assigned", batch.by, facts) for hold in moves)
    tell_owner([hold.pk for hold in moves], UUID(str(owner_id)) if owner_id else None, batch.by)
    moved = {hold.pk for hold in moves}
    left = Said(BulkResult.LEFT, there_already)
    return {one.hold.pk: DONE if one.hold.pk in moved else left for one in batch.items}


def note(batch: Batch) -> dict[UUID, Said]:
    """The run's reason as a note on each. A note never changes a state."""
    text = text_of(batch.facts["reason"])
    if text is None:
        return _all(batch, Said(BulkResult.REFUSED, ERASED))
    lines: list[Line] = []
    for one in batch.items:
        subject = one.hold.operation_id or one.hold.destination_id or one.hold.event_id
        assert subject is not None
        facts = {"note": keep_text(subject, text), "bulk": str(batch.run.pk)}
        lines.append(line_on_subject(one.hold, "noted", batch.by, facts))
    append(lines)
    return _all(batch, DONE)


# What is decided by the rules


def check_now(batch: Batch) -> dict[UUID, Said]:
    """Asks the destinations now. Reads only; nothing is sent."""
    return changes_here(batch, lambda one: _look(batch, one))


def _look(batch: Batch, one: AtHand) -> Change:
    assert one.hold.step is not None
    number = one.hold.step.number

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        return transitions.look_requested(loaded.record, number, moment.now, moment)

    facts = {"step": number, "bulk": str(batch.run.pk)}
    return Change(
        kind="check_requested", actor=batch.by.actor, decide=decide, facts=facts, closed_by=batch.by.actor
    )


_LATER = """
UPDATE ledger_hold SET due_at = %s, reminded_at = NULL, escalate_at = NULL, escalated_at = NULL, version = version + 1
 WHERE id = ANY(%s) AND closed_at IS NULL
"""


def next_check(batch: Batch) -> dict[UUID, Said]:
    """*Still unknown*, until `next_check_at` of the run's facts; the holds stay open, and are due then."""
    at = datetime.fromisoformat(batch.facts["next_check_at"])
    if at <= batch.now:
        return _all(batch, Said(BulkResult.REFUSED, PASSED))
    said = answers_here(
        batch, lambda one, reason: _decision(one, Answer.STILL_UNKNOWN, reason, next_check_at=at)
    )
    kept = [hold_id for hold_id, one in said.items() if one.result is BulkResult.DONE]
    with connection.cursor() as cursor:
        cursor.execute(_LATER, [at, kept])
    return said


def end_failed(batch: Batch) -> dict[UUID, Said]:
    return answers_here(batch, lambda one, reason: _decision(one, Answer.END_FAILED, reason))


def cancel(batch: Batch) -> dict[UUID, Said]:
    """Cancels the operations whose steps wait at a stopped destination: none of these steps was sent, and none will be."""
    reason = text_of(batch.facts["reason"])
    if reason is None:
        return {one.step.pk: Said(BulkResult.REFUSED, ERASED) for one in batch.steps}
    facts = {"bulk": str(batch.run.pk)}
    tried = {
        one.step.operation_id: _Tried(
            cancel_waiting(
                one.step.operation_id, one.step.number, reason, batch.by, version=one.version, facts=facts
            )
        )
        for one in batch.steps
    }
    change_here({operation_id: one.change for operation_id, one in tried.items()})
    return {one.step.pk: tried[one.step.operation_id].said for one in batch.steps}


def _decision(one: AtHand, answer: Answer, reason: str, **more: Any) -> Decision:
    return Decision(answer=answer, reason=reason, version=one.hold.version, **more)


def answers_here(batch: Batch, decision: Callable[[AtHand, str], Decision]) -> dict[UUID, Said]:
    """One answer per hold, with the run's reason kept beside each."""
    reason = text_of(batch.facts["reason"])
    if reason is None:
        return _all(batch, Said(BulkResult.REFUSED, ERASED))
    facts = {"bulk": str(batch.run.pk)}
    return changes_here(
        batch, lambda one: answer_change(one.hold, decision(one, reason), batch.by, facts=facts)
    )


def changes_here(batch: Batch, change_of: Callable[[AtHand], Change]) -> dict[UUID, Said]:
    """Applies one change per hold. What the rules refuse is said of that hold alone.

    An operation with several holds has its turns one after the other: what the first one moved, the next one is told.
    """
    said: dict[UUID, Said] = {}
    turns: list[dict[UUID, AtHand]] = []
    for one in batch.items:
        if one.hold.step is None or one.hold.operation_id is None:
            said[one.hold.pk] = Said(BulkResult.REFUSED, NOT_ABOUT_A_STEP)
            continue
        turn = next((turn for turn in turns if one.hold.operation_id not in turn), None)
        if turn is None:
            turns.append(turn := {})
        turn[one.hold.operation_id] = one
    for number, turn in enumerate(turns):
        if number:
            turn = _as_they_were(turn, said)
        tried = {operation_id: _Tried(change_of(one)) for operation_id, one in turn.items()}
        change_here({operation_id: one.change for operation_id, one in tried.items()})
        said |= {one.hold.pk: tried[operation_id].said for operation_id, one in turn.items()}
    return said


def _as_they_were(turn: Mapping[UUID, AtHand], said: dict[UUID, Said]) -> dict[UUID, AtHand]:
    """Those that an earlier turn of the same operation did not touch; the others are skipped."""
    rows = Hold.objects.filter(pk__in=[one.hold.pk for one in turn.values()], closed_at__isnull=True)
    versions = dict(rows.values_list("pk", "version"))
    kept = {}
    for operation_id, one in turn.items():
        if versions.get(one.hold.pk) == one.hold.version:
            kept[operation_id] = one
        else:
            said[one.hold.pk] = Said(BulkResult.SKIPPED, CHANGED)
    return kept


class _Tried:
    """A change that writes nothing where the rules say no, and keeps what they said."""

    def __init__(self, change: Change) -> None:
        self.change, self.said = change, DONE
        decide = change.decide

        def tried(loaded: Loaded, moment: Moment) -> Operation:
            try:
                return decide(loaded, moment)
            except (NotNow, Refused) as why:
                self.said = Said(BulkResult.REFUSED, why.why)
                change.evidence, change.quiet = (), True
                return loaded.record

        change.decide = tried


def _all(batch: Batch, said: Said) -> dict[UUID, Said]:
    return {one.hold.pk: said for one in batch.items}

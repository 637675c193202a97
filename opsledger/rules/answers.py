"""What a person may answer to a hold, and what each answer makes of the operation (rules.md, table 8).

`answers_for` lists the honest answers of a hold; `answered` applies one to a copy of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from opsledger.rules import settling
from opsledger.rules.next_step import Policies, tries_left
from opsledger.rules.record import Hold, KnownBy, Operation, Step
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState


class Answer(StrEnum):
    HAPPENED = "happened"  # with the destination's reference, or why there is none
    HAPPENED_ACCEPTED = "happened_accepted"  # taken over, delivery not known
    ABSENT_SEND_AGAIN = "absent_send_again"
    ABSENT_END = "absent_end"
    STILL_UNKNOWN = "still_unknown"
    CLOSE_UNKNOWN = "close_unknown"
    OURS = "ours"  # the record is ours, the difference accepted
    NOT_OURS = "not_ours"
    KEEP_ONE = "keep_one"  # of several records
    SAME_AGAIN = "same_again"  # the cause of a rejection was mended outside
    END_FAILED = "end_failed"
    MORE_TRIES = "more_tries"
    DELIVERED = "delivered"
    NOT_DELIVERED = "not_delivered"
    LEAVE_ACCEPTED = "leave_accepted"
    REPLACED = "replaced"  # a new operation replaces this one
    END = "end"


_UNKNOWN_ANSWERS = (
    Answer.HAPPENED,
    Answer.HAPPENED_ACCEPTED,
    Answer.ABSENT_SEND_AGAIN,
    Answer.ABSENT_END,
    Answer.STILL_UNKNOWN,
    Answer.CLOSE_UNKNOWN,
)
_TRIES_ANSWERS = (Answer.MORE_TRIES, Answer.END_FAILED)
ANSWERS: Mapping[HoldReason, tuple[Answer, ...]] = {
    HoldReason.OUTCOME_UNKNOWN: _UNKNOWN_ANSWERS,
    HoldReason.PROTECTION_EXPIRED: _UNKNOWN_ANSWERS,
    HoldReason.INTEGRITY_ALARM: _UNKNOWN_ANSWERS,
    HoldReason.RECORD_DIFFERS: (Answer.OURS, Answer.NOT_OURS, Answer.STILL_UNKNOWN),
    HoldReason.DUPLICATE_FOUND: (Answer.KEEP_ONE, Answer.STILL_UNKNOWN),
    HoldReason.DISPUTED: (Answer.HAPPENED, Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_END, Answer.STILL_UNKNOWN),
    HoldReason.REJECTED: (Answer.SAME_AGAIN, Answer.END_FAILED),
    HoldReason.ATTEMPTS_EXHAUSTED: _TRIES_ANSWERS,
    HoldReason.NOBODY_CLAIMED: _TRIES_ANSWERS,
    HoldReason.TOO_LATE: _TRIES_ANSWERS,
    HoldReason.DELIVERY_NOT_PROVEN: (
        Answer.DELIVERED,
        Answer.NOT_DELIVERED,
        Answer.LEAVE_ACCEPTED,
        Answer.STILL_UNKNOWN,
    ),
    HoldReason.DELIVERY_FAILED: (Answer.REPLACED, Answer.END),
    HoldReason.DATA_MISSING: (Answer.END_FAILED,),
    HoldReason.APPROVAL_NEEDED: (Answer.END_FAILED,),
}
# Those after which something may leave this house again; protection stands next to each.
SENDS_AGAIN = frozenset({Answer.ABSENT_SEND_AGAIN, Answer.SAME_AGAIN, Answer.MORE_TRIES})
KEEPS_OPEN = frozenset({Answer.STILL_UNKNOWN})


@dataclass(frozen=True, slots=True)
class Given:
    """An answer with what it needs. Free text (reason, how it was checked) stays outside the record."""

    answer: Answer
    reference: str | None = None
    taken_by: str | None = None  # the operation that already holds this reference
    tries: int = 1
    next_check_at: datetime | None = None
    keep_later: frozenset[int] = field(default_factory=frozenset)  # later steps that go on, or come back


def answers_for(operation: Operation, hold: Hold) -> tuple[Answer, ...]:
    """The answers that are valid now. Sending again is not offered for a cancelled operation."""
    offered = ANSWERS[hold.reason]
    if operation.cancelled:
        offered = tuple(answer for answer in offered if answer not in SENDS_AGAIN)
    return offered


def answered(operation: Operation, hold_id: str, given: Given, moment: Moment) -> Operation:
    """One answer, applied.

    1. Refused (NotNow) when the hold is closed, the answer is not one of its own, or a reference belongs to another step.
    2. The answer is given to the step's attempts.
    3. The hold ends, unless the answer keeps it open.
    4. Table 4 decides what follows.
    """
    hold = next((one for one in operation.holds if one.id == hold_id), None)
    if hold is None:
        raise NotNow("This question has been settled already.")
    if given.answer not in answers_for(operation, hold):
        raise NotNow(f"“{given.answer.value}” is not an answer to a hold “{hold.reason.value}”.")
    if given.taken_by is not None:
        raise NotNow(f"Reference {given.reference} already belongs to operation {given.taken_by}.")
    after = operation.copy()
    step = after.step(hold.step)
    if given.answer not in KEEPS_OPEN:
        settling.close_hold(after, step)
    _APPLY[given.answer](after, step, given, moment)
    return settling.settled(after, moment)


def _happened(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.CONFIRMED, given)
    step.state, step.reference, step.integrity_alarm = StepState.CONFIRMED, given.reference, False
    _bring_back(operation, step, given)


def _happened_accepted(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.ACCEPTED, given)
    step.state, step.reference, step.integrity_alarm = StepState.ACCEPTED, given.reference, False
    step.accepted_at, step.looks, step.looks_none, step.looked_at = moment.now, 0, 0, None


def _absent_send_again(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.NO_CHANGE, given)
    step.state, step.reference, step.not_before, step.ready_at = StepState.READY, None, moment.now, moment.now
    step.rejection_waived, step.integrity_alarm = True, False
    _grant(step, moment.policies, 1)
    _bring_back(operation, step, given)


def _absent_end(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.NO_CHANGE, given)
    step.state, step.reference, step.integrity_alarm = StepState.FAILED, None, False


def _still_unknown(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    if step.state in {StepState.UNKNOWN, StepState.ACCEPTED}:
        step.look_at = given.next_check_at


def _close_unknown(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    later = {other.number for other in operation.later(step)}
    step.never_known = True
    step.go_on_after = bool(later & given.keep_later)
    for other in operation.later(step):
        if other.number not in given.keep_later and other.state in {StepState.WAITING, StepState.READY}:
            settling.close_hold(operation, other)
            other.state = StepState.CANCELLED


def _ours(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _happened(operation, step, given, moment)


def _not_ours(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    if given.reference:
        step.not_ours = (*step.not_ours, given.reference)


def _keep_one(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    if step.state is not StepState.CONFIRMED:
        _settle_unknown(step, Outcome.CONFIRMED, given)
    for attempt in step.attempts_with(Outcome.CONFIRMED):
        if attempt.reference != given.reference:  # the others are said to be dealt with at the destination
            attempt.known_by = KnownBy.PERSON
            attempt.reference = given.reference
    step.state, step.reference = StepState.CONFIRMED, given.reference


def _same_again(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.rejection_waived, step.not_before, step.ready_at = True, moment.now, moment.now
    _grant(step, moment.policies, 1)


def _more_tries(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.not_before, step.ready_at, step.lateness_waived = moment.now, moment.now, True
    _grant(step, moment.policies, given.tries)


def _end_failed(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    if step.state is StepState.WAITING:
        step.state = StepState.CANCELLED
    else:
        step.state = StepState.FAILED


def _delivered(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    for attempt in step.attempts_with(Outcome.ACCEPTED):
        attempt.outcome, attempt.known_by = Outcome.CONFIRMED, KnownBy.PERSON
    step.state = StepState.CONFIRMED


def _not_delivered(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    for attempt in step.attempts_with(Outcome.ACCEPTED):
        attempt.outcome, attempt.no_change = Outcome.NO_CHANGE, NoChange.REJECTED
        attempt.known_by = KnownBy.PERSON
    step.state = StepState.FAILED


def _leave_accepted(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.final_waived = True


def _nothing(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    """The step stays as it is; only the question ends."""


def _settle_unknown(step: Step, outcome: Outcome, given: Given) -> None:
    for attempt in step.attempts_with(Outcome.UNKNOWN):
        attempt.outcome, attempt.known_by = outcome, KnownBy.PERSON
        attempt.no_change = NoChange.ABSENT if outcome is Outcome.NO_CHANGE else None
        attempt.reference = given.reference if outcome is not Outcome.NO_CHANGE else None


def _grant(step: Step, policies: Policies, tries: int) -> None:
    """`tries` more than were used, where the cap leaves fewer."""
    policy = policies[step.number]
    wanted = step.tries_used + tries
    if not tries_left(step, policy) or tries > 1:
        step.tries_extra = max(step.tries_extra, wanted - policy.profile.retries.tries_max)


def _bring_back(operation: Operation, step: Step, given: Given) -> None:
    """Steps that the overturned answer had cancelled return by a tick."""
    for other in operation.later(step):
        if other.number in given.keep_later and other.state is StepState.CANCELLED and not other.attempts:
            other.state = StepState.WAITING


_APPLY = {
    Answer.HAPPENED: _happened,
    Answer.HAPPENED_ACCEPTED: _happened_accepted,
    Answer.ABSENT_SEND_AGAIN: _absent_send_again,
    Answer.ABSENT_END: _absent_end,
    Answer.STILL_UNKNOWN: _still_unknown,
    Answer.CLOSE_UNKNOWN: _close_unknown,
    Answer.OURS: _ours,
    Answer.NOT_OURS: _not_ours,
    Answer.KEEP_ONE: _keep_one,
    Answer.SAME_AGAIN: _same_again,
    Answer.END_FAILED: _end_failed,
    Answer.MORE_TRIES: _more_tries,
    Answer.DELIVERED: _delivered,
    Answer.NOT_DELIVERED: _not_delivered,
    Answer.LEAVE_ACCEPTED: _leave_accepted,
    Answer.REPLACED: _nothing,
    Answer.END: _nothing,
}
assert set(_APPLY) == set(Answer)

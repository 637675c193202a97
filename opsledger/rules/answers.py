"""What a person may answer to a hold, and what each answer makes of the operation (rules.md, table 8).

`answers_for` lists the honest answers of a hold; `answered` applies one to a copy of the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from opsledger.rules import settling
from opsledger.rules.absence import named
from opsledger.rules.dependents import follow_reference
from opsledger.rules.learning import (
    HAPPENED,
    ask_about_others,
    delivered,
    end_not_delivered,
    follow_attempts,
)
from opsledger.rules.next_step import Policies, may_look, tries_left
from opsledger.rules.record import Hold, KnownBy, Operation, Step
from opsledger.rules.revisions import begin_revision, may_be_revised
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import FINAL_STATES, HoldReason, NoChange, Outcome, StepState


class Answer(StrEnum):
    HAPPENED = "happened"  # with the destination's reference, or why there is none
    HAPPENED_ACCEPTED = "happened_accepted"  # taken over, delivery not known
    ABSENT_SEND_AGAIN = "absent_send_again"
    ABSENT_END = "absent_end"
    ABSENT_REVISE = "absent_revise"  # it did not happen, and goes on as a new revision
    STILL_UNKNOWN = "still_unknown"
    CLOSE_UNKNOWN = "close_unknown"
    OURS = "ours"  # the record is ours, the difference accepted
    NOT_OURS = "not_ours"
    KEEP_ONE = "keep_one"  # of several records
    SAME_AGAIN = "same_again"  # the cause of a rejection was mended outside
    REVISE = "revise"  # with changed parameters or content, under a new key; needs approval
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
    Answer.ABSENT_REVISE,
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
    HoldReason.DISPUTED: _UNKNOWN_ANSWERS,
    HoldReason.REJECTED: (Answer.SAME_AGAIN, Answer.REVISE, Answer.END_FAILED),
    HoldReason.ATTEMPTS_EXHAUSTED: (Answer.MORE_TRIES, Answer.REVISE, Answer.END_FAILED),
    HoldReason.NOBODY_CLAIMED: _TRIES_ANSWERS,
    HoldReason.TOO_LATE: _TRIES_ANSWERS,
    HoldReason.DELIVERY_NOT_PROVEN: (
        Answer.DELIVERED,
        Answer.NOT_DELIVERED,
        Answer.LEAVE_ACCEPTED,
        Answer.STILL_UNKNOWN,
    ),
    HoldReason.DELIVERY_FAILED: (Answer.REPLACED, Answer.END),
    HoldReason.DATA_MISSING: (Answer.REVISE, Answer.END_FAILED),
    HoldReason.APPROVAL_NEEDED: (Answer.END_FAILED,),
}
# Those after which something may leave this house again; protection stands next to each.
SENDS_AGAIN = frozenset({Answer.ABSENT_SEND_AGAIN, Answer.SAME_AGAIN, Answer.MORE_TRIES})
REVISES = frozenset({Answer.REVISE, Answer.ABSENT_REVISE})
KEEPS_OPEN = frozenset({Answer.STILL_UNKNOWN})
# They settle attempts that have ended; there is none while the only one is under way.
_OF_WHAT_WAS_SENT = frozenset(
    {Answer.HAPPENED, Answer.HAPPENED_ACCEPTED, Answer.OURS, Answer.NOT_OURS, Answer.KEEP_ONE}
)


@dataclass(frozen=True, slots=True)
class Given:
    """An answer with what it needs. Free text (reason, how it was checked) stays outside the record."""

    answer: Answer
    reference: str | None = None
    taken_by: str | None = None  # the operation that already holds this reference
    elsewhere: frozenset[str] = frozenset()  # references named for this step that other steps hold
    tries: int = 1
    next_check_at: datetime | None = None
    keep_later: frozenset[int] = field(default_factory=frozenset)  # later steps that go on, or come back
    others: tuple[str, ...] = ()  # the records beside the kept one, as the hold lists them
    # of a revision: another content version (None keeps the one it has), and other steps that get it too
    content_number: int | None = None
    content_steps: frozenset[int] = field(default_factory=frozenset)


def answers_for(operation: Operation, hold: Hold) -> tuple[Answer, ...]:
    """The answers that are valid now.

    Sending again is not offered for a cancelled operation, nor while another attempt is proven to have happened. While an
    attempt is under way, and where nothing is unknown, only what can be said of the step as it stands is offered.
    """
    step = operation.step(hold.step)
    refused: set[Answer] = set()
    if operation.cancelled:
        refused |= SENDS_AGAIN | REVISES
    if step.may_have_had_effect or step.integrity_alarm:
        refused |= {Answer.REVISE}
    if step.state in FINAL_STATES:
        refused |= REVISES
    if step.attempts_with(Outcome.CONFIRMED) or step.attempts_with(Outcome.ACCEPTED):
        refused |= {Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_REVISE}
    if step.state is StepState.IN_FLIGHT:
        refused |= {Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_END, Answer.ABSENT_REVISE, Answer.CLOSE_UNKNOWN}
        if all(attempt.outcome is None for attempt in step.attempts):
            refused |= _OF_WHAT_WAS_SENT
    elif not step.attempts_with(Outcome.UNKNOWN):
        refused |= {Answer.CLOSE_UNKNOWN}
        if step.state in {StepState.CONFIRMED, StepState.ACCEPTED}:
            refused |= {Answer.ABSENT_END, Answer.ABSENT_REVISE}
        elif step.state is StepState.READY:
            refused |= {Answer.HAPPENED, Answer.HAPPENED_ACCEPTED}
    return tuple(answer for answer in ANSWERS[hold.reason] if answer not in refused)


def ends_without_tick(operation: Operation, step: Step, answer: Answer, policies: Policies) -> list[Step]:
    """The later steps that end with this answer, but for those that a person ticks. What is left as accepted ends none
    that the workflow lets go on after it."""
    pending = [one for one in operation.later(step) if one.state in {StepState.WAITING, StepState.READY}]
    if answer is Answer.CLOSE_UNKNOWN:
        return pending
    if answer is not Answer.LEAVE_ACCEPTED or policies[step.number].accepted_is_enough:
        return []
    return [one for one in pending if not policies[one.number].continues_after_failure]


def may_come_back(operation: Operation, step: Step) -> list[Step]:
    """The later steps that a tick brings back: cancelled, and never tried or tried without effect."""
    cancelled = [one for one in operation.later(step) if one.state is StepState.CANCELLED]
    return [one for one in cancelled if not one.may_have_had_effect]


def answered(operation: Operation, hold_id: str, given: Given, moment: Moment) -> Operation:
    """One answer, applied.

    1. Refused (NotNow) when the hold is closed, the answer is not one of its own, or a reference belongs to another step.
    2. The answer is given to the step's attempts.
    3. The hold ends, unless the answer keeps it open.
    4. Later requests that name another record of the step than its own, and were not sent, are made anew.
    5. Table 4 decides what follows.
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
    _APPLY[given.answer](after, step, _with_references(given, hold), moment)
    follow_reference(after, step, moment)
    return settling.settled(after, moment)


def _with_references(given: Given, hold: Hold) -> Given:
    """The record that a hold is about need not be typed again to be disowned; several are told apart by the kept one."""
    about = hold.facts.get("reference")
    if given.answer is Answer.NOT_OURS and given.reference is None and isinstance(about, str):
        given = replace(given, reference=about)
    found = hold.facts.get("references")
    others = [str(one) for one in found if one != given.reference] if isinstance(found, list) else []
    return replace(given, others=tuple(others))


def _happened(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    names = _named_here(step, given)
    for attempt in step.attempts:
        if attempt.outcome is Outcome.ACCEPTED:
            attempt.outcome, attempt.known_by = Outcome.CONFIRMED, KnownBy.PERSON
        if attempt.outcome is Outcome.CONFIRMED:
            attempt.reference = attempt.reference or given.reference
    _settle_unknown(step, Outcome.CONFIRMED, given, keeps_heard=True)
    follow_attempts(operation, step, moment)
    ask_about_others(operation, step, names, given.reference, moment)
    proven = {attempt.reference for attempt in step.attempts_with(Outcome.CONFIRMED)}
    if given.reference and proven and given.reference not in proven:  # this one beside another
        references = sorted({given.reference, *(one for one in proven if one)})
        settling.open_hold(operation, step, HoldReason.DUPLICATE_FOUND, moment, {"references": references})
    _bring_back(operation, step, given)


def _happened_accepted(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    names = _named_here(step, given)
    _settle_unknown(step, Outcome.ACCEPTED, given)
    follow_attempts(operation, step, moment)
    ask_about_others(operation, step, names, given.reference, moment)
    _bring_back(operation, step, given)


def _absent_send_again(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.NO_CHANGE, given)
    follow_attempts(operation, step, moment)
    step.not_before, step.rejection_waived = moment.now, True
    grant(step, moment.policies, 1)
    _bring_back(operation, step, given)


def _absent_end(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.NO_CHANGE, given)
    follow_attempts(operation, step, moment)
    if step.state is StepState.READY:  # else another attempt is proven to have happened
        step.state = StepState.FAILED


def _absent_revise(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _settle_unknown(step, Outcome.NO_CHANGE, given)
    follow_attempts(operation, step, moment)
    _revise(operation, step, given, moment)
    _bring_back(operation, step, given)


def _revise(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    number = step.content_number if given.content_number is None else given.content_number
    begin_revision(operation, step, content_number=number)
    for other in operation.steps:
        if other is not step and other.number in given.content_steps and may_be_revised(operation, other):
            begin_revision(operation, other, content_number=number)


def _still_unknown(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    if may_look(step, moment.policies[step.number]):
        step.look_at = given.next_check_at


def _close_unknown(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.never_known = True
    _keep_later(operation, step, given, moment)


def _not_ours(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    _disown(step, [given.reference] if given.reference else [])


def _keep_one(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    """The others are said to be dealt with at the destination; they are no longer this step's records."""
    happened = [attempt for attempt in step.attempts if attempt.outcome in HAPPENED]
    replaced = [attempt for attempt in happened if attempt.reference != given.reference]
    _disown(step, [*given.others, *(attempt.reference for attempt in replaced if attempt.reference)])
    for attempt in replaced:
        attempt.reference, attempt.known_by = given.reference, KnownBy.PERSON
    names = _named_here(step, given)
    _settle_unknown(step, Outcome.CONFIRMED, given)
    follow_attempts(operation, step, moment)
    ask_about_others(operation, step, names, given.reference, moment)
    _bring_back(operation, step, given)


def _disown(step: Step, references: Iterable[str]) -> None:
    """What is disowned names nothing any more: neither does it speak against absence, nor is it read again."""
    step.not_ours = tuple(dict.fromkeys([*step.not_ours, *references]))
    for attempt in step.attempts_with(Outcome.UNKNOWN):
        if attempt.reference in step.not_ours:
            attempt.reference = None


def _same_again(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.rejection_waived, step.not_before, step.ready_at = True, moment.now, moment.now
    grant(step, moment.policies, 1)


def _more_tries(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    """A latest moment that is past is waived with them; one that is still to come is not."""
    late = operation.not_after is not None and moment.now >= operation.not_after
    step.lateness_waived = step.lateness_waived or late
    step.not_before, step.ready_at = moment.now, moment.now
    grant(step, moment.policies, given.tries)


def _end_failed(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.state = StepState.CANCELLED if step.state is StepState.WAITING else StepState.FAILED


def _delivered(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    delivered(operation, step, KnownBy.PERSON, given.reference, moment)


def _not_delivered(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    end_not_delivered(step, KnownBy.PERSON)


def _leave_accepted(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    step.final_waived = True
    _keep_later(operation, step, given, moment)


def _keep_later(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    """Later steps go on by a tick at each; those without one end."""
    step.go_on_after = any(later.number in given.keep_later for later in operation.later(step))
    for other in ends_without_tick(operation, step, given.answer, moment.policies):
        if other.number not in given.keep_later:
            settling.close_hold(operation, other)
            other.state = StepState.CANCELLED


def _nothing(operation: Operation, step: Step, given: Given, moment: Moment) -> None:
    """The step stays as it is; only the question ends."""


def _settle_unknown(step: Step, outcome: Outcome, given: Given, *, keeps_heard: bool = False) -> None:
    """Who names no record means the one that was found or named. `keeps_heard`: one that was named in a dispute stays with
    its attempt; beside another one it is asked about. One that another step holds does not: it is that step's, and here is
    what the person says."""
    names = _named_here(step, given)
    for attempt in step.attempts_with(Outcome.UNKNOWN):
        stays = given.reference is None or (keeps_heard and attempt.known_by is None)
        heard = attempt.reference if stays and attempt.reference in names else None
        attempt.outcome, attempt.known_by = outcome, KnownBy.PERSON
        attempt.no_change = NoChange.ABSENT if outcome is Outcome.NO_CHANGE else None
        attempt.reference = None if outcome is Outcome.NO_CHANGE else heard or given.reference
    step.integrity_alarm = False


def _named_here(step: Step, given: Given) -> list[str]:
    """The records that were found or named for this step, and are no other step's."""
    return [one for one in named(step) if one not in given.elsewhere]


def grant(step: Step, policies: Policies, tries: int) -> None:
    """A person grants `tries` more than were used, where the cap leaves fewer."""
    policy = policies[step.number]
    wanted = step.tries_used + tries
    if not tries_left(step, policy) or tries > 1:
        step.tries_extra = max(step.tries_extra, wanted - policy.profile.retries.tries_max)


def _bring_back(operation: Operation, step: Step, given: Given) -> None:
    """Steps that the overturned answer had cancelled return by a tick."""
    for other in may_come_back(operation, step):
        if other.number in given.keep_later:
            other.state = StepState.WAITING


_APPLY = {
    Answer.HAPPENED: _happened,
    Answer.HAPPENED_ACCEPTED: _happened_accepted,
    Answer.ABSENT_SEND_AGAIN: _absent_send_again,
    Answer.ABSENT_END: _absent_end,
    Answer.ABSENT_REVISE: _absent_revise,
    Answer.REVISE: _revise,
    Answer.STILL_UNKNOWN: _still_unknown,
    Answer.CLOSE_UNKNOWN: _close_unknown,
    Answer.OURS: _happened,
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

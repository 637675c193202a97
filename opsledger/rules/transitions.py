"""What each thing that happens makes of an operation (rules.md, tables 4 to 6).

Every function takes the record and returns a changed copy; nothing is written here. Each ends with `settled`, which lets
table 4 decide for every step until nothing moves any more. An answer by a person is in `answers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opsledger.rules.learning import (
    ENDED_BY_EVIDENCE,
    Finding,
    become_unknown,
    delivered,
    dispute,
    follow_attempts,
    learn,
    not_delivered,
)
from opsledger.rules.next_step import decide
from opsledger.rules.record import Act, Attempt, KnownBy, Operation, Step
from opsledger.rules.settling import Moment, NotNow, close_hold, open_hold, settled
from opsledger.rules.states import NEVER_SENT_STATES, HoldReason, NoChange, OperationState, Outcome, StepState

# Attempts


def claimed(
    operation: Operation, number: int, *, attempt_id: str, lease_ends_at: datetime, moment: Moment
) -> Operation:
    """Opens an attempt, if table 4 says send or offer at `now`; else NotNow."""
    after = operation.copy()
    step = after.step(number)
    plan = decide(after, step, moment.policies, moment.now)
    if plan.act not in {Act.SEND, Act.OFFER} or (
        plan.act is Act.SEND and plan.at is not None and plan.at > moment.now
    ):
        raise NotNow(f"This step is {step.state.value}; nothing is to be sent for it now.")
    step.state = StepState.IN_FLIGHT
    step.look_at = None
    step.attempts.append(
        Attempt(
            id=attempt_id,
            number=len(step.attempts) + 1,
            revision=step.revision,
            opened_at=moment.now,
            lease_ends_at=lease_ends_at,
        )
    )
    return settled(after, moment)


def attempt_ended(
    operation: Operation, number: int, attempt_id: str, finding: Finding, moment: Moment
) -> Operation:
    """An attempt's outcome, in time or late.

    1. Still open: the outcome is taken.
    2. Ended as unknown: what is learnt now settles it; learning nothing changes nothing.
    3. Settled already: the same again changes nothing, less never takes back more, and a contradiction is a dispute.
    """
    after = operation.copy()
    step = after.step(number)
    attempt = step.attempt(attempt_id)
    learn(after, step, attempt, finding, moment)
    return settled(after, moment)


def lease_ended(operation: Operation, number: int, attempt_id: str, moment: Moment) -> Operation:
    """Nothing was heard before the lease ended: unknown, never failed."""
    finding = Finding(Outcome.UNKNOWN, KnownBy.LEASE)
    return attempt_ended(operation, number, attempt_id, finding, moment)


def lease_extended(
    operation: Operation, number: int, attempt_id: str, lease_ends_at: datetime, moment: Moment
) -> Operation:
    """A heartbeat of the automation that does the work."""
    after = operation.copy()
    attempt = after.step(number).attempt(attempt_id)
    if attempt.outcome is not None:
        raise NotNow("This attempt's lease has ended; report its outcome as evidence.")
    attempt.lease_ends_at = max(attempt.lease_ends_at, lease_ends_at)
    return settled(after, moment)


# Lookups and reports


@dataclass(frozen=True, slots=True)
class Look:
    """A lookup's answer, judged by table 5 (`matching.judge`)."""

    answer: str  # confirmed, differs, duplicate, candidates, running, failed, absent, none, no_answer, access_refused
    reference: str | None = None
    counted: bool = False  # an answer that found nothing and counts (after the quiet period, all pages read)
    applies: bool = True  # False: recovery is not automatic here, the answer is proposed to the owner
    facts: Mapping[str, Any] | None = None


def looked(operation: Operation, number: int, look: Look, moment: Moment) -> Operation:
    """A lookup has ended. Where recovery is not automatic, its answer is shown to the owner and not applied."""
    after = operation.copy()
    step = after.step(number)
    step.looks += 1
    step.looked_at = moment.now
    step.look_at = None
    if look.counted:
        step.looks_none += 1
    hold = after.hold_on(number)
    if hold is not None and look.facts:
        hold.facts = {**hold.facts, **look.facts}
    if step.state is StepState.ACCEPTED:
        _final_effect(after, step, look, moment)
    elif step.state is StepState.UNKNOWN and (look.applies or look.answer in {"differs", "duplicate"}):
        _apply_look(after, step, look, moment)
    elif step.state is StepState.CONFIRMED and look.answer == "duplicate":
        open_hold(after, step, HoldReason.DUPLICATE_FOUND, moment, look.facts)
    return settled(after, moment)


def _apply_look(
    operation: Operation,
    step: Step,
    look: Look,
    moment: Moment,
) -> None:
    hold = operation.hold_on(step.number)
    if look.answer == "differs":
        open_hold(operation, step, HoldReason.RECORD_DIFFERS, moment, look.facts)
    elif look.answer == "duplicate":
        open_hold(operation, step, HoldReason.DUPLICATE_FOUND, moment, look.facts)
    elif look.answer in _SETTLES and (hold is None or hold.reason in ENDED_BY_EVIDENCE):
        outcome = _SETTLES[look.answer]
        for attempt in step.attempts_with(Outcome.UNKNOWN):
            attempt.outcome, attempt.known_by = outcome, KnownBy.LOOKUP
            attempt.no_change = NoChange.ABSENT if outcome is Outcome.NO_CHANGE else None
            attempt.reference = look.reference if outcome is not Outcome.NO_CHANGE else None
        if outcome is Outcome.NO_CHANGE:
            step.not_before = None
        follow_attempts(operation, step, moment)
        if look.answer == "bounced":
            not_delivered(operation, step, moment, look.facts)


# A lookup's answers that settle what is unknown. `accepted`: the record is there, its final effect is not proven yet.
_SETTLES = {
    "confirmed": Outcome.CONFIRMED,
    "accepted": Outcome.ACCEPTED,
    "bounced": Outcome.ACCEPTED,
    "absent": Outcome.NO_CHANGE,
    "failed": Outcome.NO_CHANGE,
}


def _final_effect(
    operation: Operation,
    step: Step,
    look: Look,
    moment: Moment,
) -> None:
    if look.answer == "confirmed":
        delivered(operation, step, KnownBy.LOOKUP, look.reference)
    elif look.answer == "failed":
        not_delivered(operation, step, moment, look.facts)


def reported(
    operation: Operation, number: int, finding: Finding, *, final: bool, moment: Moment
) -> Operation:
    """Evidence from outside an attempt: a delivery report, a found record, an automation's statement.

    `final` says that it speaks of the final effect of something accepted (delivered, bounced).
    """
    after = operation.copy()
    step = after.step(number)
    if final and step.state is StepState.ACCEPTED and finding.outcome is Outcome.CONFIRMED:
        delivered(after, step, finding.known_by, finding.reference)
    elif final and step.state is StepState.ACCEPTED and finding.outcome is Outcome.NO_CHANGE:
        not_delivered(after, step, moment, finding.facts)
    elif final and step.state is StepState.CONFIRMED and finding.outcome is Outcome.NO_CHANGE:
        dispute(after, step, None, finding, moment)
    else:
        attempt = _spoken_of(step)
        if attempt is not None:
            learn(after, step, attempt, finding, moment)
    return settled(after, moment)


def _spoken_of(step: Step) -> Attempt | None:
    """The attempt that evidence without an attempt id is about: the unsettled one, else the last."""
    unsettled = step.attempts_with(Outcome.UNKNOWN)
    return unsettled[0] if unsettled else step.open_attempt or step.last_attempt


# People's requests that are not answers


def cancel_requested(operation: Operation, moment: Moment) -> Operation:
    """Nothing more is sent. What was sent is found out, and the operation says what took effect."""
    if operation.state in {OperationState.COMPLETED, OperationState.FAILED, OperationState.CANCELLED}:
        raise NotNow(f"This operation has ended ({operation.state.value}); there is nothing left to cancel.")
    after = operation.copy()
    after.cancelled = True
    for step in after.steps:
        if step.state in NEVER_SENT_STATES:
            close_hold(after, step)
    return settled(after, moment)


def withdrawn(operation: Operation, number: int, moment: Moment, *, by: str) -> Operation:
    """An owner takes a person's answer back: disputed, and the reference is freed."""
    after = operation.copy()
    step = after.step(number)
    answered = [attempt for attempt in step.attempts if attempt.known_by is KnownBy.PERSON]
    if not answered and not step.never_known:
        raise NotNow("No person's answer stands on this step; there is nothing to take back.")
    statements = [
        {"outcome": a.outcome and a.outcome.value, "known_by": a.known_by, "reference": a.reference}
        for a in answered
    ]
    for attempt in answered:
        attempt.outcome, attempt.no_change, attempt.reference = Outcome.UNKNOWN, None, None
    step.never_known = False
    if step.state is not StepState.IN_FLIGHT:
        become_unknown(step, moment.now)
    close_hold(after, step)
    open_hold(after, step, HoldReason.DISPUTED, moment, {"statements": statements, "withdrawn_by": by})
    return settled(after, moment)


def look_requested(operation: Operation, number: int, at: datetime, moment: Moment) -> Operation:
    """*Check now*, or at a time that a person chose."""
    after = operation.copy()
    step = after.step(number)
    if step.state not in {StepState.UNKNOWN, StepState.ACCEPTED}:
        raise NotNow(f"This step is {step.state.value}; there is nothing to look up.")
    step.look_at = at
    return settled(after, moment)


def restored(operation: Operation, until: datetime, moment: Moment) -> Operation:
    """After a restored backup: each step that could have been sent before `until` has an attempt that nobody remembers."""
    after = operation.copy()
    for step in after.steps:
        if step.state not in NEVER_SENT_STATES or after.cancelled:
            continue
        close_hold(after, step)
        forgotten = Attempt(moment.new_id(), len(step.attempts) + 1, step.revision, after.created_at, until)
        forgotten.outcome, forgotten.known_by = Outcome.UNKNOWN, KnownBy.LEASE
        step.attempts.append(forgotten)
        become_unknown(step, moment.now)
    return settled(after, moment)


def time_passed(operation: Operation, moment: Moment) -> Operation:
    """A deadline may have come; table 4 decides again."""
    return settled(operation.copy(), moment)

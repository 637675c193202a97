"""What each thing that happens makes of an operation (rules.md, tables 4 to 6).

Every function takes the record and returns a changed copy; nothing is written here. Each ends with `settled`, which lets
table 4 decide for every step until nothing moves any more. An answer by a person is in `answers`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from opsledger.rules.absence import FOUND_UNNAMED, found_for, named
from opsledger.rules.learning import (
    ENDED_BY_EVIDENCE,
    HAPPENED,
    Finding,
    ask_about_others,
    ask_again,
    begin_to_look,
    delivered,
    dispute,
    end_in_vain,
    follow_attempts,
    found_in_vain,
    lacks_reference,
    learn,
    name_record,
    not_delivered,
)
from opsledger.rules.next_step import decide, may_look, next_look_at, planned_look_at
from opsledger.rules.profile import ActionProfile
from opsledger.rules.record import Act, Attempt, KnownBy, Operation, Step
from opsledger.rules.settling import Moment, NotNow, close_hold, open_hold, settled
from opsledger.rules.states import (
    ENDED_STATES,
    FINAL_STATES,
    NEVER_SENT_STATES,
    HoldReason,
    NoChange,
    Outcome,
    StepState,
)

# Attempts


def claimed(
    operation: Operation, number: int, *, attempt_id: str, lease_ends_at: datetime, moment: Moment
) -> Operation:
    """Opens an attempt, if table 4 says send or offer at `now`; else NotNow."""
    after = operation.copy()
    step = after.step(number)
    plan = decide(after, step, moment.policies, moment.now)
    if plan.act not in {Act.SEND, Act.OFFER} or plan.move is not None:
        raise NotNow(f"This step is {step.state.value}; nothing is to be sent for it now.")
    not_before = plan.at if plan.act is Act.SEND else step.not_before
    if not_before is not None and not_before > moment.now:
        raise NotNow(f"This step is tried again at {not_before.isoformat()}, not before.")
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

    # confirmed, differs, duplicate, candidates, running, failed, absent, contradicted, none, no_answer, access_refused
    answer: str
    reference: str | None = None
    counted: bool = False  # an answer that found nothing and counts (after the quiet period, all pages read)
    applies: bool = True  # False: recovery is not automatic here, the answer is proposed to the owner
    planned: bool = True  # False: somebody told of a record, nobody looked because it was time to
    facts: Mapping[str, Any] | None = None
    known_by: KnownBy = KnownBy.LOOKUP  # or REPORT, where somebody told of the record


def looked(operation: Operation, number: int, look: Look, moment: Moment) -> Operation:
    """A lookup has ended, perhaps after somebody decided.

    1. The step is unknown: table 5. Where recovery is not automatic, the answer is shown to the owner and not applied;
       a record that was found is remembered all the same, and later empty answers prove no absence.
    2. It is accepted: the answer speaks of the final effect.
    3. It was decided or sent meanwhile: what was found is compared with what stands (table 6).
    4. Its only attempt is still open: that attempt remembers what was found, and no silence after it proves absence.
    """
    after = operation.copy()
    step = after.step(number)
    _count_look(step, look, moment)
    if look.counted:
        step.looks_none += 1
    hold = after.hold_on(number)
    if hold is not None and look.facts:
        hold.facts = {**hold.facts, **look.facts}
    if step.state is StepState.ACCEPTED:
        _final_effect(after, step, look, moment)
    elif step.attempts_with(Outcome.UNKNOWN) and not step.never_known:
        _apply_look(after, step, look, moment)
        if next_look_at(step, moment.policies[number], moment.now) is None:
            step.look_applies = False  # they found nothing out; later ones propose again
    else:
        _compare_look(after, step, look, moment)
    return settled(after, moment)


def _count_look(step: Step, look: Look, moment: Moment) -> None:
    """A look that somebody asked for before the next planned one takes no planned one's place."""
    planned_at = planned_look_at(step, moment.policies[step.number], moment.now)
    wanted = step.look_at is not None and step.look_at <= moment.now
    between = wanted and planned_at is not None and planned_at > moment.now
    if look.planned and not between:
        step.looks += 1
    step.looked_at = moment.now
    if wanted:
        step.look_at = None


# A lookup's answers that settle what is unknown. `accepted`: the record is there, its final effect is not proven yet.
_SETTLES = {
    "confirmed": Outcome.CONFIRMED,
    "accepted": Outcome.ACCEPTED,
    "bounced": Outcome.ACCEPTED,
    "absent": Outcome.NO_CHANGE,
    "failed": Outcome.NO_CHANGE,
}
# Answers that ask a person, whether recovery is automatic or not.
_ASKS = {"differs": HoldReason.RECORD_DIFFERS, "duplicate": HoldReason.DUPLICATE_FOUND}


def _apply_look(operation: Operation, step: Step, look: Look, moment: Moment) -> None:
    hold, names = operation.hold_on(step.number), named(step)
    name_record(step, look.reference)
    if look.answer in _ASKS:
        open_hold(operation, step, _ASKS[look.answer], moment, look.facts)
    elif look.answer in _NOTHING_THERE and found_for(step, hold):
        if hold is None or hold.reason in ENDED_BY_EVIDENCE:  # else a person is asked about it already
            found_in_vain(operation, step, moment, look.facts)
    elif hold is None and (look.facts or {}).get(FOUND_UNNAMED):
        open_hold(operation, step, HoldReason.OUTCOME_UNKNOWN, moment, look.facts)
    elif look.applies and look.answer in _SETTLES and (hold is None or hold.reason in ENDED_BY_EVIDENCE):
        outcome = _SETTLES[look.answer]
        for attempt in step.attempts_with(Outcome.UNKNOWN):
            attempt.outcome, attempt.known_by = outcome, look.known_by
            attempt.no_change = NoChange.ABSENT if outcome is Outcome.NO_CHANGE else None
            attempt.reference = look.reference if outcome is not Outcome.NO_CHANGE else None
        if outcome is Outcome.NO_CHANGE:
            step.not_before = None
        follow_attempts(operation, step, moment)
        if look.answer == "bounced" and step.state is StepState.ACCEPTED:
            not_delivered(operation, step, look.known_by, moment, look.facts)
        if outcome is not Outcome.NO_CHANGE:
            ask_about_others(operation, step, names, look.reference, moment)


def _final_effect(operation: Operation, step: Step, look: Look, moment: Moment) -> None:
    if look.answer == "confirmed":
        delivered(operation, step, look.known_by, look.reference, moment)
    elif look.answer == "failed":
        not_delivered(operation, step, look.known_by, moment, look.facts)
    elif look.answer in _ASKS and look.reference != step.reference:
        open_hold(operation, step, _ASKS[look.answer], moment, look.facts)


def _compare_look(operation: Operation, step: Step, look: Look, moment: Moment) -> None:
    """A look that was under way while the step was decided or sent again: what it found was there before that."""
    attempt = _spoken_of(step, look.reference, open_too=False)
    if attempt is None and step.open_attempt is not None:
        _remember(operation, step, look, moment)
    if attempt is None or look.answer not in {*_SETTLES, *_ASKS, *_NOTHING_THERE}:
        return
    if look.answer in _ASKS and attempt.outcome in HAPPENED:
        if look.answer == "duplicate" or look.reference != attempt.reference:
            open_hold(operation, step, _ASKS[look.answer], moment, look.facts)
    elif look.answer == "duplicate":
        attempt.outcome, attempt.no_change = Outcome.UNKNOWN, None
        ask_again(operation, step, HoldReason.DUPLICATE_FOUND, moment, look.facts)
    elif look.answer not in _NOTHING_THERE or attempt.known_by is KnownBy.PERSON or step.never_known:
        # a record that a reply proved may be gone by now; that contradicts a person's word only
        learn(operation, step, attempt, _finding_of(look), moment)


def _remember(operation: Operation, step: Step, look: Look, moment: Moment) -> None:
    """Found while the only attempt is open: its reply is waited for, and settles it if it can."""
    name_record(step, look.reference)
    if look.answer in _ASKS:
        open_hold(operation, step, _ASKS[look.answer], moment, look.facts)
    elif (look.facts or {}).get(FOUND_UNNAMED):
        open_hold(operation, step, HoldReason.OUTCOME_UNKNOWN, moment, look.facts)


_NOTHING_THERE = frozenset({"absent", "failed", "contradicted"})


def _finding_of(look: Look) -> Finding:
    happened = {"confirmed": Outcome.CONFIRMED, "differs": Outcome.CONFIRMED, "accepted": Outcome.ACCEPTED}
    outcome = happened.get(look.answer, Outcome.NO_CHANGE)
    kind = None
    if outcome is Outcome.NO_CHANGE:
        kind = NoChange.REJECTED if look.answer == "bounced" else NoChange.ABSENT
    reference = look.reference if outcome is not Outcome.NO_CHANGE else None
    return Finding(outcome, look.known_by, no_change=kind, reference=reference, facts=look.facts)


class Lacking(StrEnum):
    """What a report of the final effect lacks to prove anything."""

    FINAL_EFFECT = "final_effect"  # the profile documents none
    REFERENCE = "reference"  # the destination answers with one, and neither it nor the identity is named


class ProvesNothing(NotNow):
    def __init__(self, lacking: Lacking) -> None:
        super().__init__(_WHY_NOTHING[lacking])
        self.lacking = lacking


_WHY_NOTHING = {
    Lacking.FINAL_EFFECT: "This destination documents no final effect of this action; a report of it proves nothing.",
    Lacking.REFERENCE: "This destination answers with a reference, and the report names none.",
}


def reported(
    operation: Operation, number: int, finding: Finding, *, final: bool, moment: Moment
) -> Operation:
    """A report of the final effect: delivered, or finally not. `final`: of what the step has made, as far as is known.

    ProvesNothing where the profile documents no final effect, and where it would settle what is not known to be taken over
    without naming it.
    """
    after = operation.copy()
    step, profile = after.step(number), moment.policies[number].profile
    if profile.final_effect is None:
        raise ProvesNothing(Lacking.FINAL_EFFECT)
    attempt = _spoken_of(step, finding.reference, open_too=True)
    if attempt is None:
        return settled(after, moment)
    if _settles_unnamed(attempt, finding, profile):
        raise ProvesNothing(Lacking.REFERENCE)
    taken, no_change = finding.taken_by is not None, finding.outcome is Outcome.NO_CHANGE
    told = replace(finding, reference=None) if no_change else finding  # what came to nothing has no record
    if final and not taken and step.state is StepState.ACCEPTED and finding.outcome is Outcome.CONFIRMED:
        delivered(after, step, finding.known_by, finding.reference, moment)
    elif final and no_change and step.state is StepState.ACCEPTED:
        not_delivered(after, step, finding.known_by, moment, finding.facts)
    elif final and no_change and step.state is StepState.CONFIRMED:
        dispute(after, step, None, told, moment)
    elif final and no_change and attempt.outcome in {None, Outcome.UNKNOWN} and not step.never_known:
        _bounced_before_accepted(after, step, attempt, finding, moment)
    else:
        learn(after, step, attempt, told, moment)
    return settled(after, moment)


def _settles_unnamed(attempt: Attempt, finding: Finding, profile: ActionProfile) -> bool:
    """What was not taken over for all that is known is settled by what names it, also as taken over in vain."""
    if attempt.outcome is Outcome.ACCEPTED:
        return lacks_reference(attempt, finding, profile)
    happened = replace(finding, outcome=Outcome.CONFIRMED, no_change=None)
    return attempt.outcome in {None, Outcome.UNKNOWN} and lacks_reference(attempt, happened, profile)


def _bounced_before_accepted(
    operation: Operation, step: Step, attempt: Attempt, finding: Finding, moment: Moment
) -> None:
    """What bounces was taken over, although nothing had said so yet. While another attempt is open or unknown the step is
    not ended by it; this attempt remembers it."""
    learn(operation, step, attempt, replace(finding, outcome=Outcome.ACCEPTED, no_change=None), moment)
    if step.state is StepState.ACCEPTED:
        not_delivered(operation, step, finding.known_by, moment, finding.facts)
    elif attempt.outcome is Outcome.ACCEPTED:
        end_in_vain(attempt, finding.known_by)


def _spoken_of(step: Step, reference: str | None, *, open_too: bool) -> Attempt | None:
    """The attempt that evidence without an attempt id is about.

    One with its reference; else an unsettled one; else one that happened; else the open one; else the last that left.
    """
    known = [attempt for attempt in step.attempts if attempt.outcome is not None]
    carrying = [attempt for attempt in known if reference and attempt.reference == reference]
    unknown = step.attempts_with(Outcome.UNKNOWN)
    happened = [attempt for attempt in known if attempt.outcome in HAPPENED]
    opened = [attempt for attempt in step.attempts if attempt.outcome is None and open_too]
    left = [attempt for attempt in known if attempt.no_change is not NoChange.NOT_SENT]
    for choice in (carrying, unknown, happened, opened, left[::-1], known[::-1]):
        if choice:
            return choice[0]
    return None


# People's requests that are not answers


def cancel_requested(operation: Operation, moment: Moment) -> Operation:
    """Nothing more is sent. What was sent is found out, and the operation says what took effect."""
    if operation.state in ENDED_STATES:
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
        raise NotNow("No person’s answer stands on this step; there is nothing to take back.")
    statements = [
        {"outcome": a.outcome and a.outcome.value, "known_by": a.known_by, "reference": a.reference}
        for a in answered
    ]
    for attempt in answered:
        attempt.outcome, attempt.no_change, attempt.reference = Outcome.UNKNOWN, None, None
        attempt.known_by = None
    facts = {"statements": statements, "withdrawn_by": by}
    ask_again(after, step, HoldReason.DISPUTED, moment, facts)
    return settled(after, moment)


def look_requested(operation: Operation, number: int, at: datetime, moment: Moment) -> Operation:
    """*Check now*, or at a time that a person chose."""
    after = operation.copy()
    step = after.step(number)
    if step.state not in {StepState.UNKNOWN, StepState.ACCEPTED}:
        raise NotNow(f"This step is {step.state.value}; there is nothing to look up.")
    if not may_look(step, moment.policies[number]):
        raise NotNow("This destination can’t be asked about this action.")
    step.look_at = at
    return settled(after, moment)


def restored(operation: Operation, until: datetime, moment: Moment) -> Operation:
    """After a restored backup: each step that could have been sent before `until` has an attempt that nobody remembers.

    1. Not ended and not held before it was sent: it could have been sent by itself. It is found out like any other.
    2. Held before it was sent, failed, or cancelled for another step's sake: it could have been sent by people's
       answers only. A person is asked; proof that it is not there does not send what a person had stopped.
    3. All others stay. Cancelled operations are never sent again. Accepted and confirmed say that there was an effect,
       and closed as never known says that nobody knows: another send makes none of it untrue, and no other follows.

    Told again with the same `until`, it adds nothing.
    """
    after = operation.copy()
    for step, was in zip(after.steps, operation.steps, strict=True):
        if _could_have_been_sent(operation, was) and not _told_of_backup(operation, was, until):
            _forget_attempt(operation, after, step, until, moment)
    return settled(after, moment)


def _could_have_been_sent(operation: Operation, step: Step) -> bool:
    if operation.cancelled or step.never_known:
        return False
    if (
        step.state is StepState.FAILED
    ):  # an attempt's outcome can be overturned, and the step then be sent again
        return bool(step.attempts)
    if step.state is StepState.CANCELLED:  # it returns when an answer about an earlier one is overturned
        return any(other.attempts for other in (*operation.earlier(step), step))
    return step.state in NEVER_SENT_STATES | {StepState.UNKNOWN, StepState.IN_FLIGHT}


def _told_of_backup(operation: Operation, step: Step, until: datetime) -> bool:
    return any(operation.has_forgotten(one) and one.lease_ends_at >= until for one in step.attempts)


def _forget_attempt(
    operation: Operation, after: Operation, step: Step, until: datetime, moment: Moment
) -> None:
    held = operation.hold_on(step.number) is not None
    asks = step.state in FINAL_STATES or (held and step.state in NEVER_SENT_STATES)
    said = [
        {"outcome": one.outcome and one.outcome.value, "known_by": one.known_by, "reference": one.reference}
        for one in step.attempts[-1:]
    ]
    facts = {"restored_until": until.isoformat(), "statements": said}
    if step.state in NEVER_SENT_STATES:
        close_hold(after, step)
    forgotten = Attempt(moment.new_id(), len(step.attempts) + 1, step.revision, after.created_at, until)
    forgotten.outcome = Outcome.UNKNOWN
    forgotten.known_by = None if asks else KnownBy.LEASE
    step.attempts.append(forgotten)
    if step.state is not StepState.IN_FLIGHT:
        step.state = StepState.UNKNOWN
        begin_to_look(step, moment.now)
    if asks:
        open_hold(after, step, HoldReason.DISPUTED, moment, facts)


def time_passed(operation: Operation, moment: Moment, *, stopped: Collection[int] = ()) -> Operation:
    """A deadline may have come; table 4 decides again.

    For offers of steps that are `stopped` (at their destination) it begins anew: nobody could claim them (row 10).
    """
    after = operation.copy()
    for number in stopped:
        if after.step(number).act is Act.OFFER:
            after.step(number).not_before = moment.now
    return settled(after, moment)

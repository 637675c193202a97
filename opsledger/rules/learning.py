"""What something learnt about an attempt makes of its step, in time or late (rules.md, table 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opsledger.rules.record import Attempt, KnownBy, Operation, Step
from opsledger.rules.settling import Moment, close_hold, open_hold
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState

# Holds that new evidence ends by itself; the others need a person.
ENDED_BY_EVIDENCE = frozenset(
    {
        HoldReason.OUTCOME_UNKNOWN,
        HoldReason.PROTECTION_EXPIRED,
        HoldReason.INTEGRITY_ALARM,
        HoldReason.DELIVERY_NOT_PROVEN,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was learnt about one attempt, or about the step as a whole."""

    outcome: Outcome
    known_by: KnownBy
    no_change: NoChange | None = None
    reference: str | None = None
    not_before: datetime | None = None  # the earliest next try after a `no_change`
    integrity_alarm: bool = False
    settles_earlier: bool = False  # documented as the answer to the earlier attempts under this key too
    answered_with_error: bool = False  # a server error came back
    taken_by: str | None = None  # the operation that already holds this reference
    facts: Mapping[str, Any] | None = None


def learn(
    operation: Operation,
    step: Step,
    attempt: Attempt,
    finding: Finding,
    moment: Moment,
) -> None:
    settles = attempt.outcome in {None, Outcome.UNKNOWN}
    if finding.integrity_alarm:
        step.integrity_alarm = True
    if finding.answered_with_error:
        step.answered_with_error = True
    if finding.outcome is Outcome.UNKNOWN:
        if attempt.outcome is None:
            _end(step, attempt, finding)
            follow_attempts(operation, step, moment)
        return
    if finding.taken_by is not None:
        _reference_taken(operation, step, attempt, finding, moment)
        return
    if settles:
        was_never_known = step.never_known
        _end(step, attempt, finding)
        _settle_siblings(step, attempt, finding)
        if was_never_known:
            step.never_known = False
            step.state = StepState.UNKNOWN
        follow_attempts(operation, step, moment)
        if was_never_known:
            open_hold(operation, step, HoldReason.DISPUTED, moment, _statements(attempt, finding))
        return
    if _agrees(attempt, finding):
        _upgrade(operation, step, attempt, finding, moment)
        return
    dispute(operation, step, attempt, finding, moment)


def _end(step: Step, attempt: Attempt, finding: Finding) -> None:
    attempt.outcome, attempt.no_change = finding.outcome, finding.no_change
    attempt.reference, attempt.known_by = finding.reference, finding.known_by
    if finding.outcome is Outcome.NO_CHANGE:
        step.not_before = finding.not_before


def _settle_siblings(step: Step, attempt: Attempt, finding: Finding) -> None:
    """A success under the same key and bytes is documented as the earlier attempts' answer too."""
    if not finding.settles_earlier or finding.outcome not in {Outcome.CONFIRMED, Outcome.ACCEPTED}:
        return
    for sibling in step.attempts_with(Outcome.UNKNOWN):
        if sibling.revision == attempt.revision:
            _end(step, sibling, finding)


def _agrees(attempt: Attempt, finding: Finding) -> bool:
    """Whether a later finding is compatible with what is settled: the same, or less, or more of the same."""
    happened = {Outcome.CONFIRMED, Outcome.ACCEPTED}
    if (attempt.outcome in happened) != (finding.outcome in happened):
        return False
    if attempt.outcome is Outcome.NO_CHANGE:
        return True
    return not (attempt.reference and finding.reference and attempt.reference != finding.reference)


def _upgrade(
    operation: Operation,
    step: Step,
    attempt: Attempt,
    finding: Finding,
    moment: Moment,
) -> None:
    """`accepted` may become `confirmed`, a missing reference may be filled in; nothing goes back."""
    if finding.outcome is Outcome.CONFIRMED and attempt.outcome is Outcome.ACCEPTED:
        attempt.outcome, attempt.known_by = Outcome.CONFIRMED, finding.known_by
    if finding.reference and not attempt.reference:
        attempt.reference = finding.reference
    if step.state in {StepState.ACCEPTED, StepState.CONFIRMED}:
        follow_attempts(operation, step, moment)


def _reference_taken(
    operation: Operation,
    step: Step,
    attempt: Attempt,
    finding: Finding,
    moment: Moment,
) -> None:
    """One record never proves two creates: the answer names one that another step holds."""
    if attempt.outcome is None:
        attempt.outcome, attempt.known_by = Outcome.UNKNOWN, finding.known_by
    follow_attempts(operation, step, moment)
    open_hold(
        operation,
        step,
        HoldReason.OUTCOME_UNKNOWN,
        moment,
        {"reference_taken": finding.reference, "taken_by": finding.taken_by},
    )


def dispute(
    operation: Operation,
    step: Step,
    attempt: Attempt | None,
    finding: Finding,
    moment: Moment,
) -> None:
    """Late truth contradicts what was decided: both statements are shown, nothing more is sent."""
    others = [other.reference for other in step.attempts_with(Outcome.CONFIRMED) if other is not attempt]
    statements = _statements(attempt or step.last_attempt, finding)
    confirms_another = finding.outcome is Outcome.CONFIRMED and others
    if attempt is not None:
        if confirms_another:
            _end(step, attempt, finding)
        else:
            attempt.outcome, attempt.no_change, attempt.known_by = Outcome.UNKNOWN, None, finding.known_by
            attempt.reference = None
    else:
        for settled_attempt in step.attempts_with(Outcome.CONFIRMED):
            settled_attempt.outcome = Outcome.UNKNOWN
    if confirms_another:
        follow_attempts(operation, step, moment)
        if len({finding.reference, *others}) > 1:
            return
    elif step.state is not StepState.IN_FLIGHT:
        become_unknown(step, moment.now)
    step.never_known = False
    open_hold(operation, step, HoldReason.DISPUTED, moment, statements)


def _statements(attempt: Attempt | None, finding: Finding) -> dict[str, Any]:
    said = None
    if attempt is not None and attempt.outcome is not None:
        said = {
            "outcome": attempt.outcome.value,
            "known_by": attempt.known_by,
            "reference": attempt.reference,
        }
    heard = {
        "outcome": finding.outcome.value,
        "known_by": finding.known_by.value,
        "reference": finding.reference,
    }
    return {"statements": [said, heard], **(finding.facts or {})}


def become_unknown(step: Step, now: datetime) -> None:
    if step.state is not StepState.UNKNOWN:
        step.state = StepState.UNKNOWN
        step.unknown_at = now
        step.looks = step.looks_none = 0
        step.looked_at = None
    step.reference = None


def follow_attempts(operation: Operation, step: Step, moment: Moment) -> None:
    """The step's state from its attempts: in flight, two effects, unknown while any attempt is, done, or nothing."""
    if step.open_attempt:
        return
    confirmed = step.attempts_with(Outcome.CONFIRMED)
    references = {attempt.reference for attempt in confirmed if attempt.reference}
    if len(references) > 1:
        _take_effect(operation, step, confirmed, StepState.CONFIRMED, moment)
        open_hold(operation, step, HoldReason.DUPLICATE_FOUND, moment, {"references": sorted(references)})
    elif step.attempts_with(Outcome.UNKNOWN):
        become_unknown(step, moment.now)
    elif confirmed:
        _take_effect(operation, step, confirmed, StepState.CONFIRMED, moment)
    elif accepted := step.attempts_with(Outcome.ACCEPTED):
        _take_effect(operation, step, accepted, StepState.ACCEPTED, moment)
    else:
        step.state = StepState.READY
        step.reference = None
        close_hold(operation, step, only=ENDED_BY_EVIDENCE)


def _take_effect(
    operation: Operation, step: Step, attempts: list[Attempt], state: StepState, moment: Moment
) -> None:
    if state is StepState.ACCEPTED and step.state is not StepState.ACCEPTED:
        step.accepted_at = moment.now
        step.looks = step.looks_none = 0
        step.looked_at = None
    references = [attempt.reference for attempt in attempts if attempt.reference]
    if step.reference not in references:
        step.reference = references[0] if references else None
    step.state = state
    close_hold(operation, step, only=ENDED_BY_EVIDENCE)


def delivered(operation: Operation, step: Step, known_by: KnownBy, reference: str | None) -> None:
    """The final effect of something accepted is proven."""
    for attempt in step.attempts_with(Outcome.ACCEPTED):
        attempt.outcome, attempt.known_by = Outcome.CONFIRMED, known_by
        attempt.reference = attempt.reference or reference
    step.state = StepState.CONFIRMED
    step.reference = step.reference or reference
    close_hold(operation, step, only=ENDED_BY_EVIDENCE)


def not_delivered(
    operation: Operation, step: Step, moment: Moment, facts: Mapping[str, Any] | None = None
) -> None:
    """Accepted, then a final failure (a bounce): failed, and a person decides what replaces it."""
    for attempt in step.attempts_with(Outcome.ACCEPTED):
        attempt.outcome, attempt.no_change = Outcome.NO_CHANGE, NoChange.REJECTED
        attempt.known_by = KnownBy.REPORT
    step.state = StepState.FAILED
    close_hold(operation, step)
    open_hold(operation, step, HoldReason.DELIVERY_FAILED, moment, facts)

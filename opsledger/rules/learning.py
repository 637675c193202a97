"""What something learnt about an attempt makes of its step, in time or late (rules.md, table 6)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from opsledger.rules.absence import contradicts_absence, named
from opsledger.rules.profile import ActionProfile
from opsledger.rules.record import Attempt, KnownBy, Operation, Step
from opsledger.rules.settling import Moment, close_hold, open_hold
from opsledger.rules.states import FINAL_STATES, HoldReason, NoChange, Outcome, StepState

# Holds that new evidence ends by itself; the others need a person.
ENDED_BY_EVIDENCE = frozenset(
    {
        HoldReason.OUTCOME_UNKNOWN,
        HoldReason.PROTECTION_EXPIRED,
        HoldReason.INTEGRITY_ALARM,
        HoldReason.DELIVERY_NOT_PROVEN,
    }
)
HAPPENED = frozenset({Outcome.CONFIRMED, Outcome.ACCEPTED})


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
    identified: bool = (
        False  # it carries the step's own identity, which the destination was given with the request
    )
    facts: Mapping[str, Any] | None = None


def learn(operation: Operation, step: Step, attempt: Attempt, finding: Finding, moment: Moment) -> None:
    """One finding about one attempt.

    1. Still open, or ended as unknown: the finding settles it; learning nothing changes nothing.
    2. The finding names a record that another step holds: it proves nothing, and a person is asked. A success that names
       none, where the destination answers with a reference, proves nothing either (table 2).
    3. In dispute: it is added to the statements.
    4. Settled already: the same again, or less, changes nothing; a contradiction is a dispute. So is anything that is
       learnt after a person closed the step as never known, and "no change" where a record was found or named.
    5. Another record was found or named before than the one that it happened under: *duplicate found*.
    """
    step.integrity_alarm = step.integrity_alarm or finding.integrity_alarm
    step.answered_with_error = step.answered_with_error or finding.answered_with_error
    if finding.outcome is Outcome.UNKNOWN:
        if attempt.outcome is None:
            names = named(step)
            _end(step, attempt, replace(finding, reference=finding.reference or attempt.reference))
            follow_attempts(operation, step, moment)
            ask_about_others(operation, step, names, finding.reference, moment)
        return
    settled = attempt.outcome not in {None, Outcome.UNKNOWN}
    if _is_in_dispute(operation, step, attempt):
        _add_statement(operation, step, finding)
    elif settled and _agrees(attempt, finding):
        _upgrade(operation, step, attempt, finding, moment)
    elif settled or _speaks_against_a_person(operation, step, attempt, finding):
        dispute(operation, step, attempt, finding, moment)
    elif finding.taken_by is not None:
        _reference_taken(operation, step, attempt, finding, moment)
    elif lacks_reference(attempt, finding, moment.policies[step.number].profile):
        learn(operation, step, attempt, replace(finding, outcome=Outcome.UNKNOWN), moment)
    else:
        names = named(step)
        if finding.outcome is Outcome.NO_CHANGE:
            _hand_name_on(step, attempt)
        _end(step, attempt, finding)
        _settle_siblings(operation, step, attempt, finding)
        follow_attempts(operation, step, moment)
        if finding.outcome in HAPPENED:
            ask_about_others(operation, step, names, finding.reference, moment)


def lacks_reference(attempt: Attempt, finding: Finding, profile: ActionProfile) -> bool:
    """Whether a success names nothing that it made, although the destination answers this action with a reference.

    It is named by the reference, by what is known already of an attempt that happened, or by the step's own identity. A
    person may say why there is none; a reply without a body is a success where the profile says so.
    """
    if finding.outcome is not Outcome.CONFIRMED or not profile.reply.reference:
        return False
    named = finding.reference or finding.identified or (attempt.outcome in HAPPENED and attempt.reference)
    excused = finding.known_by is KnownBy.PERSON or (
        finding.known_by is KnownBy.REPLY and profile.reply.empty_ok
    )
    return not named and not excused


def _is_in_dispute(operation: Operation, step: Step, attempt: Attempt) -> bool:
    """Nobody's word counts for this attempt until a person settles it."""
    hold = operation.hold_on(step.number)
    disputed = hold is not None and hold.reason is HoldReason.DISPUTED
    return disputed and attempt.outcome is Outcome.UNKNOWN and attempt.known_by is None


def _add_statement(operation: Operation, step: Step, finding: Finding) -> None:
    hold = operation.hold_on(step.number)
    assert hold is not None
    statements, heard = hold.facts.get("statements", []), _heard(finding)
    told = [
        {name: one.get(name) for name in heard} for one in statements if one
    ]  # where it stands, may stand with it
    if heard not in told:
        hold.facts = {**hold.facts, "statements": [*statements, heard]}


def _speaks_against_a_person(operation: Operation, step: Step, attempt: Attempt, finding: Finding) -> bool:
    """What would settle a step that was closed as never known, or "nothing happened" where a record was found, or a
    person is asked about one. While other attempts are open or unknown, "no change" speaks for one of them alone: the
    record may be an earlier one's, which was under way before it was named, and never a later one's."""
    outcomes = {other.outcome for other in step.attempts if other is not attempt}
    nothing = finding.outcome is Outcome.NO_CHANGE
    if step.never_known:
        return not nothing or not outcomes & {None, Outcome.UNKNOWN}
    hold = operation.hold_on(step.number)
    asked = attempt.is_unsettled and bool(contradicts_absence(step, hold))
    return asked and nothing and (outcomes <= {Outcome.NO_CHANGE} or _is_its_own(step, attempt))


def _is_its_own(step: Step, attempt: Attempt) -> bool:
    """Whether the record that was named for an unsettled attempt can be no other attempt's."""
    if attempt.reference not in named(step):
        return False
    others = [other for other in step.attempts if other is not attempt]
    shared = any(other.reference == attempt.reference and other.may_have_had_effect for other in others)
    return not shared and _earlier_unnamed(step, attempt) is None


def _earlier_unnamed(step: Step, attempt: Attempt) -> Attempt | None:
    names = named(step)
    unknown = [other for other in step.attempts_with(Outcome.UNKNOWN) if other.number < attempt.number]
    return next((other for other in unknown if other.reference not in names), None)


def _hand_name_on(step: Step, attempt: Attempt) -> None:
    """What a later attempt was told that exists, and did not make, an earlier one has made, as far as anybody knows."""
    names = named(step)
    if not attempt.is_unsettled or attempt.reference not in names:
        return
    maker = _earlier_unnamed(step, attempt)
    if maker is not None:
        maker.reference = attempt.reference


def _end(step: Step, attempt: Attempt, finding: Finding) -> None:
    attempt.outcome, attempt.no_change = finding.outcome, finding.no_change
    attempt.reference, attempt.known_by = finding.reference, finding.known_by
    if finding.outcome is Outcome.NO_CHANGE:
        step.not_before = finding.not_before
    if finding.no_change is NoChange.REJECTED:
        step.rejection_waived = False  # a person's *same again* was for one try


def _settle_siblings(operation: Operation, step: Step, attempt: Attempt, finding: Finding) -> None:
    """What is documented as the earlier attempts' answer too, under the same key and bytes: a success, or the first
    attempt's own refusal, given out again. The refusal says nothing of an attempt that came after it, nor of one whose
    record was found or named. Of what a restored backup has forgotten, nobody knows the key."""
    if not finding.settles_earlier:
        return
    known = named(step)
    for sibling in step.attempts_with(Outcome.UNKNOWN):
        refused = sibling.number < attempt.number and sibling.reference not in known
        same = sibling.revision == attempt.revision and not operation.has_forgotten(sibling)
        if same and (finding.outcome in HAPPENED or refused):
            _end(step, sibling, finding)


def _agrees(attempt: Attempt, finding: Finding) -> bool:
    """Whether a later finding is compatible with what is settled: the same, or less, or more of the same."""
    if finding.outcome is Outcome.ACCEPTED and _was_accepted_in_vain(attempt):
        return True
    if (attempt.outcome in HAPPENED) != (finding.outcome in HAPPENED):
        return False
    if attempt.outcome is Outcome.NO_CHANGE:
        return True
    return not (attempt.reference and finding.reference and attempt.reference != finding.reference)


def _was_accepted_in_vain(attempt: Attempt) -> bool:
    """Taken over and then not delivered: only that is known as a rejection from outside a reply."""
    by_final_effect = attempt.known_by in {KnownBy.REPORT, KnownBy.LOOKUP, KnownBy.PERSON}
    return attempt.no_change is NoChange.REJECTED and by_final_effect


def _upgrade(operation: Operation, step: Step, attempt: Attempt, finding: Finding, moment: Moment) -> None:
    """`accepted` may become `confirmed`, a missing reference may be filled in; nothing goes back."""
    if attempt.outcome not in HAPPENED:
        return
    if finding.taken_by is not None:  # the outcome stands; the reference is another step's
        return
    if lacks_reference(attempt, finding, moment.policies[step.number].profile):
        return
    if finding.outcome is Outcome.CONFIRMED and attempt.outcome is Outcome.ACCEPTED:
        attempt.outcome, attempt.known_by = Outcome.CONFIRMED, finding.known_by
    attempt.reference = attempt.reference or finding.reference
    follow_attempts(operation, step, moment)


def _reference_taken(
    operation: Operation, step: Step, attempt: Attempt, finding: Finding, moment: Moment
) -> None:
    """One record never proves two creates: the answer names one that another step holds."""
    if attempt.outcome is None:
        attempt.outcome, attempt.known_by = Outcome.UNKNOWN, finding.known_by
    attempt.reference = attempt.reference or finding.reference
    follow_attempts(operation, step, moment)
    facts = {"reference_taken": finding.reference, "taken_by": finding.taken_by}
    open_hold(operation, step, HoldReason.OUTCOME_UNKNOWN, moment, facts)


# Disputes


def dispute(
    operation: Operation, step: Step, attempt: Attempt | None, finding: Finding, moment: Moment
) -> None:
    """Late truth contradicts what was decided: both statements are shown, nothing more is sent.

    1. An attempt that was held to have changed nothing is confirmed, and another one happened. Under the same reference
       only the attempt's own outcome is corrected; under different ones a *duplicate* is *found*.
    2. Without this attempt it stands all the same that the step happened, or that is disputed already: only this one is
       corrected.
    3. Else the attempt (without one: each that is confirmed) is unknown again, known by nobody, and a person settles it.
    """
    if attempt is not None and (
        _happened_like_another(step, attempt, finding) or _stands_without(operation, step, attempt, finding)
    ):
        if attempt.outcome is Outcome.CONFIRMED:
            for maker in _other_makers(step, attempt):  # what was proven of the record holds for its maker
                maker.outcome = Outcome.CONFIRMED
        _end(step, attempt, finding)
        follow_attempts(operation, step, moment)
        return
    facts = _statements(operation, step, attempt, finding)
    heard = finding.reference if finding.taken_by is None else None
    for doubtful in [attempt] if attempt is not None else step.attempts_with(Outcome.CONFIRMED):
        found_as = doubtful.reference if doubtful.is_unsettled else None
        doubtful.outcome, doubtful.no_change = Outcome.UNKNOWN, None
        doubtful.reference, doubtful.known_by = heard or found_as, None
    ask_again(operation, step, HoldReason.DISPUTED, moment, facts)


def found_in_vain(operation: Operation, step: Step, moment: Moment, facts: Mapping[str, Any] | None) -> None:
    """A record was found or named, and now lookups prove that there is none: both are shown, and a person settles it.

    Until then nobody's word counts for what is unknown; the names stay with their attempts.
    """
    names = named(step)
    about = next((one for one in step.attempts_with(Outcome.UNKNOWN) if one.reference in names), None)
    gone = Finding(Outcome.NO_CHANGE, KnownBy.LOOKUP, no_change=NoChange.ABSENT, facts=facts)
    told = _statements(operation, step, about, gone)
    first = {"outcome": "found", "known_by": None, "reference": names[0] if names else None}
    for doubtful in step.attempts_with(Outcome.UNKNOWN):
        doubtful.known_by = None
    open_hold(operation, step, HoldReason.DISPUTED, moment, {**told, "statements": [first, _heard(gone)]})


def name_record(step: Step, reference: str | None) -> None:
    """A record that was found or named, and settles nothing: each attempt that may have made it remembers it; one that is
    still open does where no other may."""
    if reference and reference not in step.not_ours:
        for attempt in step.attempts_with(Outcome.UNKNOWN) or [
            one for one in step.attempts if one.is_unsettled
        ]:
            attempt.reference = attempt.reference or reference


def ask_about_others(
    operation: Operation, step: Step, names: Collection[str], reference: str | None, moment: Moment
) -> None:
    """It happened under this reference; what was found or named under another one before, and is no attempt's any more, is
    not dropped: two records are a question. `names`: those from before."""
    dropped = [name for name in names if name not in {reference, *named(step), step.reference}]
    if reference and dropped:
        happened = (attempt.reference for attempt in step.attempts if attempt.outcome in HAPPENED)
        references = sorted({reference, *dropped, *(one for one in happened if one)})
        open_hold(operation, step, HoldReason.DUPLICATE_FOUND, moment, {"references": references})


def _happened_like_another(step: Step, attempt: Attempt, finding: Finding) -> bool:
    nothing_so_far = attempt.outcome is Outcome.NO_CHANGE and not step.never_known
    if not nothing_so_far or finding.outcome not in HAPPENED or finding.taken_by is not None:
        return False
    happened = [other for other in step.attempts if other.outcome in HAPPENED and other.reference]
    if any(other.reference == finding.reference for other in happened):
        return True
    both = finding.outcome is Outcome.CONFIRMED and finding.reference is not None
    return both and any(other.outcome is Outcome.CONFIRMED for other in happened)


def _stands_without(operation: Operation, step: Step, attempt: Attempt, finding: Finding) -> bool:
    """Whether the step happened, or is in dispute, without this attempt."""
    if finding.outcome is not Outcome.NO_CHANGE or attempt.outcome not in HAPPENED:
        return False
    hold = operation.hold_on(step.number)
    disputed = hold is not None and hold.reason is HoldReason.DISPUTED and attempt.known_by is KnownBy.PERSON
    unknown = step.attempts_with(Outcome.UNKNOWN)
    return bool(_other_makers(step, attempt)) or (disputed and any(one is not attempt for one in unknown))


def _other_makers(step: Step, attempt: Attempt) -> list[Attempt]:
    """Other attempts that are held to have made the same record."""
    happened = [other for other in step.attempts if other is not attempt and other.outcome in HAPPENED]
    return [other for other in happened if other.reference == attempt.reference]


def ask_again(
    operation: Operation, step: Step, reason: HoldReason, moment: Moment, facts: Mapping[str, Any] | None
) -> None:
    """What was settled is unknown again. Looks that were made for it count no longer; an open attempt goes on."""
    step.never_known = False
    if step.open_attempt is None:
        step.state = StepState.UNKNOWN
        begin_to_look(step, moment.now)
    open_hold(operation, step, reason, moment, facts)


def _statements(
    operation: Operation, step: Step, attempt: Attempt | None, finding: Finding
) -> dict[str, Any]:
    """What was said, what is heard now, and what has been sent upon it meanwhile."""
    said = attempt or next(iter(step.attempts_with(Outcome.CONFIRMED)), step.last_attempt)
    first = None
    if said is not None and said.outcome is None and said.reference:
        first = {"outcome": "found", "known_by": None, "reference": said.reference}
    elif said is not None and said.outcome is not None:
        first = {"outcome": said.outcome.value, "known_by": said.known_by, "reference": said.reference}
        if step.never_known:
            first = {"outcome": "never_known", "known_by": KnownBy.PERSON, "reference": None}
    taken = {"reference_taken": finding.reference, "taken_by": finding.taken_by} if finding.taken_by else {}
    since = [other.number for other in step.attempts if said is not None and other.number > said.number]
    later = [other.name for other in operation.later(step) if other.may_have_had_effect]
    return {
        "statements": [first, _heard(finding)],
        "sent_since": since,
        "later_sent": later,
        **taken,
        **(finding.facts or {}),
    }


def _heard(finding: Finding) -> dict[str, Any]:
    return {
        "outcome": finding.outcome.value,
        "known_by": finding.known_by.value,
        "reference": finding.reference,
    }


# The step's state from its attempts


def become_unknown(step: Step, now: datetime) -> None:
    """Looks begin anew, unless the step is unknown already."""
    if step.state is not StepState.UNKNOWN:
        step.state = StepState.UNKNOWN
        begin_to_look(step, now)
    step.reference = None


def begin_to_look(step: Step, now: datetime) -> None:
    """Looks that were made before count no longer."""
    step.unknown_at, step.reference = now, None
    step.looks = step.looks_none = 0
    step.looked_at = step.look_at = None
    step.resend_asked = step.look_applies = False


def follow_attempts(operation: Operation, step: Step, moment: Moment) -> None:
    """The step's state from its attempts: in flight, unknown while any attempt is, done, or nothing.

    Confirmed under several references: *duplicate found*, whatever else is known.
    """
    confirmed, accepted = step.attempts_with(Outcome.CONFIRMED), step.attempts_with(Outcome.ACCEPTED)
    if step.open_attempt:
        pass
    elif step.attempts_with(Outcome.UNKNOWN):
        become_unknown(step, moment.now)
    elif confirmed:
        _take_effect(operation, step, confirmed, StepState.CONFIRMED)
    elif accepted:
        if step.state is not StepState.ACCEPTED:
            _begin_to_wait(step, moment.now)
        _take_effect(operation, step, accepted, StepState.ACCEPTED)
        _end_what_bounced(operation, step, moment)
    elif step.state not in FINAL_STATES:
        step.state, step.reference, step.ready_at = StepState.READY, None, moment.now
        close_hold(operation, step, only=ENDED_BY_EVIDENCE)
        _end_what_bounced(operation, step, moment)
    references = {attempt.reference for attempt in confirmed if attempt.reference}
    if len(references) > 1:
        open_hold(operation, step, HoldReason.DUPLICATE_FOUND, moment, {"references": sorted(references)})


def _begin_to_wait(step: Step, now: datetime) -> None:
    step.accepted_at = now
    step.looks = step.looks_none = 0
    step.looked_at = step.look_at = None


def _take_effect(operation: Operation, step: Step, attempts: list[Attempt], state: StepState) -> None:
    references = [attempt.reference for attempt in attempts if attempt.reference]
    if step.reference not in references:
        step.reference = references[0] if references else None
    step.state = state
    proven = state is StepState.CONFIRMED
    close_hold(
        operation,
        step,
        only=ENDED_BY_EVIDENCE if proven else ENDED_BY_EVIDENCE - {HoldReason.DELIVERY_NOT_PROVEN},
    )


# The final effect of something accepted


def delivered(
    operation: Operation, step: Step, known_by: KnownBy, reference: str | None, moment: Moment
) -> None:
    """The final effect of something accepted is proven."""
    for attempt in step.attempts_with(Outcome.ACCEPTED):
        attempt.outcome, attempt.known_by = Outcome.CONFIRMED, known_by
        attempt.reference = attempt.reference or reference
    follow_attempts(operation, step, moment)


def not_delivered(
    operation: Operation,
    step: Step,
    known_by: KnownBy,
    moment: Moment,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Accepted, then a final failure (a bounce): failed, and a person decides what replaces it."""
    end_not_delivered(step, known_by)
    close_hold(operation, step, only=ENDED_BY_EVIDENCE)
    open_hold(operation, step, HoldReason.DELIVERY_FAILED, moment, facts)


def end_not_delivered(step: Step, known_by: KnownBy) -> None:
    for attempt in step.attempts_with(Outcome.ACCEPTED):
        end_in_vain(attempt, known_by)
    step.state = StepState.FAILED


def end_in_vain(attempt: Attempt, known_by: KnownBy) -> None:
    """Taken over, and then not delivered. The reference stays with it: of the same record no other attempt is waited for."""
    attempt.outcome, attempt.no_change, attempt.known_by = Outcome.NO_CHANGE, NoChange.REJECTED, known_by


def _end_what_bounced(operation: Operation, step: Step, moment: Moment) -> None:
    """What was told to have bounced while another attempt was open or unknown, and is all that the step has made."""
    told = [one for one in step.attempts if _was_accepted_in_vain(one)]
    bounced = next((one for one in told if step.reference in {None, one.reference}), None)
    if bounced is not None and bounced.known_by is not None:
        step.accepted_at = step.accepted_at or moment.now
        not_delivered(operation, step, bounced.known_by, moment)

"""What happens next to a step, or which hold asks a person (rules.md, table 4).

`decide` goes through the rows in order; the first that fits wins. It reads and answers; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from opsledger.rules.profile import ActionProfile, FinalEffectBy, ProtectionKind
from opsledger.rules.protection import Protected, forgotten, protected_until
from opsledger.rules.record import Act, Attempt, KnownBy, Operation, Performer, Step
from opsledger.rules.schedule import look_times
from opsledger.rules.states import FINAL_STATES, NEVER_SENT_STATES, HoldReason, NoChange, Outcome, StepState


@dataclass(frozen=True, slots=True)
class Rendered:
    """The digests of the request that a step would send, or the fields that it lacks."""

    digest: str | None = None
    content_digest: str | None = None  # the same with the key left out: what is approved
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What is settled about one step outside the record: its destination's profile and the workflow's words."""

    profile: ActionProfile
    automatic_recovery: bool = False  # enabled for this destination's action, or declared *not drilled*
    accepted_is_enough: bool = False  # later steps may follow an `accepted` one
    continues_after_failure: bool = False  # this step goes on although an earlier one failed
    render: Callable[[Operation, Step], Rendered] = lambda operation, step: Rendered("rendered", "content")
    destination_stopped: bool = False  # paused, circuit open or access refused


Policies = Mapping[int, Policy]


@dataclass(frozen=True, slots=True)
class Next:
    row: int  # of table 4; 0 = nothing is left to do
    act: Act = Act.NONE
    at: datetime | None = None
    move: StepState | None = None
    hold: HoldReason | None = None
    send_until: datetime | None = None
    facts: Mapping[str, object] = field(default_factory=dict)


def decide(operation: Operation, step: Step, policies: Policies, now: datetime) -> Next:
    """The next thing for this step at `now`. What another operation replaces is never sent: both would take effect."""
    plan = _by_itself(operation, step, policies, now)
    if operation.replaced and (plan.act in {Act.SEND, Act.OFFER} or plan.row == 10):
        return _never_sent_again(operation, step, policies[step.number], now)
    return plan


def _by_itself(operation: Operation, step: Step, policies: Policies, now: datetime) -> Next:
    policy = policies[step.number]
    if step.state in FINAL_STATES or step.never_known:
        return Next(row=0)
    if operation.cancelled:
        return _never_sent_again(operation, step, policy, now)
    if operation.hold_on(step.number):
        return _only_find_out(operation, step, policy, now, row=3)
    if step.state is StepState.IN_FLIGHT:
        return _wait_for_lease(step, row=4)
    if step.state in NEVER_SENT_STATES:
        return _before_sending(operation, step, policies, now)
    if step.state is StepState.ACCEPTED:
        return _after_acceptance(operation, step, policy, now)
    return _unknown(operation, step, policy, now)


# Rows 1 to 3: nothing is sent, lookups go on


def _never_sent_again(operation: Operation, step: Step, policy: Policy, now: datetime) -> Next:
    if step.state in NEVER_SENT_STATES and not step.may_have_had_effect:
        return Next(row=1, move=StepState.CANCELLED)
    return _only_find_out(operation, step, policy, now, row=2)


def _only_find_out(operation: Operation, step: Step, policy: Policy, now: datetime, *, row: int) -> Next:
    if step.state is StepState.IN_FLIGHT:
        return _wait_for_lease(step, row=row)
    if step.state in {StepState.UNKNOWN, StepState.ACCEPTED}:
        held = operation.hold_on(step.number) is not None
        look_at = next_look_at(step, policy, now) if held else _look_before_asking(step, policy, now)
        if look_at is not None:
            return Next(row=row, act=Act.LOOK, at=look_at)
        if not held:
            if step.state is StepState.ACCEPTED:
                return _after_acceptance(operation, step, policy, now)
            return Next(row=row, hold=_reason_for_unknown(operation, step, policy, now))
    return Next(row=row)


def _wait_for_lease(step: Step, *, row: int) -> Next:
    attempt = step.open_attempt
    return Next(row=row, act=Act.LEASE, at=attempt.lease_ends_at if attempt else None)


# Rows 5 to 14: nothing took effect so far


def _before_sending(operation: Operation, step: Step, policies: Policies, now: datetime) -> Next:
    behind = _behind_earlier(operation, step, policies)
    if behind:
        return behind
    policy = policies[step.number]
    rendered = (
        policy.render(operation, step) if step.request_digest is None else Rendered(step.request_digest)
    )
    if rendered.missing:
        return Next(row=7, hold=HoldReason.DATA_MISSING, facts={"missing": list(rendered.missing)})
    if step.integrity_alarm:
        # the key was used for something else, or the bytes at hand are not the approved ones
        return Next(row=21, hold=HoldReason.INTEGRITY_ALARM, move=_unless(step, StepState.READY))
    if not approval_stands(operation, step, rendered, now):
        facts = {"revision": step.revision, "content_number": step.content_number}
        move = _unless(step, StepState.WAITING)
        return Next(row=8, hold=HoldReason.APPROVAL_NEEDED, move=move, facts=facts)
    if _too_late(operation, step, now):
        return Next(row=9, hold=HoldReason.TOO_LATE)
    ready = _unless(step, StepState.READY)
    if step.attempts_now:
        return _after_no_change(operation, step, policy, now)
    if policy.destination_stopped:
        return Next(row=10, move=ready)
    return _send_or_offer(operation, step, policy, now, row=11)


def _behind_earlier(operation: Operation, step: Step, policies: Policies) -> Next | None:
    earlier = blocked_by(operation, step, policies)
    if earlier is None:
        return None
    ended = _ended_without_effect(earlier, policies[earlier.number])
    if ended and not operation.hold_on(earlier.number):  # else a person may still bring it back
        return Next(row=5, move=StepState.CANCELLED)
    return Next(row=6, move=_unless(step, StepState.WAITING))


def blocked_by(operation: Operation, step: Step, policies: Policies) -> Step | None:
    """The first earlier step that this one waits for, or that ends it."""
    for earlier in operation.earlier(step):
        if _ended_without_effect(earlier, policies[earlier.number]):
            if not policies[step.number].continues_after_failure:
                return earlier
        elif not _satisfied(operation, earlier, policies[earlier.number]):
            return earlier
    return None


def _ended_without_effect(step: Step, policy: Policy) -> bool:
    """As far as anybody will know. Where a person left it open for good, they said whether later steps go on."""
    if step.state in {StepState.FAILED, StepState.CANCELLED}:
        return True
    left_accepted = step.state is StepState.ACCEPTED and step.final_waived and not policy.accepted_is_enough
    return (step.never_known or left_accepted) and not step.go_on_after


def _satisfied(operation: Operation, earlier: Step, policy: Policy) -> bool:
    hold = operation.hold_on(earlier.number)
    if hold is not None and hold.reason is not HoldReason.DELIVERY_NOT_PROVEN:
        return False  # a disputed, differing or duplicated effect is not something to build upon
    if earlier.never_known:
        return earlier.go_on_after
    if earlier.state is StepState.ACCEPTED:
        return policy.accepted_is_enough or (earlier.final_waived and earlier.go_on_after)
    return earlier.state in {StepState.CONFIRMED, StepState.SKIPPED}


def approval_stands(operation: Operation, step: Step, rendered: Rendered, now: datetime) -> bool:
    """Whether this request may be sent as far as approval goes (law 7).

    A frozen request was compared when it was frozen, and is again when it is sent. An approval is good for a first send
    until its end; what follows of the same revision shares it.
    """
    if not step.approval_needed:
        return True
    if step.approved_digest is None:
        return False
    if step.request_digest is None and rendered.content_digest != step.approved_digest:
        return False
    return not first_send(operation, step) or step.approved_until is None or now < step.approved_until


def _forgotten_and_absent(operation: Operation, attempt: Attempt) -> bool:
    """What a person said of it stands as said."""
    by_person = attempt.known_by is KnownBy.PERSON
    return operation.has_forgotten(attempt) and not by_person and attempt.no_change is NoChange.ABSENT


def _too_late(operation: Operation, step: Step, now: datetime) -> bool:
    return (
        operation.not_after is not None and _waits_for_latest(operation, step) and now >= operation.not_after
    )


def _waits_for_latest(operation: Operation, step: Step) -> bool:
    """The operation's `not_after` is for what was never sent; a person may have waived it."""
    return first_send(operation, step) and not step.lateness_waived


def first_send(operation: Operation, step: Step) -> bool:
    """Whether a send now would be the first of this revision, as far as anybody knows.

    What a restored backup made unknown (its attempt was opened with the operation), and was then proved absent, was perhaps
    never sent at all.
    """
    return all(
        attempt.no_change is NoChange.NOT_SENT or _forgotten_and_absent(operation, attempt)
        for attempt in step.attempts_now
    )


def _latest_first_send(operation: Operation, step: Step) -> datetime | None:
    """Until when a first send may be made: the operation's latest moment, and the end of its approval."""
    latest = [operation.not_after] if _waits_for_latest(operation, step) else []
    if step.approval_needed and first_send(operation, step):
        latest.append(step.approved_until)
    return min((moment for moment in latest if moment is not None), default=None)


def _send_or_offer(operation: Operation, step: Step, policy: Policy, now: datetime, *, row: int) -> Next:
    latest = _latest_first_send(operation, step)
    ready, ready_at = _unless(step, StepState.READY), _ready_at(step, now)
    if step.performer is Performer.ENGINE:
        return Next(row, act=Act.SEND, at=step.not_before or ready_at, move=ready, send_until=latest)
    claim_within = timedelta(seconds=policy.profile.timing.claim_within_seconds)
    ends_at = max(ready_at, step.not_before or ready_at) + claim_within
    if now >= ends_at:
        return Next(row=11, hold=HoldReason.NOBODY_CLAIMED, move=ready)
    return Next(row=11, act=Act.OFFER, at=min(ends_at, latest or ends_at), move=ready)


def _ready_at(step: Step, now: datetime) -> datetime:
    return step.ready_at if step.ready_at is not None and step.state is StepState.READY else now


def _after_no_change(operation: Operation, step: Step, policy: Policy, now: datetime) -> Next:
    ready = _unless(step, StepState.READY)
    last = step.attempts_now[-1]
    if last.no_change is NoChange.REJECTED and not step.rejection_waived:
        return Next(row=14, hold=HoldReason.REJECTED, move=ready)
    if not tries_left(step, policy):
        return Next(row=13, hold=HoldReason.ATTEMPTS_EXHAUSTED, move=ready)
    if policy.destination_stopped:
        return Next(row=10, move=ready)
    return _send_or_offer(operation, step, policy, now, row=12)


# Rows 15 to 17: taken over


def _after_acceptance(operation: Operation, step: Step, policy: Policy, now: datetime) -> Next:
    final = policy.profile.final_effect
    if step.final_waived:
        return Next(row=15)
    if final is None:
        if not policy.accepted_is_enough and _is_waited_for(operation, step):
            return Next(row=16, hold=HoldReason.DELIVERY_NOT_PROVEN)
        return Next(row=15)
    deadline_at = (step.accepted_at or now) + timedelta(seconds=final.deadline_seconds)
    look_at = next_look_at(step, policy, now)
    if look_at is not None and look_at <= max(deadline_at, now):
        return Next(row=16, act=Act.LOOK, at=look_at)
    if now >= deadline_at:
        return Next(row=16, hold=HoldReason.DELIVERY_NOT_PROVEN)
    return Next(row=16, act=Act.AWAIT, at=deadline_at)


def _is_waited_for(operation: Operation, step: Step) -> bool:
    return any(later.state is StepState.WAITING for later in operation.later(step))


# Rows 18 to 21: unknown


def _unknown(operation: Operation, step: Step, policy: Policy, now: datetime) -> Next:
    if step.integrity_alarm:
        return Next(row=21, hold=HoldReason.INTEGRITY_ALARM)
    protected = protection_of(operation, step, policy, now)
    again = _again_under_protection(step, policy, protected, now)
    if step.resend_asked and again:
        return again
    if not policy.automatic_recovery:
        return Next(row=18, hold=_reason_for_unknown(operation, step, policy, now))
    look_at = _look_before_asking(step, policy, now)
    if look_at is not None and (
        not protected.protected or protected.until is None or look_at < protected.until
    ):
        return Next(row=19, act=Act.LOOK, at=look_at)
    return again or Next(row=21, hold=_reason_for_unknown(operation, step, policy, now))


def _again_under_protection(step: Step, policy: Policy, protected: Protected, now: datetime) -> Next | None:
    if not (protected.protected and may_resend(step) and tries_left(step, policy)):
        return None
    send_at = max(now, step.not_before or now)
    if protected.until is not None and send_at >= protected.until:
        return None
    return Next(row=20, act=Act.SEND, at=send_at, send_until=protected.until)


def may_resend(step: Step) -> bool:
    """Whether the frozen request of an unknown step can go again, if its protection and its tries allow it."""
    last = step.last_attempt
    refused = last is not None and last.no_change is NoChange.REJECTED
    done = step.attempts_with(Outcome.CONFIRMED) or step.attempts_with(Outcome.ACCEPTED)
    frozen = step.request_digest is not None  # else nobody knows the bytes that may have been sent
    approved = not step.approval_needed or step.approved_digest is not None
    same = all(attempt.revision == step.revision for attempt in step.attempts_with(Outcome.UNKNOWN))
    by_engine = step.performer is Performer.ENGINE
    return frozen and approved and same and by_engine and not refused and not done


def _reason_for_unknown(operation: Operation, step: Step, policy: Policy, now: datetime) -> HoldReason:
    if step.integrity_alarm:
        return HoldReason.INTEGRITY_ALARM
    kind = policy.profile.protection.kind
    once_protected = kind is not ProtectionKind.NONE and _once_protected(operation, step, policy)
    expired = once_protected and not protection_of(operation, step, policy, now).protected
    return HoldReason.PROTECTION_EXPIRED if expired else HoldReason.OUTCOME_UNKNOWN


def _once_protected(operation: Operation, step: Step, policy: Policy) -> bool:
    first = step.first_possible_at
    return first is not None and protection_of(operation, step, policy, first).protected


# Shared readings


def tries_left(step: Step, policy: Policy) -> bool:
    """One cap per step and revision, whoever asks; a person grants more by number."""
    return step.tries_used < policy.profile.retries.tries_max + step.tries_extra


def protection_of(operation: Operation, step: Step, policy: Policy, now: datetime) -> Protected:
    """Whether sending the same request again at `now` is documented to have no second effect.

    Every kind of protection is of the request that was sent first. What a restored backup has forgotten may have been
    another one, so while its outcome is unknown nothing protects.
    """
    if any(operation.has_forgotten(attempt) for attempt in step.attempts_with(Outcome.UNKNOWN)):
        return forgotten(policy.profile)
    return _protection_of_request(step, policy, now)


def _protection_of_request(step: Step, policy: Policy, now: datetime) -> Protected:
    return protected_until(
        policy.profile,
        first_possible_at=step.first_possible_at,
        now=now,
        same_bytes=not step.integrity_alarm,
        record_changed_since=step.record_changed,
        answered_with_error=step.answered_with_error,
    )


def may_look(step: Step, policy: Policy) -> bool:
    """Whether the destination can be asked about this step as it stands."""
    if step.state is StepState.ACCEPTED:
        return policy.profile.final_effect is not None and policy.profile.lookup is not None
    return step.state is StepState.UNKNOWN and policy.profile.lookup is not None


def next_look_at(step: Step, policy: Policy, now: datetime) -> datetime | None:
    """When the next lookup is due: the planned one, or the one that a person wants, whichever comes first."""
    wanted = (at for at in (planned_look_at(step, policy, now), step.look_at) if at is not None)
    return min(wanted, default=None)


def _look_before_asking(step: Step, policy: Policy, now: datetime) -> datetime | None:
    """The next lookup, before anything is sent again or a person is asked. What somebody wants later waits for neither."""
    if planned_look_at(step, policy, now) is None and step.look_at is not None and step.look_at > now:
        return None
    return next_look_at(step, policy, now)


def planned_look_at(step: Step, policy: Policy, now: datetime) -> datetime | None:
    """When the next look of the profile's plan is due; None when there is no lookup or its looks are used up."""
    times = _planned_looks(step, policy, now)
    if step.looks >= len(times):
        return None
    planned = times[step.looks]
    if step.looked_at is None:
        return planned
    # after a pause of ours the looks keep their distance instead of being made all at once
    gap = times[step.looks] - times[step.looks - 1] if step.looks else timedelta(0)
    return max(planned, step.looked_at + min(gap, timedelta(seconds=_gap_seconds_max(policy))))


def _gap_seconds_max(policy: Policy) -> float:
    lookup = policy.profile.lookup
    return min(lookup.delays_seconds, default=0) if lookup else 0


def _planned_looks(step: Step, policy: Policy, now: datetime) -> tuple[datetime, ...]:
    profile = policy.profile
    if step.state is StepState.ACCEPTED:
        final = profile.final_effect
        if final is None or final.by is not FinalEffectBy.LOOKUP or step.accepted_at is None:
            return ()
        times, at = [], step.accepted_at
        for delay_seconds in final.look_delays_seconds:
            at += timedelta(seconds=delay_seconds)
            times.append(at)
        return tuple(times)
    latest = step.latest_possible_at
    if profile.lookup is None or latest is None:
        return ()
    return look_times(
        profile.lookup,
        unknown_since=step.unknown_at or now,
        latest_possible_at=latest,
        window_end=_window_end(step, policy, now),
        total_seconds=profile.timing.total_seconds,
    )


def _window_end(step: Step, policy: Policy, now: datetime) -> datetime | None:
    """Until when a protected attempt may start, if one could be made when the outcome became unknown."""
    protected = _protection_of_request(step, policy, step.unknown_at or now)
    return protected.until


def _unless(step: Step, state: StepState) -> StepState | None:
    return None if step.state is state else state

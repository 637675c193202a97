"""Coming to rest: table 4 decides for every step until nothing moves; holds open and close; a state is derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opsledger.rules.next_step import Policies, Policy, approval_stands, blocked_by, decide
from opsledger.rules.record import Hold, Operation, Step
from opsledger.rules.states import FINAL_STATES, HoldReason, OperationState, Outcome, StepState


@dataclass(frozen=True, slots=True)
class Moment:
    """What is given from outside when something happens: the database's time, the policies, and a source of new ids."""

    now: datetime
    policies: Policies
    new_id: Callable[[], str]


# A hold of a later group takes the place of an earlier one: the stronger question is asked first.
_STRENGTH = {
    HoldReason.RECORD_DIFFERS: 1,
    HoldReason.DELIVERY_FAILED: 2,
    HoldReason.DUPLICATE_FOUND: 3,
    HoldReason.DISPUTED: 4,
}


class NotNow(Exception):
    """The record is no longer in a state in which this can be done. `why` is a sentence for people."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def settled(operation: Operation, moment: Moment) -> Operation:
    """Lets table 4 decide for each step, in order, until nothing moves; then derives the operation's state."""
    for _ in range(4 * len(operation.steps) + 4):
        _forget_what_was_asked(operation)
        _forget_what_was_left(operation)
        moved = [_plan(operation, step, moment) for step in operation.steps]
        if not any(moved):
            operation.state = derived_state(operation, moment.policies)
            return operation
    raise AssertionError(f"table 4 does not come to rest for operation {operation.id}")


def _forget_what_was_asked(operation: Operation) -> None:
    """A resend is asked for while the step is unknown and nobody is asked about it; a lookup while it is unknown."""
    for step in operation.steps:
        open_ended = step.state in {StepState.UNKNOWN, StepState.IN_FLIGHT}
        if step.resend_asked and (not open_ended or operation.hold_on(step.number)):
            step.resend_asked = False
        if step.look_applies and not open_ended:
            step.look_applies = False


def _forget_what_was_left(operation: Operation) -> None:
    """Left as accepted, or closed as never known, with what may follow: said of what stood then, not of another send."""
    for step in operation.steps:
        if step.final_waived and step.state is not StepState.ACCEPTED:
            step.final_waived = False
        if step.go_on_after and not (step.final_waived or step.never_known):
            step.go_on_after = False


def _plan(operation: Operation, step: Step, moment: Moment) -> bool:
    if _rests_on_something_else(operation, step, moment.policies):
        close_hold(operation, step)
        renew_request(step, content_number=step.content_number)
    plan = decide(operation, step, moment.policies, moment.now)
    moved = plan.move is not None
    if plan.move is not None:
        step.state = plan.move
        if plan.move is StepState.READY:
            step.ready_at = moment.now
        if plan.move is StepState.CANCELLED:
            close_hold(operation, step)
    if step.state is StepState.READY and step.request_digest is None:
        _freeze(operation, step, moment.policies[step.number], moment.now)
    if plan.hold is not None and operation.hold_on(step.number) is None:
        open_hold(operation, step, plan.hold, moment, plan.facts)
        return True
    step.act, step.act_at, step.send_until = plan.act, plan.at, plan.send_until
    return moved


def _rests_on_something_else(operation: Operation, step: Step, policies: Policies) -> bool:
    """Frozen, then put back behind an earlier step, which has come to another result since: it is another request now."""
    hold = operation.hold_on(step.number)
    if step.state is not StepState.WAITING or step.request_digest is None or operation.cancelled:
        return False
    if step.may_have_had_effect or step.integrity_alarm:
        return False
    if hold is not None and hold.reason is not HoldReason.APPROVAL_NEEDED:
        return False
    if blocked_by(operation, step, policies) is not None:
        return False
    return policies[step.number].render(operation, step).digest != step.request_digest


def renew_request(step: Step, *, content_number: int | None) -> None:
    """Another request under another key: unrendered, unapproved, with tries of its own."""
    step.state, step.ready_at, step.not_before = StepState.WAITING, None, None
    step.revision += 1
    step.content_number, step.request_digest = content_number, None
    step.approval_needed, step.approved_digest, step.approved_until = True, None, None
    step.tries_extra, step.rejection_waived = 0, False
    step.answered_with_error, step.record_changed = False, None


def _freeze(operation: Operation, step: Step, policy: Policy, now: datetime) -> None:
    """Before the first attempt, and only what is approved where an approval is needed."""
    rendered = policy.render(operation, step)
    if approval_stands(operation, step, rendered, now):
        step.request_digest = rendered.digest


def derived_state(operation: Operation, policies: Policies) -> OperationState:
    """The operation's state from its steps and holds: the one place where it is decided."""
    if operation.holds:
        only_approvals = all(hold.reason is HoldReason.APPROVAL_NEEDED for hold in operation.holds)
        return OperationState.AWAITING_APPROVAL if only_approvals else OperationState.HELD
    if any(step.attempts_with(Outcome.UNKNOWN) and not step.never_known for step in operation.steps):
        return OperationState.RECONCILING
    if not all(_at_rest(step, policies) for step in operation.steps):
        return OperationState.RUNNING
    states = {step.state for step in operation.steps}
    if any(step.never_known for step in operation.steps):
        return OperationState.CLOSED_UNKNOWN
    if StepState.FAILED in states:
        return OperationState.FAILED
    if StepState.CANCELLED in states:
        return OperationState.CANCELLED
    return OperationState.COMPLETED


def _at_rest(step: Step, policies: Policies) -> bool:
    if step.state in FINAL_STATES or step.never_known:
        return True
    final = policies[step.number].profile.final_effect
    return step.state is StepState.ACCEPTED and (final is None or step.final_waived)


def close_hold(operation: Operation, step: Step, *, only: frozenset[HoldReason] | None = None) -> None:
    operation.holds = [
        hold
        for hold in operation.holds
        if hold.step != step.number or (only is not None and hold.reason not in only)
    ]


def open_hold(
    operation: Operation,
    step: Step,
    reason: HoldReason,
    moment: Moment,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """One open question per step: a stronger one takes the place of a weaker, the same one is kept."""
    current = operation.hold_on(step.number)
    if current is not None:
        if current.reason is reason or _STRENGTH.get(current.reason, 0) > _STRENGTH.get(reason, 0):
            current.facts = {**current.facts, **(facts or {})}
            return
        close_hold(operation, step)
        facts = {**current.facts, **(facts or {})}
    operation.holds.append(Hold(moment.new_id(), step.number, reason, moment.now, dict(facts or {})))

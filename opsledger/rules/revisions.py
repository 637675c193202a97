"""Changed requests: revisions, content versions and approvals (rules.md, tables 4 and 8; law 7).

An approval is for one revision of one request, whose attempts share it. Every change begins another revision, which is not
approved; nothing restores an approval, not even changing back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from opsledger.rules.record import Operation, Step
from opsledger.rules.settling import Moment, NotNow, close_hold, renew_request, settled
from opsledger.rules.states import NEVER_SENT_STATES, HoldReason

# Questions that another request answers; the others are about what may have happened, or about a person's word.
_ENDED_BY_REVISION = frozenset(
    {
        HoldReason.APPROVAL_NEEDED,
        HoldReason.ATTEMPTS_EXHAUSTED,
        HoldReason.DATA_MISSING,
        HoldReason.NOBODY_CLAIMED,
        HoldReason.REJECTED,
        HoldReason.TOO_LATE,
    }
)


@dataclass(frozen=True, slots=True)
class Approval:
    """What was approved of one step: its request with the key left out, until when for a first send."""

    content_digest: str
    until: datetime


def may_be_revised(operation: Operation, step: Step) -> bool:
    """Nothing of it can have had an effect, nothing is under way, and nobody is asked whether something happened."""
    hold = operation.hold_on(step.number)
    answered = hold is None or hold.reason in _ENDED_BY_REVISION
    untouched = step.state in NEVER_SENT_STATES and not step.may_have_had_effect
    return untouched and answered and not step.integrity_alarm and not operation.cancelled


def begin_revision(operation: Operation, step: Step, *, content_number: int | None) -> None:
    """Another request under another key: unrendered, unapproved, with tries of its own.

    NotNow while anything of the earlier revision may have had an effect or is under way.
    """
    if not may_be_revised(operation, step):
        raise NotNow("Something of this step may have had an effect, or is under way; it keeps its request.")
    close_hold(operation, step)
    renew_request(step, content_number=content_number)


def moved_to_content(operation: Operation, number: int, moment: Moment) -> Operation:
    """Every step that shows content and can still change shows this version from now on; the others keep theirs."""
    after = operation.copy()
    for step in after.steps:
        if step.content_number not in {None, number} and may_be_revised(after, step):
            begin_revision(after, step, content_number=number)
    return settled(after, moment)


def returned(operation: Operation, number: int, content_number: int | None, moment: Moment) -> Operation:
    """The request that waits for an approval is given up for an earlier one of the step, as another revision.

    NotNow for a step that does not wait for an approval. Later requests keep the content that they show.
    """
    after = operation.copy()
    step, hold = after.step(number), after.hold_on(number)
    if hold is None or hold.reason is not HoldReason.APPROVAL_NEEDED:
        raise NotNow(f"Step {number} does not wait for an approval.")
    begin_revision(after, step, content_number=content_number)
    return settled(after, moment)


def approved(operation: Operation, approvals: Mapping[int, Approval], moment: Moment) -> Operation:
    """The present revisions of these steps are approved, each as it was rendered for the person who approves.

    NotNow for a step that does not wait for an approval.
    """
    after = operation.copy()
    for number, approval in approvals.items():
        step, hold = after.step(number), after.hold_on(number)
        if hold is None or hold.reason is not HoldReason.APPROVAL_NEEDED:
            raise NotNow(f"Step {number} does not wait for an approval.")
        close_hold(after, step)
        step.approved_digest, step.approved_until = approval.content_digest, approval.until
    return settled(after, moment)

"""Rejecting a content version: what waits for it returns to the approved one, or is cancelled; each by a person's choice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import keep_text
from opsledger.ledger.actions.approve import (
    ContentStale,
    Pass,
    approved_for_seconds,
    asked,
    by_operation,
    has_role,
    locked_version,
    record_approval,
    still_waits,
    told,
)
from opsledger.ledger.actions.change import Change, change_here
from opsledger.ledger.actions.content import append_content_line, move_operations, set_state
from opsledger.ledger.actions.deciding import By, Refused, check_reason
from opsledger.ledger.approvals import (
    CoveredStep,
    WaitingStep,
    barred,
    batches,
    digest_of,
    rendered,
    replaced_by,
    waiting_for_version,
)
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Content, ContentVersion, Rejection
from opsledger.ledger.records import Loaded, lock
from opsledger.lib.ids import new_id
from opsledger.rules import revisions, transitions
from opsledger.rules.content import VersionState
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment
from opsledger.rules.states import HoldReason


@dataclass(frozen=True, slots=True)
class Rejected:
    returned_count: int  # operations that are back at the approved version
    approved_again_count: int  # of these, those that the person who rejected could approve at once
    cancelled_count: int


def settle_rejection(
    version_id: UUID,
    *,
    covered_digest: str,
    version: int,
    by: By,
    reason: str,
    returns: Collection[UUID] = (),
) -> Rejected:
    """Rejects a version. Of the operations that wait for it, those in `returns` go back to the approved version and are
    approved anew where this person may, and where no other operation replaces them; the others are cancelled.

    Operations whose turn has not come yet are not cancelled: they follow the approved version, or wait for the next one.
    An approved version stays approved; rejecting it is for what came to wait for it since, and returns nothing.
    """
    check_reason(reason)
    returns = frozenset(returns)
    with transaction.atomic(durable=True):
        row = locked_version(version_id, version)
        if row.state not in {VersionState.PROPOSED, VersionState.APPROVED}:
            raise ContentStale(told(row), row)
        has_role(row.team_id, by)
        waiting = waiting_for_version(row.of_id, row.number)
        standing = row.of.versions.filter(state=VersionState.APPROVED).exclude(pk=row.pk).first()
        _check_returns(returns, waiting, standing)
        run = _return_and_cancel(row, standing, waiting, returns, by, reason)
        if digest_of(run.seen) != covered_digest:
            raise ContentStale("What waits for this version changed while you were reading it.", row)
        if run.approved and standing is not None and run.until is not None:
            digest = digest_of(run.approved)
            record_approval(run, row.team_id, run.until, digest, content_version=standing)
        cancelled = len({one.operation_id for one in waiting} - returns)
        _reject(row, standing, by, reason, run, cancelled)
    move_operations(row.of_id)
    return Rejected(len(returns), len({one.operation_id for one in run.approved}), cancelled)


def _check_returns(
    returns: frozenset[UUID], waiting: Sequence[WaitingStep], standing: ContentVersion | None
) -> None:
    if returns and standing is None:
        raise Refused("No other version is approved, so nothing can return to one.", field="return")
    strangers = returns - {one.operation_id for one in waiting}
    if strangers:
        raise Refused(
            f"{len(strangers)} of the named operations don’t wait for this version.", field="return"
        )


def _return_and_cancel(
    row: ContentVersion,
    standing: ContentVersion | None,
    waiting: Sequence[WaitingStep],
    returns: frozenset[UUID],
    by: By,
    reason: str,
) -> Pass:
    back = (row.of_id, standing.number) if standing else (row.of_id, row.number)
    unable = {key: dict(people) for key, people in barred(asked(row.team_id, waiting, back)).items()}
    run = Pass(new_id(), by, unable)
    lock(one.operation_id for one in waiting)
    run.replaced = replaced_by({one.operation_id for one in waiting})
    for batch in batches(waiting):
        change_here(
            {
                key: _returned(run, steps, row, standing, reason)
                if standing is not None and key in returns
                else _cancelled(run, steps, row, reason)
                for key, steps in by_operation(batch).items()
            }
        )
    return run


def _cancelled(run: Pass, steps: Sequence[WaitingStep], row: ContentVersion, reason: str) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        seen = [rendered(loaded, one) for one in steps if still_waits(loaded, one)]
        run.seen += seen
        if not seen:  # decided or ended meanwhile: the digest tells
            return loaded.record.copy()
        return transitions.cancel_requested(loaded.record, moment)

    facts = {
        "content": str(row.of_id),
        "content_number": row.number,
        "reason": keep_text(steps[0].operation_id, reason),
    }
    return Change("content_rejected", run.by.actor, decide, facts, closed_by=run.by.actor, answer="reject")


def _returned(
    run: Pass, steps: Sequence[WaitingStep], row: ContentVersion, standing: ContentVersion, reason: str
) -> Change:
    """Back at the approved version, as another revision: what had been approved of it before is void for good."""

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        run.seen += [rendered(loaded, one) for one in steps if still_waits(loaded, one)]
        loaded.contents[standing.number] = standing.body
        after = revisions.moved_to_content(loaded.record, standing.number, moment)
        again = approvable(loaded, after, steps, run, moment)
        run.approved += [one for one, _ in again]
        given = {one.number: approval for one, approval in again}
        return revisions.approved(after, given, moment) if given else after

    facts = {
        "content": str(row.of_id),
        "content_number": row.number,
        "returned_to": standing.number,
        "reason": keep_text(steps[0].operation_id, reason),
    }
    return Change(
        "content_rejected", run.by.actor, decide, facts, closed_by=run.by.actor, answer="reject",
        revision_kind="moved", approval_id=run.approval_id, void_reason=f"content version {row.number} was rejected",
    )  # fmt: skip


def approvable(
    loaded: Loaded, after: Operation, steps: Sequence[WaitingStep], run: Pass, moment: Moment
) -> list[tuple[CoveredStep, revisions.Approval]]:
    """Those of the returned steps that wait for an approval now and that this person may give it to."""
    until = moment.now + timedelta(seconds=approved_for_seconds(loaded))
    found = []
    for one in steps:
        hold, step = after.hold_on(one.number), after.step(one.number)
        if (
            hold is None
            or hold.reason is not HoldReason.APPROVAL_NEEDED
            or run.why_not(loaded.id, one.step_id)
        ):
            continue
        request = loaded.policies[one.number].render(after, step)
        covered = CoveredStep(
            one.step_id, loaded.id, loaded.operation_id, loaded.title, step.number, step.name, step.destination,
            step.action, step.revision, request.content_digest or "", one.hold_id,
        )  # fmt: skip
        found.append((covered, revisions.Approval(covered.content_digest, until)))
        run.until = max(run.until or until, until)
    return found


def _reject(
    row: ContentVersion, standing: ContentVersion | None, by: By, reason: str, run: Pass, cancelled: int
) -> None:
    kept = keep_text(row.of_id, reason)
    facts = {
        "number": row.number,
        "covered_digest": digest_of(run.seen),
        "cancelled_count": cancelled,
        "returned_to": standing.number if standing else None,
        "approval": str(run.approval_id) if run.approved else None,
        "reason": kept,
    }
    if row.state == VersionState.APPROVED:  # it stays: what came to wait for it since does not
        set_state(row.of, [row.number], VersionState.APPROVED)
        Rejection.objects.create(
            id=new_id(), team_id=row.team_id, content_version=row, rejected_by_id=by.person_id,
            rejected_at=database_now(), rejected_count=len(run.seen),
        )  # fmt: skip
        append_content_line(row.of_id, "content_waiting_rejected", by, {}, facts)
        return
    decision = {"decided_by": by.actor, "decided_at": database_now(), "decision_text": kept["text"]}
    set_state(row.of, [row.number], VersionState.REJECTED, **decision)
    target = standing.number if standing else None
    Content.objects.filter(pk=row.of_id).update(target_number=target, moving=standing is not None)
    append_content_line(row.of_id, "content_rejected", by, {row.number: VersionState.REJECTED}, facts)

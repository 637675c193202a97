"""Rejecting one request that is approved by itself: it goes back to an approved one of its step, or the step is ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import keep_text
from opsledger.ledger.actions.approve import (
    ContentStale,
    Pass,
    asked,
    belongs_to,
    has_role,
    lock_content_of,
    record_approval,
    still_waits,
    told_of_step,
)
from opsledger.ledger.actions.change import Change, change_here
from opsledger.ledger.actions.deciding import By, Refused, check_reason
from opsledger.ledger.actions.reject import approvable
from opsledger.ledger.approvals import (
    ApprovedBefore,
    WaitingStep,
    approved_before,
    barred,
    digest_of,
    rendered,
    replaced_by,
    waiting_for_itself,
)
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Approval, ContentVersion, Operation, Rejection, Step
from opsledger.ledger.records import Loaded, lock
from opsledger.lib.ids import new_id
from opsledger.rules import record, revisions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.settling import Moment


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    revision: int  # that was rejected
    # the approved revision whose request waits or goes again; None: the step is ended
    returned_to: int | None
    approved_again: bool  # by the person who rejected


def settle_revision_rejection(
    step_id: UUID,
    revision: int,
    *,
    covered_digest: str,
    version: int,
    by: By,
    reason: str,
    returns: bool = False,
) -> RejectedRequest:
    """Rejects one request that is approved by itself, as it was shown.

    1. The content's row is locked, then the operation; `version` is the operation's, as it was read.
    2. With `returns`, the step goes back to the newest request of it that was approved: another revision under a new key,
       approved anew where this person may. Without, the step is ended; what was sent before it had no effect.
    3. The digest must be of what waits. A difference is ContentStale, and nothing is written.

    Refused where no earlier request is approved, or where the one that waits is that request; NotEligible for anybody but a
    person who may reject here.
    """
    check_reason(reason)
    with transaction.atomic(durable=True):
        lock_content_of(step_id)
        waiting = _waiting(step_id, version)
        team_id, content = belongs_to(step_id)
        has_role(team_id, by)
        back = _back(waiting, by) if returns else None
        if back is not None:
            content = (content[0], back.content_number)
        run = Pass(new_id(), by, {step_id: barred(asked(team_id, [waiting], content))[step_id]})
        facts = _facts(waiting, revision, covered_digest, reason)
        change_here({waiting.operation_id: _change(run, waiting, back, facts)})
        if not run.seen or run.seen[0].revision != revision or digest_of(run.seen) != covered_digest:
            raise ContentStale("The request changed while you were reading it.")
        _record_approval(run, team_id, back)
        Rejection.objects.create(
            id=new_id(), team_id=team_id, step_id=step_id, revision=revision, rejected_by_id=by.person_id,
            rejected_at=database_now(), rejected_count=1,
        )  # fmt: skip
        return RejectedRequest(revision, back.revision if back else None, bool(run.approved))


def _waiting(step_id: UUID, version: int) -> WaitingStep:
    """What waits, read under its operation's lock; ContentStale when it does not any more, or is at another version."""
    operation_id = Step.objects.values_list("operation_id", flat=True).get(pk=step_id)
    lock([operation_id])
    waiting = waiting_for_itself(step_id)
    if waiting is None:
        raise ContentStale(told_of_step(step_id))
    if Operation.objects.values_list("version", flat=True).get(pk=operation_id) != version:
        raise ContentStale("This operation changed while you were reading it.")
    return waiting


def _back(waiting: WaitingStep, by: By) -> ApprovedBefore:
    found = approved_before(waiting.step_id)
    if found is None:
        raise Refused(
            "No earlier request of this step is approved, so it can’t return to one.", field="return"
        )
    replaced = replaced_by([waiting.operation_id])
    if replaced:
        raise Refused(
            f"Operation {replaced[waiting.operation_id]} replaces this one, so nothing of it is sent again.",
            field="return",
        )
    return found


def _facts(waiting: WaitingStep, revision: int, covered_digest: str, reason: str) -> dict[str, Any]:
    return {
        "step": waiting.number,
        "revision": revision,
        "covered_digest": covered_digest,
        "reason": keep_text(waiting.operation_id, reason),
    }


def _change(run: Pass, waiting: WaitingStep, back: ApprovedBefore | None, facts: Mapping[str, Any]) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> record.Operation:
        run.seen += [rendered(loaded, waiting)] if still_waits(loaded, waiting) else []
        if not run.seen:  # decided or ended meanwhile: the digest tells
            return loaded.record.copy()
        if back is not None:
            return _returned(run, loaded, waiting, back, moment)
        hold = loaded.record.hold_on(waiting.number)
        assert hold is not None
        return answered(loaded.record, hold.id, Given(Answer.END_FAILED), moment)

    told = {**facts, "returned_to": back.revision if back else None}
    if back is not None and back.version_id is not None:
        told["content_number"] = back.content_number
    return Change(
        "request_rejected", run.by.actor, decide, told, closed_by=run.by.actor, answer="reject", revision_kind="moved",
        approval_id=run.approval_id, void_reason=f"revision {facts['revision']} was rejected",
    )  # fmt: skip


def _returned(
    run: Pass, loaded: Loaded, waiting: WaitingStep, back: ApprovedBefore, moment: Moment
) -> record.Operation:
    if run.seen[0].content_digest == back.request_digest:
        raise Refused(
            "What waits is the approved request already. Approve it, or reject it without returning.",
            field="return",
        )
    loaded.revised[waiting.number] = back.params
    if back.content_number is not None and back.body is not None:
        loaded.contents[back.content_number] = back.body
    after = revisions.returned(loaded.record, waiting.number, back.content_number, moment)
    again = approvable(loaded, after, [waiting], run, moment)
    run.approved += [one for one, _ in again]
    given = {one.number: approval for one, approval in again}
    return revisions.approved(after, given, moment) if given else after


def _record_approval(run: Pass, team_id: UUID, back: ApprovedBefore | None) -> None:
    """Of the request that it is back at, where this person may give it: of its content version, or of the revision."""
    if not run.approved or back is None or run.until is None:
        return
    digest = digest_of(run.approved)
    if back.version_id is not None:
        shown = ContentVersion.objects.get(pk=back.version_id)
        record_approval(run, team_id, run.until, digest, content_version=shown)
        return
    one = run.approved[0]
    Approval.objects.create(
        id=run.approval_id, team_id=team_id, step_id=one.step_id, revision=one.revision,
        approved_by_id=run.by.person_id, approved_at=database_now(), expires_at=run.until, covered_digest=digest,
        covered_count=1,
    )  # fmt: skip

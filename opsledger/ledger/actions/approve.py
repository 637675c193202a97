"""Decisions over content versions and revisions: one approval for everything that waits, or a rejection (laws 7, 10, 14).

1. The content's row is locked, then the operations, ordered by their ids.
2. The version that the decision was made on, and every request that it covers, must be what the person has seen: all are
   rendered again under the locks. A difference is ContentStale, and nothing is written.
3. Nobody approves what they wrote, asked for, changed or recorded. Operations that only this person may not approve are
   left out and named.
4. Rows, reason and one line per chain are written in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.accounts.models import Person
from opsledger.journal.append import keep_text
from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, change_here
from opsledger.ledger.actions.content import (
    append_content_line,
    move_operations,
    set_state,
)
from opsledger.ledger.actions.deciding import By, Refused, check_reason
from opsledger.ledger.approvals import (
    Asked,
    CoveredStep,
    WaitingStep,
    approvers,
    barred,
    barred_by_version,
    batches,
    digest_of,
    rendered,
    replaced_by,
    waiting_for_itself,
    waiting_for_version,
)
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Approval, Content, ContentVersion, Hold, Step
from opsledger.ledger.records import Loaded, lock
from opsledger.lib.ids import new_id
from opsledger.rules import revisions
from opsledger.rules.content import VersionState
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment
from opsledger.rules.states import HoldReason


class ContentStale(Exception):
    """The decision was made on something older; nothing was changed. Carries the version as it is now, if it is about one.

    `sentence` says what became of it, and by whom.
    """

    def __init__(self, sentence: str, version: ContentVersion | None = None) -> None:
        super().__init__(f"{sentence} Nothing was changed.")
        self.sentence, self.version = sentence, version


class NotEligible(Exception):
    """This person may not approve this. `why` is a sentence."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An operation that waits on, because this person may not approve it."""

    operation_id: UUID
    operation_text_id: str
    why: str
    replaced: bool = False  # by another operation: nobody may approve it


@dataclass(frozen=True, slots=True)
class Approved:
    approval_id: UUID
    approved_count: int  # requests
    left_out: tuple[LeftOut, ...]
    until: datetime  # how long it is good for a first send


@dataclass(slots=True)
class Pass:
    """What one approval has come to while its batches are written. All of it is undone when the digest differs."""

    approval_id: UUID
    by: By
    unable: Mapping[UUID, Mapping[UUID, str]]  # per step: who may not, and why
    seen: list[CoveredStep] = field(default_factory=list)
    approved: list[CoveredStep] = field(default_factory=list)
    left_out: dict[UUID, LeftOut] = field(default_factory=dict)
    until: datetime | None = None
    replaced: Mapping[UUID, str] = field(
        default_factory=dict
    )  # operations that must not be sent, and for which

    def may(self, step_id: UUID) -> bool:
        return self.by.person_id not in self.unable[step_id]

    def why_not(self, operation_id: UUID, step_id: UUID) -> str:
        """Why this person leaves this request out; "" when it is approved."""
        if operation_id in self.replaced:
            return f"operation {self.replaced[operation_id]} replaces it, and both would take effect."
        return "" if self.may(step_id) else f"you {self.unable[step_id][self.by.person_id]}."


# Approving


def settle_approval(
    version_id: UUID, *, covered_digest: str, version: int, by: By, reason: str = ""
) -> Approved:
    """Approves a content version together with every request that waits for it, as they were shown.

    ContentStale when the version or anything it covers is not as it was read; of two at once the first wins. NotEligible
    for anybody but a person who may approve here and is neither its author nor its requester. What comes to wait for the
    version later needs an approval of its own.
    """
    check_reason(reason, asked="")
    with transaction.atomic(durable=True):
        row = locked_version(version_id, version)
        if row.state not in {VersionState.PROPOSED, VersionState.APPROVED}:
            raise ContentStale(told(row), row)
        _may_approve(row.team_id, barred_by_version(row.author_person_id, row.requested_by_person_id), by)
        waiting = waiting_for_version(row.of_id, row.number)
        run = _approve(row.team_id, waiting, covered_digest, by, (row.of_id, row.number), row)
        until = run.until or database_now() + timedelta(seconds=_good_seconds(row))
        record_approval(run, row.team_id, until, covered_digest, content_version=row)
        _decide(row, VersionState.APPROVED, by, reason, run)
    move_operations(row.of_id)
    return Approved(run.approval_id, len(run.approved), tuple(run.left_out.values()), until)


def settle_revision_approval(
    step_id: UUID, revision: int, *, covered_digest: str, by: By, reason: str = ""
) -> Approved:
    """Approves one request that is approved by itself: a revision that a person made, or one that shows no content."""
    check_reason(reason, asked="")
    with transaction.atomic(durable=True):
        lock_content_of(step_id)
        waiting = waiting_for_itself(step_id)
        if waiting is None:
            raise ContentStale(told_of_step(step_id))
        lock([waiting.operation_id])
        _refuse_what_must_not_be_sent(waiting)
        run = _approve_one(waiting, revision, covered_digest, by, reason)
        assert run.until is not None
        team_id, _ = belongs_to(step_id)
        Approval.objects.create(
            id=run.approval_id, team_id=team_id, step_id=step_id, revision=revision, approved_by_id=by.person_id,
            approved_at=database_now(), expires_at=run.until, covered_digest=covered_digest, covered_count=1,
        )  # fmt: skip
        return Approved(run.approval_id, 1, (), run.until)


def lock_content_of(step_id: UUID) -> None:
    """FOR NO KEY UPDATE on ledger_content, before any operation: its versions are not decided meanwhile."""
    _, (of_id, _) = belongs_to(step_id)
    if of_id is not None:
        Content.objects.select_for_update(of=("self",), no_key=True).get(pk=of_id)


def _refuse_what_must_not_be_sent(waiting: WaitingStep) -> None:
    """Content that was rejected, and what another operation replaces. Nobody may approve these as they are."""
    replaced = replaced_by([waiting.operation_id])
    if replaced:
        name = replaced[waiting.operation_id]
        raise Refused(
            f"Operation {name} replaces this one, and both would take effect. End this one instead."
        )
    _, (of_id, number) = belongs_to(waiting.step_id)
    versions = ContentVersion.objects.filter(of_id=of_id, state=VersionState.REJECTED)
    row = versions.filter(number=number).first() if number is not None else None
    if row is not None:
        raise Refused(
            f"It shows version {row.number} of its content, which was rejected by {_name(row.decided_by)}."
            " Propose another version; this request then shows it."
        )


def _approve_one(waiting: WaitingStep, revision: int, covered_digest: str, by: By, reason: str) -> Pass:
    team_id, content = belongs_to(waiting.step_id)
    unable = barred(asked(team_id, [waiting], content))
    _may_approve(team_id, unable[waiting.step_id], by)
    run = Pass(new_id(), by, unable)
    kept = {"reason": keep_text(waiting.operation_id, reason)} if reason.strip() else {}
    change_here(
        {waiting.operation_id: _approval_change(run, [waiting], {"approval": str(run.approval_id), **kept})}
    )
    if not run.seen:
        raise ContentStale(told_of_step(waiting.step_id))
    if digest_of(run.seen) != covered_digest or run.seen[0].revision != revision:
        raise ContentStale("The request changed while you were reading it.")
    return run


def _approve(
    team_id: UUID,
    waiting: Sequence[WaitingStep],
    covered_digest: str,
    by: By,
    content: tuple[UUID, int],
    row: ContentVersion,
) -> Pass:
    run = Pass(new_id(), by, barred(asked(team_id, waiting, content)))
    facts = {"approval": str(run.approval_id), "content": str(content[0]), "content_number": content[1]}
    lock(one.operation_id for one in waiting)
    run.replaced = replaced_by({one.operation_id for one in waiting})
    for batch in batches(waiting):
        change_here({key: _approval_change(run, steps, facts) for key, steps in by_operation(batch).items()})
    if digest_of(run.seen) != covered_digest:
        raise ContentStale("What this version covers changed while you were reading it.", row)
    if waiting and not run.approved:
        raise NotEligible(_all_left_out(run))
    return run


def _all_left_out(run: Pass) -> str:
    first = next((one for one in run.left_out.values() if not one.replaced), None)
    if first is None:
        why = next(iter(run.left_out.values())).why
        return f"Nothing that waits for this may be sent any more: {why} Nothing was changed."
    return f"Every operation that waits for this needs somebody else: {first.why} Nothing was changed."


def _approval_change(run: Pass, steps: Sequence[WaitingStep], facts: Mapping[str, Any]) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        seen = [rendered(loaded, one) for one in steps if still_waits(loaded, one)]
        run.seen += seen
        given: dict[int, revisions.Approval] = {}
        for one in seen:
            if why := run.why_not(loaded.id, one.step_id):
                replaced = loaded.id in run.replaced
                run.left_out[loaded.id] = LeftOut(loaded.id, loaded.operation_id, why, replaced)
                continue
            until = moment.now + timedelta(seconds=approved_for_seconds(loaded))
            given[one.number] = revisions.Approval(one.content_digest, until)
            run.approved.append(one)
            run.until = max(run.until or until, until)
        return revisions.approved(loaded.record, given, moment) if given else loaded.record.copy()

    return Change(
        kind="approved",
        actor=run.by.actor,
        decide=decide,
        facts=facts,
        closed_by=run.by.actor,
        answer="approve",
        approval_id=run.approval_id,
        void_reason="it was approved anew",
        quiet=True,
    )


def still_waits(loaded: Loaded, waiting: WaitingStep) -> bool:
    hold = loaded.record.hold_on(waiting.number)
    return hold is not None and hold.reason is HoldReason.APPROVAL_NEEDED


def approved_for_seconds(loaded: Loaded) -> int:
    return definitions.workflow(loaded.workflow_version_id).approved_for_seconds


def _good_seconds(row: ContentVersion) -> int:
    """By the workflow's present version, where nothing waits whose own version could be asked."""
    current = row.workflow.current_id
    return definitions.workflow(current).approved_for_seconds if current else 1


def record_approval(
    run: Pass, team_id: UUID, until: datetime, covered_digest: str, *, content_version: ContentVersion
) -> None:
    Approval.objects.create(
        id=run.approval_id, team_id=team_id, content_version=content_version, approved_by_id=run.by.person_id,
        approved_at=database_now(), expires_at=until, covered_digest=covered_digest,
        covered_count=len(run.approved),
    )  # fmt: skip


def _decide(row: ContentVersion, state: VersionState, by: By, reason: str, run: Pass) -> None:
    content = row.of
    replaced = [
        number
        for number in content.versions.filter(state=VersionState.APPROVED).values_list("number", flat=True)
        if number != row.number
    ]
    set_state(content, replaced, VersionState.SUPERSEDED)
    kept = keep_text(row.of_id, reason) if reason.strip() else None
    text = {"decision_text": kept["text"]} if kept else {}
    set_state(content, [row.number], state, decided_by=by.actor, decided_at=database_now(), **text)
    if content.target_number is None or content.target_number <= row.number:  # else a newer one is proposed
        # whatever is still at an earlier version and can change is moved to this one, and asks for its own approval
        Content.objects.filter(pk=row.of_id).update(target_number=row.number, moving=True)
    facts = {
        "number": row.number,
        "approval": str(run.approval_id),
        "covered_digest": digest_of(run.seen),
        "covered_count": len(run.approved),
        "left_out": [str(one) for one in run.left_out] or None,
        "reason": kept,
    }
    states = {row.number: state} | dict.fromkeys(replaced, VersionState.SUPERSEDED)
    append_content_line(row.of_id, "content_approved", by, states, facts)


# Shared


def locked_version(version_id: UUID, version: int) -> ContentVersion:
    """The version under its content's lock (FOR NO KEY UPDATE on ledger_content), as it is now."""
    of_id = ContentVersion.objects.values_list("of_id", flat=True).get(pk=version_id)
    content = Content.objects.select_for_update(of=("self",), no_key=True).get(pk=of_id)
    row = ContentVersion.objects.select_related("workflow").get(pk=version_id)
    row.of = content
    if row.version != version:
        raise ContentStale(told(row), row)
    return row


def told(row: ContentVersion) -> str:
    """What became of it meanwhile, for the one who came second."""
    if row.state == VersionState.PROPOSED:
        return f"Version {row.number} of this content is at another version by now."
    by = f" by {_name(row.decided_by)}" if row.decided_by else ""
    return f"Version {row.number} of this content was {row.state}{by} meanwhile."


def told_of_step(step_id: UUID) -> str:
    """What became meanwhile of the request that waited here, for the one who came second."""
    asked = Hold.objects.filter(step_id=step_id, reason=HoldReason.APPROVAL_NEEDED, closed_at__isnull=False)
    operation_id = Step.objects.values_list("operation_id", flat=True).get(pk=step_id)
    last = asked.filter(operation_id=operation_id).order_by("-closed_at").first()
    did = _DECIDED.get(last.answer) if last else None
    if last is None or did is None:
        return "This request does not wait for an approval of its own any more."
    return f"This request was {did} by {_name(last.closed_by)} meanwhile."


_DECIDED = {"approve": "approved", "reject": "rejected"}


def _name(actor: str) -> str:
    kind, _, number = actor.partition(":")
    found = Person.objects.filter(pk=number).first() if kind == "person" else None
    return found.display_name if found else actor


def has_role(team_id: UUID, by: By) -> None:
    if by.person_id is None:
        raise NotEligible("Only a person approves or rejects: an automation’s token proposes.")
    if by.person_id not in approvers([team_id])[team_id]:
        raise NotEligible("To approve or reject, you need the role owner in this team.")


def _may_approve(team_id: UUID, unable: Mapping[UUID, str], by: By) -> None:
    has_role(team_id, by)
    if by.person_id in unable:
        raise NotEligible(
            f"You {unable[by.person_id]}, so somebody else has to approve it. Nothing was changed."
        )


def asked(
    team_id: UUID, waiting: Sequence[WaitingStep], content: tuple[UUID | None, int | None]
) -> list[Asked]:
    return [Asked(team_id, one.operation_id, one.step_id, *content) for one in waiting]


def belongs_to(step_id: UUID) -> tuple[UUID, tuple[UUID | None, int | None]]:
    """The step's team, and the content version that it shows."""
    team_id, of_id, number = Step.objects.values_list(
        "team_id", "operation__content_id", "content_number"
    ).get(pk=step_id)
    return team_id, (of_id, number) if number is not None else (None, None)


def by_operation(batch: Sequence[WaitingStep]) -> dict[UUID, list[WaitingStep]]:
    found: dict[UUID, list[WaitingStep]] = {}
    for one in batch:
        found.setdefault(one.operation_id, []).append(one)
    return found

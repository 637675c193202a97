"""How a proposed answer ends: accepted with the decision that it becomes, or set aside. Inside the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold, Proposal


class NotOpen(Exception):
    """The proposal can't be accepted as it stands; the text says why."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the journal says beside the decision, and the person whose thought it was."""

    facts: Mapping[str, Any]
    person_id: UUID | None


def accept_here(proposal_id: UUID, hold: Hold, actor: str) -> Accepted:
    """Ends an open proposal as accepted. The hold is locked; it must be at the version that the proposal was made on."""
    row = Proposal.objects.select_for_update(of=("self",)).filter(pk=proposal_id, hold_id=hold.pk).first()
    if row is None or row.ended_at is not None:
        raise NotOpen("This proposal has ended by now. Nothing was changed; look at the hold again.")
    if row.hold_version != hold.version:
        raise NotOpen(
            "This proposal was made on an older state of the hold. Nothing was changed; give the answer yourself."
        )
    end_here(row, Proposal.Ending.ACCEPTED, actor)
    facts = {"proposal": str(row.pk), "proposed_by": row.proposer, "proposal_author": row.author_kind}
    reason = json.loads(row.texts).get("reason")
    return Accepted(facts | ({"proposal_reason": reason} if reason else {}), row.proposer_person_id)


def end_here(row: Proposal, how: str, actor: str) -> None:
    Proposal.objects.filter(pk=row.pk, ended_at__isnull=True).update(
        ended_at=database_now(), ended_how=how, ended_by=actor
    )

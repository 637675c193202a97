"""What every writer of a hold needs: its lines in the journal, in the chain of what it is about, and who was told of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from opsledger.journal.append import Line, body
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.models import Hold
from opsledger.rules.absence import decisive_digest
from opsledger.rules.states import HoldReason

# Questions that concern others than whoever has the hold; the sweep tells these, whoever got it first.
CONCERNING_OTHERS = (
    HoldReason.APPROVAL_NEEDED,
    HoldReason.DISPUTED,
    HoldReason.PAUSED,
    HoldReason.ACCESS_REFUSED,
    HoldReason.CIRCUIT_OPEN,
)
CONCERNING_OTHERS_SQL = ", ".join(f"'{reason.value}'" for reason in CONCERNING_OTHERS)
# `told_at` of a hold that is given to somebody, who is told by that alone.
TOLD_WITH_OWNER = (
    f"CASE WHEN reason IN ({CONCERNING_OTHERS_SQL}) THEN told_at ELSE coalesce(told_at, now()) END"
)


def line_of_hold(
    hold_id: UUID,
    operation_id: UUID | None,
    destination_id: UUID | None,
    event_id: UUID | None,
    *,
    kind: str,
    actor: str,
    facts: Mapping[str, Any],
) -> Line:
    line = body({"hold": str(hold_id), **facts})
    if operation_id:
        return Line("operation", operation_id, kind, actor, line)
    if destination_id:
        return Line("destination", destination_id, kind, actor, line)
    assert event_id is not None
    return Line("event", event_id, kind, actor, line)


def facts_told(hold_rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """For a journal line that opens holds about steps, or changes what is known of them: by the hold's id, the digest of
    what is decided by among its facts. `verify_ledger` compares it with the newest line that has one; lines of before
    these digests have none."""
    told = {row["id"]: decisive_digest(json.loads(row["facts"])) for row in hold_rows}
    return {"hold_facts": told} if told else {}


def line_on_subject(hold: Hold, kind: str, by: By, facts: Mapping[str, Any]) -> Line:
    """A line about a hold on its own subject: its operation, its destination or its event."""
    about = (hold.pk, hold.operation_id, hold.destination_id, hold.event_id)
    return line_of_hold(*about, kind=kind, actor=by.actor, facts=facts)


def subject_of(hold: Hold) -> UUID:
    """The operation, destination or event whose chain a hold's lines stand in."""
    subject = hold.operation_id or hold.destination_id or hold.event_id
    assert subject is not None
    return subject

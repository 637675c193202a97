"""What every writer of a hold needs: its lines in the journal, in the chain of what it is about, and who was told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from opsledger.journal.append import Line, body
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

"""The journal's lines about a hold: they stand in the chain of what the hold is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from opsledger.journal.append import Line, body


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

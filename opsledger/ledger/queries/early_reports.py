"""Reports of a final effect whose record is nobody's so far: the newest of each destination, whatever history there is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from opsledger.lib.named_rows import named_rows

SHOWN_MAX = 5

_NEWEST = """
SELECT d.definition_id, newest.id, newest.action, newest.reference, newest.says, newest.told_at, e.event_id, source.slug
  FROM ledger_destination d
 CROSS JOIN LATERAL (
       SELECT r.* FROM ledger_earlyreport r
        WHERE r.team_id = d.team_id AND r.destination_id = d.definition_id ORDER BY r.id DESC LIMIT %s) newest
  JOIN ledger_event e ON e.id = newest.event_id
  JOIN ledger_definition source ON source.id = e.source_id
 WHERE d.team_id = %s ORDER BY d.definition_id, newest.id DESC
"""


@dataclass(frozen=True, slots=True)
class EarlyLine:
    id: UUID
    action: str
    reference: str
    says: str
    told_at: datetime
    event_id: str  # the source's own
    source: str


@dataclass(frozen=True, slots=True)
class EarlyReports:
    lines: tuple[EarlyLine, ...] = ()
    more: bool = False  # than are shown


def early_reports_of(team_id: UUID) -> dict[UUID, EarlyReports]:
    """By destination; those without any are left out."""
    found: dict[UUID, list[EarlyLine]] = {}
    for destination_id, *line in named_rows(_NEWEST, [SHOWN_MAX + 1, team_id]):
        found.setdefault(destination_id, []).append(EarlyLine(*line))
    return {
        one: EarlyReports(tuple(lines[:SHOWN_MAX]), len(lines) > SHOWN_MAX) for one, lines in found.items()
    }

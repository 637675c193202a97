"""What a list may be narrowed to."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from opsledger.lib.named_rows import named_rows


@dataclass(frozen=True, slots=True)
class Choices:
    destinations: list[str]
    workflows: list[str]


def choices(team_id: UUID) -> Choices:
    rows = named_rows(
        "SELECT kind, slug FROM ledger_definition WHERE team_id = %s AND kind IN ('destination', 'workflow')"
        " ORDER BY slug",
        [team_id],
    )
    return Choices(
        [row.slug for row in rows if row.kind == "destination"],
        [row.slug for row in rows if row.kind == "workflow"],
    )

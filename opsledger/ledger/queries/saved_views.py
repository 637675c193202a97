"""Saved views of a person and of their team, and who made them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger.models import SavedView
from opsledger.lib.named_rows import named_rows

TABS_MAX = 12  # saved views beside the built-in ones, each with its count
COUNT_MAX = 1_000  # of the holds of one saved view; more is shown as "1,000+"

_LINES = """
SELECT v.id, v.team_id, v.person_id, v.name, v.query, v.position, v.author_id, p.display_name AS author, v.made_at
  FROM ledger_savedview v JOIN person p ON p.id = v.author_id
"""


@dataclass(frozen=True, slots=True)
class SavedLine:
    id: UUID
    team_id: UUID
    person_id: UUID | None  # whose it is; None: the team's
    name: str
    query: str
    position: int
    author_id: UUID
    author: str
    made_at: datetime


def views_of(team_id: UUID, person_id: UUID) -> list[SavedLine]:
    """The person's own in this team, then the team's, each in the order of their places."""
    return _lines(
        "WHERE v.team_id = %s AND (v.person_id = %s OR v.person_id IS NULL)"
        " ORDER BY v.person_id IS NULL, v.position",
        team_id,
        person_id,
    )


def view_of(view_id: UUID, team_id: UUID) -> SavedLine | None:
    """One saved view of the team, also a colleague's own; None where the team has none such."""
    found = _lines("WHERE v.id = %s AND v.team_id = %s", view_id, team_id)
    return found[0] if found else None


def row_of(view_id: UUID, team_id: UUID) -> SavedView | None:
    """The same as a row, for the actions."""
    return SavedView.objects.filter(pk=view_id, team_id=team_id).first()


def _lines(where: str, *parameters: Any) -> list[SavedLine]:
    return [SavedLine(*row) for row in named_rows(f"{_LINES} {where}", parameters)]

"""Whose a page is: the team that an operation, a content version, a request, a replay, an incident or a selection is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import connection

# Kind of page: the prefix of its id, and the table that knows its team.
PAGES: Mapping[str, tuple[str, str]] = {
    "operation": ("op", "ledger_operation"),
    "version": ("cv", "ledger_contentversion"),
    "request": ("stp", "ledger_step"),
    "replay": ("rpl", "ledger_replay"),
    "incident": ("inc", "ledger_incident"),
    "selection": ("sel", "ledger_selection"),
}


def team_of(kind: str, number: UUID, team_ids: Sequence[UUID]) -> UUID | None:
    """The team; None when there is no such thing for these teams."""
    _prefix, table = PAGES[kind]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT team_id FROM {table} WHERE id = %s AND team_id = ANY(%s)", [number, list(team_ids)]
        )
        row = cursor.fetchone()
    return row[0] if row else None

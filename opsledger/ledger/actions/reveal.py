"""That somebody looked at sensitive values, or took the journal along: written before anything is shown."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.deciding import By


def record_revealed(subject_id: UUID, what: str, by: By, *, kind: str = "operation") -> None:
    """Commits one line of the subject's journal; `what` says which values (`params`, `evidence:…`), never their text."""
    with transaction.atomic(durable=True):
        append([Line(kind, subject_id, "revealed", by.actor, body({"what": what}))])


def record_exported(team_id: UUID, filters: Mapping[str, str], by: By) -> None:
    """Commits one line of the team's journal. `filters`: words of ours and ids, no free text."""
    with transaction.atomic(durable=True):
        append([Line("team", team_id, "exported", by.actor, body({"what": "journal", **filters}))])

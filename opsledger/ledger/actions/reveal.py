"""That somebody looked at sensitive values: written before they are shown."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.deciding import By


def record_revealed(subject_id: UUID, what: str, by: By, *, kind: str = "operation") -> None:
    """Commits one line of the subject's journal; `what` says which values (`params`, `evidence:…`), never their text."""
    with transaction.atomic(durable=True):
        append([Line(kind, subject_id, "revealed", by.actor, body({"what": what}))])

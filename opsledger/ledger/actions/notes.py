"""Notes about holds and operations. A note never changes a state."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.deciding import By, Refused, check_length
from opsledger.ledger.actions.hold_lines import line_on_subject, subject_of
from opsledger.ledger.models import Hold


def check_note(text: str) -> None:
    """Refused for an empty note, and for one that is too long."""
    if not text.strip():
        raise Refused("The note is empty.", field="text")
    check_length(text, "The note", "text")


def settle_note(hold_id: UUID, text: str, by: By) -> None:
    """Kept in the chain of what the hold is about."""
    check_note(text)
    with transaction.atomic(durable=True):
        hold = Hold.objects.get(pk=hold_id)
        note = keep_text(subject_of(hold), text)
        append([line_on_subject(hold, "noted", by, {"note": note})])


def settle_note_on_operation(operation_id: UUID, text: str, by: By) -> None:
    check_note(text)
    with transaction.atomic(durable=True):
        note = keep_text(operation_id, text)
        append([Line("operation", operation_id, "noted", by.actor, body({"note": note}))])

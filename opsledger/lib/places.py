"""A place in a list that is ordered by a moment, then by an id, as it stands in an address or a cursor."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from opsledger.lib import ids


def place_text(prefix: str, at: datetime, number: UUID) -> str:
    return f"{at.isoformat()}~{ids.public(prefix, number)}"


def read_place(prefix: str, text: str) -> tuple[datetime, UUID] | None:
    """The exact inverse; None for anything else, a moment without its zone included."""
    at_text, _, id_text = text.partition("~")
    number = ids.parse(prefix, id_text)
    try:
        at = datetime.fromisoformat(at_text)
    except ValueError:
        return None
    return (at, number) if number is not None and at.tzinfo is not None else None

"""What the search at the top means: exactly one operation, or a list."""

from __future__ import annotations

from uuid import UUID

from opsledger.ledger.queries.names import find_named
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.operations import page_of


def single_hit(text: str, team_id: UUID) -> UUID | None:
    """The one operation that this text names: by either of its ids, by a reference, or by an event’s id.

    Identifiers are compared byte for byte. Text that names two different operations names none.
    """
    hits = {find_named(team_id, text)}
    for asked in (OperationFilter(reference=text, limit=2), OperationFilter(event_id=text, limit=2)):
        hits |= {line.id for line in page_of(team_id, asked).lines}
    hits.discard(None)
    return hits.pop() if len(hits) == 1 else None

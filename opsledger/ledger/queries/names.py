"""How an operation is named: by its number, `op_…`, or by the own id that whoever recorded it gave it.

What reads as a number is that number and nothing else, wherever an operation is named: otherwise an own id that spells the
number of another operation would be taken for it. No such own id is recorded (`rules.identity.refuse_operation_id`); an
operation that has one from before is found by its own number.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from opsledger.lib.ids import parse
from opsledger.lib.named_rows import named_rows
from opsledger.rules.reading import can_be_kept

_BY_NAME = """
SELECT id, id AS number, NULL AS own FROM ledger_operation WHERE team_id = %s AND id = ANY(%s)
 UNION ALL
SELECT id, NULL, operation_id FROM ledger_operation WHERE team_id = %s AND operation_id = ANY(%s)
"""


def read_name(text: str) -> UUID | str:
    """The number that this text is, or else the own id that it is."""
    number = parse("op", text)
    return text if number is None else number


def find_named(team_id: UUID, text: str) -> UUID | None:
    """The team's operation of this name; None when it has none."""
    name = read_name(text)
    if isinstance(name, str) and not can_be_kept(name):
        return None  # nothing is recorded under it
    column = "operation_id" if isinstance(name, str) else "id"
    rows = named_rows(
        f"SELECT id FROM ledger_operation WHERE team_id = %s AND {column} = %s", [team_id, name]
    )
    return rows[0].id if rows else None


def find_all_named(team_id: UUID, texts: Collection[str]) -> dict[str, UUID]:
    """The same for many, with one query; what the team does not have is left out."""
    names = {text: read_name(text) for text in texts}
    numbers = [name for name in names.values() if isinstance(name, UUID)]
    owns = [name for name in names.values() if isinstance(name, str) and can_be_kept(name)]
    if not numbers and not owns:
        return {}
    rows = named_rows(_BY_NAME, [team_id, numbers, team_id, owns])
    found: dict[UUID | str, UUID] = {row.number or row.own: row.id for row in rows}
    return {text: found[name] for text, name in names.items() if name in found}

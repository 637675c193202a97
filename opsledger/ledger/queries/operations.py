"""Which operations of a team: found by an identifier, or listed newest first.

Pages go by id, downwards; there is no OFFSET and no COUNT. A filter follows an index, or is checked on the newest
WINDOW operations of a page: such a page may hold fewer items than asked for, and its cursor goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from opsledger.ledger.models.operations import REFERENCE_START_LENGTH, reference_start
from opsledger.ledger.queries.names import read_name
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.operation_lines import OperationLine, lines_of
from opsledger.lib.ids import parse
from opsledger.lib.named_rows import named_rows

WINDOW = 2_000  # operations of one page that are looked at for a filter which no index follows
MATCHES_MAX = 500  # of one kind of identifier; more is narrowed down by typing more of it


@dataclass(frozen=True, slots=True)
class Page:
    lines: list[OperationLine]
    next: str | None  # the cursor; None when nothing is left


def page_of(team_id: UUID, asked: OperationFilter) -> Page:
    """One page: the ids, then the lines of these ids; a fixed number of statements."""
    ids, following = _pick(team_id, asked)
    return Page(lines_of(team_id, ids), asked.cursor_after(following) if following else None)


def every_id(team_id: UUID, asked: OperationFilter, most: int) -> list[UUID]:
    """The ids of all operations that match, newest first, page by page; no more than `most`."""
    asked = replace(asked, limit=min(WINDOW - 1, most), cursor=None)
    found: list[UUID] = []
    while True:
        ids, following = _pick(team_id, asked)
        found += ids
        if following is None or len(found) >= most:
            return found[:most]
        asked = replace(asked, cursor=following)


def _pick(team_id: UUID, asked: OperationFilter) -> tuple[list[UUID], UUID | None]:
    residual, checked = _residual(asked)
    size = WINDOW if residual else asked.limit + 1
    query, parameters = _scan(team_id, asked, size)
    matches = " AND ".join(residual) or "true"
    rows = named_rows(
        f"WITH scanned AS MATERIALIZED ({query}) SELECT o.id, ({matches}) AS matches FROM scanned o ORDER BY o.id DESC",
        [*parameters, *checked],
    )
    found = [row.id for row in rows if row.matches]
    if len(found) > asked.limit:
        return found[: asked.limit], found[asked.limit - 1]
    return found, rows[-1].id if residual and len(rows) == size else None


_COLUMNS = "o.id, o.state, o.workflow_slug"


def _scan(team_id: UUID, asked: OperationFilter, size: int) -> tuple[str, list[Any]]:
    """The newest `size` operations that the index of the leading filter gives."""
    parts: list[str] = ["o.team_id = %s"]
    parameters: list[Any] = [team_id]
    if asked.cursor is not None:
        parts.append("o.id < %s")
        parameters.append(asked.cursor)
    tail = f"ORDER BY o.id DESC LIMIT {size}"
    if asked.by_identifier:
        query, found = _by_identifier(team_id, asked)
        return (
            f"SELECT {_COLUMNS} FROM ledger_operation o WHERE {_all(parts)} AND o.id IN ({query}) {tail}",
            [
                *parameters,
                *found,
            ],
        )
    if asked.updated_since is not None:
        # Without the team in the innermost part only the index on updated_at fits.
        changed = "SELECT * FROM ledger_operation WHERE updated_at >= %s OFFSET 0"
        return f"SELECT {_COLUMNS} FROM ({changed}) o WHERE {_all(parts)} {tail}", [
            asked.updated_since,
            *parameters,
        ]
    if asked.owner:
        parts += ["o.ended_at IS NULL", "o.owner_id = (SELECT id FROM person WHERE email = %s)"]
        parameters.append(asked.owner.lower())
    elif asked.states:
        one = f"(SELECT {_COLUMNS} FROM ledger_operation o WHERE {_all(parts)} AND o.state = %s {tail})"
        branches = " UNION ALL ".join([one] * len(asked.states))
        values = [value for state in asked.states for value in (*parameters, state.value)]
        return f"SELECT {_COLUMNS} FROM ({branches}) o {tail}", values
    elif asked.workflow:
        parts.append("o.workflow_slug = %s")
        parameters.append(asked.workflow)
    return f"SELECT {_COLUMNS} FROM ledger_operation o WHERE {_all(parts)} {tail}", parameters


def _residual(asked: OperationFilter) -> tuple[list[str], list[Any]]:
    """What the scan's index does not say, checked row by row."""
    parts: list[str] = []
    values: list[Any] = []
    leads = asked.by_identifier or asked.updated_since is not None
    if asked.states and (leads or asked.owner):
        parts.append("o.state = ANY(%s)")
        values.append([state.value for state in asked.states])
    if asked.workflow and (leads or asked.owner or asked.states):
        parts.append("o.workflow_slug = %s")
        values.append(asked.workflow)
    if asked.owner and leads:
        parts.append(
            "EXISTS (SELECT 1 FROM ledger_operation w JOIN person p ON p.id = w.owner_id"
            " WHERE w.id = o.id AND p.email = %s)"
        )
        values.append(asked.owner.lower())
    if asked.updated_since is not None and asked.by_identifier:
        parts.append("EXISTS (SELECT 1 FROM ledger_operation w WHERE w.id = o.id AND w.updated_at >= %s)")
        values.append(asked.updated_since)
    if asked.destination:
        parts.append(
            "EXISTS (SELECT 1 FROM ledger_step s WHERE s.operation_id = o.id AND s.destination_slug = %s)"
        )
        values.append(asked.destination)
    return parts, values


def _by_identifier(team_id: UUID, asked: OperationFilter) -> tuple[str, list[Any]]:
    """The ids that every given identifier leads to; `search` takes any kind."""
    queries: list[str] = []
    values: list[Any] = []

    def also(query: str, *given: Any) -> None:
        queries.append(query)
        values.extend(given)

    if asked.operation_id:
        name = read_name(asked.operation_id)
        also(_OWN_ID if isinstance(name, str) else _NUMBER, team_id, name)
    if asked.reference:
        also(_REFERENCE.format("="), team_id, asked.reference[:REFERENCE_START_LENGTH], asked.reference)
    if asked.event_id:
        also(_EVENT, team_id, asked.event_id, asked.event_id)
    if asked.search:
        beginning, start = (
            _escaped(text) + "%" for text in (asked.search, asked.search[:REFERENCE_START_LENGTH])
        )
        number = parse("op", asked.search)
        also(
            f"({_BEGINNING}) UNION ({_REFERENCE.format('LIKE')}) UNION ({_EVENT}) UNION (SELECT %s::uuid)",
            *(team_id, beginning, team_id, start, beginning, team_id, asked.search, asked.search, number),
        )
    return " INTERSECT ".join(f"({query})" for query in queries), values


_NUMBER = "SELECT id FROM ledger_operation WHERE team_id = %s AND id = %s"
_OWN_ID = "SELECT id FROM ledger_operation WHERE team_id = %s AND operation_id = %s"
_BEGINNING = (
    f"SELECT id FROM ledger_operation WHERE team_id = %s AND operation_id LIKE %s LIMIT {MATCHES_MAX}"
)
_REFERENCE = (
    "SELECT operation_id FROM ledger_step WHERE team_id = %s AND reference IS NOT NULL"
    f" AND {reference_start('reference')} {{0}} %s AND reference {{0}} %s LIMIT {MATCHES_MAX}"
)
_EVENT = (
    "SELECT l.operation_id FROM ledger_event e JOIN ledger_operationevent l ON l.event_id = e.id"
    f" WHERE e.team_id = %s AND left(e.event_id, 120) = left(%s, 120) AND e.event_id = %s LIMIT {MATCHES_MAX}"
)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts)

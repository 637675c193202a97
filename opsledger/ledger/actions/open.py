"""Opening operations: one statement for any number of them, with the unique constraint as referee.

1. The record is built and brought to rest by the rules: first step ready, its request rendered.
2. INSERT … ON CONFLICT DO NOTHING writes operation, parameters, steps, requests and the journal's first line; then holds.
3. What came back was new. The others are compared in a second statement (in the same one the loser would see nothing):
   the same digest is the same operation again, another one is a conflict that names the fields.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.change import Changed, name_unapprovable
from opsledger.ledger.actions.moulds import Casting
from opsledger.ledger.actions.new_operations import (
    NewOperation,
    Row,
    ShownContent,
    begin,
    columns_of,
    row_of,
)
from opsledger.ledger.actions.opened import Opened, compare, known_of
from opsledger.ledger.actions.together import Together
from opsledger.ledger.clock import lately_now
from opsledger.ledger.records import Loaded, lock
from opsledger.ledger.sql import statement
from opsledger.lib.ids import supply

FEW = 8  # rows of one caller; more of them are a batch by themselves
TOGETHER_MAX = 64
_IDS_EACH = 3  # an operation and two steps: made at once

__all__ = [
    "Link",
    "NewOperation",
    "Opened",
    "ShownContent",
    "add_events_here",
    "open_operations",
    "open_operations_here",
]


def open_operations(wanted: Sequence[NewOperation]) -> list[Opened]:
    """Records intended operations. In order, one answer each; a conflict spoils no other. Call it outside transactions.

    Nearly everything of an operation is written by one statement, which is a transaction of its own. Only holds and links
    to events need others that commit with it.
    """
    rows = _rows(wanted)
    if not any(one.event_id for one in wanted) and not any(row.holds for row in rows):
        return _open(wanted, rows)
    with transaction.atomic(durable=True):
        return _open(wanted, rows)


def open_operations_here(wanted: Sequence[NewOperation]) -> list[Opened]:
    """The same inside a transaction that the caller has opened (an event and its operation commit together)."""
    return _open(wanted, _rows(wanted))


def _open(wanted: Sequence[NewOperation], rows: Sequence[Row]) -> list[Opened]:
    new = _insert(rows)
    known = known_of(
        (one.team_id, one.operation_id) for one, row in zip(wanted, rows, strict=True) if row.id not in new
    )
    answers = [
        Opened(row.id, row.state, True)
        if row.id in new
        else compare(one, known[one.team_id, one.operation_id], row.digest)
        for one, row in zip(wanted, rows, strict=True)
    ]
    links = [
        Link(answer.id, one.event_id, one.actor, answer.new)
        for one, answer in zip(wanted, answers, strict=True)
        if one.event_id is not None and not answer.differs
    ]
    again = [link.operation_id for link in links if not link.new]
    if again:
        lock(again)  # in the order of their ids, as every writer does
    add_events_here(links)
    return answers


def _rows(wanted: Sequence[NewOperation]) -> list[Row]:
    """What is written of each: cast in the mould of its kind where that fits, else made by the rules."""
    now = lately_now()
    # One supply for all of them: pages show operations in the order of their ids.
    ids = supply(_IDS_EACH * len(wanted))
    casting = Casting(now, ids=ids)
    made = [(one, casting.cast(one) or begin(one, now, ids=ids)) for one in wanted]
    _name_unapprovable([(loaded, one.actor) for one, loaded in made if isinstance(loaded, Loaded)])
    return [row_of(one, whole) if isinstance(whole, Loaded) else whole for one, whole in made]


def _name_unapprovable(begun: Sequence[tuple[Loaded, str]]) -> None:
    name_unapprovable(
        [Changed(loaded, loaded.record) for loaded, _ in begun],
        recorders={loaded.id: actor for loaded, actor in begun},
    )


def _insert(rows: Sequence[Row]) -> set[UUID]:
    """Which of them are new and written now. Callers of few rows who come at the same moment share a statement."""
    if not rows:
        return set()
    if connection.in_atomic_block or len(rows) > FEW:
        return _write(rows)
    return _insert_together(rows)


def _write(rows: Sequence[Row]) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(statement("open_operations"), columns_of(rows))
        new = {row[0] for row in cursor.fetchall()}
        holds = [hold for row in rows if row.id in new for hold in row.holds]
        if holds:
            cursor.execute(statement("new_holds"), [json.dumps(holds)])
    return new


_insert_together = Together(_write, most=TOGETHER_MAX)


class Link(NamedTuple):
    """An event that belongs to an operation."""

    operation_id: UUID
    event_id: UUID
    actor: str
    new: bool  # the operation is recorded in this transaction, by this event


def add_events_here(links: Sequence[Link]) -> None:
    """Links each event to its operation; another event of the same action is added without a conflict.

    Operations that are not new are locked before (FOR UPDATE on ledger_operation, ordered by id).
    """
    if not links:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _ADD_EVENTS, [[link.operation_id for link in links], [link.event_id for link in links]]
        )
        added = set(cursor.fetchall())
    lines = dict.fromkeys(
        Line("operation", link.operation_id, "event_added", link.actor, body({"event": str(link.event_id)}))
        for link in links
        if (link.operation_id, link.event_id) in added and not link.new
    )
    append(lines)


_ADD_EVENTS = """
WITH linked AS (
    INSERT INTO ledger_operationevent (operation_id, event_id, added_at)
    SELECT o, e, now() FROM unnest(%s::uuid[], %s::uuid[]) AS w(o, e)
    ON CONFLICT (operation_id, event_id) DO NOTHING RETURNING operation_id, event_id
), counted AS (
    UPDATE ledger_operation o SET event_count = event_count + n, updated_at = now()
      FROM (SELECT operation_id, count(*) AS n FROM linked GROUP BY operation_id) l WHERE o.id = l.operation_id
)
SELECT operation_id, event_id FROM linked
"""

"""Opening operations: one statement for any number of them, with the unique constraint as referee.

1. The record is built and brought to rest by the rules: first step ready, its request rendered.
2. INSERT … ON CONFLICT DO NOTHING writes operation, parameters, steps, requests and the journal's first line; then holds.
3. What came back was new. The others are compared in a second statement (in the same one the loser would see nothing):
   the same digest is the same operation again, another one is a conflict that names the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger import rendering
from opsledger.ledger.actions.change import Changed, name_unapprovable
from opsledger.ledger.actions.moulds import Casting
from opsledger.ledger.actions.new_operations import (
    NewOperation,
    Row,
    ShownContent,
    begin,
    columns_of,
    content_part_of,
    row_of,
)
from opsledger.ledger.actions.together import Together
from opsledger.ledger.clock import lately_now
from opsledger.ledger.definitions import workflow
from opsledger.ledger.records import Loaded, lock
from opsledger.ledger.sql import statement
from opsledger.lib.ids import supply
from opsledger.rules.identity import canonical_json, operation_digest

FEW = 8  # rows of one caller; more of them are a batch by themselves
TOGETHER_MAX = 64
_IDS_EACH = 3  # an operation and two steps: made at once

__all__ = ["NewOperation", "Opened", "ShownContent", "open_operations", "open_operations_here"]


class Opened(NamedTuple):
    """What became of one: `new`, `same` again, or a conflict in `differs`."""

    id: UUID
    state: str
    new: bool
    differs: tuple[str, ...] = ()


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
    answers = [Opened(row.id, row.state, True) if row.id in new else None for row in rows]
    again = [index for index, answer in enumerate(answers) if answer is None]
    known = _known([wanted[index] for index in again])
    for index in again:
        answers[index] = _compare(wanted[index], rows[index], known)
    _add_events(wanted, answers)
    return [answer for answer in answers if answer is not None]


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


def _known(again: Sequence[NewOperation]) -> dict[tuple[UUID, str], Any]:
    if not again:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.team_id, o.operation_id, o.id, o.state, o.digest, o.workflow_slug, p.params"
            " FROM ledger_operation o JOIN ledger_operationparams p ON p.operation_id = o.id"
            " JOIN unnest(%s::uuid[], %s::text[]) AS w(team_id, operation_id)"
            " ON w.team_id = o.team_id AND w.operation_id = o.operation_id",
            [[one.team_id for one in again], [one.operation_id for one in again]],
        )
        return {(row[0], row[1]): row[2:] for row in cursor.fetchall()}


def _compare(one: NewOperation, row: Row, known: Mapping[tuple[UUID, str], Any]) -> Opened:
    found_id, state, digest, workflow_slug, params = known[(one.team_id, one.operation_id)]
    if bytes(digest) == row.digest:
        return Opened(found_id, state, False)
    differs = [] if workflow_slug == workflow(one.workflow_version_id).slug else ["workflow"]
    if operation_digest(workflow_slug, params, content_part_of(one)) != bytes(digest):
        differs.append("content")
    ours, theirs = rendering.read_params(params), rendering.read_params(row.params)
    differs += [
        f"params.{name}"
        for name in sorted({*ours, *theirs})
        if _written(ours, name) != _written(theirs, name)
    ]
    return Opened(found_id, state, False, tuple(differs) or ("params",))


def _written(params: Mapping[str, Any], name: str) -> str | None:
    """A parameter as it is written: 1.10 and 1.1 are equal numbers, and two texts."""
    return canonical_json(params[name]) if name in params else None


def _add_events(wanted: Sequence[NewOperation], answers: Sequence[Opened | None]) -> None:
    """Links each event to its operation; another event of the same action is added without a conflict."""
    links = [
        (answer, one)
        for one, answer in zip(wanted, answers, strict=True)
        if answer is not None and one.event_id is not None and not answer.differs
    ]
    if not links:
        return
    lock(answer.id for answer, _ in links)  # in the order of their ids, as every writer does
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH linked AS (INSERT INTO ledger_operationevent (operation_id, event_id, added_at)"
            " SELECT o, e, now() FROM unnest(%s::uuid[], %s::uuid[]) AS w(o, e)"
            " ON CONFLICT (operation_id, event_id) DO NOTHING RETURNING operation_id, event_id)"
            " UPDATE ledger_operation o SET event_count = event_count + 1, updated_at = now()"
            " FROM linked WHERE o.id = linked.operation_id RETURNING linked.operation_id, linked.event_id",
            [[answer.id for answer, _ in links], [one.event_id for _, one in links]],
        )
        added = set(cursor.fetchall())
    append(
        Line("operation", answer.id, "event_added", one.actor, body({"event": str(one.event_id)}))
        for answer, one in links
        if (answer.id, one.event_id) in added and not answer.new
    )

"""Automatic recovery as definitions declare it: it follows the newest version, and an owner's choice stands.

What a definition turned on it turns off again when it no longer says so, or no longer has the action. Each turn is a line.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import connection

from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.record import change_what_can_be, time_passed_at
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Recovery
from opsledger.rules.definition_types import DestinationDefinition
from opsledger.rules.definition_types import Recovery as Declared

BATCH = 200


def follow_definition_here(destination_id: UUID, wanted: DestinationDefinition, actor: str) -> None:
    """Called in the transaction that stores the version, under the lock of its definition."""
    declared = {
        name for name, action in wanted.actions.items() if action.automatic_recovery is Declared.NOT_DRILLED
    }
    rows = {row.action: row for row in Recovery.objects.filter(destination_id=destination_id)}
    now = database_now()
    for name in sorted(declared - rows.keys()):
        Recovery.objects.create(
            destination_id=destination_id, action=name, enabled=True, drilled=False, changed_at=now
        )
        _tell(destination_id, name, True, actor)
    for name, row in sorted(rows.items()):
        if not _is_chosen(row) and row.enabled != (name in declared):
            Recovery.objects.filter(pk=row.pk).update(enabled=name in declared, changed_at=now)
            _tell(destination_id, name, name in declared, actor)


def _is_chosen(row: Recovery) -> bool:
    """By an owner, who turns it on after its drill and off again; what nobody chose is a definition's."""
    return row.changed_by_id is not None or row.drilled


def _tell(destination_id: UUID, action: str, on: bool, actor: str) -> None:
    line = body({"recovers": {action: on}})
    append([Line("definition", destination_id, "recovery_changed", actor, line)])


_GOING_ON = """
SELECT s.operation_id, s.number FROM ledger_step s
  LEFT JOIN ledger_recovery r ON r.destination_id = s.destination_id AND r.action = s.action AND r.enabled
 WHERE s.destination_id = ANY(%s) AND s.state = 'unknown' AND s.act IN ('send', 'look') AND r.id IS NULL
   AND NOT EXISTS (SELECT FROM ledger_hold h WHERE h.step_id = s.id AND h.closed_at IS NULL)
 ORDER BY s.operation_id, s.number
"""


def ask_where_nothing_recovers(destination_ids: Collection[UUID]) -> int:
    """Unknown steps that would go on by a plan from when they recovered by themselves: a person is asked (table 4, row 18).

    Called when the definitions are committed; in batches that commit, and again with every load, so that what a crash
    leaves undone is done by the next. Returns how many operations were gone through.
    """
    with connection.cursor() as cursor:
        cursor.execute(_GOING_ON, [list(destination_ids)])
        ids = list(dict.fromkeys(row[0] for row in cursor.fetchall()))
    count = 0
    for start in range(0, len(ids), BATCH):
        count += change_what_can_be({one: time_passed_at(()) for one in ids[start : start + BATCH]})
    return count

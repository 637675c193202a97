"""Proving that the rows of operations equal the fold of their journals."""

from __future__ import annotations

import json
from uuid import UUID

from django.db import connection

from opsledger.journal.verify import EntryRow, Fault
from opsledger.ledger import records
from opsledger.ledger.models import Operation
from opsledger.rules import fold, record


def state_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each operation of these journals: what its rows say that its journal doesn't."""
    there = set(Operation.objects.filter(pk__in=list(entries)).values_list("pk", flat=True))
    loaded = records.load(there)
    faults = []
    for operation_id, lines in entries.items():
        whole = loaded.get(operation_id)
        if whole is None:
            faults.append(Fault("operation", operation_id, "its row is missing"))
            continue
        why = _difference(whole.record, lines)
        if why:
            faults.append(Fault("operation", operation_id, why))
    return faults


def _difference(rows: record.Operation, lines: list[EntryRow]) -> str:
    try:
        folded = folded_record(rows.id, lines)
    except (fold.BrokenFold, KeyError, ValueError, StopIteration) as why:
        return f"its journal does not fold: {why}"
    # both ways: what the rows say more than the journal, and what they lack
    patch = fold.difference(folded, rows) or fold.difference(rows, folded)
    if not patch:
        return ""
    return f"its rows differ from its journal: {json.dumps(patch, sort_keys=True)}"


def folded_record(operation_id: str, lines: list[EntryRow]) -> record.Operation:
    """The record that the journal tells of. BrokenFold where an entry can't follow."""
    operation = fold.begin(operation_id, json.loads(lines[0].body))
    for line in lines[1:]:
        fold.apply(operation, json.loads(line.body))
    return operation


def operations_without_journal(limit: int = 10) -> list[Fault]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.id FROM ledger_operation o WHERE NOT EXISTS"
            " (SELECT 1 FROM journal_chain c WHERE c.subject_id = o.id) LIMIT %s",
            [limit],
        )
        return [Fault("operation", row[0], "it has no journal") for row in cursor.fetchall()]

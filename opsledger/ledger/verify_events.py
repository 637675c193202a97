"""Proving events: which one it is and what it said follow from its journal, and so do the questions about it."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.verify import EntryRow, Fault
from opsledger.lib.named_rows import named_rows
from opsledger.rules.identity import dedupe_key

_EVENTS = "SELECT id, source_id, event_id, event_key, digest FROM ledger_event WHERE id = ANY(%s)"
_HOLDS = """
SELECT event_id, id::text AS id, reason, closed_by FROM ledger_hold WHERE event_id = ANY(%s)
"""


def event_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each event of these journals: what its row or its holds say that its journal doesn't."""
    if not entries:
        return []
    rows = {row.id: row for row in named_rows(_EVENTS, [list(entries)])}
    holds: dict[UUID, dict[str, tuple[str, str]]] = defaultdict(dict)
    for hold in named_rows(_HOLDS, [list(entries)]):
        holds[hold.event_id][hold.id] = (hold.reason, hold.closed_by)
    return [
        Fault("event", event_id, why)
        for event_id, lines in entries.items()
        if (why := _difference(rows.get(event_id), holds[event_id], lines))
    ]


def _difference(row: Any, holds: dict[str, tuple[str, str]], lines: list[EntryRow]) -> str:
    if row is None:
        return "its row is missing"
    if bytes(row.event_key) != dedupe_key(str(row.source_id), row.event_id):
        return "its key is not that of its source and id"
    told = [(line, json.loads(line.body)) for line in lines]
    digest = told[0][1].get("digest")  # one that was only named has none
    if digest is not None and bytes(row.digest).hex() != digest:
        return "it does not say what was received"
    if holds != _holds_told(told):
        return "the questions about it are not those of its journal"
    return ""


def _holds_told(told: list[tuple[EntryRow, Any]]) -> dict[str, tuple[str, str]]:
    """By hold: its reason, and by whom it was ended."""
    holds: dict[str, tuple[str, str]] = {}
    for line, body in told:
        if line.kind == "event_held":
            holds[body["hold"]] = (body["reason_of_hold"], "")
        elif line.kind == "event_hold_ended":
            holds[body["hold"]] = (holds[body["hold"]][0], body["by"])
        elif line.kind == "answered":
            holds[body["hold"]] = (holds[body["hold"]][0], line.actor)
    return holds


def events_without_journal(limit: int = 10) -> list[Fault]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.id FROM ledger_event e WHERE NOT EXISTS"
            " (SELECT 1 FROM journal_chain c WHERE c.subject_id = e.id) LIMIT %s",
            [limit],
        )
        return [Fault("event", row[0], "it has no journal") for row in cursor.fetchall()]

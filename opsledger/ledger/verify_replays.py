"""Proving replays: a state equals the fold of its journal, and the counters equal the items."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef

from opsledger.journal.models import Chain
from opsledger.journal.verify import EntryRow, Fault
from opsledger.ledger.models import Replay
from opsledger.ledger.models.replays import COUNTED
from opsledger.rules.replay_words import state_told

# One statement, so that rows and items are of one moment.
_ROWS = f"""
SELECT r.id, r.state, r.plan_digest, r.item_count, r.statement_id, {", ".join(f"r.{name}" for name in COUNTED)},
       (SELECT json_object_agg(word, count) FROM (
               SELECT coalesce(nullif(i.result, ''), i.state) AS word, count(*) AS count
                 FROM ledger_replayitem i WHERE i.replay_id = r.id GROUP BY 1) c) AS counted
  FROM ledger_replay r WHERE r.id = ANY(%s)
"""


def replay_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each replay of these journals: what its row or its items say that its journal does not."""
    if not entries:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [list(entries)])
        names = [column.name for column in cursor.description]
        rows = {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}
    faults = []
    for replay_id, lines in entries.items():
        why = _why(rows.get(replay_id), lines)
        if why:
            faults.append(Fault("replay", replay_id, why))
    return faults


def _why(row: dict[str, Any] | None, lines: list[EntryRow]) -> str:
    if row is None:
        return "its row is missing"
    told = state_told([line.kind for line in lines])
    if told is None or told.value != row["state"]:
        return f"its row says {row['state']}, its journal tells {told.value if told else 'what can’t follow'}"
    first = json.loads(lines[0].body)
    if (first["plan_digest"], first["items"]) != (row["plan_digest"], row["item_count"]):
        return "its row has another plan than its journal"
    if first.get("statement") != (str(row["statement_id"]) if row["statement_id"] else None):
        return "its row rests on another statement than its journal"
    return _miscounted(row)


def _miscounted(row: dict[str, Any]) -> str:
    counted = row["counted"] if isinstance(row["counted"], dict) else json.loads(row["counted"] or "{}")
    items = Counter({f"{word}_count": count for word, count in counted.items()})
    for name in COUNTED:
        if row[name] != items[name]:
            return f"its row counts {row[name]} {name.removesuffix('_count')}, its items {items[name]}"
    return ""


def replays_without_journal(limit: int = 10) -> list[Fault]:
    """Replays whose chain is gone."""
    chains = Chain.objects.filter(subject_id=OuterRef("pk"))
    without = Replay.objects.filter(~Exists(chains)).values_list("pk", flat=True)
    return [Fault("replay", replay_id, "it has no journal") for replay_id in without[:limit]]

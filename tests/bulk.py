"""What tests do with selections and bulk runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from opsledger.engine import bulk as engine
from opsledger.journal.models import Entry
from opsledger.ledger.actions.bulk import begin, freeze
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.models import BulkItem, BulkRun, Hold, Selection
from opsledger.rules.bulk import Verb


def selected(holds: Iterable[Hold], by: By) -> Selection:
    """These holds, each at the version it has now."""
    rows = list(holds)
    versions = {hold.pk: hold.version for hold in Hold.objects.filter(pk__in=[one.pk for one in rows])}
    return freeze(rows[0].team_id, by.person_id, versions, words=f"{len(rows)} holds")


def begun(selection: Selection, verb: Verb, by: By, **more: Any) -> BulkRun:
    return begin(selection, verb, by, once=more.pop("once", None) or uuid4(), **more).run


def ran(selection: Selection, verb: Verb, by: By, **more: Any) -> BulkRun:
    """Begun and carried to its end."""
    run = begun(selection, verb, by, **more)
    engine.carry(run.pk, verb, 30.0)
    run.refresh_from_db()
    return run


def results(run: BulkRun) -> dict[UUID, tuple[str, str]]:
    return {one.thing_id: (one.result, one.why) for one in BulkItem.objects.filter(run=run)}


def counts(run: BulkRun) -> dict[str, int]:
    words = ("done", "skipped", "refused", "left")
    return {word: count for word in words if (count := getattr(run, f"{word}_count"))}


def lines_of(run: BulkRun) -> list[tuple[str, str]]:
    """The journal's lines that name the run: kind of subject, and kind."""
    rows = Entry.objects.filter(body__contains=str(run.pk)).order_by("kind", "subject_id")
    named = [row for row in rows if str(run.pk) in {json.loads(row.body).get(key) for key in ("bulk", "run")}]
    return [(row.subject_kind, row.kind) for row in named]

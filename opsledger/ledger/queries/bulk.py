"""Selections and bulk runs, for pages and reports. A page follows a position; nothing is counted over history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.lib.named_rows import named_rows
from opsledger.rules.bulk import BulkResult, BulkState, Verb
from opsledger.rules.bulk_verbs import Chosen
from opsledger.rules.states import HoldReason, StepState

PAGE = 50
ITEMS_PAGE = 100
REPORT_BATCH = 2_000
RUNS_MAX = 20


@dataclass(frozen=True, slots=True)
class SelectionLine:
    id: UUID
    team_id: UUID
    made_by: str
    made_at: datetime
    words: str
    query: str
    item_count: int


_SELECTION = """
SELECT s.id, s.team_id, p.display_name AS made_by, s.made_at, s.words, s.query, s.item_count
  FROM ledger_selection s JOIN person p ON p.id = s.person_id
 WHERE s.id = %s AND s.team_id = ANY(%s)
"""


def selection_of(selection_id: UUID, team_ids: Sequence[UUID]) -> SelectionLine | None:
    """One selection; None when it does not exist for these teams."""
    rows = named_rows(_SELECTION, [selection_id, list(team_ids)])
    return SelectionLine(*rows[0]) if rows else None


@dataclass(frozen=True, slots=True)
class Group:
    """What is alike in a selection, as it stands now."""

    chosen: Chosen
    moved: int  # of them: closed or changed since they were seen


_GROUPS = """
SELECT h.reason, s.state, h.destination_slug, h.action, count(*) AS count,
       count(*) FILTER (WHERE h.closed_at IS NOT NULL OR h.version <> i.version) AS moved
  FROM ledger_selectionitem i JOIN ledger_hold h ON h.id = i.hold_id LEFT JOIN ledger_step s ON s.id = h.step_id
 WHERE i.selection_id = %s
 GROUP BY h.reason, s.state, h.destination_slug, h.action
UNION ALL
SELECT NULL, s.state, s.destination_slug, s.action, count(*), count(*) FILTER (WHERE o.version <> i.version)
  FROM ledger_selectionitem i JOIN ledger_step s ON s.id = i.step_id JOIN ledger_operation o ON o.id = s.operation_id
 WHERE i.selection_id = %s
 GROUP BY s.state, s.destination_slug, s.action
 ORDER BY 5 DESC, 1, 2, 3, 4
"""


def groups_of(selection_id: UUID) -> list[Group]:
    return [
        Group(
            Chosen(
                HoldReason(row.reason) if row.reason else None,
                StepState(row.state) if row.state else None,
                row.destination_slug,
                row.action,
                row.count,
            ),
            row.moved,
        )
        for row in named_rows(_GROUPS, [selection_id, selection_id])
    ]


def remaining(groups: Iterable[Group]) -> list[Chosen]:
    """What is left of a selection: holds that are still open, steps that still wait, all as they were seen."""
    return [
        replace(group.chosen, count=group.chosen.count - group.moved)
        for group in groups
        if group.chosen.count > group.moved
    ]


@dataclass(frozen=True, slots=True)
class ChosenLine:
    position: int
    hold_id: UUID | None  # None: a step that waits
    reason: HoldReason | None
    version: int  # as it was seen
    moved: bool
    closed: bool
    title: str
    operation_id: UUID | None
    operation_text_id: str
    destination_slug: str
    owner_name: str
    state: str | None
    opened_at: datetime  # of a step: since when it is ready
    due_at: datetime | None  # of a hold


_LINES = """
SELECT i.position, i.hold_id, h.reason, i.version,
       h.closed_at IS NOT NULL OR coalesce(h.version, o.version) <> i.version AS moved,
       h.closed_at IS NOT NULL AS closed, coalesce(h.title, o.title) AS title,
       coalesce(h.operation_id, o.id) AS operation_id, coalesce(h.operation_text_id, o.operation_id) AS operation_text_id,
       coalesce(h.destination_slug, w.destination_slug) AS destination_slug,
       coalesce(p.display_name, '') AS owner_name, coalesce(w.state, s.state) AS state,
       coalesce(h.opened_at, w.ready_at, o.created_at) AS opened_at, h.due_at
  FROM ledger_selectionitem i
  LEFT JOIN ledger_hold h ON h.id = i.hold_id LEFT JOIN ledger_step s ON s.id = h.step_id
  LEFT JOIN ledger_step w ON w.id = i.step_id LEFT JOIN ledger_operation o ON o.id = w.operation_id
  LEFT JOIN person p ON p.id = coalesce(h.owner_id, o.owner_id)
 WHERE i.selection_id = %s AND i.position > %s ORDER BY i.position LIMIT %s
"""


def lines_of(selection_id: UUID, *, after: int = 0, size: int = PAGE) -> list[ChosenLine]:
    """Its holds or steps as they stand now, after a position: `size` and one more where there is one."""
    return [
        ChosenLine(row.position, row.hold_id, HoldReason(row.reason) if row.reason else None, *row[3:])
        for row in named_rows(_LINES, [selection_id, after, size + 1])
    ]


def operations_of(selection_id: UUID) -> list[UUID]:
    """The operations of its holds, each once; holds about a destination or an event have none."""
    query = (
        "SELECT DISTINCT h.operation_id FROM ledger_selectionitem i JOIN ledger_hold h ON h.id = i.hold_id"
        " WHERE i.selection_id = %s AND h.operation_id IS NOT NULL ORDER BY 1"
    )
    return [row.operation_id for row in named_rows(query, [selection_id])]


@dataclass(frozen=True, slots=True)
class RunLine:
    id: UUID
    team_id: UUID
    selection_id: UUID
    selection_words: str
    verb: Verb
    state: BulkState
    version: int
    begun_by: str
    made_at: datetime
    ended_at: datetime | None
    item_count: int
    counts: Mapping[BulkResult, int]
    facts: Mapping[str, Any]

    @property
    def over_count(self) -> int:
        return sum(self.counts.values())

    @property
    def open_count(self) -> int:
        return self.item_count - self.over_count


_RUN = f"""
SELECT r.id, r.team_id, r.selection_id, s.words, r.verb, r.state, r.version, p.display_name AS begun_by, r.made_at,
       r.ended_at, r.item_count, r.facts, {", ".join(f"r.{result.value}_count" for result in BulkResult)}
  FROM ledger_bulkrun r JOIN person p ON p.id = r.person_id JOIN ledger_selection s ON s.id = r.selection_id
"""


def run_of(run_id: UUID, team_ids: Sequence[UUID]) -> RunLine | None:
    """One run; None when it does not exist for these teams."""
    rows = named_rows(f"{_RUN} WHERE r.id = %s AND r.team_id = ANY(%s)", [run_id, list(team_ids)])
    return _run(rows[0]) if rows else None


def runs_of(selection_id: UUID) -> list[RunLine]:
    """The runs of a selection, newest first; at most RUNS_MAX."""
    query = f"{_RUN} WHERE r.selection_id = %s ORDER BY r.id DESC LIMIT {RUNS_MAX}"
    return [_run(row) for row in named_rows(query, [selection_id])]


def page_of(team_id: UUID, *, before: UUID | None = None, size: int = PAGE) -> list[RunLine]:
    """Runs of a team, newest first: `size` and one more where there is one."""
    below = "AND r.id < %s" if before else ""
    query = f"{_RUN} WHERE r.team_id = %s {below} ORDER BY r.id DESC LIMIT {size + 1}"
    return [_run(row) for row in named_rows(query, [team_id, *([before] if before else [])])]


def _run(row: Any) -> RunLine:
    counts = {result: getattr(row, f"{result.value}_count") for result in BulkResult}
    return RunLine(
        row.id, row.team_id, row.selection_id, row.words, Verb(row.verb), BulkState(row.state), row.version,
        row.begun_by, row.made_at, row.ended_at, row.item_count, counts, json.loads(row.facts),
    )  # fmt: skip


def open_runs(limit: int) -> list[tuple[UUID, Verb]]:
    """The runs that are still to be carried on, oldest first."""
    query = "SELECT id, verb FROM ledger_bulkrun WHERE state = 'running' ORDER BY id LIMIT %s"
    return [(row.id, Verb(row.verb)) for row in named_rows(query, [limit])]


@dataclass(frozen=True, slots=True)
class ItemLine:
    position: int
    hold_id: UUID | None  # None: about a step that waited
    reason: HoldReason | None
    title: str
    operation_id: UUID | None
    operation_text_id: str
    destination_slug: str
    result: BulkResult | None  # None: still to come
    why: str
    said_at: datetime | None


_ITEMS = """
SELECT i.position, i.hold_id, h.reason, coalesce(h.title, o.title) AS title,
       coalesce(h.operation_id, o.id) AS operation_id, coalesce(h.operation_text_id, o.operation_id) AS operation_text_id,
       coalesce(h.destination_slug, w.destination_slug) AS destination_slug, i.result, i.why, i.said_at
  FROM ledger_bulkitem i
  LEFT JOIN ledger_hold h ON h.id = i.hold_id
  LEFT JOIN ledger_step w ON w.id = i.step_id LEFT JOIN ledger_operation o ON o.id = w.operation_id
 WHERE i.run_id = %s AND i.position > %s {matches} ORDER BY i.position LIMIT %s
"""
OPEN = "open"  # what an item that is still to come is asked for by


def items_of(run_id: UUID, *, result: str = "", after: int = 0, size: int = ITEMS_PAGE) -> list[ItemLine]:
    """Items after a position: `size` and one more where there is one. `result`: one of BulkResult, or OPEN."""
    matches = "AND i.result = %s" if result else ""
    wanted = [] if not result else ["" if result == OPEN else BulkResult(result).value]
    rows = named_rows(_ITEMS.format(matches=matches), [run_id, after, *wanted, size + 1])
    return [
        ItemLine(
            row.position, row.hold_id, HoldReason(row.reason) if row.reason else None, row.title, row.operation_id,
            row.operation_text_id, row.destination_slug, BulkResult(row.result) if row.result else None, row.why,
            row.said_at,
        )
        for row in rows
    ]  # fmt: skip


def every_item(run_id: UUID) -> Iterator[ItemLine]:
    """All items, read in batches: for reports."""
    after = 0
    while batch := items_of(run_id, after=after, size=REPORT_BATCH)[:REPORT_BATCH]:
        yield from batch
        after = batch[-1].position


def text_of(kept: Mapping[str, str]) -> str | None:
    """A text that the journal keeps outside its chain; None when it was erased."""
    rows = named_rows("SELECT text FROM journal_text WHERE id = %s", [kept["text"]])
    return str(rows[0].text) if rows and rows[0].text is not None else None

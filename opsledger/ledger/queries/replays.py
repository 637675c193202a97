"""Replays and their items, for pages, the API and reports. A page follows a position or an id; nothing is counted here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger.models.replays import COUNTED
from opsledger.lib.named_rows import named_rows
from opsledger.rules.replay_words import ItemResult, ItemState, ReplayState
from opsledger.rules.replays import Reason, Verdict, VerdictKind

PAGE = 50
ITEMS_PAGE = 100
REPORT_BATCH = 2_000
# What an item can be found by: its result where it has ended, else its state.
WORDS = tuple(name.removesuffix("_count") for name in COUNTED)


@dataclass(frozen=True, slots=True)
class ReplayLine:
    id: UUID
    team_id: UUID
    name: str
    scope: str
    state: ReplayState
    version: int
    plan_digest: str
    started_by: str
    started_at: datetime
    changed_by: str
    stop_after: int | None  # unknown outcomes, at which it pauses by itself
    stopped_after: int | None  # those at which it has, while it is paused so
    ended_at: datetime | None
    item_count: int
    counts: Mapping[str, int]  # by word; all of them
    reason: str | None  # None: erased

    @property
    def open_count(self) -> int:
        return self.counts["waiting"] + self.counts["started"]

    @property
    def to_do_count(self) -> int:
        """Items that were to run: all but those that were done before or could not."""
        return self.item_count - self.counts["kept"] - self.counts["refused"]

    @property
    def over_count(self) -> int:
        return self.to_do_count - self.open_count


@dataclass(frozen=True, slots=True)
class DestinationPace:
    slug: str
    per_second: float
    waiting_count: int
    stopped: str  # paused, access refused, circuit open; "" = it is sent to


@dataclass(frozen=True, slots=True)
class ItemLine:
    position: int
    operation_id: UUID
    operation_text_id: str
    title: str
    number: int
    step_title: str
    destination: str
    verdict: Verdict
    state: ItemState
    result: ItemResult | None
    said: str
    reference: str | None
    step_state: str  # now
    hold_id: UUID | None  # open now
    rebound_to: int | None  # the number of the definition's version that was chosen
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def word(self) -> str:
        return (self.result or self.state).value


_LINE = f"""
SELECT r.id, r.team_id, r.name, r.scope, r.state, r.version, r.plan_digest, p.display_name AS started_by, r.started_at,
       r.changed_by, r.stop_after, r.stopped_after, r.ended_at,
       r.item_count, {", ".join(f"r.{name}" for name in COUNTED)}, t.text AS reason
  FROM ledger_replay r
  JOIN person p ON p.id = r.started_by_id
  LEFT JOIN journal_text t ON t.id = (r.reason::json ->> 'text')::uuid
"""


def page_of(team_ids: Sequence[UUID], *, before: UUID | None = None, size: int = PAGE) -> list[ReplayLine]:
    """Replays of these teams, newest first: `size` and one more where there is one."""
    below = "AND r.id < %s" if before else ""
    query = f"{_LINE} WHERE r.team_id = ANY(%s) {below} ORDER BY r.id DESC LIMIT {size + 1}"
    return [_line(row) for row in named_rows(query, [list(team_ids), *([before] if before else [])])]


def replay_of(replay_id: UUID, team_ids: Sequence[UUID]) -> ReplayLine | None:
    """One replay; None when it does not exist for these teams."""
    rows = named_rows(f"{_LINE} WHERE r.id = %s AND r.team_id = ANY(%s)", [replay_id, list(team_ids)])
    return _line(rows[0]) if rows else None


def _line(row: Any) -> ReplayLine:
    counts = {word: getattr(row, f"{word}_count") for word in WORDS}
    return ReplayLine(
        row.id, row.team_id, row.name, row.scope, ReplayState(row.state), row.version, row.plan_digest, row.started_by,
        row.started_at, row.changed_by, row.stop_after, row.stopped_after, row.ended_at, row.item_count, counts, row.reason,
    )  # fmt: skip


_PACES = """
SELECT d.slug, d.per_second, d.waiting_count,
       CASE WHEN x.paused_at IS NOT NULL THEN 'paused' WHEN x.access_refused_at IS NOT NULL THEN 'access refused'
            WHEN x.circuit_opened_at IS NOT NULL THEN 'circuit open' ELSE '' END AS stopped
  FROM ledger_replaydestination d JOIN ledger_destination x ON x.definition_id = d.destination_id
 WHERE d.replay_id = %s ORDER BY d.slug
"""


def paces_of(replay_id: UUID) -> list[DestinationPace]:
    return [
        DestinationPace(row.slug, row.per_second, row.waiting_count, row.stopped)
        for row in named_rows(_PACES, [replay_id])
    ]


_ITEMS = """
SELECT i.position, i.operation_id, o.operation_id AS own_id, o.title, i.number, s.title AS step_title, s.destination_slug,
       i.verdict, i.reason, i.detail, i.until, i.state, i.result, i.said, s.reference, s.state AS step_state,
       h.id AS hold_id, v.number AS rebound_to, i.started_at, i.ended_at
  FROM (SELECT * FROM ledger_replayitem WHERE replay_id = %s AND position > %s {matches} ORDER BY position LIMIT %s) i
  JOIN ledger_operation o ON o.id = i.operation_id
  JOIN ledger_step s ON s.id = i.step_id
  LEFT JOIN ledger_hold h ON h.step_id = i.step_id AND h.closed_at IS NULL
  LEFT JOIN ledger_definitionversion v ON v.id = i.rebound_to_id
 ORDER BY i.position
"""


def items_of(replay_id: UUID, *, word: str = "", after: int = 0, size: int = ITEMS_PAGE) -> list[ItemLine]:
    """Items in the order of the plan, after a position: `size` and one more where there is one. `word`: one of WORDS."""
    matches, values = _matches(word)
    rows = named_rows(_ITEMS.format(matches=matches), [replay_id, after, *values, size + 1])
    return [_item(row) for row in rows]


def every_item(replay_id: UUID) -> Iterator[ItemLine]:
    """All items, read in batches: for reports."""
    after = 0
    while batch := items_of(replay_id, after=after, size=REPORT_BATCH)[:REPORT_BATCH]:
        yield from batch
        after = batch[-1].position


def _matches(word: str) -> tuple[str, list[str]]:
    if not word:
        return "", []
    if word in {result.value for result in ItemResult}:
        return "AND state = 'ended' AND result = %s", [word]
    return "AND state = %s", [ItemState(word).value]


def _item(row: Any) -> ItemLine:
    return ItemLine(
        position=row.position,
        operation_id=row.operation_id,
        operation_text_id=row.own_id,
        title=row.title,
        number=row.number,
        step_title=row.step_title,
        destination=row.destination_slug,
        verdict=Verdict(VerdictKind(row.verdict), Reason(row.reason), row.detail, row.until),
        state=ItemState(row.state),
        result=ItemResult(row.result) if row.result else None,
        said=row.said,
        reference=row.reference,
        step_state=row.step_state,
        hold_id=row.hold_id,
        rebound_to=row.rebound_to,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


_OPEN_OF_OPERATION = """
SELECT DISTINCT r.id, r.name FROM ledger_replayitem i JOIN ledger_replay r ON r.id = i.replay_id
 WHERE i.operation_id = %s AND i.state IN ('waiting', 'started') ORDER BY r.id
"""


def open_replays_of(operation_id: UUID) -> list[tuple[UUID, str]]:
    """The open replays that an operation is part of: id and name."""
    return [(row.id, row.name) for row in named_rows(_OPEN_OF_OPERATION, [operation_id])]

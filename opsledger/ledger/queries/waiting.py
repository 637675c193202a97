"""What waits at a destination: steps that are ready to be sent there, the one whose turn comes first at the top.

Read by the partial index `step_to_be_sent`: a page costs the same whatever else there is, and whatever was sent before. What
is in flight, accepted or unknown is never among them, nor what a person was asked about; what automations do themselves has
a deadline of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from opsledger.lib.named_rows import named_rows
from opsledger.rules.states import HoldReason

PAGE = 50
# What waits, as SQL: steps `s` of a destination of a team. Nothing that is unknown, though it may be due to be sent again.
WAITS = "s.destination_id = %s AND s.team_id = %s AND s.act = 'send' AND s.state = 'ready'"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A destination of a team, and why nothing is sent to it now."""

    id: UUID
    slug: str
    reasons: tuple[HoldReason, ...]  # none: it is not stopped


_DESTINATION = """
SELECT d.definition_id AS id, d.slug,
       array(SELECT h.reason FROM ledger_hold h
              WHERE h.destination_id = d.definition_id AND h.closed_at IS NULL ORDER BY h.opened_at, h.id) AS reasons
  FROM ledger_destination d WHERE d.definition_id = %s AND d.team_id = %s
"""


def destination_of(destination_id: UUID, team_id: UUID) -> Stopped | None:
    """None when the team has no such destination."""
    rows = named_rows(_DESTINATION, [destination_id, team_id])
    return Stopped(rows[0].id, rows[0].slug, tuple(map(HoldReason, rows[0].reasons))) if rows else None


class Turn(NamedTuple):
    """Where a step stands in the row."""

    at: datetime
    step_id: UUID


@dataclass(frozen=True, slots=True)
class WaitingLine:
    step_id: UUID
    version: int  # of the operation; decisions carry it
    turn: Turn
    title: str  # of the operation
    operation_id: UUID
    operation_text_id: str
    step_title: str
    step_number: int
    step_count: int
    attempt_count: int  # of the step; each was proven to have changed nothing
    ready_at: datetime
    owner_name: str


_PAGE = """
SELECT s.id, s.act_at, s.number, s.title AS step_title, s.attempt_count, coalesce(s.ready_at, o.created_at) AS ready_at,
       o.id AS operation_id, o.operation_id AS operation_text_id, o.title, o.version, o.step_count,
       coalesce(p.display_name, '') AS owner_name
  FROM (SELECT s.* FROM ledger_step s WHERE {waits} {after} ORDER BY s.act_at, s.id LIMIT %s) s
  JOIN ledger_operation o ON o.id = s.operation_id LEFT JOIN person p ON p.id = o.owner_id
 ORDER BY s.act_at, s.id
"""
_AFTER = "AND s.act_at >= %s AND (s.act_at, s.id) > (%s, %s)"


def page_of(
    destination: Stopped, team_id: UUID, *, after: Turn | None = None, size: int = PAGE
) -> list[WaitingLine]:
    """What waits after a turn: `size` and one more where there is one."""
    query, parameters = page_query(destination, team_id, after, size)
    return [
        WaitingLine(
            row.id, row.version, Turn(row.act_at, row.id), row.title, row.operation_id, row.operation_text_id,
            row.step_title, row.number, row.step_count, row.attempt_count, row.ready_at, row.owner_name,
        )
        for row in named_rows(query, parameters)
    ]  # fmt: skip


def page_query(destination: Stopped, team_id: UUID, after: Turn | None, size: int) -> tuple[str, list[Any]]:
    """The statement of a page, with its parameters."""
    place: list[Any] = [after.at, after.at, after.step_id] if after else []
    query = _PAGE.format(waits=WAITS, after=_AFTER if after else "")
    return query, [destination.id, team_id, *place, size + 1]

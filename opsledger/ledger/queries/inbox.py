"""Which open holds a view of the inbox shows, in pages, and their neighbours. Nothing depends on how much history there is.

A page follows a partial index on open holds, in the order (due_at, id); a view over several reasons reads each reason's
part of it and merges. A hold's id is made when it is opened, so ids tell which are older.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from opsledger.ledger import approvals
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries.hold_lines import HoldLine, Place, lines_of
from opsledger.lib.named_rows import named_rows
from opsledger.rules.states import DESTINATION_REASONS, HoldReason

PAGE = 50
PLACES_MAX = 10_000  # of a hold in its view; beyond, it is not told how many stand before it
OLD_SECONDS = 3600

UNKNOWN_REASONS = (HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED, HoldReason.INTEGRITY_ALARM)


class View(StrEnum):
    MINE = "mine"
    UNOWNED = "unowned"
    OLD_UNKNOWN = "unknown"
    AWAITING = "awaiting"  # the approval of this person
    DISPUTED = "disputed"
    DESTINATIONS = "destinations"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which open holds of a team: a view, narrowed by what was chosen."""

    team_id: UUID
    person_id: UUID
    view: View = View.ALL
    reason: HoldReason | None = None
    destination: str = ""
    workflow: str = ""
    owner: UUID | None = None
    unowned: bool = False
    incident: UUID | None = None


@dataclass(frozen=True, slots=True)
class Page:
    lines: list[HoldLine]
    has_earlier: bool
    has_later: bool
    now: datetime  # the database's


def floor_id(moment: datetime) -> UUID:
    """The smallest id that may have been made at this millisecond or later."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def page_of(
    wanted: Wanted, *, after: Place | None = None, before: Place | None = None, size: int = PAGE
) -> Page:
    """At most `size` holds, soonest due first, right after or right before a place."""
    now = database_now()
    query, parameters = _picked(wanted, now, after=after, before=before, limit=size + 1)
    lines = lines_of(query, parameters)
    more = len(lines) > size
    if before is not None:
        return Page(lines[-size:], more, True, now)
    return Page(lines[:size], after is not None, more, now)


def picked(wanted: Wanted, now: datetime, *, limit: int, up_to: UUID | None = None) -> tuple[str, list[Any]]:
    """The open holds of a view as SQL with its parameters, soonest due first; `up_to`: none opened after this one."""
    return _picked(wanted, now, after=None, before=None, limit=limit, up_to=up_to)


def every_operation(wanted: Wanted, most: int) -> list[UUID]:
    """The operations of all open holds of this view; holds about a destination or an event have none."""
    query, parameters = _picked(wanted, database_now(), after=None, before=None, limit=most)
    rows = named_rows(
        f"SELECT DISTINCT operation_id FROM ({query}) h WHERE operation_id IS NOT NULL", parameters
    )
    return [row.operation_id for row in rows]


def _conditions(wanted: Wanted, now: datetime) -> tuple[list[str], list[Any], tuple[HoldReason, ...] | None]:
    """Conditions and their parameters, and the reasons when the view is about some only."""
    parts = ["team_id = %s", "closed_at IS NULL"]
    parameters: list[Any] = [wanted.team_id]
    reasons = _reasons(wanted)
    if wanted.view is View.OLD_UNKNOWN:
        parts.append("id < %s")
        parameters.append(floor_id(now - timedelta(seconds=OLD_SECONDS)))
    if wanted.view is View.MINE:
        parts.append("owner_id = %s")
        parameters.append(wanted.person_id)
    if wanted.view is View.AWAITING:
        condition, more = approvals.may_approve(wanted.person_id)
        parts.append(condition)
        parameters += more
    if wanted.unowned or wanted.view is View.UNOWNED:
        parts.append("owner_id IS NULL")
    if wanted.owner is not None:
        parts.append("owner_id = %s")
        parameters.append(wanted.owner)
    for column, value in (
        ("destination_slug", wanted.destination),
        ("workflow_slug", wanted.workflow),
        ("incident_id", wanted.incident),
    ):
        if value:
            parts.append(f"{column} = %s")
            parameters.append(value)
    return parts, parameters, reasons


def condition_of(wanted: Wanted, now: datetime) -> tuple[str, list[Any]]:
    """All that makes an open hold one of these, as one condition with its parameters."""
    parts, parameters, reasons = _conditions(wanted, now)
    if reasons is not None:
        parts.append("reason = ANY(%s)")
        parameters.append([reason.value for reason in reasons])
    return " AND ".join(parts), parameters


def _reasons(wanted: Wanted) -> tuple[HoldReason, ...] | None:
    of_view = {
        View.OLD_UNKNOWN: UNKNOWN_REASONS,
        View.AWAITING: (HoldReason.APPROVAL_NEEDED,),
        View.DISPUTED: (HoldReason.DISPUTED,),
        View.DESTINATIONS: tuple(sorted(DESTINATION_REASONS)),
    }.get(wanted.view)
    if wanted.reason is None:
        return of_view
    if of_view is not None and wanted.reason not in of_view:
        return ()
    return (wanted.reason,)


def _picked(
    wanted: Wanted,
    now: datetime,
    *,
    after: Place | None,
    before: Place | None,
    limit: int,
    up_to: UUID | None = None,
) -> tuple[str, list[Any]]:
    parts, parameters, reasons = _conditions(wanted, now)
    if up_to is not None:
        parts.append("id <= %s")
        parameters.append(up_to)
    order = "ORDER BY due_at, id"
    if after is not None:
        parts.append("(due_at, id) > (%s, %s)")
        parameters += [after.due_at, after.id]
    elif before is not None:
        parts.append("(due_at, id) < (%s, %s)")
        parameters += [before.due_at, before.id]
        order = "ORDER BY due_at DESC, id DESC"
    one = f"SELECT * FROM ledger_hold WHERE {' AND '.join(parts)}"
    if reasons is None:
        return f"{one} {order} LIMIT {limit}", parameters
    if not reasons:
        return f"{one} AND false", parameters
    branches = [f"({one} AND reason = %s {order} LIMIT {limit})" for _ in reasons]
    all_parameters = [value for reason in reasons for value in (*parameters, reason.value)]
    return f"SELECT * FROM ({' UNION ALL '.join(branches)}) merged {order} LIMIT {limit}", all_parameters


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The operations before and after a hold in its view, and how many holds stand before it."""

    previous: tuple[UUID, UUID] | None  # hold, operation
    following: tuple[UUID, UUID] | None
    before_count: int


def neighbours(wanted: Wanted, place: Place) -> Neighbours:
    """Only holds about an operation count as neighbours: the others have no page to step to."""
    now, around = database_now(), []
    for after, before in ((None, place), (place, None)):
        query, parameters = _picked(wanted, now, limit=20, after=after, before=before)
        found = named_rows(
            f"SELECT id, operation_id FROM ({query}) x WHERE operation_id IS NOT NULL", parameters
        )
        around.append((found[0].id, found[0].operation_id) if found else None)
    where, parameters = condition_of(wanted, now)
    query = (
        f"SELECT count(*) FROM (SELECT FROM ledger_hold WHERE {where}"
        f" AND (due_at, id) < (%s, %s) LIMIT {PLACES_MAX}) x"
    )
    before_count = int(named_rows(query, [*parameters, place.due_at, place.id])[0].count)
    return Neighbours(around[0], around[1], before_count)

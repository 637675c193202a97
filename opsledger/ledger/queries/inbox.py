"""Open holds: counted, listed in pages, and found by their neighbours. Nothing here depends on how much history there is.

A page follows a partial index on open holds, in the order (due_at, id); a view over several reasons reads each reason's
part of it and merges. Counts read indexes only. A hold's id is made when it is opened, so ids tell which are older.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection
from psycopg.rows import namedtuple_row

from opsledger.ledger import approvals, definitions
from opsledger.ledger.clock import database_now, lately_now
from opsledger.ledger.queries.looks import HOW_LOOKS_ENDED, LOOKS_ENDED
from opsledger.rules.profile import ActionProfile
from opsledger.rules.protection import Protected, protected_until
from opsledger.rules.states import DESTINATION_REASONS, HoldReason

PAGE = 50
COUNT_MAX = 10_000  # of what waits behind one hold; more is shown as "10,000 or more"
OLD_SECONDS = 3600

_UNKNOWN = (HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED, HoldReason.INTEGRITY_ALARM)


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
class Place:
    """Where a page begins or ends: a hold's due time and id."""

    due_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class HoldLine:
    """One open hold as the inbox needs it."""

    id: UUID
    reason: HoldReason
    version: int
    opened_at: datetime
    due_at: datetime
    owner_id: UUID | None
    owner_name: str
    title: str
    operation_id: UUID | None
    operation_text_id: str
    destination_slug: str
    destination_id: UUID | None
    event_id: UUID | None
    event_text_id: str
    workflow_slug: str
    step: int | None
    step_title: str
    state: str | None
    attempts: int
    looks: int  # lookups made; how they ended stands in the next two, others found something
    looks_found_nothing: int
    looks_failed: int  # no answer: never to be shown as “no record”
    next_look_at: datetime | None
    accepted_at: datetime | None
    not_after: datetime | None
    may_have_had_effect: bool
    last_sentence: str
    waiting: int  # steps that wait behind a stopped destination
    profile: ActionProfile | None
    protected: Protected | None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return Place(self.due_at, self.id)


@dataclass(frozen=True, slots=True)
class Page:
    lines: list[HoldLine]
    has_earlier: bool
    has_later: bool
    now: datetime  # the database's


_LINES = f"""
SELECT h.id, h.reason, h.version, h.opened_at, h.due_at, h.owner_id, coalesce(p.display_name, '') AS owner_name,
       h.title, h.operation_id, h.operation_text_id, h.destination_slug, h.destination_id, h.event_id,
       coalesce(e.event_id, '') AS event_text_id, h.workflow_slug, h.facts, h.action,
       s.number AS step, coalesce(s.title, '') AS step_title, s.state, coalesce(s.attempt_count, 0) AS attempts,
       {HOW_LOOKS_ENDED}, s.act, s.act_at, s.accepted_at, s.integrity_alarm, s.record_changed,
       s.answered_with_error,
       s.destination_version_id, o.not_after, a.first_possible_at, coalesce(a.may_have, false) AS may_have,
       coalesce(a.sentence, '') AS sentence, coalesce(w.waiting, 0) AS waiting, now() AS now
  FROM ({{picked}}) h
  LEFT JOIN person p ON p.id = h.owner_id
  LEFT JOIN ledger_event e ON e.id = h.event_id
  LEFT JOIN ledger_operation o ON o.id = h.operation_id
  LEFT JOIN ledger_step s ON s.id = h.step_id
{LOOKS_ENDED}
  LEFT JOIN LATERAL (
       SELECT min(opened_at) FILTER (WHERE revision = s.revision AND no_change IS DISTINCT FROM 'not_sent')
                  AS first_possible_at,
              bool_or(outcome IS DISTINCT FROM 'no_change') AS may_have,
              (array_agg(sentence ORDER BY number DESC))[1] AS sentence
         FROM ledger_attempt WHERE step_id = s.id) a ON h.step_id IS NOT NULL
  LEFT JOIN LATERAL (
       SELECT count(*) AS waiting FROM (
              SELECT FROM ledger_step q WHERE q.destination_id = h.destination_id AND q.state = 'ready' LIMIT {{many}}) x
       ) w ON h.destination_id IS NOT NULL
 ORDER BY h.due_at, h.id
"""


def floor_id(moment: datetime) -> UUID:
    """The smallest id that may have been made at this millisecond or later."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


def page_of(
    wanted: Wanted, *, after: Place | None = None, before: Place | None = None, size: int = PAGE
) -> Page:
    """At most `size` holds, soonest due first, right after or right before a place."""
    now = database_now()
    query, parameters = _picked(wanted, now, after=after, before=before, limit=size + 1)
    rows = _rows(_LINES.format(picked=query, many=COUNT_MAX), parameters)
    more = len(rows) > size
    if before is not None:
        rows = rows[-size:]
        return Page([_line(row) for row in rows], more, True, now)
    return Page([_line(row) for row in rows[:size]], after is not None, more, now)


def picked(wanted: Wanted, now: datetime, *, limit: int, up_to: UUID | None = None) -> tuple[str, list[Any]]:
    """The open holds of a view as SQL with its parameters, soonest due first; `up_to`: none opened after this one."""
    return _picked(wanted, now, after=None, before=None, limit=limit, up_to=up_to)


def every_operation(wanted: Wanted, most: int) -> list[UUID]:
    """The operations of all open holds of this view; holds about a destination or an event have none."""
    query, parameters = _picked(wanted, database_now(), after=None, before=None, limit=most)
    rows = _rows(f"SELECT DISTINCT operation_id FROM ({query}) h WHERE operation_id IS NOT NULL", parameters)
    return [row.operation_id for row in rows]


def line_of(hold_id: UUID, team_ids: Sequence[UUID]) -> HoldLine | None:
    """One open hold; None when it is closed, or another team's."""
    query = "SELECT * FROM ledger_hold WHERE id = %s AND team_id = ANY(%s) AND closed_at IS NULL"
    rows = _rows(_LINES.format(picked=query, many=COUNT_MAX), [hold_id, list(team_ids)])
    return _line(rows[0]) if rows else None


def _line(row: Any) -> HoldLine:
    profile = protected = None
    if row.destination_version_id is not None:
        profile = definitions.destination(row.destination_version_id).actions[row.action].profile
        protected = protected_until(
            profile,
            first_possible_at=row.first_possible_at,
            now=row.now,
            same_bytes=not row.integrity_alarm,
            record_changed_since=row.record_changed,
            answered_with_error=row.answered_with_error,
        )
    return HoldLine(
        id=row.id,
        reason=HoldReason(row.reason),
        version=row.version,
        opened_at=row.opened_at,
        due_at=row.due_at,
        owner_id=row.owner_id,
        owner_name=row.owner_name,
        title=row.title,
        operation_id=row.operation_id,
        operation_text_id=row.operation_text_id,
        destination_slug=row.destination_slug,
        destination_id=row.destination_id,
        event_id=row.event_id,
        event_text_id=row.event_text_id,
        workflow_slug=row.workflow_slug,
        step=row.step,
        step_title=row.step_title,
        state=row.state,
        attempts=row.attempts,
        looks=row.looks_made,
        looks_found_nothing=row.looks_found_nothing,
        looks_failed=row.looks_failed,
        next_look_at=row.act_at if row.act == "look" else None,
        accepted_at=row.accepted_at,
        not_after=row.not_after,
        may_have_had_effect=row.may_have,
        last_sentence=row.sentence,
        waiting=row.waiting,
        profile=profile,
        protected=protected,
        facts=json.loads(row.facts),
    )


# Which holds: conditions that an index can follow


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


def _reasons(wanted: Wanted) -> tuple[HoldReason, ...] | None:
    of_view = {
        View.OLD_UNKNOWN: _UNKNOWN,
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


# Counts


@dataclass(frozen=True, slots=True)
class Counts:
    """Open holds of a team, by view; and what is late."""

    by_view: Mapping[View, int]
    late: int  # past their due time
    first_due_opened_at: datetime | None  # when the one that is due first was opened


_BY_REASON = """
SELECT reason, count(*), count(*) FILTER (WHERE id < %s)
  FROM ledger_hold WHERE team_id = %s AND closed_at IS NULL GROUP BY reason
"""
_BY_OWNER = """
SELECT (SELECT count(*) FROM ledger_hold WHERE team_id = %(team)s AND owner_id = %(person)s AND closed_at IS NULL),
       (SELECT count(*) FROM ledger_hold WHERE team_id = %(team)s AND owner_id IS NULL AND closed_at IS NULL),
       (SELECT count(*) FROM ledger_hold WHERE team_id = %(team)s AND due_at < now() AND closed_at IS NULL),
       (SELECT opened_at FROM ledger_hold WHERE team_id = %(team)s AND closed_at IS NULL ORDER BY due_at, id LIMIT 1)
"""


def counts(team_id: UUID, person_id: UUID) -> Counts:
    """How many holds each view shows, without the further filters."""
    hour_ago = floor_id(database_now() - timedelta(seconds=OLD_SECONDS))
    with connection.cursor() as cursor:
        cursor.execute(_BY_REASON, [hour_ago, team_id])
        by_reason = {row[0]: row[1:] for row in cursor.fetchall()}
        cursor.execute(_BY_OWNER, {"team": team_id, "person": person_id})
        mine, unowned, late, first_due = cursor.fetchone()
    return Counts(
        {
            View.MINE: mine,
            View.UNOWNED: unowned,
            View.OLD_UNKNOWN: sum(by_reason[r.value][1] for r in _UNKNOWN if r.value in by_reason),
            View.DISPUTED: by_reason.get(HoldReason.DISPUTED.value, (0,))[0],
            View.DESTINATIONS: sum(
                by_reason[r.value][0] for r in DESTINATION_REASONS if r.value in by_reason
            ),
            View.ALL: sum(row[0] for row in by_reason.values()),
        },
        late,
        first_due,
    )


def count_of(wanted: Wanted, most: int) -> int:
    """How many open holds a view shows; at most so many are counted."""
    return count_each([wanted], most)[0]


def count_each(wanted: Sequence[Wanted], most: int) -> list[int]:
    """How many open holds each of these shows, in one statement; none is counted beyond `most`."""
    if not wanted:
        return []
    now, branches, every = lately_now(), [], []
    for one in wanted:
        parts, parameters, reasons = _conditions(one, now)
        if reasons is not None:
            parts.append("reason = ANY(%s)")
            parameters.append([reason.value for reason in reasons])
        where = " AND ".join(parts)
        branches.append(f"(SELECT count(*) FROM (SELECT FROM ledger_hold WHERE {where} LIMIT {most}) x)")
        every += parameters
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(branches)}", every)
        return list(cursor.fetchone())


def new_since(wanted: Wanted, last_id: UUID) -> int:
    """Open holds of this view that were opened after the one with `last_id`; at most COUNT_MAX."""
    parts, parameters, reasons = _conditions(wanted, database_now())
    if reasons is not None:
        parts.append("reason = ANY(%s)")
        parameters.append([reason.value for reason in reasons])
    query = f"SELECT count(*) FROM (SELECT FROM ledger_hold WHERE {' AND '.join(parts)} AND id > %s LIMIT {COUNT_MAX}) x"
    return int(_rows(query, [*parameters, last_id])[0].count)


# Neighbours


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
        found = _rows(f"SELECT id, operation_id FROM ({query}) x WHERE operation_id IS NOT NULL", parameters)
        around.append((found[0].id, found[0].operation_id) if found else None)
    parts, parameters, reasons = _conditions(wanted, now)
    if reasons is not None:
        parts.append("reason = ANY(%s)")
        parameters.append([reason.value for reason in reasons])
    query = (
        f"SELECT count(*) FROM (SELECT FROM ledger_hold WHERE {' AND '.join(parts)}"
        f" AND (due_at, id) < (%s, %s) LIMIT {COUNT_MAX}) x"
    )
    before_count = int(_rows(query, [*parameters, place.due_at, place.id])[0].count)
    return Neighbours(around[0], around[1], before_count)


# What may be chosen


@dataclass(frozen=True, slots=True)
class Choices:
    destinations: list[str]
    workflows: list[str]


def choices(team_id: UUID) -> Choices:
    rows = _rows(
        "SELECT kind, slug FROM ledger_definition WHERE team_id = %s AND kind IN ('destination', 'workflow')"
        " ORDER BY slug",
        [team_id],
    )
    return Choices(
        [row.slug for row in rows if row.kind == "destination"],
        [row.slug for row in rows if row.kind == "workflow"],
    )


@dataclass(frozen=True, slots=True)
class Watching:
    """What goes on without a person, for the page that has nothing to ask."""

    looks: int  # scheduled lookups, at most COUNT_MAX
    next_look_at: datetime | None


def watching(team_id: UUID) -> Watching:
    looks = _rows(
        "SELECT count(*) AS count, min(act_at) AS next_at FROM (SELECT act_at FROM ledger_step"
        f" WHERE act = 'look' AND team_id = %s ORDER BY act_at LIMIT {COUNT_MAX}) x",
        [team_id],
    )[0]
    return Watching(int(looks.count), looks.next_at)


def _rows(query: str, parameters: Sequence[Any]) -> list[Any]:
    connection.ensure_connection()
    with connection.connection.cursor(row_factory=namedtuple_row) as cursor:
        return list(cursor.execute(query, list(parameters)).fetchall())

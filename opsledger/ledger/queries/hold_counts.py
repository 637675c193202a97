"""How many open holds there are, by view. Counts read indexes only, and end at a limit that is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from opsledger.ledger.clock import database_now, lately_now
from opsledger.ledger.queries.inbox import OLD_SECONDS, UNKNOWN_REASONS, View, Wanted, condition_of, floor_id
from opsledger.lib.named_rows import named_rows
from opsledger.rules.states import DESTINATION_REASONS, HoldReason

COUNT_MAX = 10_000  # more is shown as "10,000 or more"


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
            View.OLD_UNKNOWN: sum(by_reason[r.value][1] for r in UNKNOWN_REASONS if r.value in by_reason),
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
        where, parameters = condition_of(one, now)
        branches.append(f"(SELECT count(*) FROM (SELECT FROM ledger_hold WHERE {where} LIMIT {most}) x)")
        every += parameters
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(branches)}", every)
        return list(cursor.fetchone())


def new_since(wanted: Wanted, last_id: UUID) -> int:
    """Open holds of this view that were opened after the one with `last_id`; at most COUNT_MAX."""
    where, parameters = condition_of(wanted, database_now())
    query = f"SELECT count(*) FROM (SELECT FROM ledger_hold WHERE {where} AND id > %s LIMIT {COUNT_MAX}) x"
    return int(named_rows(query, [*parameters, last_id])[0].count)

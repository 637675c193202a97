"""The numbers beside the navigation: what waits, and whether the lookups are made on time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.ledger.queries import approvals, notices

LOOKS_MAX = 1000  # counted no further: the line tells whether checks run, not how many there are
LATE_SECONDS = 60

_COUNTS = """
SELECT (SELECT count(*) FROM ledger_hold WHERE team_id = ANY(%(teams)s) AND closed_at IS NULL),
       (SELECT count(DISTINCT destination_slug) FROM ledger_hold
         WHERE team_id = ANY(%(teams)s) AND closed_at IS NULL
           AND reason IN ('access_refused', 'paused', 'circuit_open')),
       (SELECT count(*) FROM (SELECT FROM ledger_step
         WHERE act = 'look' AND team_id = ANY(%(teams)s) LIMIT %(looks)s) looks),
       (SELECT count(*) FROM (SELECT FROM ledger_step
         WHERE act = 'look' AND act_at < now() - %(late)s * interval '1 second'
           AND team_id = ANY(%(teams)s) LIMIT %(looks)s) late),
       (SELECT count(*) FROM ledger_replay WHERE state IN ('running', 'paused', 'aborting') AND team_id = ANY(%(teams)s)),
       (SELECT count(*) FROM (SELECT FROM ledger_notice
         WHERE person_id = %(person)s AND team_id = ANY(%(teams)s) AND read_at IS NULL LIMIT %(unread)s) unread)
"""
_NAMES = ("inbox", "destinations", "checks_scheduled", "checks_late", "replays", "unread", "approvals")


def counts(team_ids: Sequence[UUID], person_id: UUID, *, approver: bool) -> Mapping[str, int]:
    """`inbox`, `destinations`, `checks_…`, open `replays` of these teams and the person's `unread` notices.

    For an approver also the `approvals` that wait for them. One statement.
    """
    query = f"{_COUNTS}, ({approvals.WAITING_FOR})" if approver else _COUNTS
    asked: dict[str, Any] = {
        "teams": list(team_ids),
        "person": person_id,
        "looks": LOOKS_MAX,
        "late": LATE_SECONDS,
        "unread": notices.UNREAD_MAX + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(query, asked | ({"most": approvals.COUNT_MAX} if approver else {}))
        return dict(zip(_NAMES, cursor.fetchone(), strict=False))

"""The numbers beside the navigation: what waits, and whether the lookups are made on time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db import connection

LOOKS_MAX = 1000  # counted no further: the line tells whether checks run, not how many there are
LATE_SECONDS = 60

_COUNTS = """
SELECT (SELECT count(*) FROM ledger_hold WHERE team_id = ANY(%(teams)s) AND closed_at IS NULL),
       (SELECT count(DISTINCT destination_slug) FROM ledger_hold
         WHERE team_id = ANY(%(teams)s) AND closed_at IS NULL
           AND reason IN ('access_refused', 'paused', 'circuit_open')),
       (SELECT count(*) FROM (SELECT FROM ledger_step
         WHERE act = 'look' AND team_id = ANY(%(teams)s) LIMIT %(most)s) looks),
       (SELECT count(*) FROM (SELECT FROM ledger_step
         WHERE act = 'look' AND act_at < now() - %(late)s * interval '1 second'
           AND team_id = ANY(%(teams)s) LIMIT %(most)s) late),
       (SELECT count(*) FROM ledger_replay WHERE state IN ('running', 'paused', 'aborting') AND team_id = ANY(%(teams)s))
"""


def counts(team_ids: Sequence[UUID]) -> Mapping[str, int]:
    """`inbox`, `destinations`, `checks_…` and open `replays` of these teams, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, {"teams": list(team_ids), "most": LOOKS_MAX, "late": LATE_SECONDS})
        row = cursor.fetchone()
    return dict(
        zip(("inbox", "destinations", "checks_scheduled", "checks_late", "replays"), row, strict=True)
    )

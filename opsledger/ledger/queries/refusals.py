"""What was refused at the door of a team, counted per source, reason and day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from django.db import connection

DAYS = 7
LINES_MAX = 500


@dataclass(frozen=True, slots=True)
class RefusalLine:
    source_slug: str  # "" for the API
    reason: str
    day: date
    count: int
    last_at: datetime
    last_sentence: str


def refusals_of(team_ids: Sequence[UUID], *, days: int = DAYS) -> list[RefusalLine]:
    """The refusals of the last days, newest day first; at most LINES_MAX.

    Deliveries to unknown sources and requests without a token belong to no team and are not among them.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT source_slug, reason, day, count, last_at, last_sentence FROM ledger_refusal"
            " WHERE team_id = ANY(%s) AND day > (now() AT TIME ZONE 'UTC')::date - %s::integer"
            f" ORDER BY day DESC, count DESC, source_slug, reason LIMIT {LINES_MAX}",
            [list(team_ids), days],
        )
        return [RefusalLine(*row) for row in cursor.fetchall()]

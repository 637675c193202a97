"""Lookups: how those of a step ended (“nothing is there” apart from no answer), and which are still to come."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from opsledger.lib.named_rows import named_rows
from opsledger.rules.matching import FOUND_NOTHING, GAVE_NO_ANSWER

SCHEDULED_MAX = 10_000  # more is shown as "10,000 or more"


@dataclass(frozen=True, slots=True)
class Looks:
    """Lookups since the step's outcome became unknown, or since it was accepted; also those that a person asked for."""

    made: int = 0  # the others found something
    found_nothing: int = 0  # answered, and had no record
    failed: int = 0  # gave no (whole) answer: an error, access refused, not all pages


def words_in_sql(words: Iterable[str]) -> str:
    """Words of ours, as a list between the brackets of IN."""
    return ", ".join(f"'{word}'" for word in sorted(words))


# Joined to a `ledger_step s`. A read for a decision is no look. Looks are few, and found by their step.
LOOKS_ENDED = f"""
  LEFT JOIN LATERAL (
       SELECT count(*) AS made, count(*) FILTER (WHERE v.says IN ({words_in_sql(FOUND_NOTHING)})) AS found_nothing,
              count(*) FILTER (WHERE v.says IN ({words_in_sql(GAVE_NO_ANSWER)})) AS failed
         FROM ledger_evidence v
        WHERE s.looked_at IS NOT NULL AND v.step_id = s.id AND v.kind = 'lookup' AND v.says <> 'read'
          AND v.received_at > coalesce(greatest(s.unknown_at, s.accepted_at), '-infinity')) looks ON true
"""
HOW_LOOKS_ENDED = """
       coalesce(looks.made, 0) AS looks_made, coalesce(looks.found_nothing, 0) AS looks_found_nothing,
       coalesce(looks.failed, 0) AS looks_failed
""".strip()


@dataclass(frozen=True, slots=True)
class Watching:
    """What goes on without a person, for the page that has nothing to ask."""

    looks: int  # scheduled lookups, at most SCHEDULED_MAX
    next_look_at: datetime | None


def watching(team_id: UUID) -> Watching:
    looks = named_rows(
        "SELECT count(*) AS count, min(act_at) AS next_at FROM (SELECT act_at FROM ledger_step"
        f" WHERE act = 'look' AND team_id = %s ORDER BY act_at LIMIT {SCHEDULED_MAX}) x",
        [team_id],
    )[0]
    return Watching(int(looks.count), looks.next_at)

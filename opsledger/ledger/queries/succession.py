"""Who would get the open holds of somebody who is deactivated or leaves: told before it is done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import connection

from opsledger.ledger.queries.owners import name_of, owners_of, policy_of

HOLDS_MAX = 1000  # looked through in one team; more are told as “more than”

_OPEN = """
SELECT o.workflow_version_id, count(*)
  FROM (SELECT operation_id FROM ledger_hold
         WHERE team_id = %s AND owner_id = %s AND closed_at IS NULL LIMIT %s) h
  LEFT JOIN ledger_operation o ON o.id = h.operation_id GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Heir:
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Succession:
    """Of one person in one team: how many open holds they own, and to whom these go."""

    team_id: UUID
    count: int
    is_more: bool  # there are more than were looked through
    heirs: tuple[Heir, ...]


def succession_of(person_id: UUID, team_id: UUID, now: datetime) -> Succession:
    """As `rules.escalation` decides it once the person is gone; the sweep does it within seconds."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, [team_id, person_id, HOLDS_MAX + 1])
        rows = cursor.fetchall()
    count = sum(number for _version, number in rows)
    if not count:
        return Succession(team_id, 0, False, ())
    owners = owners_of(team_id, now)
    without = replace(owners, roles={one: roles for one, roles in owners.roles.items() if one != person_id})
    heirs: Counter[UUID] = Counter()
    for version_id, number in rows:
        heirs[without.standing(person_id, policy_of(version_id)[0]).successor] += number
    told = tuple(Heir(name_of(person, owners), number) for person, number in heirs.most_common())
    return Succession(team_id, min(count, HOLDS_MAX), count > HOLDS_MAX, told)

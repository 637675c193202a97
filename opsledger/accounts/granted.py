"""Since when somebody has a role, and who gave it: the membership's row, and the team's journal."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from opsledger.accounts.models import Membership, Person
from opsledger.accounts.permissions import Role

_GRANTED = """
SELECT subject_id, actor, body FROM journal_entry
 WHERE subject_id = ANY(%s) AND kind = 'role_granted' AND body LIKE %s ORDER BY subject_id, seq
"""


@dataclass(frozen=True, slots=True)
class Granted:
    role: Role
    since: datetime
    by: str  # as the journal writes it: person:…, command:…; "" where it does not say


def roles_granted(person: Person) -> dict[UUID, list[Granted]]:
    """Every role of the person by team, least first. Two queries."""
    rows = list(Membership.objects.filter(person=person))
    actors = _actors(person, {row.team_id for row in rows})
    found: dict[UUID, list[Granted]] = {}
    for row in sorted(rows, key=lambda one: list(Role).index(Role(one.role))):
        by = actors.get((row.team_id, row.role), "")
        found.setdefault(row.team_id, []).append(Granted(Role(row.role), row.created_at, by))
    return found


def _actors(person: Person, team_ids: Collection[UUID]) -> dict[tuple[UUID, str], str]:
    """Who gave each role last, by team and role."""
    with connection.cursor() as cursor:
        cursor.execute(_GRANTED, [list(team_ids), f'%"person":"{person.pk}"%'])
        lines = [(team_id, actor, json.loads(body)) for team_id, actor, body in cursor.fetchall()]
    return {
        (team_id, role): actor
        for team_id, actor, told in lines
        if told["person"] == str(person.pk)
        for role in told["roles"]
    }

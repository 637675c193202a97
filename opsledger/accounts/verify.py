"""Proving teams: who has which role, who is away, which tokens work: all of it follows the team's journal."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.accounts.models import Absence, ApiToken, Membership, Person, Team
from opsledger.accounts.permissions import Via
from opsledger.journal.verify import EntryRow, Fault


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Absence:
    person: str
    deputy: str
    begins_at: datetime
    ends_at: datetime


@dataclass(slots=True)
class _State:
    """What the journal tells of one team, or its rows say."""

    fallback_owner: str = ""
    roles: set[tuple[str, str]] = field(default_factory=set)  # of whom, which
    inactive: set[str] = field(default_factory=set)  # of those who have a role
    tokens: dict[str, _Token] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    absences: dict[str, _Absence] = field(default_factory=dict)
    called_off: set[str] = field(default_factory=set)

    def members(self) -> set[str]:
        return {person for person, _ in self.roles}


def team_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each team of these journals: what its rows say that its journal doesn't."""
    if not entries:
        return []
    rows = _read(list(entries))
    return [
        Fault("team", team_id, why)
        for team_id, lines in entries.items()
        if (why := _difference(rows.get(team_id), folded(lines)))
    ]


def _read(team_ids: list[UUID]) -> dict[UUID, _State]:
    states = {
        pk: _State(fallback_owner=str(owner))
        for pk, owner in Team.objects.filter(pk__in=team_ids).values_list("pk", "fallback_owner_id")
    }
    people: dict[UUID, list[UUID]] = defaultdict(list)
    for one in Membership.objects.filter(team_id__in=team_ids):
        states[one.team_id].roles.add((str(one.person_id), one.role))
        people[one.person_id].append(one.team_id)
    for gone in Person.objects.filter(pk__in=list(people), is_active=False).values_list("pk", flat=True):
        for team_id in people[gone]:
            states[team_id].inactive.add(str(gone))
    for token in ApiToken.objects.filter(team_id__in=team_ids):
        states[token.team_id].tokens[str(token.pk)] = _Token(token.kind, tuple(token.scopes))
        if token.revoked_at is not None:
            states[token.team_id].revoked.add(str(token.pk))
    for row in Absence.objects.filter(team_id__in=team_ids):
        away = _Absence(str(row.person_id), str(row.deputy_id), row.begins_at, row.ends_at)
        states[row.team_id].absences[str(row.pk)] = away
        if row.called_off_at is not None:
            states[row.team_id].called_off.add(str(row.pk))
    return states


def folded(lines: list[EntryRow]) -> _State:
    """What the journal tells of a team."""
    told = _State()
    for line in lines:
        _apply(told, line.kind, json.loads(line.body))
    told.inactive &= told.members()
    return told


def _apply(told: _State, kind: str, body: dict[str, Any]) -> None:
    match kind:
        case "team_added" | "team_changed":
            told.fallback_owner = body["fallback_owner"]
        case "role_granted":  # to somebody who is active
            told.roles |= {(body["person"], role) for role in body["roles"]}
            told.inactive.discard(body["person"])
        case "roles_taken":
            told.roles -= {(body["person"], role) for role in body["roles"]}
        case "person_deactivated":
            told.inactive.add(body["person"])
        case "person_reactivated":
            told.inactive.discard(body["person"])
        case "token_made":
            told.tokens[body["token"]] = _Token(body["token_kind"], tuple(body["scopes"]))
        case "token_revoked":
            told.revoked.add(body["token"])
        case "absence_added":
            span = datetime.fromisoformat(body["begins_at"]), datetime.fromisoformat(body["ends_at"])
            told.absences[body["absence"]] = _Absence(body["person"], body["deputy"], *span)
        case "absence_called_off":
            told.called_off.add(body["absence"])


def _difference(rows: _State | None, told: _State) -> str:
    if rows is None:
        return "its row is missing"
    compared = {
        "its fallback owner is": (rows.fallback_owner, told.fallback_owner),
        "who has which role is": (rows.roles, told.roles),
        "who of its people is active is": (rows.inactive, told.inactive),
        "its tokens are": (rows.tokens, told.tokens),
        "who is away, and when, is": (rows.absences, told.absences),
        "which absences were called off is": (rows.called_off, told.called_off),
        "which tokens were revoked is": (_revoked(rows, told), told.revoked),
    }
    return next(
        (f"{words} not as its journal says" for words, (has, says) in compared.items() if has != says), ""
    )


def _revoked(rows: _State, told: _State) -> set[str]:
    """Those that somebody revoked. A person's own are also revoked with the person, which their teams are told once."""
    own = {token for token, made in rows.tokens.items() if made.kind == Via.PERSONAL}
    return rows.revoked - (own - told.revoked)

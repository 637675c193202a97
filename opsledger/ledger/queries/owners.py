"""Who may be given the holds of a team now: its members, who is away, and whose turn it is if nobody acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from opsledger.accounts.absences import away_now
from opsledger.accounts.models import Membership, Person, Team
from opsledger.accounts.permissions import Role
from opsledger.ledger import definitions
from opsledger.rules.absences import Away, stand_in
from opsledger.rules.escalation import ESCALATE_AFTER_SECONDS, Standing

_WORKING = frozenset({Role.OPERATOR, Role.OWNER})


@dataclass(frozen=True, slots=True)
class Owners:
    """One team's people at one moment. Deactivated people are no members here."""

    team_id: UUID
    fallback: UUID
    roles: Mapping[UUID, frozenset[Role]]
    by_sign_in: Mapping[str, UUID]
    names: Mapping[UUID, str]
    away: tuple[Away, ...]
    now: datetime

    def standing(self, owner: UUID | None, workflow_owner: str = "") -> Standing:
        """What the rules need to know. `workflow_owner`: the sign-in name that the workflow gives."""
        named = self.by_sign_in.get(workflow_owner.strip().lower())
        return Standing(
            owner=owner,
            owner_gone=owner is not None and owner not in self.roles,
            deputy=self._stand_in(owner) if owner is not None and self.is_away(owner) else None,
            workflow_owner=self._stand_in(named) if named is not None else None,
            fallback=self._stand_in(self.fallback) or self.fallback,
        )

    def is_away(self, person: UUID) -> bool:
        return any(one.person == person and one.at(self.now) for one in self.away)

    def _stand_in(self, person: UUID) -> UUID | None:
        return stand_in(person, self.away, self.now, self._works)

    def _works(self, person: UUID) -> bool:
        return not _WORKING.isdisjoint(self.roles.get(person, ()))

    def with_role(self, *wanted: Role) -> frozenset[UUID]:
        """Members with one of these roles. Who is away is left out, unless all of them are."""
        found = {person for person, roles in self.roles.items() if not roles.isdisjoint(wanted)}
        return frozenset({person for person in found if not self.is_away(person)} or found)


def owners_of(team_id: UUID, now: datetime) -> Owners:
    """Three queries, whatever there is to do."""
    rows = Membership.objects.filter(team_id=team_id, person__is_active=True)
    roles: dict[UUID, set[Role]] = {}
    by_sign_in: dict[str, UUID] = {}
    names: dict[UUID, str] = {}
    for person, email, name, role in rows.values_list(
        "person_id", "person__email", "person__display_name", "role"
    ):
        roles.setdefault(person, set()).add(Role(role))
        by_sign_in[email], names[person] = person, name
    fallback = Team.objects.values_list("fallback_owner_id", flat=True).get(pk=team_id)
    return Owners(
        team_id=team_id,
        fallback=fallback,
        roles={person: frozenset(found) for person, found in roles.items()},
        by_sign_in=by_sign_in,
        names=names,
        away=tuple(away_now(team_id, now)),
        now=now,
    )


def owners_of_teams(team_ids: Iterable[UUID], now: datetime) -> dict[UUID, Owners]:
    return {team_id: owners_of(team_id, now) for team_id in set(team_ids)}


def policy_of(workflow_version_id: UUID | None) -> tuple[str, int]:
    """Who the workflow names as owner, and seconds from due to escalated. For holds without a workflow: nobody, an hour."""
    if workflow_version_id is None:
        return "", ESCALATE_AFTER_SECONDS
    workflow = definitions.workflow(workflow_version_id)
    return workflow.owner, workflow.escalates_after_seconds


def name_of(person: UUID, owners: Owners) -> str:
    """Also of somebody who is gone, or in other teams only."""
    known = owners.names.get(person)
    return known or Person.objects.values_list("display_name", flat=True).get(pk=person)

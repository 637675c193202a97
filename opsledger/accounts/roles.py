"""Readers: who is where, with which roles. The table of what a role may do is in `permissions`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from opsledger.accounts.models import Membership, Person, Team
from opsledger.accounts.permissions import Permission, Role, Via, allowed, roles_with


def memberships_of(person: Person) -> dict[Team, frozenset[Role]]:
    """The person's teams by name, each with the roles there. One query; a deactivated person has none."""
    found: dict[Team, set[Role]] = {}
    if person.is_active:
        rows = Membership.objects.filter(person=person).select_related("team")
        for row in rows.order_by("team__name", "team_id"):
            found.setdefault(row.team, set()).add(Role(row.role))
    return {team: frozenset(roles) for team, roles in found.items()}


def teams_of(person: Person) -> list[Team]:
    return list(memberships_of(person))


def roles_of(person: Person, team: Team | UUID) -> frozenset[Role]:
    """The person's roles in this team; none for an outsider or a deactivated person."""
    if not person.is_active:
        return frozenset()
    team_id = team.pk if isinstance(team, Team) else team
    roles = Membership.objects.filter(person=person, team_id=team_id).values_list("role", flat=True)
    return frozenset(Role(role) for role in roles)


def is_member(person_id: UUID | str, team_id: UUID) -> bool:
    """Whether this is an active person with a role in the team."""
    return Membership.objects.filter(person_id=person_id, team_id=team_id, person__is_active=True).exists()


def people_who_may(permission: Permission, team: Team) -> list[Person]:
    """Active members whose roles give the permission, by name: whom to ask."""
    roles = [role.value for role in roles_with(permission)]
    people = Person.objects.filter(is_active=True, memberships__team=team, memberships__role__in=roles)
    return list(people.distinct().order_by("display_name", "id"))


@dataclass(frozen=True, slots=True)
class Member:
    person: Person
    roles: frozenset[Role]
    is_fallback: bool


def members_of(team: Team) -> list[Member]:
    """Everybody with a role in the team, by name, deactivated people last."""
    found: dict[Person, set[Role]] = {}
    for row in Membership.objects.filter(team=team).select_related("person"):
        found.setdefault(row.person, set()).add(Role(row.role))
    members = [Member(p, frozenset(r), p.pk == team.fallback_owner_id) for p, r in found.items()]
    return sorted(
        members, key=lambda m: (not m.person.is_active, m.person.display_name.casefold(), m.person.pk)
    )


def people_of(team: Team) -> list[Person]:
    """Active members by name: whom something can be given to."""
    return [member.person for member in members_of(team) if member.person.is_active]


def may_administer_everywhere(admin: Person, person: Person) -> bool:
    """Whether `admin` administers every team of `person`: what touches sign-in reaches all of them."""
    teams = set(Membership.objects.filter(person=person).values_list("team_id", flat=True))
    administered = Membership.objects.filter(person=admin, role=Role.ADMIN.value, team_id__in=teams)
    return bool(teams) and teams == set(administered.values_list("team_id", flat=True))


__all__ = [
    "Member",
    "Permission",
    "Role",
    "Via",
    "allowed",
    "is_member",
    "may_administer_everywhere",
    "members_of",
    "memberships_of",
    "people_of",
    "people_who_may",
    "roles_of",
    "teams_of",
]

"""What I may do, team by team: my roles and who gave them, what they allow, whom to ask for the rest, who stands in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from opsledger.accounts.absences import absences_of
from opsledger.accounts.granted import Granted, roles_granted
from opsledger.accounts.models import Person, Team
from opsledger.accounts.permissions import WORDS, roles_with
from opsledger.accounts.roles import Member, Permission, Role, allowed, members_of
from opsledger.console.http import ConsoleRequest, page
from opsledger.console.wording.entries import actor_word
from opsledger.ledger.queries.timeline import names_of


@require_GET
def my_permissions(request: ConsoleRequest) -> HttpResponse:
    """The chosen team first, then the others by name."""
    granted = roles_granted(request.user)
    names = names_of({one.by for roles in granted.values() for one in roles})
    teams = sorted(request.teams.items(), key=lambda pair: pair[0] != request.team)
    context = {"sections": [_section(request, *pair, granted.get(pair[0].pk, []), names) for pair in teams]}
    return page(request, "settings/permissions.html", context)


def _section(
    request: ConsoleRequest, team: Team, roles: frozenset[Role], granted: list[Granted], names: dict[str, str]
) -> dict[str, Any]:
    members = [member for member in members_of(team) if member.person.is_active]
    away = absences_of(team, timezone.now())
    return {
        "team": team,
        "current": team == request.team,
        "granted": [
            {"role": _(one.role.value), "since": one.since, "by": _by(one.by, names)} for one in granted
        ],
        "rows": _rows(roles, members, request.user),
        "deputies": [one for one in away if one.person_id == request.user.pk],
        "stands_in": [one for one in away if one.deputy_id == request.user.pk],
        "is_fallback": team.fallback_owner_id == request.user.pk,
    }


def _by(actor: str, names: dict[str, str]) -> str:
    """Who gave a role, by name; where the journal does not name anybody it says so."""
    kind, _sep, rest = actor.partition(":")
    if actor in names:
        return names[actor]
    if kind == "command":
        return _("the command line (%(name)s)") % {"name": rest}
    return actor_word(kind) if kind else _("it is not recorded by whom")


def _rows(roles: Collection[Role], members: list[Member], person: Person) -> list[dict[str, Any]]:
    """Each permission that a role gives, with those to ask: everybody else who has it."""
    return [
        {
            "words": _(WORDS[permission]),
            "allowed": allowed(roles, permission),
            "roles": [_(role.value) for role in roles_with(permission)],
            "people": [
                member.person.display_name
                for member in members
                if allowed(member.roles, permission) and member.person != person
            ],
        }
        for permission in Permission
        if roles_with(permission)
    ]

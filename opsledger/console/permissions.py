"""What the signed-in person may do in the chosen team, and the one line that says why not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _

from opsledger.accounts.models import Team
from opsledger.accounts.permissions import WORDS, roles_with
from opsledger.accounts.roles import Member, Permission, Role, allowed, members_of
from opsledger.console.http import ConsoleRequest
from opsledger.console.wording.phrases import listed

View = TypeVar("View", bound=Callable[..., Any])


def needs(permission: Permission) -> Callable[[View], View]:
    """Refuses the view with 403, and says which role it takes, unless the person has the permission."""

    def decorate(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            require(request, permission)
            return view(request, *args, **kwargs)

        return cast(View, checked)

    return decorate


def require(request: HttpRequest, permission: Permission) -> None:
    roles: frozenset[Role] = request.roles  # type: ignore[attr-defined]
    if not allowed(roles, permission):
        raise PermissionDenied(why_not(roles, permission, request.team))  # type: ignore[attr-defined]


def team_and_roles(request: ConsoleRequest, team_id: UUID) -> tuple[Team, frozenset[Role]]:
    """The team that something belongs to, and what the person is there; also when another team is chosen now."""
    for team, roles in request.teams.items():
        if team.pk == team_id:
            return team, roles
    raise Http404(_("There is no such thing in your teams."))


def require_in(request: ConsoleRequest, team_id: UUID, permission: Permission) -> None:
    """403 unless the person has the permission in the team that the thing belongs to."""
    team, roles = team_and_roles(request, team_id)
    if not allowed(roles, permission):
        raise PermissionDenied(why_not(roles, permission, team))


def everything_allowed(roles: Collection[Role]) -> dict[str, bool]:
    """Each permission by its value, for templates: `{% if may.settle %}` decides what is offered only."""
    return {permission.value: allowed(roles, permission) for permission in Permission}


def why_not(roles: Collection[Role], permission: Permission, team: Team) -> str:
    """“To settle a hold, you need the role owner in Returns; you have operator. Ask …, who can.”"""
    wanted = listed([_(role.value) for role in roles_with(permission)], last_by="or")
    if not wanted:
        return _("Only automations %(what)s, with a token of their own.") % {"what": _(WORDS[permission])}
    yours = listed([_(role) for role in sorted(role.value for role in roles)]) or _("no role")
    people = listed(_names_of_those_who_may(permission, team))
    facts = {
        "what": _(WORDS[permission]),
        "roles": wanted,
        "team": team.name,
        "yours": yours,
        "people": people,
    }
    if people:
        said = _("To %(what)s, you need the role %(roles)s in %(team)s; you have %(yours)s. %(people)s can.")
    else:
        said = _("To %(what)s, you need the role %(roles)s in %(team)s; you have %(yours)s.")
    return said % facts


def _names_of_those_who_may(permission: Permission, team: Team) -> list[str]:
    """Whom to ask. A page says so for several permissions; its team object lives as long as its request."""
    kept = vars(team)
    if "_members" not in kept:
        kept["_members"] = members_of(team)
    known: list[Member] = kept["_members"]
    wanted = set(roles_with(permission))
    return [one.person.display_name for one in known if one.person.is_active and one.roles & wanted]

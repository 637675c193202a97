"""Settings: one's profile and permissions; people, teams and tokens of the chosen team."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import available_timezones

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from opsledger.accounts import actions
from opsledger.accounts.models import ApiToken, Person
from opsledger.accounts.permissions import (
    AUTOMATION_SCOPES,
    PERSONAL_SCOPES,
    SCOPE_WORDS,
)
from opsledger.accounts.roles import (
    Permission,
    Role,
    Via,
    allowed,
    may_administer_everywhere,
    members_of,
    memberships_of,
    roles_of,
)
from opsledger.console.forms import by_person
from opsledger.console.http import (
    ConsoleRequest,
    back_to,
    no_content,
    page,
    see_other,
    unprocessable,
    wants_fragment,
)
from opsledger.console.middleware import choose_team as keep_team
from opsledger.console.middleware import without_team
from opsledger.console.permissions import needs, why_not
from opsledger.console.vocabulary import KINDS, rows_of
from opsledger.ledger.actions.approvers import settle_approvers_changed_here
from opsledger.ledger.queries.succession import Succession, succession_of

TOKEN_DAYS = (7, 30, 90, 365)


@without_team
@require_GET
def index(request: ConsoleRequest) -> HttpResponse:
    return see_other(reverse("profile"))


# Oneself


@without_team
@require_http_methods(["GET", "POST"])
def profile(request: ConsoleRequest) -> HttpResponse:
    context: dict[str, Any] = {"zones": sorted(available_timezones()), "typed": _profile_of(request.user)}
    if request.method != "POST":
        return page(request, "settings/profile.html", context)
    typed = {name: request.POST.get(name, "") for name in ("display_name", "time_zone", "theme")}
    shortcuts_on = request.POST.get("shortcuts_on") == "on"
    try:
        actions.change_profile(request.user, **typed, shortcuts_on=shortcuts_on)
    except actions.Refused as why:
        context |= {"typed": typed | {"shortcuts_on": shortcuts_on}, "errors": _errors(why)}
        return unprocessable(request, "settings/profile.html", context)
    messages.success(request, _("Your profile is saved."))
    return see_other(reverse("profile"))


def _profile_of(person: Person) -> dict[str, Any]:
    return {name: getattr(person, name) for name in ("display_name", "time_zone", "theme", "shortcuts_on")}


@without_team
@require_POST
def choose_theme(request: ConsoleRequest) -> HttpResponse:
    try:
        actions.choose_theme(request.user, request.POST.get("theme", ""))
    except actions.Refused as why:
        messages.error(request, why.message)
    return no_content() if wants_fragment(request) else see_other(back_to(request, reverse("profile")))


@require_POST
def choose_team(request: ConsoleRequest) -> HttpResponse:
    if not keep_team(request, _uuid(request.POST.get("team", ""))):
        raise Http404(_("There is no such team among yours."))
    return see_other(back_to(request, "/"))


@without_team
@require_GET
def states(request: ConsoleRequest) -> HttpResponse:
    """Every state and reason with its word, shape, colour and paragraph."""
    kinds = [(_(title), rows_of(kind)) for kind, title in KINDS.items()]
    return page(request, "states.html", {"kinds": kinds})


# People


@require_GET
def people(request: ConsoleRequest) -> HttpResponse:
    return page(request, "settings/people.html", _people_context(request))


def _people_context(request: ConsoleRequest) -> dict[str, Any]:
    return {"members": members_of(request.team), "all_roles": list(Role)}


@require_POST
@needs(Permission.ADMINISTER)
def add_person(request: ConsoleRequest) -> HttpResponse:
    """Somebody new with a first password, shown once; or somebody of another team, who keeps theirs."""
    email, name = request.POST.get("email", ""), request.POST.get("display_name", "")
    roles = _posted_roles(request)
    try:
        _refuse_other_roles(request)
        member, text = actions.add_member(email=email, display_name=name, team=request.team, roles=roles)
    except actions.Refused as why:
        typed = {"email": email, "display_name": name, "roles": roles}
        context = _people_context(request) | {"typed": typed, "errors": _errors(why)}
        return unprocessable(request, "settings/people.html", context)
    if text is None:
        messages.success(
            request,
            _("%(name)s is now in %(team)s.") % {"name": member.display_name, "team": request.team.name},
        )
        return see_other(reverse("people"))
    return page(request, "settings/shown_once.html", _shown_password(member, text), status=201)


def _shown_password(person: Person, text: str) -> dict[str, Any]:
    return {
        "title": _("First password of %(name)s") % {"name": person.display_name},
        "what": _("It opens sign-in as %(email)s once; then another one has to be chosen.")
        % {"email": person.email},
        "text": text,
        "back": reverse("people"),
    }


@require_http_methods(["GET", "POST"])
@needs(Permission.ADMINISTER)
def person(request: ConsoleRequest, person_id: UUID) -> HttpResponse:
    """One member: GET shows, POST sets the roles in this team."""
    member = _member(request, person_id)
    context = _person_context(request, member)
    if request.method != "POST":
        return page(request, "settings/person.html", context)
    roles = _posted_roles(request)
    try:
        _refuse_other_roles(request)
        with _approvals_follow(request, [request.team.pk]):
            actions.set_roles(member, request.team, roles)
    except actions.Refused as why:
        context |= {"roles_here": roles, "errors": {"roles": why.message}}
        return unprocessable(request, "settings/person.html", context)
    messages.success(request, _("The roles of %(name)s are saved.") % {"name": member.display_name})
    return see_other(reverse("people"))


@contextmanager
def _approvals_follow(request: ConsoleRequest, team_ids: Iterable[UUID]) -> Iterator[None]:
    """One transaction of a change of people or roles and of what it means for who may approve."""
    with transaction.atomic():
        yield
        settle_approvers_changed_here(set(team_ids), by_person(request.user))


def _person_context(request: ConsoleRequest, member: Person) -> dict[str, Any]:
    return {
        "member": member,
        "roles_here": roles_of(member, request.team),
        "all_roles": list(Role),
        "reaches_all": may_administer_everywhere(request.user, member),
        "is_oneself": member == request.user,
        "successions": _successions(request, member),
    }


def _successions(request: ConsoleRequest, member: Person) -> list[dict[str, Any]]:
    """To whom the open holds go that this person owns: in the teams that both are in."""
    now = timezone.now()
    teams = [team for team in memberships_of(member) if team.pk in request.team_ids]
    found = [(team, succession_of(member.pk, team.pk, now)) for team in teams]
    return [
        {"team": team, "count": one.count, "is_more": one.is_more, "shares": _shares(one)}
        for team, one in found
    ]


def _shares(one: Succession) -> str:
    """“2 go to Maria, 1 goes to Jon”."""
    return ", ".join(
        ngettext("%(count)s goes to %(name)s", "%(count)s go to %(name)s", heir.count)
        % {"count": heir.count, "name": heir.name}
        for heir in one.heirs
    )


@require_POST
@needs(Permission.ADMINISTER)
def deactivate_person(request: ConsoleRequest, person_id: UUID) -> HttpResponse:
    member = _reachable_member(request, person_id)
    try:
        with _approvals_follow(request, member.memberships.values_list("team_id", flat=True)):
            actions.deactivate_person(member)
    except actions.Refused as why:
        context = _person_context(request, member) | {"errors": {"active": why.message}}
        return unprocessable(request, "settings/person.html", context)
    messages.success(request, _("%(name)s can no longer sign in.") % {"name": member.display_name})
    return see_other(reverse("people"))


@require_POST
@needs(Permission.ADMINISTER)
def reactivate_person(request: ConsoleRequest, person_id: UUID) -> HttpResponse:
    member = _reachable_member(request, person_id)
    with _approvals_follow(request, member.memberships.values_list("team_id", flat=True)):
        actions.reactivate_person(member)
    messages.success(request, _("%(name)s may sign in again.") % {"name": member.display_name})
    return see_other(reverse("people"))


@require_POST
@needs(Permission.ADMINISTER)
def new_password(request: ConsoleRequest, person_id: UUID) -> HttpResponse:
    member = _reachable_member(request, person_id)
    text = actions.set_temporary_password(member)
    return page(request, "settings/shown_once.html", _shown_password(member, text), status=201)


def _member(request: ConsoleRequest, person_id: UUID) -> Person:
    found = Person.objects.filter(pk=person_id, memberships__team=request.team).distinct().first()
    if found is None:
        raise Http404(_("There is no such person in this team."))
    return found


def _reachable_member(request: ConsoleRequest, person_id: UUID) -> Person:
    """What touches sign-in reaches every team of the person, so it takes an admin of all of them."""
    member = _member(request, person_id)
    if not may_administer_everywhere(request.user, member):
        raise PermissionDenied(
            _(
                "%(name)s is in other teams, too. Signing in concerns all of them, so only somebody who is an admin in"
                " each may change it."
            )
            % {"name": member.display_name}
        )
    return member


def _posted_roles(request: ConsoleRequest) -> list[Role]:
    return [role for role in Role if role.value in request.POST.getlist("roles")]


def _refuse_other_roles(request: ConsoleRequest) -> None:
    """A role that there is not must not be left out in silence: the others alone were not meant."""
    if not set(request.POST.getlist("roles")) <= {role.value for role in Role}:
        raise actions.Refused(_("Choose roles from the list."), "roles")


# Teams


@require_GET
def teams(request: ConsoleRequest) -> HttpResponse:
    return page(request, "settings/teams.html", _teams_context(request))


def _teams_context(request: ConsoleRequest) -> dict[str, Any]:
    rows = [
        {"team": team, "roles": [role for role in Role if role in roles]}
        for team, roles in memberships_of(request.user).items()
    ]
    owners = [member.person for member in members_of(request.team) if Role.OWNER in member.roles]
    return {"rows": rows, "owners": [owner for owner in owners if owner.is_active]}


@require_POST
@needs(Permission.ADMINISTER)
def change_team(request: ConsoleRequest) -> HttpResponse:
    """Name and fallback owner of the chosen team."""
    try:
        successor = _member(request, _uuid(request.POST.get("fallback_owner", "")))
        with transaction.atomic():
            former = actions.change_team(
                request.team, name=request.POST.get("name", ""), fallback_owner=successor
            )
            settle_approvers_changed_here([request.team.pk], by_person(request.user), former_fallback=former)
    except actions.Refused as why:
        context = _teams_context(request) | {"errors": _errors(why), "typed": request.POST}
        return unprocessable(request, "settings/teams.html", context)
    messages.success(request, _("The team is saved."))
    return see_other(reverse("teams"))


@require_POST
@needs(Permission.ADMINISTER)
def add_team(request: ConsoleRequest) -> HttpResponse:
    """A further team; whoever makes it is its first admin and its fallback owner."""
    slug, name = request.POST.get("slug", ""), request.POST.get("name", "")
    try:
        team = actions.add_team(slug=slug, name=name, fallback_owner=request.user, also=[Role.ADMIN])
    except actions.Refused as why:
        typed = {"slug": slug, "name": name}
        context = _teams_context(request) | {"new_errors": _errors(why), "new_typed": typed}
        return unprocessable(request, "settings/teams.html", context)
    messages.success(
        request, _("%(team)s is made. Choose it in the menu under your name.") % {"team": team.name}
    )
    return see_other(reverse("teams"))


# Tokens


@require_GET
def tokens(request: ConsoleRequest) -> HttpResponse:
    return page(request, "settings/tokens.html", _tokens_context(request))


def _tokens_context(request: ConsoleRequest) -> dict[str, Any]:
    """An admin sees the team's tokens, everybody else their own."""
    found = ApiToken.objects.filter(team=request.team).select_related("person")
    if not allowed(request.roles, Permission.ADMINISTER):
        found = found.filter(person=request.user)
    now = timezone.now()
    return {
        "rows": [
            {"token": token, "state": _token_state(token, now)} for token in found.order_by("-created_at")
        ],
        "automation_scopes": [(scope.value, _(SCOPE_WORDS[scope])) for scope in AUTOMATION_SCOPES],
        "personal_scopes": [(scope.value, _(SCOPE_WORDS[scope])) for scope in PERSONAL_SCOPES],
        "days": TOKEN_DAYS,
    }


def _token_state(token: ApiToken, now: Any) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "active"


@require_POST
def add_token(request: ConsoleRequest) -> HttpResponse:
    """An automation's token takes an admin. A personal one carries its person's rights: only they make it."""
    personal = request.POST.get("kind") == Via.PERSONAL
    if not personal and not allowed(request.roles, Permission.ADMINISTER):
        raise PermissionDenied(why_not(request.roles, Permission.ADMINISTER, request.team))
    name, days = request.POST.get("name", ""), request.POST.get("days", "")
    scopes = request.POST.getlist("scopes")
    try:
        made = actions.create_token(
            team=request.team,
            name=name,
            scopes=scopes,
            person=request.user if personal else None,
            expires_at=_expiry(days),
        )
    except actions.Refused as why:
        typed = {"name": name, "days": days, "scopes": scopes, "kind": request.POST.get("kind", "")}
        context = _tokens_context(request) | {"typed": typed, "errors": _errors(why)}
        return unprocessable(request, "settings/tokens.html", context)
    return page(request, "settings/shown_once.html", _shown_token(made), status=201)


def _expiry(days: str) -> datetime | None:
    """None where *never* was chosen. What is not offered is refused: it must not come to mean that."""
    if not days:
        return None
    if days not in {str(choice) for choice in TOKEN_DAYS}:
        raise actions.Refused(_("Choose when it expires from the list."), "expires_at")
    return timezone.now() + timedelta(days=int(days))


def _shown_token(made: actions.NewToken) -> dict[str, Any]:
    return {
        "title": _("Token “%(name)s”") % {"name": made.token.name},
        "what": _("Put it where the program that uses it keeps its secrets. Only a hash of it is kept here."),
        "text": made.text,
        "back": reverse("tokens"),
    }


@require_POST
def revoke_token(request: ConsoleRequest, token_id: UUID) -> HttpResponse:
    found = ApiToken.objects.filter(pk=token_id, team=request.team)
    if not allowed(request.roles, Permission.ADMINISTER):
        found = found.filter(person=request.user)
    token = found.first()
    if token is None:
        raise Http404(_("There is no such token among those you may revoke."))
    actions.revoke_token(token)
    messages.success(
        request,
        _("The token “%(name)s” is revoked. It stops working within five seconds.") % {"name": token.name},
    )
    return see_other(reverse("tokens"))


def _errors(why: actions.Refused) -> dict[str, str]:
    return {why.field or "form": why.message}


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404(_("There is nothing with this number.")) from None

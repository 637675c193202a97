"""Every request of the console: signed in, in a team, in the viewer's time zone, never cached."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from opsledger.accounts.models import Person, Team
from opsledger.accounts.roles import memberships_of
from opsledger.console import errors
from opsledger.console.http import no_store, see_other, wants_fragment
from opsledger.journal.actor import acting_as

TEAM_KEY = "team_id"
# Those that are not the console: their own authentication, or none.
_NOT_CONSOLE = re.compile(r"/(?:api|hooks|static|metrics|healthz|readyz)(?:/|$)")


def open_to_all(view: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a view that is shown without signing in."""
    view.login_required = False  # type: ignore[attr-defined]
    return view


def without_team(view: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a view that a person without any team may use, too."""
    view.team_required = False  # type: ignore[attr-defined]
    return view


class LanguageMiddleware(LocaleMiddleware):
    """Django's own for people; programs are answered in English, whatever language they say they take."""

    def process_request(self, request: HttpRequest) -> None:
        if not _NOT_CONSOLE.match(request.path_info):
            super().process_request(request)
            return
        translation.activate(settings.LANGUAGE_CODE)
        request.LANGUAGE_CODE = settings.LANGUAGE_CODE


class ConsoleMiddleware:
    """For the console's own paths:

    1. Puts the person's teams and the chosen team with the roles there on the request.
    2. Renders in the person's time zone, until the response is made.
    3. Refuses who is not signed in, has no team, or has to change the password first.
    4. Forbids storing what is answered.
    5. Gives who opens the address of a form a page, where the browser would show its own error.
    6. Refuses addresses that hold NUL: nothing has such a name, and no database can be asked for it.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if _NOT_CONSOLE.match(request.path_info):
            return self._get_response(request)
        person = request.user
        if isinstance(person, Person) and person.is_authenticated:
            _bring_team(request, person)
            zone, actor = timezone.override(person.zone), f"person:{person.pk}"
        else:
            zone, actor = timezone.override(None), "web"
        with zone, acting_as(actor):
            response = self._get_response(request)
            if response.status_code == 405:
                response = errors.not_a_page(request, response.headers.get("Allow", ""))
        no_store(response)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        if _NOT_CONSOLE.match(request.path_info):
            return None
        _refuse_nul(request)
        if not getattr(view, "login_required", True):
            return None
        person = request.user
        if not isinstance(person, Person):
            return _sign_in_first(request)
        if person.must_change_password and getattr(view, "team_required", True):
            return see_other(reverse("password"))
        if request.team is None and getattr(view, "team_required", True):  # type: ignore[attr-defined]
            return errors.no_team(request)
        return None


def _refuse_nul(request: HttpRequest) -> None:
    if "\x00" in request.path_info:
        raise Http404
    if any("\x00" in text for name, values in request.GET.lists() for text in (name, *values)):
        raise BadRequest(_("Its address holds NUL, a character that no name and no text has."))


def _bring_team(request: HttpRequest, person: Person) -> None:
    teams = memberships_of(person)
    team = _chosen(request, teams)
    request.teams, request.team = teams, team  # type: ignore[attr-defined]
    request.team_ids = [one.pk for one in teams]  # type: ignore[attr-defined]
    request.roles = teams[team] if team else frozenset()  # type: ignore[attr-defined]


def _chosen(request: HttpRequest, teams: Collection[Team]) -> Team | None:
    """The team kept in the session while the person is still in it, else the oldest."""
    kept = request.session.get(TEAM_KEY)
    oldest = min(teams, key=lambda team: team.pk, default=None)
    return next((team for team in teams if str(team.pk) == kept), oldest)


def choose_team(request: HttpRequest, team_id: UUID) -> bool:
    """Keeps the team for this session; False when the person is not in it."""
    if team_id not in request.team_ids:  # type: ignore[attr-defined]
        return False
    request.session[TEAM_KEY] = str(team_id)
    return True


def _sign_in_first(request: HttpRequest) -> HttpResponseBase:
    """A page is opened: the full sign-in page, and back. Anything else: 401, and nothing was done."""
    if request.method in {"GET", "HEAD"} and not wants_fragment(request):
        return redirect_to_login(request.get_full_path())
    return errors.session_ended(request)

"""Saved views: kept from the inbox, and their page, where they are renamed, ordered and removed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed, members_of
from opsledger.console import saved_views
from opsledger.console.http import ConsoleRequest, page, see_other, unprocessable
from opsledger.console.inbox_words import chosen_words
from opsledger.console.permissions import require, why_not
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.saved_views import move_view, remove_view, rename_view, save_view
from opsledger.ledger.models import SavedView
from opsledger.ledger.models.saved_views import NAME_LENGTH_MAX, QUERY_LENGTH_MAX, VIEWS_MAX
from opsledger.ledger.queries.saved_views import TABS_MAX, row_of, views_of
from opsledger.lib import ids

TEMPLATE = "inbox/views.html"


@require_GET
def views_page(request: ConsoleRequest) -> HttpResponse:
    return page(request, TEMPLATE, _context(request))


def _context(request: ConsoleRequest) -> dict[str, Any]:
    lines = views_of(request.team.pk, request.user.pk)
    people = [member.person for member in members_of(request.team)]
    own = [line for line in lines if line.person_id is not None]
    of_team = [line for line in lines if line.person_id is None]

    def words(chosen: dict[str, str]) -> list[str]:
        return chosen_words(chosen, people)

    return {
        "own": saved_views.rows_of(own, request.user.pk, words),
        "of_team": saved_views.rows_of(of_team, request.user.pk, words),
        "may_share": allowed(request.roles, Permission.SHARE_VIEW),
        "why_not": why_not(request.roles, Permission.SHARE_VIEW, request.team),
        "views_max": VIEWS_MAX,
        "tabs_max": TABS_MAX,
        "name_max": NAME_LENGTH_MAX,
    }


@require_POST
def save(request: ConsoleRequest) -> HttpResponse:
    """Keeps the posted filter, for oneself or for the team."""
    for_team = request.POST.get("whose") == "team"
    if for_team:
        require(request, Permission.SHARE_VIEW)
    name, text = request.POST.get("name", ""), request.POST.get("query", "")[: QUERY_LENGTH_MAX + 1]
    try:
        query = saved_views.canonical(text, request.team.pk, request.user.pk)
        person_id = None if for_team else request.user.pk
        made = save_view(request.team.pk, person_id, name, query, request.user.pk)
    except (Refused, BadRequest) as why:
        typed = {"name": name[:200], "query": text, "whose": "team" if for_team else "me"}
        said = why.why if isinstance(why, Refused) else str(why)
        context = _context(request) | {"typed": typed, "errors": {"save": said}}
        return unprocessable(request, TEMPLATE, context)
    messages.success(request, _("The view is saved. Its address is its link."))
    return see_other(f"{reverse('inbox')}?saved={ids.public(saved_views.PREFIX, made)}")


@require_POST
def rename(request: ConsoleRequest, view: str) -> HttpResponse:
    row, name = _own_row(request, view), request.POST.get("name", "")
    try:
        rename_view(row, name)
    except Refused as why:
        context = _context(request) | {"renaming": view, "renamed": name[:200], "errors": {"name": why.why}}
        return unprocessable(request, TEMPLATE, context)
    messages.success(request, _("The view is renamed."))
    return see_other(reverse("views"))


@require_POST
def move(request: ConsoleRequest, view: str) -> HttpResponse:
    move_view(_own_row(request, view), up=request.POST.get("to") == "up")
    return see_other(reverse("views"))


@require_POST
def remove(request: ConsoleRequest, view: str) -> HttpResponse:
    row = _own_row(request, view)
    if remove_view(row):
        messages.success(request, _("The view “%(name)s” is removed. No hold changed.") % {"name": row.name})
    return see_other(reverse("views"))


def _own_row(request: ConsoleRequest, view: str) -> SavedView:
    """One that this person may change: their own, or the team’s if their role lets them. A colleague’s: 403."""
    number: UUID | None = ids.parse(saved_views.PREFIX, view)
    row = row_of(number, request.team.pk) if number else None
    if row is None:
        raise Http404(_("There is no such saved view in this team. It may have been removed."))
    if row.person_id is None:
        require(request, Permission.SHARE_VIEW)
    elif row.person_id != request.user.pk:
        raise PermissionDenied(
            _("This view is somebody else’s own; only they change it. Save your own from it.")
        )
    return row

"""Absences: one's own for everybody, everybody's for admins; the whole team reads who stands in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.absences import (
    absences_of,
    add_absence,
    call_off_absence,
    possible_deputies,
)
from opsledger.accounts.actions import Refused
from opsledger.accounts.models import Absence, Person
from opsledger.accounts.roles import Permission, allowed, members_of, people_of
from opsledger.console.http import ConsoleRequest, page, see_other, unprocessable
from opsledger.console.permissions import why_not

TEMPLATE = "settings/away.html"
FIELDS = ("person", "deputy", "begins_at", "ends_at")


@require_GET
def away_page(request: ConsoleRequest) -> HttpResponse:
    return page(request, TEMPLATE, _context(request))


def _context(request: ConsoleRequest) -> dict[str, Any]:
    now = timezone.now()
    administers = allowed(request.roles, Permission.ADMINISTER)
    rows = [
        {
            "absence": absence,
            "is_now": absence.begins_at <= now,
            "may_end": administers or absence.person_id == request.user.pk,
        }
        for absence in absences_of(request.team, now)
    ]
    people = people_of(request.team)
    return {
        "rows": rows,
        "people": people if administers else [],
        "deputies": people if administers else possible_deputies(request.user, request.team),
        "zone": request.user.zone.key,
    }


@require_POST
def add(request: ConsoleRequest) -> HttpResponse:
    """Somebody who is away, until when, and who stands in. Times are in the person's own zone who enters them."""
    typed = {name: request.POST.get(name, "") for name in FIELDS}
    try:
        person = _person(request, typed["person"])
        deputy = _member(request, typed["deputy"])
        if deputy is None:
            raise Refused(_("Choose who stands in."), "deputy")
        absence = add_absence(
            person,
            request.team,
            deputy,
            begins_at=_moment(typed["begins_at"], "begins_at", empty=timezone.now()),
            ends_at=_moment(typed["ends_at"], "ends_at"),
        )
    except Refused as why:
        context = _context(request) | {"typed": typed, "errors": {why.field or "form": why.message}}
        return unprocessable(request, TEMPLATE, context)
    said = _("%(deputy)s stands in for %(person)s until the absence ends.")
    messages.success(request, said % {"deputy": deputy, "person": absence.person})
    return see_other(reverse("away"))


def _person(request: ConsoleRequest, text: str) -> Person:
    """Oneself, or for an admin anybody of the team."""
    if text in {"", str(request.user.pk)}:
        return request.user
    if not allowed(request.roles, Permission.ADMINISTER):
        raise PermissionDenied(why_not(request.roles, Permission.ADMINISTER, request.team))
    person = _member(request, text)
    if person is None:
        raise Refused(_("Choose somebody of this team."), "person")
    return person


def _member(request: ConsoleRequest, text: str) -> Person | None:
    people = {str(member.person.pk): member.person for member in members_of(request.team)}
    return people.get(text)


def _moment(text: str, field: str, *, empty: datetime | None = None) -> datetime:
    """In UTC. Refused: what is no day and time, and what no day and time in UTC is."""
    if not text and empty is not None:
        return empty
    try:
        found = parse_datetime(text)
        if found is not None:
            return (timezone.make_aware(found) if timezone.is_naive(found) else found).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Refused(_("Write a day and a time, such as 2026-03-01T09:00."), field)


@require_POST
def call_off(request: ConsoleRequest, absence_id: UUID) -> HttpResponse:
    """The person is back, or stays."""
    absence = Absence.objects.filter(pk=absence_id, team=request.team).select_related("person").first()
    if absence is None:
        raise Http404(_("There is no such absence in this team."))
    if absence.person_id != request.user.pk and not allowed(request.roles, Permission.ADMINISTER):
        raise PermissionDenied(why_not(request.roles, Permission.ADMINISTER, request.team))
    if call_off_absence(absence.pk, request.team):
        messages.success(request, _("%(name)s is no longer away.") % {"name": absence.person})
    else:
        messages.info(request, _("Nothing changed: this absence had ended already."))
    return see_other(reverse("away"))

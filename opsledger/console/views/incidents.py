"""Incidents: holds that ask the same, seen and acted upon as a group. What is answered is answered hold by hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.models import Team
from opsledger.accounts.roles import Permission, Role, allowed
from opsledger.console import incident_pages
from opsledger.console.filters import InboxFilter, cursor_text
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, back_to, page, see_other, unprocessable
from opsledger.console.kept import in_kept_words
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.views.inbox import RowMaker
from opsledger.console.views.selections import act_at_once, require_any
from opsledger.ledger.actions.bulk import freeze_view
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.incidents import record_act, settle_note_on_incident
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Selection
from opsledger.ledger.queries import inbox, incidents
from opsledger.ledger.queries.incidents import IncidentLine
from opsledger.lib import ids
from opsledger.rules.bulk import Verb

TEMPLATE = "incidents/incident.html"


@dataclass(slots=True)
class Asked:
    """The note's form, shown again."""

    typed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


@require_GET
def incidents_page(request: ConsoleRequest) -> HttpResponse:
    """Every incident of the team with enough open holds for a card, largest first."""
    found = incidents.cards(request.team.pk, request.user.pk, incidents.CARDS_MAX)
    now, may = database_now(), may_here(request.roles)
    cards = [incident_pages.card(line, now, may) for line in found.lines]
    return page(
        request, "incidents/incidents.html", {"cards": cards, "more_count": found.more_count, "now": now}
    )


@require_GET
def incident_page(request: ConsoleRequest, incident: str) -> HttpResponse:
    line = line_of(request, incident)
    return page(request, TEMPLATE, context_of(request, line))


@require_POST
def add_note(request: ConsoleRequest, incident: str) -> HttpResponse:
    line = line_of(request, incident)
    require_in(request, line.team_id, Permission.NOTE)
    text = request.POST.get("text", "")
    try:
        settle_note_on_incident(line.id, text, by_person(request.user), shown_up_to(request, line))
    except Refused as why:
        asked = Asked({"text": text}, {"text": why.why})
        return unprocessable(request, TEMPLATE, context_of(request, line, asked))
    messages.success(request, _("The note is added."))
    return see_other(f"{address_of(line)}#notes")


# The group's verbs


@require_POST
def take(request: ConsoleRequest, incident: str) -> HttpResponse:
    """Gives this person the holds of the group that nobody has, up to the newest that the page showed."""
    line = line_of(request, incident)
    require_in(request, line.team_id, Permission.ASSIGN)
    if not line.unowned_count:
        messages.info(request, _("Nothing is left to take: every open hold of this group has an owner."))
        return see_other(back_to(request, address_of(line)))
    return act_at_once(request, Verb.TAKE, lambda: _frozen(request, line, unowned=True), address_of(line))


@require_POST
def check_all(request: ConsoleRequest, incident: str) -> HttpResponse:
    """Asks the destination now for every open hold that the page counted. Reads only; nothing is sent."""
    line = line_of(request, incident)
    require_in(request, line.team_id, Permission.CHECK_NOW)
    return act_at_once(request, Verb.CHECK_NOW, lambda: _frozen(request, line), address_of(line))


@require_POST
def select(request: ConsoleRequest, incident: str) -> HttpResponse:
    """Freezes the open holds that the page counted, and leads to everything that can be done to them."""
    line = line_of(request, incident)
    team, roles = team_and_roles(request, line.team_id)
    require_any(roles, team)
    try:
        made = _frozen(request, line)
    except Refused as why:
        messages.error(request, why.why)
        return see_other(back_to(request, address_of(line)))
    return see_other(reverse("selection", args=[ids.public("sel", made.pk)]))


def _frozen(request: ConsoleRequest, line: IncidentLine, *, unowned: bool = False) -> Selection:
    """A selection of the group's open holds, none newer than the page showed; and the act is remembered."""
    newest = shown_up_to(request, line)
    if newest is None:
        raise BadRequest(
            _("This form does not say which holds it was made on. Reload the page; nothing was done.")
        )
    wanted = inbox.Wanted(line.team_id, request.user.pk, incident=line.id, unowned=unowned)
    query = InboxFilter(wanted).query()
    with in_kept_words():
        words = incident_pages.name_of(line, database_now())
    made = freeze_view(wanted, words=words, query=query, up_to=newest)
    record_act(line.id, by_person(request.user), newest)
    return made


# What the views have in common


def line_of(request: ConsoleRequest, incident: str) -> IncidentLine:
    number = ids.parse("inc", incident)
    line = incidents.incident_of(number, request.team_ids, request.user.pk) if number else None
    if line is None:
        raise Http404(_("There is no such incident in your teams."))
    return line


def address_of(line: IncidentLine) -> str:
    return reverse("incident", args=[ids.public("inc", line.id)])


def shown_up_to(request: ConsoleRequest, line: IncidentLine) -> UUID | None:
    """The newest hold that the posting page showed; None where it showed none. Another incident's is refused."""
    text = request.POST.get("newest", "")
    if not text:
        return None
    number = ids.parse("hold", text)
    if number is None or not incidents.is_of(number, line.id):
        raise BadRequest(
            _("This form does not say which holds it was made on. Reload the page; nothing was done.")
        )
    return number


def may_here(roles: frozenset[Role]) -> dict[str, bool]:
    """What is offered; the inbox adds no more than its cards need."""
    return {
        "may_assign": allowed(roles, Permission.ASSIGN),
        "may_check": allowed(roles, Permission.CHECK_NOW),
        "may_note": allowed(roles, Permission.NOTE),
    }


def context_of(request: ConsoleRequest, line: IncidentLine, asked: Asked | None = None) -> dict[str, Any]:
    """The head with its figures, the group's verbs, a page of its open holds, what was settled, and the notes."""
    team, roles = team_and_roles(request, line.team_id)
    may = may_here(roles)
    chosen = _chosen(request, team, line)
    found = inbox.page_of(chosen.wanted, after=chosen.after, before=chosen.before)
    maker = RowMaker(found.now, chosen.query(), request.user.pk)
    asked = asked or Asked()
    return {
        "card": incident_pages.card(line, found.now, may),
        "here_team": team,
        "rows": [maker.row(one) for one in found.lines],
        "now": found.now,
        "notes": incident_pages.note_rows(incidents.notes_of(line.id)),
        "settled": incident_pages.settled_rows(incidents.settled_of(line.id)),
        "count_max": incidents.COUNT_MAX,
        "list_query": chosen.query(),
        "typed": asked.typed,
        "errors": asked.errors,
        "why_note": "" if may["may_note"] else why_not(roles, Permission.NOTE, team),
        "may_act": may["may_assign"] or may["may_check"] or may["may_note"],
        "why_not": "" if may["may_assign"] else why_not(roles, Permission.ASSIGN, team),
        **may,
        **_links(chosen, found),
    }


def _chosen(request: ConsoleRequest, team: Team, line: IncidentLine) -> InboxFilter:
    places = {name: request.GET.get(name, "") for name in ("after", "before")}
    read = InboxFilter.read(places, team.pk, request.user.pk)
    return replace(read, wanted=replace(read.wanted, incident=line.id))


def _links(chosen: InboxFilter, found: inbox.Page) -> dict[str, str]:
    links = {}
    if found.has_earlier and found.lines:
        links["earlier_url"] = f"?{chosen.query(incident='', before=cursor_text(found.lines[0].place))}#holds"
    if found.has_later and found.lines:
        links["later_url"] = f"?{chosen.query(incident='', after=cursor_text(found.lines[-1].place))}#holds"
    return links

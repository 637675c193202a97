"""What is done to one hold: an answer, a lookup of a typed reference, who has it, a note."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.permissions import answers_of
from opsledger.accounts.roles import Permission
from opsledger.console import decision, desk
from opsledger.console.answering import (
    NotCompared,
    asked_again,
    asked_with,
    errors_of,
    read_typed,
    settle_decision,
    stale_answer,
    wanted_decision,
)
from opsledger.console.by_address import hold_or_404
from opsledger.console.forms import Lacking, by_person, new_owner, version_of
from opsledger.console.http import ConsoleRequest, back_to, page, see_other, wants_fragment
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.views.event_holds import event_page, settle_event
from opsledger.console.views.inbox import url_of
from opsledger.engine.bell import ring
from opsledger.engine.reading import read_reference
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.interventions import settle_check
from opsledger.ledger.actions.notes import settle_note
from opsledger.ledger.models import Hold
from opsledger.ledger.queries.comparison import findings
from opsledger.ledger.queries.hold_lines import line_of
from opsledger.ledger.queries.page import HoldView, OperationView, operation_of
from opsledger.lib import ids
from opsledger.rules.answers import Answer


@require_POST
def settle(request: ConsoleRequest, hold: str) -> HttpResponse:
    """One answer.

    1. Only answers that this person may give to this hold, as it is now, are taken.
    2. The hold's version decides: a stale answer changes nothing, and shows what changed.
    3. All that an answer lacks is said at once.
    4. A typed reference is read at the destination before it confirms, where that can be done.
    """
    row = hold_or_404(request, hold)
    if row.operation_id is None:
        return settle_event(request, row)
    view = operation_of(row.operation_id, request.team_ids)
    assert view is not None
    if "refresh" in request.POST:
        return asked_again(request, view, asked_with(request), status=200)
    current = view.hold(row.pk)
    if current is None:
        return stale_answer(request, view, row)
    cards = _offered(request, view, current)
    try:
        if version_of(request.POST) != current.record.version:
            return stale_answer(request, view, row)
        wanted = wanted_decision(request, view, current, cards)
        reading = read_typed(request, view, current, wanted)
        return settle_decision(request, view, current, wanted, reading)
    except (Lacking, Refused) as why:
        return asked_again(request, view, asked_with(request, errors=errors_of(why)))
    except NotCompared as stop:
        return asked_again(request, view, asked_with(request, errors=stop.errors, reading=stop.reading))


def _offered(request: ConsoleRequest, view: OperationView, current: HoldView) -> list[decision.Card]:
    """The answers that this person may give; refuses one who may give none, or not the one that was chosen."""
    team, roles = team_and_roles(request, view.record.team_id)
    may = answers_of(roles)
    if not may:
        raise PermissionDenied(why_not(roles, Permission.SETTLE, team))
    cards = decision.cards_of(view, current, findings(current.record.facts), may, desk.clock)
    chosen = request.POST.get("answer", "")
    if chosen and chosen not in {card.value for card in cards} and may != frozenset(Answer):
        raise PermissionDenied(why_not(roles, Permission.SETTLE, team))
    return cards


@require_POST
def look_up(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Reads a typed reference at the destination and compares it. Reads only; the hold stays as it is."""
    row = hold_or_404(request, hold)
    if row.operation_id is None or row.step_id is None:
        raise Http404(_("Only holds about a step have a reference."))
    view = operation_of(row.operation_id, request.team_ids)
    assert view is not None
    require_in(request, view.record.team_id, Permission.PROPOSE)
    reference = request.POST.get("reference", "")
    if not reference:
        asked = asked_with(request, errors={"reference": _("Type the reference that the destination shows.")})
        return asked_again(request, view, asked)
    asked = asked_with(request, reading=read_reference(row.step_id, reference))
    asked.typed["answer"] = asked.typed["answer"] or "happened"
    if wants_fragment(request):
        number = next(one.step.number for one in view.steps if one.id == row.step_id)
        context = {
            "reading": asked.reading,
            "typed": asked.typed,
            "errors": {},
            "hold_step": view.step(number),
        }
        return page(
            request, "operation/comparison.html", context, fragments=("comparison",), fragment="comparison"
        )
    return asked_again(request, view, asked, status=200)


@require_GET
def watch(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Whether the hold is still the one that the form was made on; asked for while somebody is typing."""
    row = hold_or_404(request, hold)
    if not wants_fragment(request):
        return see_other(reverse("hold", args=[hold]))
    context = {
        "hold_public": hold,
        "version": request.GET.get("version", ""),
        "stale": row.closed_at is not None or str(row.version) != request.GET.get("version", ""),
        "closed": row.closed_at is not None,
    }
    return page(request, "operation/watch.html", context, fragments=("hold-watch",), fragment="hold-watch")


@require_POST
def assign(request: ConsoleRequest, hold: str) -> HttpResponse:
    row = hold_or_404(request, hold)
    require_in(request, row.team_id, Permission.ASSIGN)
    try:
        owner = new_owner(request)
    except Refused as why:
        messages.error(request, why.why)
        return see_other(_home(request, row))
    changed = settle_assign([row.pk], owner.pk if owner else None, by_person(request.user))
    if changed and owner:
        messages.success(request, _("This hold is %(name)s’s now.") % {"name": owner.display_name})
    elif changed:
        messages.success(request, _("This hold is unowned now."))
    else:
        messages.info(request, _("Nothing changed."))
    return see_other(_home(request, row))


@require_POST
def note(request: ConsoleRequest, hold: str) -> HttpResponse:
    row = hold_or_404(request, hold)
    require_in(request, row.team_id, Permission.NOTE)
    try:
        settle_note(row.pk, request.POST.get("text", ""), by_person(request.user))
        messages.success(request, _("The note is added."))
    except Refused as why:
        messages.error(request, why.why)
    return see_other(_home(request, row))


@require_POST
def check(request: ConsoleRequest, hold: str) -> HttpResponse:
    row = hold_or_404(request, hold)
    require_in(request, row.team_id, Permission.CHECK_NOW)
    if row.operation_id is None or row.step is None:
        messages.info(request, _("There is nothing to look up for this hold."))
        return see_other(_home(request, row))
    try:
        settle_check(row.operation_id, row.step.number, None, by_person(request.user))
        ring("reconcile")
        messages.success(request, _("The lookup is due now. Its answer appears in the timeline."))
    except Refused as why:
        messages.info(request, why.why)
    return see_other(_home(request, row))


def _home(request: ConsoleRequest, row: Hold) -> str:
    """Where the hold is answered, or the page that the form stood on."""
    line = line_of(row.pk, request.team_ids)
    fallback = url_of(line) if line else reverse("inbox")
    return back_to(request, fallback)


@require_GET
def hold_page(request: ConsoleRequest, hold: str) -> HttpResponse:
    """The page of a hold that has no other: about an event. The others lead to theirs."""
    row = hold_or_404(request, hold)
    line = line_of(row.pk, request.team_ids)
    if row.event_id is None:
        if line is not None:
            return see_other(url_of(line))
        if row.operation_id is not None:
            return see_other(reverse("operation", args=[ids.public("op", row.operation_id)]))
        return see_other(reverse("destinations"))
    return event_page(request, row)

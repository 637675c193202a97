"""What waits at a stopped destination: chosen there, and ended by a run over what was chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed
from opsledger.console.forms import ticked
from opsledger.console.http import ConsoleRequest, page, see_other
from opsledger.console.kept import in_kept_words
from opsledger.console.permissions import require, why_not
from opsledger.console.vocabulary import shown
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.waiting import freeze_first, freeze_steps
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Selection
from opsledger.ledger.queries import waiting
from opsledger.ledger.queries.waiting import Stopped, Turn, WaitingLine
from opsledger.lib import ids
from opsledger.lib.places import place_text, read_place
from opsledger.rules.bulk import HOLDS_MAX, Verb


@require_GET
def waiting_page(request: ConsoleRequest, destination: str) -> HttpResponse:
    """The steps that wait, the one whose turn comes first at the top."""
    place = _of_team(request, destination)
    after = _read_turn(request.GET.get("after", ""))
    found = waiting.page_of(place, request.team.pk, after=after)
    rows = found[: waiting.PAGE]
    context = {
        "public": destination,
        "place": place,
        "stops": [shown(reason, "hold") for reason in place.reasons],
        "rows": [_row(line) for line in rows],
        "next_url": f"?{urlencode({'after': _turn_text(rows[-1].turn)})}"
        if len(found) > waiting.PAGE
        else "",
        "is_later": after is not None,
        "may_end": bool(place.reasons) and allowed(request.roles, Permission.CANCEL),
        "why_not": why_not(request.roles, Permission.CANCEL, request.team),
        "most": f"{HOLDS_MAX:,}",
        "now": database_now(),
    }
    return page(request, "destinations/waiting.html", context)


def _row(line: WaitingLine) -> dict[str, Any]:
    return {
        "line": line,
        "tick": f"{ids.public('stp', line.step_id)}~{line.version}",
        "url": reverse("operation", args=[ids.public("op", line.operation_id)]),
        "rest": line.step_count - line.step_number,
    }


def _turn_text(turn: Turn) -> str:
    return place_text("stp", turn.at, turn.step_id)


def _read_turn(text: str) -> Turn | None:
    if not text:
        return None
    found = read_place("stp", text)
    if found is None:
        raise BadRequest(_("This link to a part of the list can’t be read. Start again from the first page."))
    return Turn(*found)


# Choosing


@require_POST
def select_waiting(request: ConsoleRequest, destination: str) -> HttpResponse:
    """Freezes the ticked steps, each at the version that its row showed."""
    return _selected(request, destination, lambda place: _freeze_ticked(request, place))


@require_POST
def select_all_waiting(request: ConsoleRequest, destination: str) -> HttpResponse:
    """Freezes what waits there now."""
    return _selected(request, destination, lambda place: _freeze_all(request, place))


def _selected(
    request: ConsoleRequest, destination: str, make: Callable[[Stopped], Selection]
) -> HttpResponse:
    place = _of_team(request, destination)
    require(request, Permission.CANCEL)
    try:
        made = make(place)
    except Refused as why:
        messages.error(request, why.why)
        return see_other(reverse("waiting", args=[destination]))
    selection = reverse("selection", args=[ids.public("sel", made.pk)])
    return see_other(f"{selection}?verb={Verb.CANCEL.value}")


def _freeze_ticked(request: ConsoleRequest, place: Stopped) -> Selection:
    versions = ticked(request.POST, "step")
    count = len(versions)
    with in_kept_words():
        words = ngettext("One step that waits for %(slug)s", "%(count)s steps that wait for %(slug)s", count)
        said = words % {"count": count, "slug": place.slug}
    return freeze_steps(place, request.team.pk, request.user.pk, versions, words=said)


def _freeze_all(request: ConsoleRequest, place: Stopped) -> Selection:
    with in_kept_words():
        words = _("What waits for %(slug)s") % {"slug": place.slug}
    return freeze_first(place, request.team.pk, request.user.pk, words=words)


def _of_team(request: ConsoleRequest, public: str) -> Stopped:
    number = ids.parse("dst", public)
    found = waiting.destination_of(number, request.team.pk) if number else None
    if found is None:
        raise Http404(_("There is no such destination in this team."))
    return found

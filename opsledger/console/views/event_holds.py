"""The page of a hold about an event, its answers, and what the event brought."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from opsledger.accounts.roles import Permission, allowed, people_of
from opsledger.console import desk
from opsledger.console.by_address import hold_or_404
from opsledger.console.forms import by_person, typed
from opsledger.console.http import ConsoleRequest, page, see_other
from opsledger.console.masked import BodyRow, compared_bodies
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.templatetags.ops import words_of_span
from opsledger.console.wording.knowledge import what_we_know
from opsledger.console.wording.questions import question
from opsledger.ledger.actions.deciding import Refused, Stale
from opsledger.ledger.actions.event_questions import (
    EVENT_ANSWERS,
    FIRST_STANDS,
    RECORDED_APART,
    settle_event_hold,
)
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold
from opsledger.ledger.queries import holds
from opsledger.ledger.queries.hold_lines import line_of
from opsledger.ledger.queries.if_nobody import outlooks
from opsledger.ledger.queries.names import find_named
from opsledger.ledger.queries.timeline import names_of
from opsledger.lib import ids
from opsledger.rules.states import HoldReason


@dataclass(frozen=True, slots=True)
class EventAnswer:
    value: str
    label: str
    consequence: str


def event_answers(reason: str) -> list[EventAnswer]:
    if reason == HoldReason.DATA_MISSING:
        return [
            EventAnswer(
                FIRST_STANDS,
                _("Nothing follows from this event"),
                _("The question ends. Delivered again, the event starts nothing; its body stays on file."),
            ),
            EventAnswer(
                RECORDED_APART,
                _("An operation was recorded apart"),
                _(
                    "The question ends, and names the operation that you give: it was recorded for this event"
                    " through the API, under an id of its own. Nothing is sent from here."
                ),
            ),
        ]
    return [
        EventAnswer(
            FIRST_STANDS,
            _("What was taken first stands"),
            _("The question ends. Nothing follows from the other delivery; both bodies stay on file."),
        ),
        EventAnswer(
            RECORDED_APART,
            _("An operation was recorded apart"),
            _("The question ends, and names the operation that you give. Nothing is sent from here."),
        ),
    ]


def event_page(
    request: ConsoleRequest,
    row: Hold,
    *,
    errors: dict[str, str] | None = None,
    changed: str = "",
    status: int = 200,
    reveal: bool = False,
) -> HttpResponse:
    deliveries = holds.deliveries_of(row.event_id) if row.event_id else []
    team, roles = team_and_roles(request, row.team_id)
    line = line_of(row.pk, request.team_ids)
    now = database_now()
    known = desk.known_of(line, now) if line else None
    may_settle = allowed(roles, Permission.SETTLE)
    context = {
        "hold": row,
        "hold_public": ids.public("hold", row.pk),
        "event": row.event,
        "deliveries": deliveries,
        "bodies": _bodies(row, deliveries, reveal),
        "two_bodies": _other_body(row, deliveries) is not None,
        "revealed": reveal,
        "may_reveal": allowed(roles, Permission.REVEAL),
        "why_reveal": why_not(roles, Permission.REVEAL, team),
        "question": question(known) if known else "",
        "knows": what_we_know(known) if known else "",
        "answers": event_answers(row.reason) if may_settle and line else [],
        "problems": json.loads(row.facts).get("problems", []) if line else [],
        "why_not": "" if may_settle else why_not(roles, Permission.SETTLE, team),
        "may_assign": allowed(roles, Permission.ASSIGN),
        "people": people_of(team),
        "line": line,
        "if_nobody": _if_nobody(row, now) if row.closed_at is None else "",
        "open_for": words_of_span((now - row.opened_at).total_seconds()),
        "late": row.due_at < now,
        "due_in": words_of_span(abs((row.due_at - now).total_seconds())),
        "now": now,
        "typed": typed(request.POST) | {"operation": request.POST.get("operation", "")},
        "errors": errors or {},
        "changed": changed,
        "closed_name": names_of([row.closed_by]).get(row.closed_by, row.closed_by),
    }
    return page(
        request, "holds/event.html", context, status=status, fragments=("event-hold",), fragment="event-hold"
    )


def _bodies(row: Hold, deliveries: list[holds.DeliveryLine], reveal: bool) -> list[BodyRow]:
    """The first delivery, by itself or beside another body."""
    if row.event is None or not deliveries:
        return []
    first = deliveries[0]
    other = _other_body(row, deliveries) or first
    return compared_bodies(first.content, other.content, holds.plain_paths(row.event), reveal=reveal)


def _other_body(row: Hold, deliveries: list[holds.DeliveryLine]) -> holds.DeliveryLine | None:
    """The delivery in question, or the first one that brought another body; None where there was no other."""
    return holds.asked_about(row) or next((one for one in deliveries if one.conflict), None)


def _if_nobody(row: Hold, now: datetime) -> str:
    [outlook] = outlooks(row.team_id, [(row, None)], now)
    return desk.if_nobody(row.if_nobody, outlook, now, about_step=False)


@require_POST
def reveal_event(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Shows what an event brought; written to the journal before."""
    row = hold_or_404(request, hold)
    require_in(request, row.team_id, Permission.REVEAL)
    if row.event_id is None:
        raise Http404(_("This hold is not about an event."))
    record_revealed(row.event_id, "deliveries", by_person(request.user), kind="event")
    return event_page(request, row, reveal=True)


def settle_event(request: ConsoleRequest, row: Hold) -> HttpResponse:
    if row.event_id is None:
        raise Http404(_("This hold is settled on its destination’s page."))
    require_in(request, row.team_id, Permission.SETTLE)
    answer = request.POST.get("answer", "")
    try:
        if answer not in EVENT_ANSWERS:
            raise Refused(_("Choose one of the answers."), field="answer")
        operation_id = _named_operation(request, row) if answer == RECORDED_APART else None
        version = int(request.POST.get("version", "0")[:9] or 0)
        following = settle_event_hold(
            row.pk,
            answer,
            version,
            request.POST.get("reason", ""),
            by_person(request.user),
            operation=operation_id,
        )
    except Stale as stale:
        changed = _("This hold changed while you were reading it. Nothing of yours was recorded.")
        return event_page(request, stale.hold, changed=changed, status=409)
    except (Refused, ValueError) as why:
        field = why.field if isinstance(why, Refused) else "form"
        said = why.why if isinstance(why, Refused) else _("Reload the page and try again.")
        return event_page(request, row, errors={field or "form": said}, status=422)
    if following is not None:
        messages.success(request, _("Recorded. This event came with yet another body: that is asked now."))
        return see_other(reverse("hold", args=[ids.public("hold", following)]))
    messages.success(request, _("Recorded. The question has ended."))
    return see_other(reverse("inbox"))


def _named_operation(request: ConsoleRequest, row: Hold) -> UUID:
    found = find_named(row.team_id, request.POST.get("operation", ""))
    if found is None:
        raise Refused(_("There is no such operation in this team."), field="operation")
    return found

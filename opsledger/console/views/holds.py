"""What is done to one hold: an answer, a lookup of a typed reference, who has it, a note."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed
from opsledger.console import decision, desk
from opsledger.console.duplicates import OTHERS
from opsledger.console.evidence import BodyRow, compared_bodies
from opsledger.console.forms import TYPED, Lacking, by_person, new_owner, read_decision, typed, version_of
from opsledger.console.http import ConsoleRequest, back_to, page, see_other, wants_fragment
from opsledger.console.permissions import why_not
from opsledger.console.templatetags.ops import words_of_span
from opsledger.console.views import operation as operations
from opsledger.console.views.operation import DECISION_PERMISSIONS, FRAGMENTS, TEMPLATE, Asked
from opsledger.console.wording import answers
from opsledger.console.wording.knowledge import what_we_know
from opsledger.console.wording.questions import question
from opsledger.engine.bell import ring
from opsledger.engine.reading import Reading, read_reference
from opsledger.ledger.actions.events import EVENT_ANSWERS, FIRST_STANDS, RECORDED_APART, settle_event_hold
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.actions.settle import (
    Decision,
    Refused,
    Stale,
    settle_assign,
    settle_check,
    settle_hold,
    settle_note,
)
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold
from opsledger.ledger.queries import holds, inbox
from opsledger.ledger.queries.comparison import findings, rows_of
from opsledger.ledger.queries.if_nobody import outlooks
from opsledger.ledger.queries.operations import find_id
from opsledger.ledger.queries.page import HoldView, OperationView, operation_of
from opsledger.ledger.queries.timeline import names_of, story_of
from opsledger.lib import ids
from opsledger.rules.answers import SENDS_AGAIN, Answer

# Fields of the panel that show what is wrong with them; anything else is said above the form.
FIELDS = frozenset({*TYPED, "content.version", "revise"})


def hold_or_404(request: ConsoleRequest, public: str) -> Hold:
    number = ids.parse("hold", public)
    hold = holds.hold_of(number, request.team_ids) if number else None
    if hold is None:
        raise Http404(_("There is no such hold in your teams."))
    return hold


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
        return _settle_event(request, row)
    view = operation_of(row.operation_id, request.team_ids)
    assert view is not None
    if "refresh" in request.POST:
        return asked_again(request, view, asked_with(request), status=200)
    current = next((one for one in view.holds if one.record.id == row.pk), None)
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


def errors_of(why: Lacking | Refused) -> dict[str, str]:
    """What is wrong, by the panel's field; what belongs to none stands above the form."""
    if isinstance(why, Lacking):
        return why.errors
    shown = why.field in FIELDS or why.field.startswith(("params.", f"{OTHERS}."))
    return {why.field if shown else "form": why.why}


class NotCompared(Exception):
    """The record under a typed reference was not found to be this one, and nobody has accepted that."""

    def __init__(self, reading: Reading, errors: dict[str, str]) -> None:
        super().__init__()
        self.reading, self.errors = reading, errors


def _offered(request: ConsoleRequest, view: OperationView, current: HoldView) -> list[decision.Card]:
    """The answers that this person may give; refuses one who may give none, or not the one that was chosen."""
    team, roles = operations.team_and_roles(request, view.record.team_id)
    may = frozenset(a for a in Answer if allowed(roles, DECISION_PERMISSIONS.get(a, Permission.SETTLE)))
    if not may:
        raise PermissionDenied(why_not(roles, Permission.SETTLE, team))
    cards = decision.cards_of(view, current, findings(current.record.facts), may, desk.clock)
    chosen = request.POST.get("answer", "")
    if chosen and chosen not in {card.value for card in cards} and may != frozenset(Answer):
        raise PermissionDenied(why_not(roles, Permission.SETTLE, team))
    return cards


def wanted_decision(
    request: ConsoleRequest, view: OperationView, current: HoldView, cards: list[decision.Card]
) -> Decision:
    step = view.step(current.record.step).step
    planned = step.act_at if step.act == "look" else None
    return read_decision(
        request.POST,
        {card.value: card for card in cards},
        now=view.now,
        planned_look=planned,
        revisable=decision.revisable(view, current.record.step, cards),
        content_id=operations.content_id_of(view),
    )


def read_typed(
    request: ConsoleRequest, view: OperationView, current: HoldView, wanted: Decision
) -> Reading | None:
    """What the destination shows under the typed reference; refuses to confirm what was not found to be this."""
    step = view.step(current.record.step)
    typed_one = wanted.answer in {Answer.HAPPENED, Answer.HAPPENED_ACCEPTED} and wanted.reference
    if not typed_one or step.action.read is None or step.action.profile.lookup is None:
        return None
    reading = read_reference(step.id, str(wanted.reference))
    if reading.taken_by:
        said = _("Operation %(operation)s holds this reference already.") % {"operation": reading.taken_by}
        raise NotCompared(reading, {"reference": said})
    if not reading.matches and request.POST.get("accept_difference") != reading.reference:
        raise NotCompared(
            reading, {"accept_difference": _("Look at the comparison, and tick that you accept it.")}
        )
    return reading


def settle_decision(
    request: ConsoleRequest,
    view: OperationView,
    current: HoldView,
    wanted: Decision,
    reading: Reading | None,
) -> HttpResponse:
    from dataclasses import replace

    by, extra = by_person(request.user), ()
    if reading is not None and reading.evidence is not None:
        wanted = replace(wanted, compared=reading.evidence.digest.hex() if reading.compared else "")
        extra = (reading.evidence,)  # type: ignore[assignment]
    try:
        settle_hold(current.record.id, wanted, by, extra=extra)
    except Stale as stale:
        return stale_answer(request, view, stale.hold)
    if wanted.answer is Answer.STILL_UNKNOWN and request.POST.get("owner"):
        owner = new_owner(request)
        if (owner.pk if owner else None) != current.record.owner_id:
            settle_assign([current.record.id], owner.pk if owner else None, by)
    ring("dispatch" if wanted.answer in SENDS_AGAIN else "reconcile")
    messages.success(request, _("Recorded: %(answer)s.") % {"answer": answers.given(wanted.answer.value)})
    return see_other(operations.next_url(view, request.POST))


# Stale


def stale_answer(request: ConsoleRequest, view: OperationView, row: Hold) -> HttpResponse:
    """409 with what changed and a fresh panel. The same answer pressed twice is answered as the first time."""
    fresh = operation_of(view.record.id, request.team_ids)
    assert fresh is not None
    if _was_mine(request, row):
        messages.info(request, _("Your answer was recorded already."))
        return see_other(operations.next_url(fresh, request.POST))
    asked = asked_with(request)
    asked.changed = _what_changed(row, fresh)
    return asked_again(request, fresh, asked, status=409)


def _was_mine(request: ConsoleRequest, row: Hold) -> bool:
    """Whether the newest answer to this hold is this very post, sent twice."""
    assert row.operation_id is not None
    me = by_person(request.user).actor
    for entry in story_of(row.operation_id, size=5).told:
        if entry.kind == "answered" and entry.body.get("hold") == str(row.pk):
            same_version = str(entry.body.get("hold_version")) == request.POST.get("version", "")
            return (
                entry.actor == me and same_version and entry.texts.get("reason") == request.POST.get("reason")
            )
    return False


def _what_changed(row: Hold, view: OperationView) -> str:
    """One sentence: who or what changed this hold since the page was made."""
    row.refresh_from_db()
    if row.closed_at is None:
        return _(
            "This hold changed while you were reading it. Nothing of yours was recorded; look at it again."
        )
    when = desk.clock(row.closed_at, view.now)
    if row.closed_by == "evidence":
        return _("This hold changed: evidence ended it at %(time)s. Nothing of yours was recorded.") % {
            "time": when
        }
    if row.closed_by == "superseded":
        return _(
            "This hold changed: a stronger question took its place at %(time)s. Nothing of yours was recorded."
        ) % {"time": when}
    name = names_of([row.closed_by]).get(row.closed_by, _("somebody"))
    return _(
        "This hold changed: %(name)s answered “%(answer)s” at %(time)s. Nothing of yours was recorded."
    ) % {"name": name, "answer": answers.given(row.answer), "time": when}


def asked_with(
    request: ConsoleRequest, *, errors: dict[str, str] | None = None, reading: Reading | None = None
) -> Asked:
    return Asked(typed=typed(request.POST), errors=errors or {}, reading=_shown(reading))


def _shown(reading: Reading | None) -> dict[str, Any] | None:
    """A reading for the page."""
    if reading is None:
        return None
    return {
        "reference": reading.reference,
        "compared": reading.compared,
        "why": reading.why,
        "rows": rows_of(reading.rows),
        "ours": reading.ours,
        "matches": reading.matches,
        "taken_by": reading.taken_by,
    }


def asked_again(
    request: ConsoleRequest, view: OperationView, asked: Asked, *, status: int = 422
) -> HttpResponse:
    """The page, or only the panel for htmx, with everything that was typed."""
    context = operations.context_of(request, view, asked)
    response = page(request, TEMPLATE, context, fragments=FRAGMENTS, fragment="decide", status=status)
    if wants_fragment(request):
        response["HX-Retarget"] = "#decide"
        response["HX-Reswap"] = "outerHTML"
    return response


# A typed reference


@require_POST
def look_up(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Reads a typed reference at the destination and compares it. Reads only; the hold stays as it is."""
    row = hold_or_404(request, hold)
    if row.operation_id is None or row.step_id is None:
        raise Http404(_("Only holds about a step have a reference."))
    view = operation_of(row.operation_id, request.team_ids)
    assert view is not None
    operations.require_in(request, view.record.team_id, Permission.PROPOSE)
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


# Who has it, and notes


@require_POST
def assign(request: ConsoleRequest, hold: str) -> HttpResponse:
    row = hold_or_404(request, hold)
    operations.require_in(request, row.team_id, Permission.ASSIGN)
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
    operations.require_in(request, row.team_id, Permission.NOTE)
    try:
        settle_note(row.pk, request.POST.get("text", ""), by_person(request.user))
        messages.success(request, _("The note is added."))
    except Refused as why:
        messages.error(request, why.why)
    return see_other(_home(request, row))


@require_POST
def check(request: ConsoleRequest, hold: str) -> HttpResponse:
    row = hold_or_404(request, hold)
    operations.require_in(request, row.team_id, Permission.CHECK_NOW)
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
    line = inbox.line_of(row.pk, request.team_ids)
    fallback = operations.url_of(line) if line else reverse("inbox")
    return back_to(request, fallback)


# Holds at an event


@dataclass(frozen=True, slots=True)
class EventAnswer:
    value: str
    label: str
    consequence: str


def event_answers() -> list[EventAnswer]:
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


@require_GET
def hold_page(request: ConsoleRequest, hold: str) -> HttpResponse:
    """The page of a hold that has no other: about an event. The others lead to theirs."""
    row = hold_or_404(request, hold)
    line = inbox.line_of(row.pk, request.team_ids)
    if row.event_id is None:
        if line is not None:
            return see_other(operations.url_of(line))
        if row.operation_id is not None:
            return see_other(reverse("operation", args=[ids.public("op", row.operation_id)]))
        return see_other(reverse("destinations"))
    return _event_page(request, row)


def _event_page(
    request: ConsoleRequest,
    row: Hold,
    *,
    errors: dict[str, str] | None = None,
    changed: str = "",
    status: int = 200,
    reveal: bool = False,
) -> HttpResponse:
    deliveries = holds.deliveries_of(row.event_id) if row.event_id else []
    team, roles = operations.team_and_roles(request, row.team_id)
    line = inbox.line_of(row.pk, request.team_ids)
    now = database_now()
    known = desk.known_of(line, now) if line else None
    may_settle = allowed(roles, Permission.SETTLE)
    context = {
        "hold": row,
        "hold_public": ids.public("hold", row.pk),
        "event": row.event,
        "deliveries": deliveries,
        "bodies": _bodies(row, deliveries, reveal),
        "revealed": reveal,
        "may_reveal": allowed(roles, Permission.REVEAL),
        "why_reveal": why_not(roles, Permission.REVEAL, team),
        "question": question(known) if known else "",
        "knows": what_we_know(known) if known else "",
        "answers": event_answers() if may_settle and line else [],
        "why_not": "" if may_settle else why_not(roles, Permission.SETTLE, team),
        "may_assign": allowed(roles, Permission.ASSIGN),
        "people": operations.members(team),
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
    """The first delivery beside the first that brought another body, or by itself."""
    if row.event is None or not deliveries:
        return []
    other = next((one for one in deliveries if one.conflict), deliveries[0])
    return compared_bodies(deliveries[0].content, other.content, holds.plain_paths(row.event), reveal=reveal)


def _if_nobody(row: Hold, now: datetime) -> str:
    [outlook] = outlooks(row.team_id, [(row, None)], now)
    return desk.if_nobody(row.if_nobody, outlook, now, about_step=False)


@require_POST
def reveal_event(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Shows what an event brought; written to the journal before."""
    row = hold_or_404(request, hold)
    operations.require_in(request, row.team_id, Permission.REVEAL)
    if row.event_id is None:
        raise Http404(_("This hold is not about an event."))
    record_revealed(row.event_id, "deliveries", by_person(request.user), kind="event")
    return _event_page(request, row, reveal=True)


def _settle_event(request: ConsoleRequest, row: Hold) -> HttpResponse:
    if row.event_id is None:
        raise Http404(_("This hold is settled on its destination’s page."))
    operations.require_in(request, row.team_id, Permission.SETTLE)
    answer = request.POST.get("answer", "")
    try:
        if answer not in EVENT_ANSWERS:
            raise Refused(_("Choose one of the answers."), field="answer")
        operation_id = _named_operation(request, row) if answer == RECORDED_APART else None
        version = int(request.POST.get("version", "0")[:9] or 0)
        settle_event_hold(
            row.pk,
            answer,
            version,
            request.POST.get("reason", ""),
            by_person(request.user),
            operation=operation_id,
        )
    except Stale as stale:
        changed = _("This hold changed while you were reading it. Nothing of yours was recorded.")
        return _event_page(request, stale.hold, changed=changed, status=409)
    except (Refused, ValueError) as why:
        field = why.field if isinstance(why, Refused) else "form"
        said = why.why if isinstance(why, Refused) else _("Reload the page and try again.")
        return _event_page(request, row, errors={field or "form": said}, status=422)
    messages.success(request, _("Recorded. The question has ended."))
    return see_other(reverse("inbox"))


def _named_operation(request: ConsoleRequest, row: Hold) -> Any:
    text = request.POST.get("operation", "")
    number = ids.parse("op", text)
    found = find_id(row.team_id, own="" if number else text, number=number) if text else None
    if found is None:
        raise Refused(_("There is no such operation in this team."), field="operation")
    return found

"""A person’s answer to a hold: taken from the form, compared with the destination’s record, recorded; or shown again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.utils.translation import gettext as _

from opsledger.console import decision, desk
from opsledger.console.by_address import next_url
from opsledger.console.duplicates import OTHERS
from opsledger.console.forms import TYPED, Asked, Lacking, by_person, new_owner, read_decision, typed
from opsledger.console.http import ConsoleRequest, page, see_other, wants_fragment
from opsledger.console.operation_pages import FRAGMENTS, TEMPLATE, content_id_of, context_of
from opsledger.console.wording import answers
from opsledger.engine.bell import ring
from opsledger.engine.reading import Reading, read_reference
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import Refused, Stale
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Hold
from opsledger.ledger.queries.comparison import rows_of
from opsledger.ledger.queries.page import HoldView, OperationView, operation_of
from opsledger.ledger.queries.timeline import names_of, story_of
from opsledger.rules.answers import SENDS_AGAIN, Answer

# Fields of the panel that show what is wrong with them; anything else is said above the form.
FIELDS = frozenset({*TYPED, "content.version", "revise"})


class NotCompared(Exception):
    """The record under a typed reference was not found to be this one, and nobody has accepted that."""

    def __init__(self, reading: Reading, errors: dict[str, str]) -> None:
        super().__init__()
        self.reading, self.errors = reading, errors


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
        content_id=content_id_of(view),
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
    return see_other(next_url(view, request.POST))


def stale_answer(request: ConsoleRequest, view: OperationView, row: Hold) -> HttpResponse:
    """409 with what changed and a fresh panel. The same answer pressed twice is answered as the first time."""
    fresh = operation_of(view.record.id, request.team_ids)
    assert fresh is not None
    if _was_mine(request, row):
        messages.info(request, _("Your answer was recorded already."))
        return see_other(next_url(fresh, request.POST))
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


def errors_of(why: Lacking | Refused) -> dict[str, str]:
    """What is wrong, by the panel's field; what belongs to none stands above the form."""
    if isinstance(why, Lacking):
        return why.errors
    shown = why.field in FIELDS or why.field.startswith(("params.", f"{OTHERS}."))
    return {why.field if shown else "form": why.why}


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
    context = context_of(request, view, asked)
    response = page(request, TEMPLATE, context, fragments=FRAGMENTS, fragment="decide", status=status)
    if wants_fragment(request):
        response["HX-Retarget"] = "#decide"
        response["HX-Reswap"] = "outerHTML"
    return response

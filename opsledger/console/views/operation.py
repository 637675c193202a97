"""The page of one operation, and what can be done to the operation."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission
from opsledger.console.by_address import address_of, view_of
from opsledger.console.forms import Asked, by_person, version_of
from opsledger.console.http import ConsoleRequest, conflict, page, see_other, unprocessable
from opsledger.console.operation_pages import FRAGMENTS, TEMPLATE, context_of
from opsledger.console.permissions import require_in
from opsledger.engine.bell import ring
from opsledger.ledger.actions.deciding import OperationChanged, Refused
from opsledger.ledger.actions.interventions import settle_cancel, settle_check, settle_withdraw
from opsledger.ledger.actions.notes import settle_note_on_operation
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.queries.page import OperationView
from opsledger.lib import ids


@require_GET
def operation_page(request: ConsoleRequest, operation: str) -> HttpResponse:
    view = view_of(request, operation)
    if ids.public("op", view.record.id) != operation:
        return see_other(address_of(view))
    return page(request, TEMPLATE, context_of(request, view), fragments=FRAGMENTS)


@require_POST
def add_note(request: ConsoleRequest, operation: str) -> HttpResponse:
    view = view_of(request, operation)
    require_in(request, view.record.team_id, Permission.NOTE)
    try:
        settle_note_on_operation(view.record.id, request.POST.get("text", ""), by_person(request.user))
    except Refused as why:
        asked = Asked(typed={"text": request.POST.get("text", "")}, errors={"text": why.why})
        return unprocessable(
            request, TEMPLATE, context_of(request, view, asked), fragments=FRAGMENTS, fragment="notes"
        )
    messages.success(request, _("The note is added."))
    return see_other(address_of(view))


@require_POST
def check_step(request: ConsoleRequest, operation: str, step: int) -> HttpResponse:
    """Asks the destination now. Reads only; nothing is sent."""
    view = view_of(request, operation)
    require_in(request, view.record.team_id, Permission.CHECK_NOW)
    _known_step(view, step)
    try:
        settle_check(view.record.id, step, None, by_person(request.user))
    except Refused as why:
        messages.info(request, why.why)
    else:
        ring("reconcile")
        messages.success(request, _("The lookup is due now. Its answer appears in the timeline."))
    return see_other(address_of(view))


@require_POST
def cancel(request: ConsoleRequest, operation: str) -> HttpResponse:
    """Nothing more is sent; what took effect is found out and said."""
    view = view_of(request, operation)
    require_in(request, view.record.team_id, Permission.CANCEL)
    typed = {"cancel_reason": request.POST.get("reason", "")}
    if (again := _stale(request, view, typed)) is not None:
        return again
    try:
        settle_cancel(
            view.record.id,
            request.POST.get("reason", ""),
            by_person(request.user),
            version=view.record.version,
        )
    except OperationChanged:
        return _changed_meanwhile(request, operation, typed)
    except Refused as why:
        asked = Asked(typed=typed, errors={"cancel_reason": why.why})
        return unprocessable(
            request, TEMPLATE, context_of(request, view, asked), fragments=FRAGMENTS, fragment="operation"
        )
    messages.success(
        request, _("Cancelled. Nothing more is sent; what took effect is listed with the steps.")
    )
    return see_other(address_of(view))


@require_POST
def withdraw(request: ConsoleRequest, operation: str, step: int) -> HttpResponse:
    """Takes a person’s answer back: the step is disputed, and its reference freed."""
    view = view_of(request, operation)
    require_in(request, view.record.team_id, Permission.WITHDRAW)
    _known_step(view, step)
    typed = {"withdraw_step": str(step), "withdraw_reason": request.POST.get("reason", "")}
    if (again := _stale(request, view, typed)) is not None:
        return again
    try:
        settle_withdraw(
            view.record.id,
            step,
            request.POST.get("reason", ""),
            by_person(request.user),
            version=view.record.version,
        )
    except OperationChanged:
        return _changed_meanwhile(request, operation, typed)
    except Refused as why:
        asked = Asked(typed=typed, errors={"withdraw_reason": why.why})
        return unprocessable(
            request, TEMPLATE, context_of(request, view, asked), fragments=FRAGMENTS, fragment="operation"
        )
    messages.success(request, _("The answer is taken back. The step is disputed until somebody settles it."))
    return see_other(address_of(view))


def _changed_meanwhile(request: ConsoleRequest, operation: str, typed: dict[str, str]) -> HttpResponse:
    """Somebody was quicker, between the reading of the version and the lock."""
    return _stale(request, view_of(request, operation), typed) or see_other(request.path)


def _stale(request: ConsoleRequest, view: OperationView, typed: dict[str, str]) -> HttpResponse | None:
    """409 with the fresh page when the form was made on another version of the operation."""
    try:
        version = version_of(request.POST)
    except Refused:
        version = 0
    if version == view.record.version:
        return None
    asked = Asked(
        typed=typed,
        operation_changed=_(
            "This operation changed while you were reading it. Nothing was done; here is how it stands now."
        ),
    )
    return conflict(
        request, TEMPLATE, context_of(request, view, asked), fragments=FRAGMENTS, fragment="operation"
    )


def _known_step(view: OperationView, number: int) -> None:
    if not 1 <= number <= len(view.steps):
        raise Http404(_("This operation has no such step."))


@require_POST
def reveal(request: ConsoleRequest, operation: str) -> HttpResponse:
    """Shows masked values once; written to the journal before anything is shown."""
    view = view_of(request, operation)
    require_in(request, view.record.team_id, Permission.REVEAL)
    record_revealed(view.record.id, "params", by_person(request.user))
    context = context_of(request, view, Asked(reveal=True))
    return page(request, TEMPLATE, context, fragments=FRAGMENTS, fragment="params")

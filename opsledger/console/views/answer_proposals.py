"""Answers that somebody proposes, and what whoever may settle does with them: accept, or set aside."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from opsledger.accounts.permissions import to_answer
from opsledger.accounts.roles import Permission, allowed
from opsledger.console import answer_proposals, decision, desk
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
from opsledger.console.by_address import hold_or_404, next_url
from opsledger.console.forms import Asked, Lacking, by_person, version_of
from opsledger.console.http import ConsoleRequest, see_other
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.wording import answers
from opsledger.ledger.actions.deciding import Refused, Stale
from opsledger.ledger.actions.propose import Thought, decision_of, open_proposal, settle_dismissal
from opsledger.ledger.models import Proposal
from opsledger.ledger.queries.answer_proposals import proposal_of, shown, texts_of
from opsledger.ledger.queries.comparison import findings
from opsledger.ledger.queries.page import HoldView, OperationView, operation_of
from opsledger.lib import ids
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind


@require_POST
def propose(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Keeps an answer for somebody who may give it. Nothing else changes; a stale one is not kept."""
    row = hold_or_404(request, hold)
    if row.operation_id is None:
        raise Http404(_("An answer can be proposed to a hold about a step only."))
    require_in(request, row.team_id, Permission.PROPOSE)
    view = operation_of(row.operation_id, request.team_ids)
    assert view is not None
    current = view.hold(row.pk)
    if current is None:
        return stale_answer(request, view, row)
    cards = decision.cards_of(
        view, current, findings(current.record.facts), frozenset(Answer), desk.clock, may_propose=True
    )
    by = by_person(request.user)
    try:
        if version_of(request.POST) != current.record.version:
            return stale_answer(request, view, row)
        wanted = wanted_decision(request, view, current, cards)
        made = open_proposal(row.pk, wanted, by, Thought(AuthorKind.PERSON))
    except Stale as stale:
        return stale_answer(request, view, stale.hold)
    except (Lacking, Refused) as why:
        return asked_again(request, view, asked_with(request, errors=errors_of(why)))
    said = (
        _("Proposed: %(answer)s. Somebody who may settle it decides.")
        if made.new
        else _("You have proposed this already: %(answer)s.")
    )
    messages.success(request, said % {"answer": answers.given(wanted.answer.value)})
    return see_other(next_url(view, request.POST))


@require_POST
def accept(request: ConsoleRequest, proposal: str) -> HttpResponse:
    """Settles with the proposal's values.

    1. Whoever accepts must be able to give this very answer.
    2. It must be open, and made on the version of the hold that was read: else nothing is recorded, and the panel is shown.
    3. A reference is read at the destination; what differs is shown in the form, filled in with the proposal.
    """
    row = _proposal(request, proposal)
    view, current = _view_of(request, row)
    _may_give(request, view, Answer(row.answer))
    if current is None:
        return stale_answer(request, view, row.hold)
    line = shown([row])[0]
    try:
        if row.ended_at is not None or version_of(request.POST) != current.record.version:
            return _older(request, view)
        texts = texts_of([row])[row.pk]
        wanted = decision_of(row, texts, current.record.version, request.POST.get("reason", ""))
        reading = read_typed(request, view, current, wanted)
        return settle_decision(request, view, current, wanted, reading)
    except Stale as stale:
        return stale_answer(request, view, stale.hold)
    except Refused as why:
        filled = answer_proposals.filled(line, view.workflow.sensitive_params)
        return asked_again(request, view, Asked(typed=filled, errors=errors_of(why)))
    except NotCompared as stop:
        asked = asked_with(request, errors=stop.errors, reading=stop.reading)
        asked.typed = answer_proposals.filled(line, view.workflow.sensitive_params)
        return asked_again(request, view, asked)


@require_POST
def dismiss(request: ConsoleRequest, proposal: str) -> HttpResponse:
    """Sets it aside with a reason; whoever made it takes it back without one."""
    row = _proposal(request, proposal)
    view, _current = _view_of(request, row)
    by = by_person(request.user)
    if row.proposer != by.actor:
        require_in(request, row.team_id, Permission.SETTLE)
    try:
        done = settle_dismissal(row.pk, request.POST.get("reason", ""), by)
    except Refused as why:
        errors = {f"dismiss.{proposal}": why.why}
        return asked_again(request, view, Asked(typed={"dismiss_reason": ""}, errors=errors))
    if not done:
        messages.info(request, _("This proposal had ended already. Nothing was changed."))
    elif row.proposer == by.actor:
        messages.success(request, _("Your proposal is taken back."))
    else:
        messages.success(request, _("The proposal is dismissed; the hold stays as it is."))
    return see_other(next_url(view, request.POST))


def _proposal(request: ConsoleRequest, public: str) -> Proposal:
    number = ids.parse("prop", public)
    row = proposal_of(number, request.team_ids) if number else None
    if row is None:
        raise Http404(_("There is no such proposal in your teams."))
    return row


def _view_of(request: ConsoleRequest, row: Proposal) -> tuple[OperationView, HoldView | None]:
    assert row.hold.operation_id is not None
    view = operation_of(row.hold.operation_id, request.team_ids)
    assert view is not None
    return view, view.hold(row.hold_id)


def _may_give(request: ConsoleRequest, view: OperationView, answer: Answer) -> None:
    team, roles = team_and_roles(request, view.record.team_id)
    needed = to_answer(answer)
    if not allowed(roles, needed):
        raise PermissionDenied(why_not(roles, needed, team))


def _older(request: ConsoleRequest, view: OperationView) -> HttpResponse:
    said = _("The hold or its proposal changed while you were reading it. Nothing of yours was recorded.")
    return asked_again(request, view, Asked(changed=said), status=409)

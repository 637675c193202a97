"""The page of one operation: how it stands, the question it asks, what happened, and what supports it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.models import Person, Team
from opsledger.accounts.roles import Permission, Role, allowed, members_of
from opsledger.console import answer_proposals, decision, desk, disputes, duplicates, story, wording
from opsledger.console.evidence import evidence_file, shown_content, shown_params, shown_request
from opsledger.console.evidence_words import sentence_of
from opsledger.console.filters import VIEWS, InboxFilter
from opsledger.console.forms import by_person, version_of
from opsledger.console.http import ConsoleRequest, conflict, page, see_other, unprocessable
from opsledger.console.permissions import why_not
from opsledger.console.views.inbox import url_of as url_of
from opsledger.engine.bell import ring
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.actions.settle import (
    OperationChanged,
    Refused,
    settle_cancel,
    settle_check,
    settle_note_on_operation,
    settle_withdraw,
)
from opsledger.ledger.queries import approvals, inbox
from opsledger.ledger.queries.comparison import Findings, findings
from opsledger.ledger.queries.operations import find_id
from opsledger.ledger.queries.page import HoldView, OperationView, operation_of
from opsledger.ledger.queries.replays import open_replays_of
from opsledger.ledger.queries.timeline import EvidenceLine, Told, content_of, names_of, story_of
from opsledger.lib import ids
from opsledger.rules.answers import Answer
from opsledger.rules.matching import FOUND_NOTHING, GAVE_NO_ANSWER
from opsledger.rules.record import KnownBy
from opsledger.rules.rendering import record_page
from opsledger.rules.states import HoldReason, StepState

TEMPLATE = "operation/operation.html"
FRAGMENTS = ("operation", "standing", "decide", "strip", "params", "notes")
DECISION_PERMISSIONS = {
    Answer.STILL_UNKNOWN: Permission.STILL_UNKNOWN,
    Answer.CLOSE_UNKNOWN: Permission.CLOSE_UNKNOWN,
}


@dataclass(slots=True)
class Asked:
    """A form that is shown again: what was typed, what is wrong, and what changed meanwhile."""

    typed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    changed: str = ""  # one sentence above the fresh panel
    operation_changed: str = ""  # the same above the page
    reading: Any = None  # a comparison made just now
    reveal: bool = False


@require_GET
def operation_page(request: ConsoleRequest, operation: str) -> HttpResponse:
    view = view_of(request, operation)
    if ids.public("op", view.record.id) != operation:
        return see_other(address_of(view))
    return page(request, TEMPLATE, context_of(request, view), fragments=FRAGMENTS)


def view_of(request: ConsoleRequest, operation: str) -> OperationView:
    """The operation by its public id, or by its own where that is safe in a path; 404 when it does not exist here."""
    number = ids.parse("op", operation)
    if number is None and not operation.startswith("op_"):
        number = find_id(request.team.pk, own=operation)
    view = operation_of(number, request.team_ids) if number is not None else None
    if view is None:
        raise Http404(_("There is no such operation in your teams."))
    return view


def address_of(view: OperationView) -> str:
    return reverse("operation", args=[ids.public("op", view.record.id)])


def team_and_roles(request: ConsoleRequest, team_id: UUID) -> tuple[Team, frozenset[Role]]:
    """The team that something belongs to, and what the person is there; also when another team is chosen now."""
    for team, roles in request.teams.items():
        if team.pk == team_id:
            return team, roles
    raise Http404(_("There is no such thing in your teams."))


def members(team: Team) -> list[Person]:
    """Whom something can be given to."""
    return [member.person for member in members_of(team) if member.person.is_active]


def require_in(request: ConsoleRequest, team_id: UUID, permission: Permission) -> None:
    """403 unless the person has the permission in the team that the thing belongs to."""
    team, roles = team_and_roles(request, team_id)
    if not allowed(roles, permission):
        raise PermissionDenied(why_not(roles, permission, team))


# What the page shows


def context_of(request: ConsoleRequest, view: OperationView, asked: Asked | None = None) -> dict[str, Any]:
    """Everything for the page; what this person may not do or see is not in it."""
    asked = asked or Asked()
    team, roles = team_and_roles(request, view.record.team_id)
    here = {permission.value: allowed(roles, permission) for permission in Permission}
    hold = _chosen_hold(request, view)
    asked.typed = asked.typed or answer_proposals.asked_for(request.GET, hold, _sensitive(view))
    told = story_of(view.record.id, before=_before(request))
    names = names_of(_actors(told))
    teller = story.Teller(view, {str(one.id): one for one in view.record.evidence}, names)
    items = sorted(
        [*teller.items(told.told), *([] if told.has_older else story.event_items(view))],
        key=lambda item: item.at,
        reverse=True,
    )
    shown = request.GET.get("show", "everything")
    shown_by = approvals.approvals_of(view.record.id)
    return {
        "view": view,
        "record": view.record,
        "op": ids.public("op", view.record.id),
        "here": here,
        "here_team": team,
        "replaces": ids.public("op", view.record.replaces) if view.record.replaces else "",
        "replaced_by": [ids.public("op", one) for one in view.record.replaced_by],
        "list_query": request.POST.get("list", "") or _list_query(request),
        "steps": [_step_line(one, view, shown_by.get(one.step.number)) for one in view.steps],
        "content_public": _content_public(shown_by),
        "crumbs": _crumbs(request, view, hold),
        "items": story.folded(item for item in items if shown in {"everything", item.about}),
        "planned": story.planned_of(view) if not _before(request) else [],
        "show": shown,
        "shown": [(value, _(label)) for value, label in story.SHOWN.items()],
        "older_before": told.told[-1].seq if told.has_older else None,
        "is_older": bool(_before(request)),
        "now": view.now,
        "notes": [item for item in items if item.icon == "pen"],
        "evidence": _evidence_lines(view.record.evidence),
        "evidence_count": len(view.record.evidence),
        "params": shown_params(view, reveal=asked.reveal),
        "requests": [shown_request(one, reveal=asked.reveal) for one in view.steps if one.digest],
        "revealed": asked.reveal,
        "people": members(team),
        "asked": asked,
        "typed": asked.typed,
        "errors": asked.errors,
        "why": {name: why_not(roles, Permission(name), team) for name, may in here.items() if not may},
        "withdrawable": _withdrawable(view),
        "may_plan": here["plan_replay"] and team == request.team,
        "open_replays": [
            (reverse("replay", args=[ids.public("rpl", replay_id)]), name)
            for replay_id, name in open_replays_of(view.record.id)
        ],
        "may_cancel": here["cancel"] and not view.final and not view.record.cancelled,
        **_decision(view, hold, asked, roles, request.user.pk, told.told),
    }


def _sensitive(view: OperationView) -> frozenset[str]:
    return frozenset(param.name for param in view.workflow.params if param.sensitive)


def _chosen_hold(request: ConsoleRequest, view: OperationView) -> HoldView | None:
    """The hold that the address names while it is open, else the one that is due first."""
    wanted = ids.parse("hold", request.GET.get("hold", "") or request.POST.get("hold", ""))
    named = next((one for one in view.holds if one.record.id == wanted), None)
    return named or (view.holds[0] if view.holds else None)


def _decision(
    view: OperationView,
    hold: HoldView | None,
    asked: Asked,
    roles: frozenset[Role],
    person_id: UUID,
    told: list[Told],
) -> dict[str, Any]:
    if hold is None:
        return {"hold": None}
    found = findings(hold.record.facts)
    may = frozenset(
        answer for answer in Answer if allowed(roles, DECISION_PERMISSIONS.get(answer, Permission.SETTLE))
    )
    may_propose = allowed(roles, Permission.PROPOSE)
    cards = decision.cards_of(view, hold, found, may, desk.clock, may_propose=may_propose)
    line = inbox.line_of(hold.record.id, [view.record.team_id])
    if line is None:
        return {"hold": None}
    known = desk.known_of(line, view.now)
    step = view.step(hold.record.step)
    revisable = decision.revisable(view, hold.record.step, cards)
    return {
        "revise_fields": revisable.fields(asked.typed) if revisable else [],
        "revisable": revisable,
        "to_approve": hold.record.reason is HoldReason.APPROVAL_NEEDED,
        "hold": hold.record,
        "hold_public": ids.public("hold", hold.record.id),
        "hold_step": step,
        "question": wording.question(known),
        "knows": _sentences(view, hold, found, known),
        "found": found,
        "cards": cards,
        "proposals": answer_proposals.lines_of(hold, may, cards, person_id, view.now),
        "may_settle": allowed(roles, Permission.SETTLE),
        "dispute": disputes.dispute_of(view, hold, told),
        "duplicates": duplicates.duplicates_of(view, hold, asked.typed, asked.errors),
        "chosen": asked.typed.get("answer") or decision.default_card(cards),
        "protection": protection_of_step(view, hold.record.step),
        "sending_again": wording.sending_again(
            step.record.protected,
            may_have_had_effect=step.may_have_had_effect,
            until=desk.clock(step.record.protected.until, view.now),
            ended=desk.clock(step.record.protected.window_ends_at, view.now),
        ),
        "open_for": story.open_for(hold.record.opened_at, view.now),
        "due_in": story.open_for(view.now, hold.record.due_at),
        "late": hold.record.due_at < view.now,
        "late_by": story.open_for(hold.record.due_at, view.now),
        "readable": step.action.read is not None and step.action.profile.lookup is not None,
        "planned_look": step.step.act_at if step.step.act == "look" else None,
        "links": _links(step, found),
        "reference_value": asked.typed.get("reference") or _proposed(found),
        "other_holds": [
            (ids.public("hold", one.record.id), wording.reason_word(one.record.reason), one.record.step)
            for one in view.holds
            if one is not hold
        ],
    }


def _proposed(found: Findings) -> str:
    return found.reference if found.looked in {"confirmed", "accepted", "differs"} else ""


def protection_of_step(view: OperationView, number: int) -> wording.ProtectionWords:
    step = view.step(number)
    words = desk.protection_words(
        step.record.protected,
        state=step.step.state,
        attempts=len(step.step.attempts),
        may_have_had_effect=step.may_have_had_effect,
        accepted=step.step.accepted_at is not None,
        now=view.now,
    )
    assert words is not None
    return words


def _sentences(
    view: OperationView, hold: HoldView, found: Findings, known: wording.Known
) -> list[tuple[str, str]]:
    """What is known, one sentence a line: icon and text, from the evidence. Nothing is said twice."""
    step = view.step(hold.record.step)
    said: list[tuple[str, str]] = []
    for attempt in step.record.attempts[-3:]:
        when = desk.clock(attempt.opened_at, view.now)
        text = attempt.sentence or _("No answer yet.")
        sent = _("Attempt %(number)s, %(time)s: %(text)s")
        said.append(("attempt", sent % {"number": attempt.number, "time": when, "text": text}))
    said += _looked(view, hold, found, known)
    if not said or hold.record.reason not in _TOLD_BY_FACTS:
        said.insert(0, ("info", wording.what_we_know(known)))
    text = desk.if_nobody(hold.record.if_nobody, hold.record.outlook, view.now)
    if text:
        said.append(("clock", _("If nobody acts: %(text)s") % {"text": text}))
    return said


# Attempts and lookups say it all, and the statements of a dispute stand side by side; a summary would only repeat it.
_TOLD_BY_FACTS = frozenset(
    {HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED, HoldReason.DISPUTED, HoldReason.REJECTED}
)
# Their summary and the table beside it name the record that was found.
_TOLD_BY_SUMMARY = frozenset({HoldReason.RECORD_DIFFERS, HoldReason.DUPLICATE_FOUND})


def _looked(
    view: OperationView, hold: HoldView, found: Findings, known: wording.Known
) -> list[tuple[str, str]]:
    """What lookups brought: how they ended when they found nothing or failed, else what the last one says."""
    step = view.step(hold.record.step)
    if hold.record.reason in _TOLD_BY_SUMMARY or step.step.looked_at is None:
        return []
    when = desk.clock(step.step.looked_at, view.now)
    looks, last = step.record.looks, _last_look(view, hold.record.step)
    if (
        last is not None
        and last.says in GAVE_NO_ANSWER | FOUND_NOTHING
        and looks.failed
        and not found.references
    ):
        summary = _("%(looked)s Last at %(time)s.")
        return [("search", summary % {"looked": wording.looked_in_vain(known), "time": when})]
    if last is None or not last.sentence:
        return []
    number = _("Lookup %(number)s, %(time)s: %(text)s")
    return [("search", number % {"number": looks.made or 1, "time": when, "text": last.sentence})]


def _last_look(view: OperationView, step: int) -> EvidenceLine | None:
    looks = [
        one
        for one in view.record.evidence
        if one.kind == "lookup" and one.step == step and one.says != "read"
    ]
    return max(looks, key=lambda one: one.received_at, default=None)


def _links(step: Any, found: Findings) -> list[tuple[str, str]]:
    """Pages of the destination itself: records that were found, and a search for this action."""
    links = []
    for reference in (found.references or ((step.step.reference,) if step.step.reference else ()))[:5]:
        address = record_page(step.destination, reference=reference)
        if address and step.destination.record_url:
            links.append((_("Open %(reference)s") % {"reference": reference}, address))
    if step.destination.search_url and step.step.attempts:
        address = record_page(step.destination, identity=step.identity)
        if address:
            links.append((_("Search at %(destination)s") % {"destination": step.destination.slug}, address))
    return links


def content_id_of(view: OperationView) -> str:
    """The content that the operation shows, by the caller’s own id; "" where it shows none."""
    of_id = view.record.loaded.content_id
    return approvals.newest_text(of_id).content_id if of_id else ""


def _content_public(shown_by: dict[int, approvals.StepApproval]) -> str:
    """A content version of the operation, to go on from with another one; "" where it shows no content."""
    known = [one.version_id for one in shown_by.values() if one.version_id]
    return ids.public("cv", known[0]) if known else ""


def _approval_words(found: approvals.StepApproval | None, view: OperationView) -> tuple[str, str]:
    """Content version and approval of a step in a few words, and where they are shown; "" for steps without."""
    if found is None:
        return "", ""
    said = _("content version %(number)s") % {"number": found.content_number} if found.content_number else ""
    if found.approved_by:
        by = _("approved by %(name)s") % {"name": found.approved_by}
        step = view.step(found.number).step
        until = found.approved_until if step.never_left and found.approved_until else None
        if until:
            by = _("approved by %(name)s until %(time)s") % {
                "name": found.approved_by,
                "time": desk.clock(until, view.now),
            }
        said = f"{said}, {by}" if said else by
    elif found.approval_needed:
        said = f"{said}, {_('not approved')}" if said else _("not approved")
    if found.version_id and not found.alone:
        return said, reverse("approval", args=[ids.public("cv", found.version_id)])
    return said, reverse("approval_of_request", args=[ids.public("stp", found.step_id)])


def _step_line(step: Any, view: OperationView, found: approvals.StepApproval | None) -> dict[str, Any]:
    attempts = len(step.step.attempts)
    state = step.step.state
    since = {StepState.UNKNOWN: step.step.unknown_at, StepState.ACCEPTED: step.step.accepted_at}.get(state)
    tail = []
    if step.step.reference:
        tail.append(step.step.reference)
    if attempts:
        tail.append(ngettext("%(count)s attempt", "%(count)s attempts", attempts) % {"count": attempts})
    elif state in {StepState.WAITING, StepState.READY}:
        tail.append(_("not sent"))
    held = view.rules.hold_on(step.step.number)
    approval, approval_url = _approval_words(found, view)
    return {
        "approval": approval,
        "approval_url": approval_url,
        "revision": step.record.revision if step.record.revision > 1 else None,
        "number": step.step.number,
        "title": step.title,
        "word": wording.step_word(step.step),
        "destination": step.step.destination,
        "state": state,
        "since": since,
        "tail": " · ".join(tail),
        "held": wording.reason_word(held.reason) if held else "",
        "never_known": step.step.never_known,
        "current": held is not None,
        "links": _links(step, Findings()),
    }


def _crumbs(request: ConsoleRequest, view: OperationView, hold: HoldView | None) -> dict[str, Any] | None:
    """Where the hold stands in the inbox’s view that it was opened from, and its neighbours there."""
    if hold is None or view.record.team_id != request.team.pk:
        return None
    chosen = InboxFilter.read(request.GET, request.team.pk, request.user.pk)
    place = inbox.Place(hold.record.due_at, hold.record.id)
    near = inbox.neighbours(chosen.wanted, place)

    def link(neighbour: tuple[UUID, UUID] | None) -> str:
        if neighbour is None:
            return ""
        address = reverse("operation", args=[ids.public("op", neighbour[1])])
        return f"{address}?{chosen.query(hold=ids.public('hold', neighbour[0]))}"

    return {
        "view": _(VIEWS[chosen.wanted.view]),
        "url": f"{reverse('inbox')}?{chosen.query()}".rstrip("?"),
        "position": near.before_count + 1,
        "previous": link(near.previous),
        "following": link(near.following),
    }


def _list_query(request: ConsoleRequest) -> str:
    """The inbox view that the page was opened from, without what is the page’s own."""
    return InboxFilter.read(request.GET, request.team.pk, request.user.pk).query()


def _evidence_lines(evidence: list[EvidenceLine]) -> list[dict[str, Any]]:
    """Newest first. Lookups of a step that brought the same are one line, with a count; the newest stands for them."""
    lines: dict[Any, dict[str, Any]] = {}
    for one in evidence:
        same = (one.step, one.says, one.sentence) if one.kind == "lookup" else one.id
        if same in lines:
            lines[same]["times"] += 1
            lines[same]["first_at"] = one.received_at
        else:
            lines[same] = _evidence_line(one)
    return list(lines.values())


def _evidence_line(one: EvidenceLine) -> dict[str, Any]:
    return {
        "public": ids.public("ev", one.id),
        "icon": {"lookup": "search", "reply": "attempt", "statement": "user"}.get(one.kind, "event"),
        "sentence": sentence_of(one),
        "at": one.received_at,
        "late": one.late,
        "step": one.step,
        "size": one.size,
        "times": 1,
        "first_at": one.received_at,
    }


def _withdrawable(view: OperationView) -> list[tuple[int, str]]:
    """Steps on which a person’s answer stands, so that an owner may take it back."""
    return [
        (step.step.number, step.title)
        for step in view.steps
        if step.step.never_known or any(attempt.known_by is KnownBy.PERSON for attempt in step.step.attempts)
    ]


def _actors(told: Any) -> set[str]:
    actors = {entry.actor for entry in told.told}
    named = [entry.body.get(name) for entry in told.told for name in ("owner", "from", "to")]
    given = (one for entry in told.told for one in (entry.body.get("given") or {}).values())
    owners = {f"person:{one}" for one in named if isinstance(one, str)}
    beside = (entry.body.get(name) for entry in told.told for name in ("proposed_by", "started_by"))
    return actors | owners | {str(one) for one in beside if one} | {f"person:{one['owner']}" for one in given}


def _before(request: ConsoleRequest) -> int | None:
    text = request.GET.get("before", "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


# What can be done to an operation


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


# Evidence


@require_GET
def evidence_page(request: ConsoleRequest, operation: str, evidence: str) -> HttpResponse:
    """One piece of evidence: what it says, where it came from, and the bytes that were kept, as text."""
    return _evidence(request, operation, evidence, reveal=False)


@require_POST
def reveal_evidence(request: ConsoleRequest, operation: str, evidence: str) -> HttpResponse:
    """The same with sensitive values shown; written to the journal before."""
    return _evidence(request, operation, evidence, reveal=True)


def _evidence(request: ConsoleRequest, operation: str, evidence: str, *, reveal: bool) -> HttpResponse:
    view = view_of(request, operation)
    number = ids.parse("ev", evidence)
    line = next((one for one in view.record.evidence if one.id == number), None)
    if line is None:
        raise Http404(_("This operation has no such evidence."))
    if reveal:
        require_in(request, view.record.team_id, Permission.REVEAL)
        record_revealed(view.record.id, f"evidence:{line.id}", by_person(request.user))
    team, roles = team_and_roles(request, view.record.team_id)
    content = content_of(line.id, view.record.id) or b""
    may_reveal = allowed(roles, Permission.REVEAL)
    masked, plain = shown_content(view, content), shown_content(view, content, reveal=True)
    context = {
        "record": view.record,
        "op": ids.public("op", view.record.id),
        "line": line,
        "public": evidence,
        "sentence": sentence_of(line),
        "kind": wording.evidence_word(line.kind),
        "outcome": story.looked_word(line.says) if line.kind == "lookup" else "",
        "content": plain if reveal else masked,
        "masked": masked != plain,
        "revealed": reveal,
        "may_reveal": may_reveal,
        "why_not": "" if may_reveal else why_not(roles, Permission.REVEAL, team),
        "names": names_of([line.origin]),
        "origin": names_of([line.origin]).get(line.origin, line.origin),
    }
    return page(request, "operation/evidence.html", context)


@require_GET
def evidence_download(request: ConsoleRequest, operation: str) -> HttpResponse:
    """A text for the provider or the system’s owner: what was observed and decided, and what remains."""
    view = view_of(request, operation)
    told = story_of(view.record.id)
    text = evidence_file(view, told.told, names_of(_actors(told)))
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    name = f"evidence-{ids.public('op', view.record.id)}.md"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def next_url(view: OperationView, post: QueryDict) -> str:
    """The operation’s page, with the inbox view that it was opened from kept."""
    query = post.get("list", "")
    return address_of(view) + (f"?{query}" if query else "")

"""What the page of one operation shows: how it stands, the question it asks, what happened, and what supports it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from opsledger.accounts.roles import Permission, allowed, people_of
from opsledger.console import answer_proposals, desk
from opsledger.console.decision_panel import links_of, panel_of
from opsledger.console.evidence_words import sentence_of
from opsledger.console.filters import VIEWS, InboxFilter, not_a_page_of_the_list
from opsledger.console.forms import Asked
from opsledger.console.http import ConsoleRequest
from opsledger.console.masked import shown_params, shown_request
from opsledger.console.permissions import team_and_roles, why_not
from opsledger.console.story.items import SHOWN, folded
from opsledger.console.story.planned import planned_of
from opsledger.console.story.telling import Telling, names_in
from opsledger.console.story.timeline import event_items, items_of
from opsledger.console.vocabulary import shown, step_word
from opsledger.ledger.queries import approvals, inbox
from opsledger.ledger.queries.comparison import Findings
from opsledger.ledger.queries.hold_lines import Place
from opsledger.ledger.queries.page import HoldView, OperationView
from opsledger.ledger.queries.replays import open_replays_of
from opsledger.ledger.queries.timeline import EvidenceLine, story_of
from opsledger.lib import ids
from opsledger.rules.record import KnownBy
from opsledger.rules.states import StepState

TEMPLATE = "operation/operation.html"
FRAGMENTS = ("operation", "standing", "decide", "strip", "params", "notes")


def context_of(request: ConsoleRequest, view: OperationView, asked: Asked | None = None) -> dict[str, Any]:
    """Everything for the page; what this person may not do or see is not in it."""
    asked = asked or Asked()
    team, roles = team_and_roles(request, view.record.team_id)
    here = {permission.value: allowed(roles, permission) for permission in Permission}
    hold = _chosen_hold(request, view)
    asked.typed = asked.typed or answer_proposals.asked_for(request.GET, hold, view.workflow.sensitive_params)
    told = story_of(view.record.id, before=_before(request))
    names = names_in(told.told)
    telling = Telling(view, {str(one.id): one for one in view.record.evidence}, names)
    items = sorted(
        [*items_of(telling, told.told), *([] if told.has_older else event_items(view))],
        key=lambda item: item.at,
        reverse=True,
    )
    show = request.GET.get("show", "everything")
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
        "items": folded(item for item in items if show in {"everything", item.about}),
        "planned": planned_of(view) if not _before(request) else [],
        "show": show,
        "shown": [(value, _(label)) for value, label in SHOWN.items()],
        "older_before": told.told[-1].seq if told.has_older else None,
        "is_older": bool(_before(request)),
        "now": view.now,
        "notes": [item for item in items if item.icon == "pen"],
        "evidence": _evidence_lines(view.record.evidence),
        "evidence_count": len(view.record.evidence),
        "params": shown_params(view, reveal=asked.reveal),
        "requests": [shown_request(one, reveal=asked.reveal) for one in view.steps if one.digest],
        "revealed": asked.reveal,
        "people": people_of(team),
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
        **panel_of(view, hold, asked, roles, request.user.pk, told.told),
    }


def _chosen_hold(request: ConsoleRequest, view: OperationView) -> HoldView | None:
    """The hold that the address names while it is open, else the one that is due first."""
    wanted = ids.parse("hold", request.GET.get("hold", "") or request.POST.get("hold", ""))
    return view.hold(wanted) or (view.holds[0] if view.holds else None)


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
        "word": step_word(step.step),
        "destination": step.step.destination,
        "state": state,
        "since": since,
        "tail": " · ".join(tail),
        "held": shown(held.reason).word if held else "",
        "never_known": step.step.never_known,
        "current": held is not None,
        "links": links_of(step, Findings()),
    }


def _crumbs(request: ConsoleRequest, view: OperationView, hold: HoldView | None) -> dict[str, Any] | None:
    """Where the hold stands in the inbox’s view that it was opened from, and its neighbours there."""
    if hold is None or view.record.team_id != request.team.pk:
        return None
    chosen = _opened_from(request)
    place = Place(hold.record.due_at, hold.record.id)
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
    return _opened_from(request).query()


def _opened_from(request: ConsoleRequest) -> InboxFilter:
    """The inbox view in the address. `before` there is this page's own, a number of an entry, and no place in an inbox."""
    query = request.GET.copy()
    query.pop("before", None)
    return InboxFilter.read(query, request.team.pk, request.user.pk)


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


def _before(request: ConsoleRequest) -> int | None:
    text = request.GET.get("before", "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise not_a_page_of_the_list()
    return int(text) if text else None

"""The timeline of one operation: entries of the journal as items that people read, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.story import approvals, attempts, decisions, lookups, ownership
from opsledger.console.story.attempts import opens
from opsledger.console.story.items import Item, quotes
from opsledger.console.story.telling import Telling
from opsledger.console.vocabulary import shown
from opsledger.ledger.queries.page import OperationView
from opsledger.ledger.queries.timeline import Told
from opsledger.lib import ids
from opsledger.rules.states import HoldReason


def items_of(telling: Telling, told: Iterable[Told]) -> list[Item]:
    """Newest first. An attempt’s opening and its end are one item when nothing happened between them."""
    entries = list(told)
    items: list[Item] = []
    for index, entry in enumerate(entries):
        older = entries[index + 1] if index + 1 < len(entries) else None
        if entry.kind in {"attempt_ended", "lease_ended"} and opens(older, entry):
            items += _around(telling, entry)
            telling.ended[str(entry.body.get("attempt"))] = entry
            continue
        items += _around(telling, entry)
        items.append(_tell(telling, entry))
    return items


def event_items(view: OperationView) -> list[Item]:
    """The events that told of this action; deliveries are counted, not repeated."""
    return [
        Item(
            event.received_at,
            "event",
            _("Event received from %(source)s") % {"source": event.source},
            text=_deliveries(event.delivery_count),
            facts=((_("Event id"), event.event_id),),
            key=f"event-{event.id}",
        )
        for event in view.record.events
    ]


def _deliveries(count: int) -> str:
    if count <= 1:
        return _("Delivered once.")
    return _(
        "Delivered %(count)s times under one event id; the repeats were counted and started nothing."
    ) % {"count": count}


def _around(telling: Telling, entry: Told) -> list[Item]:
    """What an entry brought with it: the operation’s end, holds that it opened."""
    around = []
    state = entry.body.get("state")
    if entry.kind != "operation_recorded" and state in _ENDS:
        shape = shown(str(state), "operation").shape
        around.append(Item(entry.at, shape, _(_ENDS[state]), state=shape, key=f"{entry.seq}-end"))
    for hold_id, hold in (entry.body.get("holds") or {}).items():
        if hold is not None:
            reason = HoldReason(hold["reason"])
            title = _("Hold opened: %(reason)s") % {"reason": shown(reason).word}
            step = _("Step %(number)s") % {"number": hold["step"]}
            if given := (entry.body.get("given") or {}).get(hold_id):
                step = f"{step}. {_by_rule(telling, given)}"
            around.append(
                Item(entry.at, "held", title, state="held", text=step, key=f"{entry.seq}-h{hold['step']}")
            )
    return around


def _by_rule(telling: Telling, given: Mapping[str, Any]) -> str:
    """Whom a rule gave a hold to when it opened."""
    return _("Given to %(name)s by assignment rule %(number)s.") % {
        "name": telling.names.get(f"person:{given['owner']}", _("somebody")),
        "number": given["position"],
    }


_ENDS = {
    "completed": noop("The operation is completed"),
    "failed": noop("The operation has failed"),
    "cancelled": noop("The operation is cancelled"),
    "closed_unknown": noop("The operation is closed as never known"),
}


def _tell(telling: Telling, entry: Told) -> Item:
    item = _TELLERS.get(entry.kind, _other)(telling, entry)
    if not entry.body.get("bulk"):
        return item
    run = (_("Bulk run"), ids.public("run", UUID(str(entry.body["bulk"]))))
    return replace(item, facts=(*item.facts, run))


def _recorded(telling: Telling, entry: Told) -> Item:
    title = _("Intended action recorded")
    who = _("By %(name)s, before anything was sent.") % {"name": telling.name(entry.actor)}
    return Item(entry.at, "flag", title, text=who, key=str(entry.seq))


def _other(telling: Telling, entry: Told) -> Item:
    title = _(_MACHINE[entry.kind]) if entry.kind in _MACHINE else entry.kind.replace("_", " ").capitalize()
    return Item(
        entry.at, "clock", title, text=telling.said(entry), quotes=quotes(entry),
        evidence_id=telling.evidence_id(entry), key=str(entry.seq),
    )  # fmt: skip


def _added(telling: Telling, entry: Told) -> Item:
    """Whose word it is stands with it: nobody looked."""
    return replace(_other(telling, entry), facts=((_("Told by"), telling.name(entry.actor)),))


_MACHINE = {
    "deadline_came": noop("A deadline came"),
    "event_added": noop("Another event of the same action was added"),
    "backup_restored": noop("A backup was restored; what was sent since is not known"),
    "lease_extended": noop("The automation asked for more time"),
    "evidence_added": noop("Evidence was added"),
}
_TELLERS = {
    "operation_recorded": _recorded,
    "attempt_opened": attempts.attempt_opened,
    "attempt_ended": attempts.attempt_ended,
    "lease_ended": attempts.attempt_ended,
    "lookup_ended": lookups.lookup_ended,
    "answered": decisions.answered,
    "answer_proposed": decisions.proposed,
    "proposal_dismissed": decisions.proposal_ended,
    "proposal_withdrawn": decisions.proposal_ended,
    "approved": approvals.approved,
    "content_moved": approvals.content_moved,
    "content_rejected": approvals.content_rejected,
    "request_rejected": approvals.request_rejected,
    "assigned": ownership.assigned,
    "reminded": ownership.reminded,
    "escalated": ownership.escalated,
    "noted": decisions.noted,
    "cancel_requested": decisions.by_person,
    "withdrawn": decisions.by_person,
    "check_requested": decisions.by_person,
    "revealed": decisions.by_person,
    "replayed": decisions.replayed,
    "evidence_added": _added,
}

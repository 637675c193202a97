"""Intended actions as automations and sources bring them: checked one by one, recorded together (`open`).

1. Each is checked against the workflow that is current now; one with problems spoils no other.
2. Events that it names are found or noted; operations that it replaces are locked and must be settled.
3. All that passed are recorded in one statement; the answers come back in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.accounts.models import Membership
from opsledger.accounts.permissions import Role
from opsledger.ledger import definitions
from opsledger.ledger.actions.content import move_operations
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import UnknownWorkflow, current_workflow
from opsledger.ledger.actions.event_questions import (
    ask_about_next_body_here,
    close_event_holds_here,
    is_held,
    judged_before,
)
from opsledger.ledger.actions.events import (
    EventQuestion,
    NewEvent,
    OpenedEvent,
    UnknownSource,
    open_event_here,
    open_event_hold_here,
    open_named_event_here,
)
from opsledger.ledger.actions.evidence import record_event_report_here
from opsledger.ledger.actions.open import NewOperation, Opened, open_operations, open_operations_here
from opsledger.ledger.actions.references import once_more
from opsledger.ledger.actions.showing import with_content_here
from opsledger.ledger.actions.wanted import NamedEvent, Taken, Verdict, Wanted, WantedContent, refused
from opsledger.ledger.queries.names import find_all_named
from opsledger.ledger.records import lock
from opsledger.rules.building import Problem
from opsledger.rules.definitions import check_params
from opsledger.rules.identity import refuse_operation_id
from opsledger.rules.states import HoldReason, OperationState, StepState

__all__ = [
    "Delivered",
    "NamedEvent",
    "Taken",
    "Verdict",
    "Wanted",
    "WantedContent",
    "open_delivery",
    "open_intended",
    "open_intended_here",
]

_SETTLED = frozenset(
    {OperationState.COMPLETED, OperationState.FAILED, OperationState.CANCELLED, OperationState.CLOSED_UNKNOWN}
)
_MAY_HAVE_AN_EFFECT = frozenset({StepState.IN_FLIGHT, StepState.ACCEPTED, StepState.UNKNOWN})


def open_intended(team_id: UUID, wanted: Sequence[Wanted], by: By) -> list[Taken]:
    """Records what can be recorded, in one transaction; one answer each, in order. Call it outside transactions."""
    checked = [_checked(team_id, one, by) for one in wanted]
    if not any(one.owner or one.event or one.event_id or one.replaces or one.content for one in wanted):
        return _answered(checked, open_operations)
    proposed: set[UUID] = set()
    with transaction.atomic(durable=True):
        if any(one.content for one in wanted):
            checked = with_content_here(team_id, wanted, checked, by, proposed)
        taken = _open(team_id, wanted, checked)
    for of_id in sorted(proposed):
        move_operations(of_id)
    return taken


def open_intended_here(team_id: UUID, wanted: Sequence[Wanted], by: By) -> list[Taken]:
    """The same inside a transaction that the caller has opened (an event and its operation commit together)."""
    return _open(team_id, wanted, [_checked(team_id, one, by) for one in wanted])


def _open(team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[NewOperation | Taken]) -> list[Taken]:
    if any(one.owner or one.event or one.replaces for one in wanted):
        checked = _with_owners(team_id, wanted, checked)
        checked = _with_events(team_id, wanted, checked)
        checked = _with_replaced(team_id, wanted, checked)
    return _answered(checked, open_operations_here)


def _answered(
    checked: Sequence[NewOperation | Taken], record: Callable[[Sequence[NewOperation]], list[Opened]]
) -> list[Taken]:
    opened = iter(record([one for one in checked if isinstance(one, NewOperation)]))
    return [one if isinstance(one, Taken) else _taken(next(opened)) for one in checked]


def _taken(opened: Opened) -> Taken:
    if opened.differs:
        return Taken(Verdict.CONFLICT, opened)
    return Taken(Verdict.RECORDED if opened.new else Verdict.SAME, opened)


# 1. What one of them must hold by itself


def _checked(team_id: UUID, one: Wanted, by: By) -> NewOperation | Taken:
    problems: list[Problem] = [("operation_id", why) for why in refuse_operation_id(one.operation_id)]
    try:
        current = current_workflow(team_id, one.workflow)
    except UnknownWorkflow as why:
        return refused(*problems, ("workflow", str(why)))
    params, wrong = check_params(definitions.workflow(current.version_id), one.params)
    problems += wrong
    if one.content and not definitions.workflow(current.version_id).content:
        problems.append(("content", _NO_CONTENT.format(one.workflow)))
    if problems:
        return refused(*problems)
    return NewOperation(
        team_id=team_id,
        operation_id=one.operation_id,
        workflow_version_id=current.version_id,
        destinations=current.destinations,
        params=params,
        actor=by.actor,
        event_id=one.event_id,
        not_after=one.not_after,
    )


_NO_CONTENT = "can't be recorded: workflow {} takes no versioned content; send everything as params"


# 2. What they name: people, events, earlier operations


def _with_owners(
    team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[NewOperation | Taken]
) -> list[NewOperation | Taken]:
    known = _owners(team_id, {one.owner.strip().lower() for one in wanted if one.owner})

    def named(one: Wanted, new: NewOperation | Taken) -> NewOperation | Taken:
        if isinstance(new, Taken) or not one.owner:
            return new
        person_id = known.get(one.owner.strip().lower())
        if person_id is None:
            return refused(("owner", "must be the sign-in name of an active person with the role owner here"))
        return new._replace(owner_id=person_id)

    return [named(one, new) for one, new in zip(wanted, checked, strict=True)]


def _owners(team_id: UUID, names: set[str]) -> dict[str, UUID]:
    if not names:
        return {}
    rows = Membership.objects.filter(team_id=team_id, role=Role.OWNER.value, person__is_active=True)
    return dict(rows.filter(person__email__in=names).values_list("person__email", "person_id"))


def _with_events(
    team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[NewOperation | Taken]
) -> list[NewOperation | Taken]:
    found: list[NewOperation | Taken] = []
    for one, new in zip(wanted, checked, strict=True):
        if isinstance(new, Taken) or one.event is None:
            found.append(new)
            continue
        try:
            event_id = open_named_event_here(team_id, one.event.source, one.event.event_id, actor=new.actor)
        except UnknownSource as why:
            found.append(refused((f"source_event.{why.field}", str(why))))
            continue
        found.append(new._replace(event_id=event_id))
    return found


def _with_replaced(
    team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[NewOperation | Taken]
) -> list[NewOperation | Taken]:
    """An earlier operation may be replaced only when nothing of it can still have, or get, an effect."""
    names = {
        one.replaces
        for one, new in zip(wanted, checked, strict=True)
        if one.replaces and isinstance(new, NewOperation)
    }
    earlier = _earlier(team_id, names)

    def replacing(one: Wanted, new: NewOperation | Taken) -> NewOperation | Taken:
        if isinstance(new, Taken) or not one.replaces:
            return new
        found = earlier.get(one.replaces)
        if found is None:
            return refused(("replaces", "names no operation of this team"))
        if one.replaces == one.operation_id or found.why:
            why = found.why or "An operation can't replace itself."
            return Taken(Verdict.REPLACED_IS_OPEN, Opened(found.id, found.state, False), why=why)
        return new._replace(replaces=found.id)

    return [replacing(one, new) for one, new in zip(wanted, checked, strict=True)]


@dataclass(frozen=True, slots=True)
class _Earlier:
    id: UUID
    state: str
    why: str  # "" when it may be replaced


def _earlier(team_id: UUID, names: Iterable[str]) -> dict[str, _Earlier]:
    """The operations of these names, locked (FOR UPDATE on ledger_operation, ordered by id), then read."""
    found = find_all_named(team_id, set(names))
    if not found:
        return {}
    lock(found.values())
    states = _states(list(found.values()))
    return {name: states[operation_id] for name, operation_id in found.items()}


def _states(operation_ids: Sequence[UUID]) -> dict[UUID, _Earlier]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.id, o.state, array_agg(s.state),"
            " EXISTS (SELECT 1 FROM ledger_hold h WHERE h.operation_id = o.id AND h.closed_at IS NULL)"
            " FROM ledger_operation o JOIN ledger_step s ON s.operation_id = o.id"
            " WHERE o.id = ANY(%s) GROUP BY o.id",
            [list(operation_ids)],
        )
        return {row[0]: _Earlier(row[0], row[1], _why_open(*row[1:])) for row in cursor.fetchall()}


def _why_open(state: str, steps: Sequence[str], held: bool) -> str:
    if state in _SETTLED:
        return ""
    open_steps = sorted(_MAY_HAVE_AN_EFFECT.intersection(steps))
    if open_steps:
        words = " and ".join(step.replace("_", " ") for step in open_steps)
        return f"The earlier operation has a step that is {words}; settle it first."
    return "" if held else "The earlier operation is still to be sent; cancel it first."


# Deliveries: the event and what it starts commit together


@dataclass(frozen=True, slots=True)
class Delivered:
    event: OpenedEvent
    operation: Opened | None = None
    held: bool = False  # a person is asked about the event

    @property
    def done(self) -> bool:
        """Whether nothing is open any more about what the event started."""
        return not self.held and (self.operation is None or self.operation.state in _SETTLED)


def open_delivery(
    event: NewEvent, starts: Wanted | Taken | None, *, source: str, told: Mapping[str, Any] | None = None
) -> Delivered:
    """One delivery, in one transaction: event, delivery, and the operation that the event starts.

    1. The event is kept, or its delivery counted; its row stays locked until the commit.
    2. Known with another body: a person is asked, and nothing is started.
    3. Started before by a delivery: the same operation, whatever else the definition says now. Judged before: that
       stands. What an automation recorded that only named the event does not stand for what the event starts.
    4. Else the operation is recorded. Where it can't be, a person is asked; the event is not lost. `starts` is refused
       already where the event does not say how its operation is named.

    What the event tells (`told`, its body) of the final effect of earlier steps is recorded with it.
    """
    return once_more(lambda: _deliver(event, starts, source, told or {}))


def _deliver(
    event: NewEvent, starts: Wanted | Taken | None, source: str, told: Mapping[str, Any]
) -> Delivered:
    actor = f"source:{source}"
    with transaction.atomic(durable=True):
        opened = open_event_here(event, actor=actor)
        if opened.conflict:
            ask_about_next_body_here(opened.id, actor=actor)
            return Delivered(opened, _started_before(opened.id, starts), held=is_held(opened.id))
        record_event_report_here(event.team_id, source, opened.id, told, event.occurred_at)
        if starts is None:
            return Delivered(opened)
        known = None if opened.new else _started_before(opened.id, starts)
        if known is not None:
            return Delivered(opened, known)
        if not opened.new and judged_before(opened.id):
            return Delivered(opened)
        return _start(event, opened, starts, source, actor)


# Marked as started by this event; or recorded by its source; or recorded under the very id that the event asks for.
_STARTED = """
SELECT o.id, o.state FROM ledger_operationevent l JOIN ledger_operation o ON o.id = l.operation_id
 WHERE l.event_id = %s AND (l.started OR o.operation_id = %s OR o.first_event_id = l.event_id AND EXISTS (
       SELECT 1 FROM journal_entry j WHERE j.subject_id = o.id AND j.seq = 1 AND j.actor LIKE 'source:%%'))
 ORDER BY l.started DESC NULLS LAST, l.id LIMIT 1
"""


def _started_before(event_id: UUID, starts: Wanted | Taken | None) -> Opened | None:
    with connection.cursor() as cursor:
        cursor.execute(_STARTED, [event_id, starts.operation_id if isinstance(starts, Wanted) else ""])
        row = cursor.fetchone()
        return Opened(row[0], row[1], False) if row else None


def _mark_started(event_id: UUID, operation_id: UUID) -> None:
    """The event asks for an operation that somebody else has recorded: it has started this one, under whatever id later."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_operationevent SET started = true WHERE event_id = %s AND operation_id = %s",
            [event_id, operation_id],
        )


def _start(
    event: NewEvent, opened: OpenedEvent, starts: Wanted | Taken, source: str, actor: str
) -> Delivered:
    if isinstance(starts, Taken):
        taken = starts
    else:
        wanted = starts._replace(event_id=opened.id)
        taken = open_intended_here(event.team_id, [wanted], By(actor, source))[0]
    if taken.verdict is Verdict.REFUSED:
        facts: dict[str, Any] = {"problems": [list(problem) for problem in taken.problems]}
        title = f"An event of {source} can't start its operation"
        question = EventQuestion(opened.id, event.team_id, HoldReason.DATA_MISSING, title, facts)
    elif taken.verdict is Verdict.CONFLICT and taken.opened:
        facts = {"operation": str(taken.opened.id), "differs": list(taken.opened.differs)}
        title = f"An event of {source} names an operation that is another action"
        question = EventQuestion(opened.id, event.team_id, HoldReason.EVENT_CONFLICT, title, facts)
    else:
        if taken.verdict is Verdict.SAME and taken.opened:
            _mark_started(opened.id, taken.opened.id)
        close_event_holds_here(opened.id, HoldReason.DATA_MISSING, actor=actor)
        return Delivered(opened, taken.opened)
    open_event_hold_here(question, actor=actor)
    return Delivered(opened, held=True)

"""Intended actions as automations and sources bring them: checked one by one, recorded together (`open`).

1. Each is checked against the workflow that is current now; one with problems spoils no other.
2. What would be refused, and is recorded with the same values, is the same one again: whatever its workflow asks for since.
3. Those that name people, events, earlier operations or content are judged before anything is written (`naming`).
4. All that passed are recorded in one statement; the answers come back in order.

Recording twice is recording once, so what met others at the same rows is done again from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError, OperationalError, connection, transaction

from opsledger.ledger import definitions
from opsledger.ledger.actions.content import move_operations
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import UnknownWorkflow, current_workflow
from opsledger.ledger.actions.earlier import SETTLED
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
    open_event_here,
    open_event_hold_here,
)
from opsledger.ledger.actions.evidence import record_event_report_here
from opsledger.ledger.actions.naming import as_recorded, open_naming_here
from opsledger.ledger.actions.open import (
    Link,
    NewOperation,
    Opened,
    add_events_here,
    open_operations,
    open_operations_here,
)
from opsledger.ledger.actions.opened import compare, known_of
from opsledger.ledger.actions.references import once_more
from opsledger.ledger.actions.wanted import (
    Busy,
    Moved,
    NamedEvent,
    Taken,
    Verdict,
    Wanted,
    WantedContent,
    refused,
)
from opsledger.ledger.records import lock
from opsledger.rules.building import Problem
from opsledger.rules.definitions import check_params
from opsledger.rules.identity import refuse_operation_id
from opsledger.rules.states import HoldReason

__all__ = [
    "Busy",
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

T = TypeVar("T")
BEGINNINGS_MAX = 5


def open_intended(team_id: UUID, wanted: Sequence[Wanted], by: By) -> list[Taken]:
    """Records what can be recorded, in one transaction; one answer each, in order. Call it outside transactions.

    Busy, with nothing recorded, where others were at the same rows again and again.
    """
    if all(_is_plain(one) and one.event_id is None for one in wanted):
        return until_it_holds(lambda: _open_plain(team_id, wanted, by, open_operations))
    taken, proposed = until_it_holds(lambda: _open_naming(team_id, wanted, by))
    for of_id in sorted(proposed):
        with suppress(Busy):  # what is recorded stays; the sweep goes on with the move
            until_it_holds(partial(move_operations, of_id))
    return taken


def open_intended_here(team_id: UUID, wanted: Sequence[Wanted], by: By) -> list[Taken]:
    """The same of plain ones, inside the caller's transaction (an event and its operation commit together)."""
    assert all(_is_plain(one) for one in wanted)
    return _open_plain(team_id, wanted, by, open_operations_here)


def _is_plain(one: Wanted) -> bool:
    return not (one.owner or one.event or one.replaces or one.content)


def _open_naming(team_id: UUID, wanted: Sequence[Wanted], by: By) -> tuple[list[Taken], set[UUID]]:
    checked = [_checked(team_id, one, by) for one in wanted]
    with transaction.atomic(durable=True):
        return open_naming_here(team_id, wanted, checked, by)


def _open_plain(
    team_id: UUID,
    wanted: Sequence[Wanted],
    by: By,
    record: Callable[[Sequence[NewOperation]], list[Opened]],
) -> list[Taken]:
    checked = _known_again(team_id, wanted, [_checked(team_id, one, by) for one in wanted], by)
    opened = iter(record([one for one in checked if isinstance(one, NewOperation)]))
    return [one if isinstance(one, Taken) else _taken(next(opened)) for one in checked]


def _taken(opened: Opened) -> Taken:
    if opened.differs:
        return Taken(Verdict.CONFLICT, opened)
    return Taken(Verdict.RECORDED if opened.new else Verdict.SAME, opened)


def until_it_holds(act: Callable[[], T]) -> T:
    """Begins again, some times, when something that `act` read was changed before it could write; once after a deadlock.

    `act` opens its own transaction and reads everything in it. Busy when that was not enough, or when it waited for
    a row as long as this process may.
    """
    gave_way = False
    for _ in range(BEGINNINGS_MAX):
        try:
            return act()
        except Moved:
            continue
        except IntegrityError as why:
            if "an_operation_is_replaced_once" not in str(why):
                raise
        except OperationalError as why:
            sqlstate = getattr(why.__cause__, "sqlstate", None)
            if sqlstate == _WAITED_LONG:
                raise Busy from why
            if sqlstate not in _GAVE_WAY:
                raise
            if gave_way:
                raise Busy from why
            gave_way = True
    raise Busy


_WAITED_LONG = "55P03"  # for somebody else's row, as long as this process may
_GAVE_WAY = frozenset({"40P01", "40001"})  # deadlock, serialization failure: rolled back for others to go on


# What one of them must hold by itself


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


def _known_again(
    team_id: UUID, wanted: Sequence[Wanted], checked: Sequence[NewOperation | Taken], by: By
) -> list[NewOperation | Taken]:
    """What would be refused is looked up first, in one statement for all: it may be told again after a lost answer."""
    refusals = [one for one, new in zip(wanted, checked, strict=True) if isinstance(new, Taken)]
    if not refusals:
        return list(checked)
    known = known_of((team_id, one.operation_id) for one in refusals)

    def same(one: Wanted, new: NewOperation | Taken) -> NewOperation | Taken:
        recorded = known.get((team_id, one.operation_id))
        if recorded is None or isinstance(new, NewOperation):
            return new
        told = as_recorded(team_id, one, recorded, by)
        return new if told is None else _told_before(one, compare(told, recorded), by)

    return [same(one, new) for one, new in zip(wanted, checked, strict=True)]


def _told_before(one: Wanted, opened: Opened, by: By) -> Taken:
    if one.event_id is not None and not opened.differs:
        lock([opened.id])
        add_events_here([Link(opened.id, one.event_id, by.actor, False)])
    return _taken(opened)


# Deliveries: the event and what it starts commit together


@dataclass(frozen=True, slots=True)
class Delivered:
    event: OpenedEvent
    operation: Opened | None = None
    held: bool = False  # a person is asked about the event

    @property
    def done(self) -> bool:
        """Whether nothing is open any more about what the event started."""
        return not self.held and (self.operation is None or self.operation.state in SETTLED)


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
    return until_it_holds(lambda: once_more(lambda: _deliver(event, starts, source, told or {})))


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


# Marked as started by this event; or recorded by its source; or recorded under the very id that the event asks for, and
# nobody had to be asked whether it is the action that the event is about.
_STARTED = """
SELECT o.id, o.state FROM ledger_operationevent l JOIN ledger_operation o ON o.id = l.operation_id
 WHERE l.event_id = %s AND (l.started OR o.operation_id = %s AND NOT EXISTS (
       SELECT 1 FROM ledger_hold h WHERE h.event_id = l.event_id) OR o.first_event_id = l.event_id AND EXISTS (
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
        title = f"An event of {source} can’t start its operation"
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

"""What people ask of an operation beside answering its holds: cancel it, take an answer back, look now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import keep_text
from opsledger.ledger.actions.change import Change, Changed, change_here
from opsledger.ledger.actions.deciding import By, OperationChanged, Refused
from opsledger.ledger.records import Loaded
from opsledger.rules import transitions
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment, NotNow


def settle_cancel(operation_id: UUID, reason: str, by: By, *, version: int) -> Changed:
    """Cancels: nothing more is sent; what took effect is found out and said.

    `version`: of the operation, as it was read; another one by now is OperationChanged.
    """
    return _intervene(operation_id, "cancel_requested", reason, by, transitions.cancel_requested, version)


def settle_withdraw(operation_id: UUID, step_number: int, reason: str, by: By, *, version: int) -> Changed:
    """An owner takes a person's answer back; the step is disputed and its reference freed. `version`: as above."""

    def decide(record: Operation, moment: Moment) -> Operation:
        return transitions.withdrawn(record, step_number, moment, by=by.actor)

    return _intervene(operation_id, "withdrawn", reason, by, decide, version, step=step_number)


def settle_check(operation_id: UUID, step_number: int, at: datetime | None, by: By) -> Changed:
    """*Check now*, or at a chosen time. Reads only; nothing is sent."""

    def decide(record: Operation, moment: Moment) -> Operation:
        return transitions.look_requested(record, step_number, at or moment.now, moment)

    return _intervene(operation_id, "check_requested", "", by, decide, step=step_number)


def _intervene(
    operation_id: UUID,
    kind: str,
    reason: str,
    by: By,
    decide: Callable[[Operation, Moment], Operation],
    version: int | None = None,
    **facts: Any,
) -> Changed:
    if kind != "check_requested" and not reason.strip():
        raise Refused("Write the reason; it is kept with the decision.", field="reason")

    def decide_loaded(loaded: Loaded, moment: Moment) -> Operation:
        if version is not None and loaded.version != version:
            raise OperationChanged
        try:
            return decide(loaded.record, moment)
        except NotNow as why:
            raise Refused(why.why) from why

    with transaction.atomic(durable=True):
        kept: dict[str, Any] = {"reason": keep_text(operation_id, reason)} if reason.strip() else {}
        if version is not None:
            kept["operation_version"] = version
        one = Change(
            kind=kind, actor=by.actor, decide=decide_loaded, facts={**facts, **kept}, closed_by=by.actor
        )
        return change_here({operation_id: one})[operation_id]

"""What people ask of an operation beside answering its holds: cancel it, take an answer back, look now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import keep_text
from opsledger.ledger.actions.change import Change, Changed, change_here
from opsledger.ledger.actions.deciding import By, OperationChanged, Refused, check_reason
from opsledger.ledger.records import Loaded
from opsledger.rules import transitions
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import StepState


def settle_cancel(operation_id: UUID, reason: str, by: By, *, version: int) -> Changed:
    """Cancels: nothing more is sent; what took effect is found out and said.

    `version`: of the operation, as it was read; another one by now is OperationChanged.
    """
    return _intervene(operation_id, "cancel_requested", reason, by, transitions.cancel_requested, version)


def cancel_waiting(
    operation_id: UUID, number: int, reason: str, by: By, *, version: int, facts: Mapping[str, Any]
) -> Change:
    """The same as a change, of an operation whose step waits to be sent: Refused where that step does not wait any more.

    `facts`: more for the journal's line; no free text. The reason is kept once the cancellation stands.
    """

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        step = loaded.record.step(number)
        if loaded.version != version or step.state is not StepState.READY:
            raise Refused(
                f"Its step {number} does not wait any more: it is {step.state.value.replace('_', ' ')}."
            )
        try:
            after = transitions.cancel_requested(loaded.record, moment)
        except NotNow as why:
            raise Refused(why.why) from why
        made.facts = {**made.facts, "reason": keep_text(operation_id, reason)}
        return after

    made = Change(
        kind="cancel_requested",
        actor=by.actor,
        decide=decide,
        facts={**facts, "step": number, "operation_version": version},
        closed_by=by.actor,
    )
    return made


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
    if kind != "check_requested":
        check_reason(reason)

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

"""Operations that a new one is to replace: read, and whether they may be.

An operation may be replaced only when nothing of it can still have, or get, an effect; and by one other only, since both of
them would take effect. The partial unique index `an_operation_is_replaced_once` is the referee of the latter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from opsledger.ledger.actions.opened import Opened
from opsledger.ledger.actions.wanted import Taken, Verdict
from opsledger.rules.states import OperationState, StepState

SETTLED = frozenset(
    {OperationState.COMPLETED, OperationState.FAILED, OperationState.CANCELLED, OperationState.CLOSED_UNKNOWN}
)
_MAY_HAVE_AN_EFFECT = frozenset({StepState.IN_FLIGHT, StepState.ACCEPTED, StepState.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Earlier:
    """An operation that is to be replaced. `refused`: why it may not be, with the operation that this is about."""

    id: UUID
    refused: Taken | None


_EARLIER = """
SELECT o.id, o.state, array_agg(s.state),
       EXISTS (SELECT 1 FROM ledger_hold h WHERE h.operation_id = o.id AND h.closed_at IS NULL),
       bool_or(s.state = 'ready'
               AND NOT EXISTS (SELECT 1 FROM ledger_hold h WHERE h.step_id = s.id AND h.closed_at IS NULL)),
       r.id, r.operation_id, r.state
  FROM ledger_operation o
  JOIN ledger_step s ON s.operation_id = o.id
  LEFT JOIN ledger_operation r ON r.replaces_id = o.id
 WHERE o.id = ANY(%s) GROUP BY o.id, r.id
"""


def earlier_of(operation_ids: Collection[UUID]) -> dict[UUID, Earlier]:
    """These operations as they are now; whoever writes on it locks them and reads again."""
    if not operation_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_EARLIER, [list(operation_ids)])
        return {row[0]: Earlier(row[0], _refusal(*row)) for row in cursor.fetchall()}


def _refusal(
    number: UUID,
    state: str,
    steps: Sequence[str],
    held: bool,
    goes_on: bool,
    by: UUID | None,
    by_own: str | None,
    by_state: str | None,
) -> Taken | None:
    if by is not None and by_own is not None and by_state is not None:
        return replaced_by(by_own, Opened(by, by_state, False))
    why = _why_open(state, steps, held=held, goes_on=goes_on)
    return Taken(Verdict.REPLACED_IS_OPEN, Opened(number, state, False), why=why) if why else None


def replaced_by(own: str, opened: Opened) -> Taken:
    why = f"Operation {own} replaces it already, and both would take effect."
    return Taken(Verdict.REPLACED_ALREADY, opened, why=why)


def _why_open(state: str, steps: Sequence[str], *, held: bool, goes_on: bool) -> str:
    """`held`: a person is asked about it. `goes_on`: a step is sent all the same, as one that goes on after a failure."""
    if state in SETTLED:
        return ""
    open_steps = sorted(_MAY_HAVE_AN_EFFECT.intersection(steps))
    if open_steps:
        words = " and ".join(step.replace("_", " ") for step in open_steps)
        return f"The earlier operation has a step that is {words}; settle it first."
    return "" if held and not goes_on else "The earlier operation is still to be sent; cancel it first."

"""Operations as lists show them: one line each, with its steps, its open holds, and what must happen next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from opsledger.lib.named_rows import named_rows
from opsledger.rules.states import HoldReason, OperationState


@dataclass(frozen=True, slots=True)
class StepLine:
    number: int
    name: str
    title: str
    destination: str
    action: str
    performer: str
    state: str
    reference: str | None
    act: str
    act_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenHold:
    id: UUID
    step: int
    reason: HoldReason
    version: int
    due_at: datetime
    owner_name: str


@dataclass(frozen=True, slots=True)
class NextDecision:
    """What must happen next, and who does it: a person, the engine, an automation, or nobody any more."""

    by: str
    what: str
    at: datetime | None = None  # when it happens, or is due
    step: int | None = None
    hold_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class OperationLine:
    id: UUID
    operation_id: str
    title: str
    workflow: str
    state: OperationState
    version: int
    owner_name: str  # "" = not taken
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    not_after: datetime | None
    step_count: int
    confirmed_count: int
    attempt_count: int
    event_count: int
    steps: list[StepLine] = field(default_factory=list)
    holds: list[OpenHold] = field(default_factory=list)

    @property
    def references(self) -> list[str]:
        return [step.reference for step in self.steps if step.reference]

    @property
    def next(self) -> NextDecision:
        return next_decision(self.steps, self.holds)


_ACTS = {
    "send": ("engine", "sends {title} to {destination}"),
    "offer": ("automation", "claims {title}"),
    "look": ("engine", "looks up {title} at {destination}"),
    "await": ("engine", "waits for the final effect of {title}"),
}


def next_decision(steps: Sequence[StepLine], holds: Sequence[OpenHold]) -> NextDecision:
    """The first question to a person, else the first planned act."""
    if holds:
        hold = min(holds, key=lambda one: (one.due_at, one.id))
        title = steps[hold.step - 1].title
        what = f"answers: {hold.reason.value.replace('_', ' ')} ({title})"
        return NextDecision("person", what, hold.due_at, hold.step, hold.id)
    planned = [step for step in steps if step.act != "none"]
    if not planned:
        return NextDecision("nobody", "nothing is left to do")
    step = min(planned, key=lambda one: (one.act_at or datetime.max.replace(tzinfo=UTC), one.number))
    if step.act == "lease":
        who = "automation" if step.performer == "automation" else "engine"
        return NextDecision(who, f"ends its attempt at {step.title}", step.act_at, step.number)
    who, words = _ACTS[step.act]
    what = words.format(title=step.title, destination=step.destination)
    return NextDecision(who, what, step.act_at, step.number)


_LINES = """
SELECT o.id, o.operation_id, o.title, o.workflow_slug, o.state, o.version, coalesce(p.display_name, '') AS owner_name,
       o.created_at, o.updated_at, o.ended_at, o.not_after, o.step_count, o.confirmed_count, o.attempt_count, o.event_count
  FROM ledger_operation o LEFT JOIN person p ON p.id = o.owner_id
 WHERE o.team_id = %s AND o.id = ANY(%s) ORDER BY o.id DESC
"""
_STEPS = """
SELECT operation_id, number, name, title, destination_slug, action, performer, state, reference, act, act_at
  FROM ledger_step WHERE operation_id = ANY(%s) ORDER BY operation_id, number
"""
_HOLDS = """
SELECT h.operation_id, h.id, s.number, h.reason, h.version, h.due_at, coalesce(p.display_name, '') AS owner_name
  FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id LEFT JOIN person p ON p.id = h.owner_id
 WHERE h.operation_id = ANY(%s) AND h.closed_at IS NULL ORDER BY h.due_at, h.id
"""


def lines_of(team_id: UUID, ids: Sequence[UUID]) -> list[OperationLine]:
    """The lines of these operations, newest first; those of other teams are left out."""
    if not ids:
        return []
    lines = {
        row.id: OperationLine(
            row.id, row.operation_id, row.title, row.workflow_slug, OperationState(row.state), row.version,
            row.owner_name, row.created_at, row.updated_at, row.ended_at, row.not_after, row.step_count,
            row.confirmed_count, row.attempt_count, row.event_count,
        )
        for row in named_rows(_LINES, [team_id, list(ids)])
    }  # fmt: skip
    known = list(lines)
    for row in named_rows(_STEPS, [known]):
        lines[row.operation_id].steps.append(step_line(row))
    for row in named_rows(_HOLDS, [known]):
        hold = OpenHold(row.id, row.number, HoldReason(row.reason), row.version, row.due_at, row.owner_name)
        lines[row.operation_id].holds.append(hold)
    return list(lines.values())


def step_line(row: Any) -> StepLine:
    return StepLine(
        row.number, row.name, row.title, row.destination_slug, row.action, row.performer, row.state,
        row.reference, row.act, row.act_at,
    )  # fmt: skip

"""One operation as its page shows it: its record, and beside it what was approved to be sent, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.queries.record import AttemptRecord, HoldRecord, Record, StepRecord, record_of
from opsledger.ledger.rendering import identity_of
from opsledger.lib.named_rows import named_rows
from opsledger.rules.definitions import ActionDefinition, DestinationDefinition, WorkflowDefinition
from opsledger.rules.record import Hold, Operation, Step

_STEPS = """
SELECT s.id, s.number, s.identity, s.action, s.destination_version_id, q.method, q.url, q.body, q.digest,
       v.number AS destination_number
  FROM ledger_step s
  JOIN ledger_definitionversion v ON v.id = s.destination_version_id
  LEFT JOIN ledger_steprequest q ON q.step_id = s.id AND q.revision = s.revision
 WHERE s.operation_id = %s ORDER BY s.number
"""


@dataclass(frozen=True, slots=True)
class StepView:
    """A step with what its destination documents and what was approved to be sent."""

    id: UUID
    record: StepRecord
    step: Step  # as the rules see it
    destination: DestinationDefinition
    destination_number: int
    action: ActionDefinition
    identity: str
    method: str | None
    url: str | None
    body: bytes
    digest: str | None

    @property
    def title(self) -> str:
        return self.record.line.title

    @property
    def may_have_had_effect(self) -> bool:
        return self.step.may_have_had_effect


@dataclass(frozen=True, slots=True)
class HoldView:
    """An open question: as people see it, and as the rules do."""

    record: HoldRecord
    hold: Hold


@dataclass(frozen=True, slots=True)
class OperationView:
    record: Record
    workflow: WorkflowDefinition
    steps: list[StepView]
    holds: list[HoldView]  # open ones, soonest due first
    now: datetime  # the database's

    @property
    def rules(self) -> Operation:
        return self.record.loaded.record

    @property
    def final(self) -> bool:
        return self.record.ended_at is not None

    def step(self, number: int) -> StepView:
        return self.steps[number - 1]

    def hold(self, hold_id: UUID | None) -> HoldView | None:
        """The hold of this id while it is open."""
        return next((one for one in self.holds if one.record.id == hold_id), None)

    @property
    def attempts(self) -> list[tuple[StepView, AttemptRecord]]:
        """Newest first."""
        every = [(step, attempt) for step in self.steps for attempt in step.record.attempts]
        return sorted(every, key=lambda one: (one[1].opened_at, one[1].number), reverse=True)


def operation_of(operation_id: UUID, team_ids: Sequence[UUID]) -> OperationView | None:
    """The operation, or None when it does not exist for these teams."""
    pulse = pulse_of(operation_id, team_ids)
    record = record_of(pulse.team_id, operation_id) if pulse else None
    if pulse is None or record is None:
        return None
    rules = {hold.id: hold for hold in record.loaded.record.holds}
    holds = [HoldView(one, rules[str(one.id)]) for one in record.open_holds if str(one.id) in rules]
    return OperationView(
        record=record,
        workflow=definitions.workflow(record.loaded.workflow_version_id),
        steps=[_step(row, record) for row in named_rows(_STEPS, [operation_id])],
        holds=sorted(holds, key=lambda one: (one.record.due_at, one.record.id)),
        now=pulse.now,
    )


def _step(row: Any, record: Record) -> StepView:
    destination = definitions.destination(row.destination_version_id)
    return StepView(
        id=row.id,
        record=record.steps[row.number - 1],
        step=record.loaded.record.step(row.number),
        destination=destination,
        destination_number=row.destination_number,
        action=destination.actions[row.action],
        identity=identity_of(row.identity, record.id, row.number),
        method=row.method,
        url=row.url,
        body=bytes(row.body) if row.body is not None else b"",
        digest=row.digest,
    )


@dataclass(frozen=True, slots=True)
class Pulse:
    """Whose operation it is, and how it stands now."""

    team_id: UUID
    version: int
    state: str
    now: datetime


def pulse_of(operation_id: UUID, team_ids: Sequence[UUID]) -> Pulse | None:
    rows = named_rows(
        "SELECT team_id, version, state, now() AS now FROM ledger_operation WHERE id = %s AND team_id = ANY(%s)",
        [operation_id, list(team_ids)],
    )
    return Pulse(*rows[0]) if rows else None

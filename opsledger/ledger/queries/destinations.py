"""Destinations of a team: what each documents, whether we send to it, and what is open there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.ledger import definitions
from opsledger.ledger.queries.if_nobody import Outlook, outlooks
from opsledger.lib.named_rows import named_rows
from opsledger.rules.definitions import ActionDefinition, DestinationDefinition
from opsledger.rules.states import HoldReason

_DESTINATIONS = """
SELECT d.definition_id AS id, d.slug, d.version, f.current_id, v.number AS version_number, v.loaded_at,
       d.paused_at, d.access_refused_at, d.circuit_opened_at, d.circuit_trial_at, d.failures_in_a_row, now() AS now
  FROM ledger_destination d
  JOIN ledger_definition f ON f.id = d.definition_id
  JOIN ledger_definitionversion v ON v.id = f.current_id
 WHERE d.team_id = %s ORDER BY d.slug
"""
_OPEN_STEPS = """
SELECT destination_id, state, count(*) AS count FROM ledger_step
 WHERE destination_id = ANY(%s) AND state IN ('ready', 'in_flight', 'accepted', 'unknown')
 GROUP BY destination_id, state
"""
_HOLDS = """
SELECT h.id, h.destination_id, h.reason, h.version, h.opened_at, h.due_at, h.if_nobody, h.owner_id, h.reminded_at,
       h.escalated_at, coalesce(p.display_name, '') AS owner_name
  FROM ledger_hold h LEFT JOIN person p ON p.id = h.owner_id
 WHERE h.destination_id = ANY(%s) AND h.closed_at IS NULL ORDER BY h.opened_at, h.id
"""
_RECOVERIES = """
SELECT r.destination_id, r.action, r.enabled, r.drilled, r.changed_at, coalesce(p.display_name, '') AS changed_by
  FROM ledger_recovery r LEFT JOIN person p ON p.id = r.changed_by_id
 WHERE r.destination_id = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class RecoveryLine:
    enabled: bool = False
    drilled: bool = False
    changed_by: str = ""
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ActionLine:
    """One action: what its destination documents, and whether it recovers by itself."""

    name: str
    definition: ActionDefinition
    recovery: RecoveryLine


@dataclass(frozen=True, slots=True)
class StopLine:
    """An open hold at the destination: why nothing is sent."""

    id: UUID
    reason: HoldReason
    version: int
    opened_at: datetime
    due_at: datetime
    owner_name: str
    if_nobody: str
    outlook: Outlook


@dataclass(frozen=True, slots=True)
class DestinationLine:
    id: UUID
    slug: str
    version: int  # of whether we send to it; decisions carry it
    definition: DestinationDefinition
    version_number: int
    loaded_at: datetime
    circuit: str  # closed, half_open, open
    circuit_opened_at: datetime | None
    circuit_trial_at: datetime | None
    failures_in_a_row: int
    actions: list[ActionLine]
    open_steps: Mapping[str, int]  # by state
    stops: list[StopLine] = field(default_factory=list)


def destinations_of(team_id: UUID) -> list[DestinationLine]:
    """By name; four statements however many there are, and as many again where one is stopped."""
    rows = named_rows(_DESTINATIONS, [team_id])
    ids = [row.id for row in rows]
    steps: dict[UUID, dict[str, int]] = {}
    for row in named_rows(_OPEN_STEPS, [ids]):
        steps.setdefault(row.destination_id, {})[row.state] = row.count
    stops: dict[UUID, list[StopLine]] = {}
    holds = named_rows(_HOLDS, [ids])
    told = outlooks(team_id, [(row, None) for row in holds], rows[0].now) if holds else []
    for row, outlook in zip(holds, told, strict=True):
        stops.setdefault(row.destination_id, []).append(_stop(row, outlook))
    recoveries = {
        (row.destination_id, row.action): RecoveryLine(
            row.enabled, row.drilled, row.changed_by, row.changed_at
        )
        for row in named_rows(_RECOVERIES, [ids])
    }
    return [_line(row, steps.get(row.id, {}), stops.get(row.id, []), recoveries) for row in rows]


def _line(
    row: Any,
    steps: Mapping[str, int],
    stops: list[StopLine],
    recoveries: Mapping[tuple[UUID, str], RecoveryLine],
) -> DestinationLine:
    definition = definitions.destination(row.current_id)
    return DestinationLine(
        id=row.id,
        slug=row.slug,
        version=row.version,
        definition=definition,
        version_number=row.version_number,
        loaded_at=row.loaded_at,
        circuit=_circuit(row),
        circuit_opened_at=row.circuit_opened_at,
        circuit_trial_at=row.circuit_trial_at,
        failures_in_a_row=row.failures_in_a_row,
        actions=[
            ActionLine(name, action, recoveries.get((row.id, name), RecoveryLine()))
            for name, action in sorted(definition.actions.items())
        ],
        open_steps=steps,
        stops=stops,
    )


def _circuit(row: Any) -> str:
    if row.circuit_opened_at is None:
        return "closed"
    return "half_open" if row.circuit_trial_at is not None and row.circuit_trial_at <= row.now else "open"


def _stop(row: Any, outlook: Outlook) -> StopLine:
    return StopLine(
        row.id,
        HoldReason(row.reason),
        row.version,
        row.opened_at,
        row.due_at,
        row.owner_name,
        row.if_nobody,
        outlook,
    )


def destination_of(destination_id: UUID, team_ids: list[UUID]) -> UUID | None:
    """The destination's team; None when it does not exist for these teams."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT team_id FROM ledger_destination WHERE definition_id = %s AND team_id = ANY(%s)",
            [destination_id, team_ids],
        )
        row = cursor.fetchone()
    return row[0] if row else None

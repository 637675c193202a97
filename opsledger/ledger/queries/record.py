"""One operation's record, whole: what is known and what must happen next, for the page and for the API.

A fixed number of statements, however long its history is. Sensitive values are masked here; nothing that reads this can
show them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions, records
from opsledger.ledger.queries.if_nobody import Outlook, outlooks
from opsledger.ledger.queries.looks import HOW_LOOKS_ENDED, LOOKS_ENDED, Looks
from opsledger.ledger.queries.operation_lines import (
    NextDecision,
    OpenHold,
    StepLine,
    next_decision,
    step_line,
)
from opsledger.ledger.queries.timeline import EvidenceLine, evidence_of
from opsledger.ledger.records import Loaded
from opsledger.lib.named_rows import named_rows
from opsledger.lib.strict_json import loads_stored, projection
from opsledger.rules.answers import Answer, answers_for
from opsledger.rules.next_step import protection_of
from opsledger.rules.protection import Protected
from opsledger.rules.rendering import mask
from opsledger.rules.states import HoldReason, OperationState

EVENTS_MAX = 100
HOLDS_MAX = 200


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter as it may be shown; a sensitive one is masked."""

    name: str
    label: str
    value: Any
    masked: bool


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    id: UUID
    number: int
    revision: int
    opened_at: datetime
    lease_ends_at: datetime
    ended_at: datetime | None
    outcome: str | None  # None while it is open
    no_change: str | None
    reference: str | None
    known_by: str | None
    status: int | None
    phase: str
    error: str
    elapsed_seconds: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class StepRecord:
    line: StepLine
    revision: int
    request_digest: str | None
    idempotency_key: str | None
    tries_used: int
    tries_max: int  # those granted by people included
    protected: Protected  # whether sending again now would be
    looks: Looks
    approval_needed: bool = False
    approved: bool = False  # this revision
    approved_until: datetime | None = None
    content_number: int | None = None  # of the content version that its request shows
    attempts: list[AttemptRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HoldRecord:
    id: UUID
    step: int
    reason: HoldReason
    version: int
    opened_at: datetime
    due_at: datetime
    closed_at: datetime | None
    closed_by: str
    answer: str
    owner_id: UUID | None
    owner_name: str
    if_nobody: str
    facts: Mapping[str, Any]
    answers: tuple[Answer, ...] = ()  # valid now; none when it is closed
    outlook: Outlook | None = None  # what happens if nobody acts; of an open one


@dataclass(frozen=True, slots=True)
class EventRecord:
    id: UUID
    source: str
    event_id: str
    topic: str
    occurred_at: datetime | None
    occurred_text: str
    received_at: datetime
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Owner:
    """Who answers for it: the operation's own owner, else the workflow's, else the team's."""

    name: str
    by: str  # operation, workflow or team
    taken: bool  # False: nobody has taken it yet


@dataclass(frozen=True, slots=True)
class Record:
    id: UUID
    team_id: UUID
    operation_id: str
    title: str
    workflow: str
    workflow_version: int
    state: OperationState
    version: int
    cancelled: bool
    owner: Owner
    replaces: UUID | None
    replaced_by: tuple[UUID, ...]
    not_after: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    unknown_at: datetime | None
    confirmed_count: int
    attempt_count: int
    event_count: int
    params: list[Param]
    content_id: str | None  # the caller's own
    steps: list[StepRecord]
    holds: list[HoldRecord]  # open ones first, then the newest
    events: list[EventRecord]
    evidence: list[EvidenceLine]
    loaded: Loaded  # as the rules see it

    @property
    def open_holds(self) -> list[HoldRecord]:
        return [hold for hold in self.holds if hold.closed_at is None]

    @property
    def next(self) -> NextDecision:
        holds = [
            OpenHold(hold.id, hold.step, hold.reason, hold.version, hold.due_at, hold.owner_name)
            for hold in self.open_holds
        ]
        return next_decision([step.line for step in self.steps], holds)

    @property
    def took_effect(self) -> list[StepRecord]:
        """What did, or was taken over; shown wherever the operation failed or was cancelled."""
        return [step for step in self.steps if step.line.state in {"confirmed", "accepted"}]


_OPERATION = """
SELECT o.*, v.number AS workflow_version, p.params, c.content_id AS content_text_id,
       w.display_name AS owner_name, f.display_name AS fallback_name,
       ARRAY(SELECT r.id FROM ledger_operation r WHERE r.replaces_id = o.id ORDER BY r.id) AS replaced_by, now() AS now
  FROM ledger_operation o
  JOIN ledger_definitionversion v ON v.id = o.workflow_version_id
  JOIN ledger_operationparams p ON p.operation_id = o.id
  JOIN team t ON t.id = o.team_id
  JOIN person f ON f.id = t.fallback_owner_id
  LEFT JOIN person w ON w.id = o.owner_id
  LEFT JOIN ledger_content c ON c.id = o.content_id
 WHERE o.team_id = %s AND o.id = %s
"""
_STEPS = f"""
SELECT s.*, r.idempotency_key, {HOW_LOOKS_ENDED}
  FROM ledger_step s LEFT JOIN ledger_steprequest r ON r.step_id = s.id AND r.revision = s.revision
{LOOKS_ENDED} WHERE s.operation_id = %s ORDER BY s.number
"""
_ATTEMPTS = """
SELECT a.*, s.number AS step FROM ledger_attempt a JOIN ledger_step s ON s.id = a.step_id
 WHERE a.operation_id = %s ORDER BY a.step_id, a.number
"""
_HOLDS = f"""
SELECT h.*, s.number AS step, coalesce(p.display_name, '') AS owner_name
  FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id LEFT JOIN person p ON p.id = h.owner_id
 WHERE h.operation_id = %s ORDER BY h.closed_at IS NOT NULL, h.id DESC LIMIT {HOLDS_MAX}
"""
_EVENTS = f"""
SELECT e.*, d.slug FROM ledger_operationevent l
  JOIN ledger_event e ON e.id = l.event_id JOIN ledger_definition d ON d.id = e.source_id
 WHERE l.operation_id = %s ORDER BY l.id LIMIT {EVENTS_MAX}
"""
_WORKFLOW_OWNER = """
SELECT p.display_name FROM person p JOIN membership m ON m.person_id = p.id
 WHERE m.team_id = %s AND p.email = %s AND p.is_active LIMIT 1
"""


def record_of(team_id: UUID, operation_id: UUID) -> Record | None:
    """The team's operation of this id; None when it has no such one."""
    rows = named_rows(_OPERATION, [team_id, operation_id])
    if not rows:
        return None
    row, loaded = rows[0], records.load([operation_id])[operation_id]
    return Record(
        id=row.id,
        team_id=row.team_id,
        operation_id=row.operation_id,
        title=row.title,
        workflow=row.workflow_slug,
        workflow_version=row.workflow_version,
        state=OperationState(row.state),
        version=row.version,
        cancelled=row.cancelled,
        owner=_owner(row),
        replaces=row.replaces_id,
        replaced_by=tuple(row.replaced_by),
        not_after=row.not_after,
        created_at=row.created_at,
        updated_at=row.updated_at,
        ended_at=row.ended_at,
        unknown_at=row.unknown_at,
        confirmed_count=row.confirmed_count,
        attempt_count=row.attempt_count,
        event_count=row.event_count,
        params=params_of(row.workflow_version_id, row.params),
        content_id=row.content_text_id,
        steps=_steps(loaded, row.now),
        holds=_holds(loaded),
        events=_events(operation_id),
        evidence=evidence_of(operation_id),
        loaded=loaded,
    )


def params_of(workflow_version_id: UUID, text: str) -> list[Param]:
    """Parameters in the workflow's order. Sensitive ones are masked, the others made storable and showable."""
    given = loads_stored(text)
    shown = []
    for param in definitions.workflow(workflow_version_id).params:
        if param.name in given:
            value = given[param.name]
            shown.append(
                Param(
                    param.name,
                    param.label,
                    mask(value) if param.sensitive else projection(value),
                    param.sensitive,
                )
            )
    return shown


def _owner(row: Any) -> Owner:
    if row.owner_name:
        return Owner(row.owner_name, "operation", taken=True)
    named = named_rows(
        _WORKFLOW_OWNER, [row.team_id, definitions.workflow(row.workflow_version_id).owner.lower()]
    )
    if named:
        return Owner(named[0].display_name, "workflow", taken=False)
    return Owner(row.fallback_name, "team", taken=False)


def _steps(loaded: Loaded, now: datetime) -> list[StepRecord]:
    attempts: dict[int, list[AttemptRecord]] = {}
    for row in named_rows(_ATTEMPTS, [loaded.id]):
        attempts.setdefault(row.step, []).append(_attempt(row))
    return [
        StepRecord(
            line=step_line(row),
            revision=row.revision,
            request_digest=row.request_digest,
            idempotency_key=row.idempotency_key,
            tries_used=row.tries_used,
            tries_max=row.tries_max + row.tries_extra,
            protected=protection_of(
                loaded.record, loaded.record.step(row.number), loaded.policies[row.number], now
            ),
            looks=Looks(row.looks_made, row.looks_found_nothing, row.looks_failed),
            attempts=attempts.get(row.number, []),
            approval_needed=row.approval_needed,
            approved=row.approved_digest is not None,
            approved_until=row.approved_until,
            content_number=row.content_number,
        )
        for row in named_rows(_STEPS, [loaded.id])
    ]


def _attempt(row: Any) -> AttemptRecord:
    return AttemptRecord(
        row.id, row.number, row.revision, row.opened_at, row.lease_ends_at, row.ended_at, row.outcome, row.no_change,
        row.reference, row.known_by, row.status, row.phase, row.error, row.elapsed_seconds, row.sentence,
    )  # fmt: skip


def _holds(loaded: Loaded) -> list[HoldRecord]:
    answers = {hold.id: answers_for(loaded.record, hold) for hold in loaded.record.holds}
    rows = named_rows(_HOLDS, [loaded.id])
    still_open = [row for row in rows if row.closed_at is None]
    told = outlooks(loaded.team_id, [(row, loaded.workflow_version_id) for row in still_open], loaded.now)
    outlook_of = {row.id: outlook for row, outlook in zip(still_open, told, strict=True)}
    return [
        HoldRecord(
            row.id, row.step, HoldReason(row.reason), row.version, row.opened_at, row.due_at, row.closed_at,
            row.closed_by, row.answer, row.owner_id, row.owner_name, row.if_nobody, json.loads(row.facts),
            answers.get(str(row.id), ()), outlook_of.get(row.id),
        )
        for row in rows
    ]  # fmt: skip


def _events(operation_id: UUID) -> list[EventRecord]:
    return [
        EventRecord(
            row.id, row.slug, row.event_id, row.topic, row.occurred_at, row.occurred_text, row.received_at,
            row.delivery_count,
        )
        for row in named_rows(_EVENTS, [operation_id])
    ]  # fmt: skip

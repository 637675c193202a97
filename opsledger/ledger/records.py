"""Reading the record of operations out of the rows, and writing a changed one back.

One load is a handful of queries for any number of operations; one write is a handful of statements, one per table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from psycopg.rows import namedtuple_row

from opsledger.ledger import definitions, rendering
from opsledger.rules.next_step import Policy
from opsledger.rules.record import Act, Attempt, Hold, KnownBy, Operation, Performer, Step
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState

_LOCK = "SELECT id FROM ledger_operation WHERE id = ANY(%s::uuid[]) ORDER BY id FOR UPDATE"
_OPERATIONS = """
SELECT o.id, o.team_id, o.operation_id, o.title, o.state, o.version, o.cancelled, o.not_after, o.created_at, o.owner_id,
       o.workflow_version_id, o.workflow_slug, o.unknown_at, o.content_id, c.target_number, p.params, now() AS now,
       coalesce((SELECT true FROM ledger_operation r WHERE r.replaces_id = o.id LIMIT 1), false) AS replaced
  FROM ledger_operation o LEFT JOIN ledger_operationparams p ON p.operation_id = o.id
  LEFT JOIN ledger_content c ON c.id = o.content_id
 WHERE o.id = ANY(%s::uuid[]) ORDER BY o.id
"""
_STEPS = """
SELECT s.id, s.operation_id, s.number, s.name, s.identity, s.destination_id, s.destination_version_id, s.destination_slug,
       s.action, s.performer, s.state, s.revision, s.request_digest, s.reference, s.tries_extra, s.not_before, s.ready_at,
       s.accepted_at, s.unknown_at, s.looks, s.looks_none, s.looked_at, s.look_at, s.rejection_waived, s.lateness_waived,
       s.final_waived, s.never_known, s.go_on_after, nullif(s.not_ours, '[]') AS not_ours, s.integrity_alarm,
       s.record_changed, s.answered_with_error, s.approval_needed, s.act, s.act_at, s.send_until,
       s.content_number, s.approved_digest, s.approved_until, s.resend_asked, s.look_applies,
       coalesce(r.enabled, false) AS recovers, d.current_id AS newest_version_id,
       CASE WHEN s.revision > 1 THEN (SELECT v.params FROM ledger_revision v
             WHERE v.step_id = s.id AND v.number = s.revision) END AS revised,
       CASE WHEN s.content_number IS NOT NULL THEN (SELECT v.body FROM ledger_operation o JOIN ledger_contentversion v
             ON v.of_id = o.content_id AND v.number = s.content_number WHERE o.id = s.operation_id) END AS content
  FROM ledger_step s
  LEFT JOIN ledger_recovery r ON r.destination_id = s.destination_id AND r.action = s.action
  LEFT JOIN ledger_definition d ON d.id = s.destination_id
 WHERE s.operation_id = ANY(%s::uuid[]) ORDER BY s.operation_id, s.number
"""
_ATTEMPTS = """
SELECT id, step_id, number, revision, opened_at, lease_ends_at, outcome, no_change, reference, known_by
  FROM ledger_attempt WHERE operation_id = ANY(%s::uuid[]) ORDER BY step_id, number
"""
_HOLDS = """
SELECT h.id, h.operation_id, s.number, h.reason, h.opened_at, h.facts
  FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id
 WHERE h.operation_id = ANY(%s::uuid[]) AND h.closed_at IS NULL
"""


@dataclass(slots=True)
class Loaded:
    """An operation's record together with what its rows say besides."""

    id: UUID
    team_id: UUID
    operation_id: str
    title: str
    version: int
    owner_id: Any
    workflow_version_id: UUID
    workflow_slug: str
    unknown_at: datetime | None
    now: datetime  # the transaction's time
    record: Operation
    params: str | None  # their stored text
    step_ids: dict[int, UUID] = field(default_factory=dict)
    identities: dict[int, str] = field(default_factory=dict)
    destination_ids: dict[int, UUID] = field(default_factory=dict)
    destination_version_ids: dict[int, UUID] = field(default_factory=dict)
    newest_version_ids: dict[int, UUID] = field(default_factory=dict)  # of the same destinations, by now
    policies: dict[int, Policy] = field(default_factory=dict)
    content_id: UUID | None = None
    content_target: int | None = None  # the number of the version that its content is at
    contents: dict[int, str] = field(default_factory=dict)  # stored text of content versions, by number
    revised: dict[int, str] = field(default_factory=dict)  # per step: parameters that its revision changed
    renderings: dict[int, rendering.Outgoing] = field(default_factory=dict)
    unable: dict[int, frozenset[UUID]] = field(
        default_factory=dict
    )  # per step that asks now: who may not approve it

    def number_of(self, step_id: UUID) -> int:
        return next(number for number, known in self.step_ids.items() if known == step_id)


def lock(operation_ids: Iterable[UUID]) -> None:
    """Locks the operations' rows, ordered by id: FOR UPDATE on ledger_operation, nothing else."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [sorted(set(operation_ids))])


def load(operation_ids: Iterable[UUID]) -> dict[UUID, Loaded]:
    """The records of these operations; those that don't exist are left out."""
    return _load(operation_ids, locked=False)


def load_locked(operation_ids: Iterable[UUID]) -> dict[UUID, Loaded]:
    """The same, once their rows are locked as by `lock`: what is read is what they are while the lock is held."""
    return _load(operation_ids, locked=True)


def _load(operation_ids: Iterable[UUID], *, locked: bool) -> dict[UUID, Loaded]:
    ids = sorted(set(operation_ids))
    operations, steps, attempts, holds = _read(ids, locked=locked)
    loaded = {row.id: _operation(row) for row in operations}
    known: dict[UUID, Step] = {}
    for row in steps:
        whole = loaded[row.operation_id]
        step = known[row.id] = _step(row)
        whole.record.steps.append(step)
        whole.step_ids[row.number] = row.id
        whole.identities[row.number] = rendering.identity_of(row.identity, whole.id, row.number)
        whole.destination_ids[row.number] = row.destination_id
        whole.destination_version_ids[row.number] = row.destination_version_id
        whole.newest_version_ids[row.number] = row.newest_version_id or row.destination_version_id
        if row.revised is not None:
            whole.revised[row.number] = row.revised
        if row.content is not None:
            whole.contents[row.content_number] = row.content
        whole.policies[row.number] = _policy(whole, row)
    for row in attempts:
        known[row.step_id].attempts.append(_attempt(row))
    for row in holds:
        hold = Hold(str(row.id), row.number, HoldReason(row.reason), row.opened_at, json.loads(row.facts))
        loaded[row.operation_id].record.holds.append(hold)
    return loaded


def _read(ids: list[UUID], *, locked: bool) -> list[list[Any]]:
    """Rows of each query, asked for in one round trip. A query's own snapshot begins after the one before it has ended."""
    queries = [_OPERATIONS, _STEPS, _ATTEMPTS, _HOLDS]
    listed = f"{{{','.join(map(str, ids))}}}"  # as PostgreSQL writes an array: written once for all of them
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.pipeline():
        if locked:
            connection.connection.execute(_LOCK, [listed])
        cursors = [connection.connection.cursor(row_factory=namedtuple_row, binary=True) for _ in queries]
        for cursor, query in zip(cursors, queries, strict=True):
            cursor.execute(query, [listed])
        return [cursor.fetchall() for cursor in cursors]


def _operation(row: Any) -> Loaded:
    record = Operation(
        id=str(row.id),
        created_at=row.created_at,
        steps=[],
        state=OperationState(row.state),
        cancelled=row.cancelled,
        replaced=row.replaced,
        not_after=row.not_after,
    )
    return Loaded(
        row.id, row.team_id, row.operation_id, row.title, row.version, row.owner_id, row.workflow_version_id,
        row.workflow_slug, row.unknown_at, row.now, record, row.params, content_id=row.content_id,
        content_target=row.target_number,
    )  # fmt: skip


def _step(row: Any) -> Step:
    return Step(
        number=row.number,
        name=row.name,
        destination=row.destination_slug,
        action=row.action,
        performer=Performer(row.performer),
        state=StepState(row.state),
        revision=row.revision,
        request_digest=row.request_digest,
        reference=row.reference,
        tries_extra=row.tries_extra,
        not_before=row.not_before,
        ready_at=row.ready_at,
        accepted_at=row.accepted_at,
        unknown_at=row.unknown_at,
        looks=row.looks,
        looks_none=row.looks_none,
        looked_at=row.looked_at,
        look_at=row.look_at,
        rejection_waived=row.rejection_waived,
        lateness_waived=row.lateness_waived,
        final_waived=row.final_waived,
        never_known=row.never_known,
        go_on_after=row.go_on_after,
        not_ours=tuple(row.not_ours or ()),
        integrity_alarm=row.integrity_alarm,
        record_changed=row.record_changed,
        answered_with_error=row.answered_with_error,
        approval_needed=row.approval_needed,
        content_number=row.content_number,
        approved_digest=row.approved_digest,
        approved_until=row.approved_until,
        resend_asked=row.resend_asked,
        look_applies=row.look_applies,
        act=Act(row.act),
        act_at=row.act_at,
        send_until=row.send_until,
    )


def _attempt(row: Any) -> Attempt:
    return Attempt(
        id=str(row.id),
        number=row.number,
        revision=row.revision,
        opened_at=row.opened_at,
        lease_ends_at=row.lease_ends_at,
        outcome=Outcome(row.outcome) if row.outcome else None,
        no_change=NoChange(row.no_change) if row.no_change else None,
        reference=row.reference,
        known_by=KnownBy(row.known_by) if row.known_by else None,
    )


def _policy(whole: Loaded, row: Any) -> Policy:
    destination = definitions.destination(row.destination_version_id)
    workflow = definitions.workflow(whole.workflow_version_id)
    words = workflow.steps[row.number - 1]
    return Policy(
        profile=destination.actions[row.action].profile,
        automatic_recovery=row.recovers,
        accepted_is_enough=words.accepted_is_enough,
        continues_after_failure=words.continues_after_failure,
        render=rendering.renderer(whole, row.number, row.destination_version_id),
    )

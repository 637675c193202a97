"""Open holds as pages show them: one line each, with what is known of its step, its event or its destination."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.queries.looks import HOW_LOOKS_ENDED, LOOKS_ENDED
from opsledger.lib.named_rows import named_rows
from opsledger.rules.profile import ActionProfile
from opsledger.rules.protection import Protected, forgotten, protected_until
from opsledger.rules.states import HoldReason

WAITING_MAX = 10_000  # of what waits behind one hold; more is shown as "10,000 or more"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins or ends: a hold's due time and id."""

    due_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class HoldLine:
    """One open hold as the inbox needs it."""

    id: UUID
    reason: HoldReason
    version: int
    opened_at: datetime
    due_at: datetime
    owner_id: UUID | None
    owner_name: str
    title: str
    operation_id: UUID | None
    operation_text_id: str
    destination_slug: str
    destination_id: UUID | None
    event_id: UUID | None
    event_text_id: str
    workflow_slug: str
    step: int | None
    step_title: str
    state: str | None
    attempts: int
    looks: int  # lookups made; how they ended stands in the next two, others found something
    looks_found_nothing: int
    looks_failed: int  # no answer: never to be shown as “no record”
    next_look_at: datetime | None
    accepted_at: datetime | None
    not_after: datetime | None
    may_have_had_effect: bool
    last_sentence: str
    waiting: int  # steps that wait behind a stopped destination
    profile: ActionProfile | None
    protected: Protected | None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return Place(self.due_at, self.id)


_LINES = f"""
SELECT h.id, h.reason, h.version, h.opened_at, h.due_at, h.owner_id, coalesce(p.display_name, '') AS owner_name,
       h.title, h.operation_id, h.operation_text_id, h.destination_slug, h.destination_id, h.event_id,
       coalesce(e.event_id, '') AS event_text_id, h.workflow_slug, h.facts, h.action,
       s.number AS step, coalesce(s.title, '') AS step_title, s.state, coalesce(s.attempt_count, 0) AS attempts,
       {HOW_LOOKS_ENDED}, s.act, s.act_at, s.accepted_at, s.integrity_alarm, s.record_changed,
       s.answered_with_error,
       s.destination_version_id, o.not_after, a.first_possible_at, coalesce(a.may_have, false) AS may_have,
       coalesce(a.forgotten, false) AS forgotten, coalesce(a.sentence, '') AS sentence,
       coalesce(w.waiting, 0) AS waiting, now() AS now
  FROM ({{picked}}) h
  LEFT JOIN person p ON p.id = h.owner_id
  LEFT JOIN ledger_event e ON e.id = h.event_id
  LEFT JOIN ledger_operation o ON o.id = h.operation_id
  LEFT JOIN ledger_step s ON s.id = h.step_id
{LOOKS_ENDED}
  LEFT JOIN LATERAL (
       SELECT min(opened_at) FILTER (WHERE revision = s.revision AND no_change IS DISTINCT FROM 'not_sent')
                  AS first_possible_at,
              bool_or(outcome IS DISTINCT FROM 'no_change') AS may_have,
              bool_or(outcome = 'unknown' AND opened_at = o.created_at) AS forgotten,
              (array_agg(sentence ORDER BY number DESC))[1] AS sentence
         FROM ledger_attempt WHERE step_id = s.id) a ON h.step_id IS NOT NULL
  LEFT JOIN LATERAL (
       SELECT count(*) AS waiting FROM (
              SELECT FROM ledger_step q WHERE q.destination_id = h.destination_id AND q.state = 'ready' LIMIT {{many}}) x
       ) w ON h.destination_id IS NOT NULL
 ORDER BY h.due_at, h.id
"""


def lines_of(picked: str, parameters: Sequence[Any]) -> list[HoldLine]:
    """The lines of the holds that this SQL picks, soonest due first."""
    return [_line(row) for row in named_rows(_LINES.format(picked=picked, many=WAITING_MAX), parameters)]


def line_of(hold_id: UUID, team_ids: Sequence[UUID]) -> HoldLine | None:
    """One open hold; None when it is closed, or another team's."""
    query = "SELECT * FROM ledger_hold WHERE id = %s AND team_id = ANY(%s) AND closed_at IS NULL"
    lines = lines_of(query, [hold_id, list(team_ids)])
    return lines[0] if lines else None


def _protected(profile: ActionProfile, row: Any) -> Protected:
    """As `next_step.protection_of` says."""
    if row.forgotten:
        return forgotten(profile)
    return protected_until(
        profile,
        first_possible_at=row.first_possible_at,
        now=row.now,
        same_bytes=not row.integrity_alarm,
        record_changed_since=row.record_changed,
        answered_with_error=row.answered_with_error,
    )


def _line(row: Any) -> HoldLine:
    profile = protected = None
    if row.destination_version_id is not None:
        profile = definitions.destination(row.destination_version_id).actions[row.action].profile
        protected = _protected(profile, row)
    return HoldLine(
        id=row.id,
        reason=HoldReason(row.reason),
        version=row.version,
        opened_at=row.opened_at,
        due_at=row.due_at,
        owner_id=row.owner_id,
        owner_name=row.owner_name,
        title=row.title,
        operation_id=row.operation_id,
        operation_text_id=row.operation_text_id,
        destination_slug=row.destination_slug,
        destination_id=row.destination_id,
        event_id=row.event_id,
        event_text_id=row.event_text_id,
        workflow_slug=row.workflow_slug,
        step=row.step,
        step_title=row.step_title,
        state=row.state,
        attempts=row.attempts,
        looks=row.looks_made,
        looks_found_nothing=row.looks_found_nothing,
        looks_failed=row.looks_failed,
        next_look_at=row.act_at if row.act == "look" else None,
        accepted_at=row.accepted_at,
        not_after=row.not_after,
        may_have_had_effect=row.may_have,
        last_sentence=row.sentence,
        waiting=row.waiting,
        profile=profile,
        protected=protected,
        facts=json.loads(row.facts),
    )

"""What happens to open holds when nobody acts: told, reminded, passed on, escalated. `rules.escalation` decides.

Each turn takes a bounded batch and commits. Any number may run at once and all may run twice: under the lock of its row a
hold says by itself what is still due. Nothing is sent to a destination.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from opsledger.accounts.permissions import Permission, Role, roles_with
from opsledger.journal.append import Line, append
from opsledger.ledger.actions.hold_lines import CONCERNING_OTHERS_SQL, TOLD_WITH_OWNER, line_of_hold
from opsledger.ledger.actions.notices import News, tell_here
from opsledger.ledger.approvals import Asked, approvers, barred
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold
from opsledger.ledger.queries.owners import Owners, owners_of_teams, policy_of
from opsledger.ledger.records import lock
from opsledger.rules.escalation import Clock, Planned, Step, due
from opsledger.rules.notice_words import NoticeKind
from opsledger.rules.states import HoldReason

_TO_REMIND = """
SELECT id FROM ledger_hold WHERE closed_at IS NULL AND reminded_at IS NULL AND due_at <= now()
 ORDER BY due_at, id LIMIT %s
"""
_TO_ESCALATE = """
SELECT id FROM ledger_hold
 WHERE closed_at IS NULL AND escalate_at IS NOT NULL AND escalated_at IS NULL AND escalate_at <= now()
 ORDER BY escalate_at, id LIMIT %s
"""
# Owners of open holds, one look into the index each, whatever the number of holds; then those who are gone.
_OWNERLESS = """
WITH RECURSIVE held AS (
    SELECT t.id AS team_id, (SELECT owner_id FROM ledger_hold WHERE team_id = t.id AND closed_at IS NULL
                                AND owner_id IS NOT NULL ORDER BY owner_id LIMIT 1) AS owner_id
      FROM team t
    UNION ALL
    SELECT held.team_id, (SELECT owner_id FROM ledger_hold WHERE team_id = held.team_id AND closed_at IS NULL
                             AND owner_id > held.owner_id ORDER BY owner_id LIMIT 1)
      FROM held WHERE held.owner_id IS NOT NULL
)
SELECT h.id FROM held
  JOIN LATERAL (SELECT id FROM ledger_hold WHERE team_id = held.team_id AND owner_id = held.owner_id
                   AND closed_at IS NULL LIMIT %s) h ON true
 WHERE held.owner_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM membership m JOIN person p ON p.id = m.person_id
                    WHERE m.team_id = held.team_id AND m.person_id = held.owner_id AND p.is_active)
 LIMIT %s
"""


def record_reminders(limit: int, *, rounds: int = 1) -> int:
    """Holds whose due time has come. Returns how many were reminded of."""
    return sum(_advance(ids) for ids in _batches(_TO_REMIND, [limit], rounds))


def record_escalations(limit: int, *, rounds: int = 1) -> int:
    """Holds past the time that their workflow gives after the reminder. Returns how many went to the fallback owner."""
    return sum(_advance(ids) for ids in _batches(_TO_ESCALATE, [limit], rounds))


def record_owners_gone(limit: int, *, rounds: int = 1) -> int:
    """Holds whose owner was deactivated or left the team. Returns how many were passed on."""
    return sum(_advance(ids) for ids in _batches(_OWNERLESS, [limit, limit], rounds))


def _batches(query: str, parameters: Sequence[int], rounds: int) -> Iterator[list[UUID]]:
    for _ in range(rounds):
        with connection.cursor() as cursor:
            cursor.execute(query, parameters)
            ids = [row[0] for row in cursor.fetchall()]
        if ids:
            yield ids
        if len(ids) < parameters[-1]:
            return


@dataclass(frozen=True, slots=True)
class _Move:
    hold: Hold
    plan: Planned
    people: frozenset[UUID]  # who is told
    escalate_at: datetime


def _advance(hold_ids: Sequence[UUID]) -> int:
    """1. Locks operations, then holds. 2. Re-reads. 3. Decides. 4. Writes rows, lines and notices together."""
    with transaction.atomic(durable=True):
        holds = _locked(hold_ids)
        now = database_now()
        teams = owners_of_teams((hold.team_id for hold in holds), now)
        moves = [move for hold in holds if (move := _move(hold, teams[hold.team_id], now)) is not None]
        _write(moves)
        append(_line(move) for move in moves)
        tell_here(_news(move) for move in moves)
        return len(moves)


def _locked(hold_ids: Sequence[UUID]) -> list[Hold]:
    of_steps = Hold.objects.filter(pk__in=hold_ids, operation__isnull=False)
    lock(of_steps.values_list("operation_id", flat=True))
    rows = Hold.objects.filter(pk__in=hold_ids, closed_at__isnull=True).select_related("operation")
    return list(rows.order_by("pk").select_for_update(of=("self",)))


def _move(hold: Hold, owners: Owners, now: datetime) -> _Move | None:
    named, after_seconds = policy_of(hold.operation.workflow_version_id if hold.operation else None)
    clock = Clock(hold.due_at, after_seconds, hold.reminded_at, hold.escalated_at)
    plan = due(owners.standing(hold.owner_id, named), clock, now)
    if plan is None:
        return None
    people = frozenset({plan.to}) if plan.to else owners.with_role(Role.OWNER)
    return _Move(hold, plan, people, clock.escalate_at(now))


_REMINDED = """
UPDATE ledger_hold SET reminded_at = now(), escalate_at = x.escalate_at
  FROM json_to_recordset(%s::json) AS x(id uuid, escalate_at timestamptz) WHERE ledger_hold.id = x.id
"""
_PASSED_ON = f"""
UPDATE ledger_hold h
   SET owner_id = x.owner_id, version = h.version + (h.owner_id IS DISTINCT FROM x.owner_id)::int,
       escalated_at = CASE WHEN x.escalated THEN now() ELSE h.escalated_at END, told_at = {TOLD_WITH_OWNER}
  FROM json_to_recordset(%s::json) AS x(id uuid, owner_id uuid, escalated boolean) WHERE h.id = x.id
"""


def _write(moves: Sequence[_Move]) -> None:
    reminded = [
        {"id": str(one.hold.pk), "escalate_at": one.escalate_at.isoformat()}
        for one in moves
        if one.plan.step is Step.REMIND
    ]
    passed_on = [
        {"id": str(one.hold.pk), "owner_id": str(one.plan.to), "escalated": one.plan.step is Step.ESCALATE}
        for one in moves
        if one.plan.step is not Step.REMIND
    ]
    with connection.cursor() as cursor:
        for query, rows in ((_REMINDED, reminded), (_PASSED_ON, passed_on)):
            if rows:
                cursor.execute(query, [json.dumps(rows)])


_CAUSE = {Step.HAND_OVER: "owner_gone", Step.ESCALATE: "overdue"}


def _line(move: _Move) -> Line:
    hold = move.hold
    to = str(move.plan.to) if move.plan.to else None
    if move.plan.step is Step.REMIND:
        kind, facts = "reminded", {"to": to, "people": len(move.people)}
    else:
        before = str(hold.owner_id) if hold.owner_id else None
        kind, facts = "escalated", {"from": before, "to": to, "cause": _CAUSE[move.plan.step]}
    about = (hold.pk, hold.operation_id, hold.destination_id, hold.event_id)
    return line_of_hold(*about, kind=kind, actor="engine", facts=facts)


_KIND = {
    Step.REMIND: NoticeKind.REMINDER,
    Step.ESCALATE: NoticeKind.ESCALATED,
    Step.HAND_OVER: NoticeKind.OWNER_GONE,
}


def _news(move: _Move) -> News:
    return News(_KIND[move.plan.step], move.hold.team_id, move.people, hold=move.hold)


# New holds


_TO_TELL = f"""
SELECT id FROM ledger_hold
 WHERE closed_at IS NULL AND told_at IS NULL
   AND (owner_id IS NOT NULL OR reason IN ({CONCERNING_OTHERS_SQL}))
 ORDER BY id LIMIT %s
"""
_STOPPED = frozenset({HoldReason.PAUSED, HoldReason.ACCESS_REFUSED, HoldReason.CIRCUIT_OPEN})


def record_news(limit: int, *, rounds: int = 1) -> int:
    """Tells of holds that opened: their owner, whose approval is asked, or who may let a destination go on. Once each."""
    return sum(_tell(ids) for ids in _batches(_TO_TELL, [limit], rounds))


def _tell(hold_ids: Sequence[UUID]) -> int:
    with transaction.atomic(durable=True):
        rows = Hold.objects.filter(pk__in=hold_ids, closed_at__isnull=True, told_at__isnull=True)
        rows = rows.select_related("step__operation")
        holds = list(rows.order_by("pk").select_for_update(of=("self",)))
        now = database_now()
        teams = owners_of_teams((hold.team_id for hold in holds), now)
        asked = _asked(holds)
        tell_here(_opened(hold, teams[hold.team_id], asked) for hold in holds)
        Hold.objects.filter(pk__in=[hold.pk for hold in holds]).update(told_at=now)
        return len(holds)


def _opened(hold: Hold, owners: Owners, asked: Mapping[UUID, frozenset[UUID]]) -> News:
    """Whom an open question concerns, and as what."""
    reason = HoldReason(hold.reason)
    if hold.step_id is not None and asked.get(hold.step_id):  # where nobody may give it, its owner is told
        return News(NoticeKind.APPROVAL, hold.team_id, asked[hold.step_id], hold=hold)
    if reason in _STOPPED:
        people = owners.with_role(*roles_with(Permission.RESUME_DESTINATION))
        return News(NoticeKind.DESTINATION_STOPPED, hold.team_id, people, hold=hold)
    kind = NoticeKind.DISPUTED if reason is HoldReason.DISPUTED else NoticeKind.ASSIGNED
    reminded = owners.standing(hold.owner_id).reminded
    people = frozenset({reminded}) if reminded else owners.with_role(Role.OWNER)
    return News(kind, hold.team_id, people, hold=hold)


def _asked(holds: Sequence[Hold]) -> dict[UUID, frozenset[UUID]]:
    """Of steps that need an approval: who may give it, which is nobody who wrote, changed or asked for the content."""
    steps = [hold.step for hold in holds if hold.step and hold.reason == HoldReason.APPROVAL_NEEDED.value]
    asked = [
        Asked(step.team_id, step.operation_id, step.pk, step.operation.content_id, step.content_number)
        for step in steps
    ]
    if not asked:
        return {}
    able, unable = approvers({one.team_id for one in asked}), barred(asked)
    return {one.step_id: frozenset(able[one.team_id] - unable[one.step_id].keys()) for one in asked}

"""What follows for open questions *approval needed* when people come, go or change their roles.

A question that nobody of the team may answer any more goes to the team's fallback owner, and says so; one that somebody
may answer again says that. Nothing is approved by it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from opsledger.journal.append import Line, append, body
from opsledger.ledger.actions.change import NOBODY_MAY, Change, change_here
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.approvals import Asked, without_approver
from opsledger.ledger.records import Loaded, lock
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment

_OPEN = """
SELECT h.id, h.team_id, t.fallback_owner_id, h.owner_id, h.operation_id, h.step_id,
       CASE WHEN s.content_number IS NOT NULL THEN o.content_id END, s.content_number,
       coalesce(h.facts::json ->> 'nobody_may_approve', 'false') = 'true'
  FROM ledger_hold h
  JOIN team t ON t.id = h.team_id
  JOIN ledger_operation o ON o.id = h.operation_id
  JOIN ledger_step s ON s.id = h.step_id
 WHERE h.team_id = ANY(%s) AND h.closed_at IS NULL AND h.reason = 'approval_needed' ORDER BY h.operation_id, s.number
"""
_FALL_BACK = "UPDATE ledger_hold SET owner_id = %s WHERE id = %s AND closed_at IS NULL"


@dataclass(frozen=True, slots=True)
class _Open:
    id: UUID
    team_id: UUID
    fallback_owner_id: UUID
    owner_id: UUID | None
    operation_id: UUID
    step_id: UUID
    of_id: UUID | None
    content_number: int | None
    nobody_may: bool

    @property
    def asked(self) -> Asked:
        return Asked(self.team_id, self.operation_id, self.step_id, self.of_id, self.content_number)


def settle_approvers_changed_here(
    team_ids: Collection[UUID], by: By, *, former_fallback: UUID | None = None
) -> int:
    """To be called in the transaction that changed people, roles or the fallback owner. Returns how many questions moved.

    1. Open questions are read, and compared with who may answer them now.
    2. Of those that differ the operations are locked, in the order of their ids, and read again.
    3. The question says whether anybody may answer; where nobody may, the fallback owner has it. One line each.

    `former_fallback`: who was the fallback owner before. What nobody may answer goes from them to the new one; what somebody
    gave to another person stays there.
    """
    lock({one.hold.operation_id for one in _following(team_ids, former_fallback)})
    found = _following(team_ids, former_fallback)
    nobody: dict[UUID, dict[str, bool]] = {}
    for one in found:
        if one.differs:
            nobody.setdefault(one.hold.operation_id, {})[str(one.hold.id)] = one.may_nobody
    change_here({key: _told(holds, by) for key, holds in nobody.items()})
    _fall_back([one.hold for one in found if one.falls_back], by)
    return len(found)


def _fall_back(falling: Sequence[_Open], by: By) -> None:
    with connection.cursor() as cursor:
        for one in falling:
            cursor.execute(_FALL_BACK, [one.fallback_owner_id, one.id])
    append(
        Line(
            "operation",
            one.operation_id,
            "assigned",
            by.actor,
            body({"hold": str(one.id), "owner": str(one.fallback_owner_id)}),
        )
        for one in falling
    )


@dataclass(frozen=True, slots=True)
class _Following:
    """An open question that says something else than is true now, or that its team's former fallback owner has."""

    hold: _Open
    may_nobody: bool

    @property
    def differs(self) -> bool:
        return self.may_nobody != self.hold.nobody_may

    @property
    def falls_back(self) -> bool:
        return self.may_nobody and self.hold.owner_id != self.hold.fallback_owner_id


def _following(team_ids: Collection[UUID], former_fallback: UUID | None) -> list[_Following]:
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, [list(team_ids)])
        rows = [_Open(*row) for row in cursor.fetchall()]
    nobody = without_approver([row.asked for row in rows])
    every = [_Following(row, row.step_id in nobody) for row in rows]
    return [
        one
        for one in every
        if one.differs
        or (former_fallback is not None and one.falls_back and one.hold.owner_id == former_fallback)
    ]


def _told(holds: dict[str, bool], by: By) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        after = loaded.record.copy()
        for hold in after.holds:
            if hold.id in holds:
                hold.facts = {**hold.facts, NOBODY_MAY: holds[hold.id]}
        return after

    return Change(kind="approvers_changed", actor=by.actor, decide=decide, facts={NOBODY_MAY: holds})

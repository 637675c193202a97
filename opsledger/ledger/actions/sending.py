"""The one switch for everything that leaves this house, and what follows a restored backup."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.change import Change, change_each_here
from opsledger.ledger.actions.deciding import check_reason
from opsledger.ledger.actions.offers import begin_offers_anew
from opsledger.ledger.actions.stops import wait_for_claims
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import SENDING_ID, SendingSwitch
from opsledger.ledger.records import Loaded
from opsledger.lib.strict_json import projection
from opsledger.rules import transitions
from opsledger.rules.fold import difference
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment

BATCH = 200


def switch_sending(sending: bool, *, reason: str, by: str) -> bool:
    """Turns all sending off or on. Refused without a reason. False where a claim of before may still be under way.

    1. Before it goes on, offers begin anew.
    2. The row and the line of its chain are written together.
    3. Off: returns when no claim is under way that has not seen it. What is in flight by then ends as it ends.
    """
    check_reason(reason)
    kept = projection(reason)
    if sending and not SendingSwitch.objects.get(pk=1).sending:
        begin_offers_anew(None)
    with transaction.atomic(durable=True):
        was = SendingSwitch.objects.select_for_update(no_key=True).get(pk=1).sending
        facts = {"sending": sending, "was": was, "reason": keep_text(SENDING_ID, kept)}
        SendingSwitch.objects.filter(pk=1).update(
            sending=sending, reason=kept, changed_by=by, changed_at=database_now()
        )
        kind = "sending_on" if sending else "sending_off"
        append([Line("sending", SENDING_ID, kind, by, body(facts))])
    return sending or wait_for_claims()


class NotAllRestored(Exception):
    """Operations that can't be read: what they sent since is as unknown as ever, and they would be sent again."""

    def __init__(self, count: int, broken: Sequence[UUID]) -> None:
        super().__init__(f"{len(broken)} operations could not be read")
        self.count, self.broken = count, tuple(broken)


def record_restored(until: datetime, *, actor: str) -> int:
    """Every step that could have been sent between the backup's moment and `until` becomes unknown (transitions.restored).

    A restored database has forgotten what was sent since; an attempt of unknown outcome is written for each such step.
    Works in batches that commit, and may be run again. Returns how many operations it changed. Those that can't be read are
    left for the end: NotAllRestored names them, all others are done.
    """
    count, after = 0, UUID(int=0)
    broken: list[UUID] = []
    while ids := _sendable(after, until):
        with transaction.atomic(durable=True):
            changed = change_each_here({one: _restored(until, actor) for one in ids})
        count += sum(1 for one in changed.values() if difference(one.loaded.record, one.after))
        broken += [one for one in ids if one not in changed]
        after = ids[-1]
    if broken:
        raise NotAllRestored(count, broken)
    with transaction.atomic(durable=True):
        facts = {"until": until.isoformat(), "operations": count}
        append([Line("sending", SENDING_ID, "backup_restored", actor, body(facts))])
    return count


# What the rules then decide about; those that can't have been sent are left out here as far as an index tells.
_SENDABLE = """
SELECT DISTINCT o.id FROM ledger_operation o JOIN ledger_step s ON s.operation_id = o.id
 WHERE o.created_at <= %s AND o.id > %s AND NOT o.cancelled AND NOT s.never_known
   AND (s.state IN ('waiting', 'ready', 'in_flight', 'unknown')
        OR (s.state IN ('failed', 'cancelled') AND o.attempt_count > 0))
 ORDER BY o.id LIMIT %s
"""


def _sendable(after: UUID, until: datetime) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_SENDABLE, [until, after, BATCH])
        return [row[0] for row in cursor.fetchall()]


def _restored(until: datetime, actor: str) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        return transitions.restored(loaded.record, until, moment)

    return Change(
        kind="backup_restored", actor=actor, decide=decide, facts={"until": until.isoformat()}, quiet=True
    )

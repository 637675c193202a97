"""Who has a hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import append
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.hold_lines import TOLD_WITH_OWNER, line_of_hold
from opsledger.ledger.actions.notices import News, tell_here
from opsledger.ledger.models import Hold
from opsledger.ledger.records import lock
from opsledger.rules.notice_words import NoticeKind


def settle_assign(
    hold_ids: Iterable[UUID], owner_id: Any, by: By, *, versions: Mapping[UUID, int] | None = None
) -> int:
    """Gives open holds to a person, or to nobody. Returns how many changed hands.

    With `versions`, a hold that is not at its version any more is left alone.
    """
    wanted = sorted(set(hold_ids))
    seen = [(versions or {}).get(hold_id) for hold_id in wanted]
    facts = {"owner": str(owner_id) if owner_id else None}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # operations before holds, as every writer does
        lock(
            Hold.objects.filter(pk__in=wanted, operation__isnull=False).values_list("operation_id", flat=True)
        )
        cursor.execute(
            f"UPDATE ledger_hold SET owner_id = %s, version = version + 1, told_at = {TOLD_WITH_OWNER}"
            " WHERE id IN (SELECT h.id FROM ledger_hold h"
            "  JOIN unnest(%s::uuid[], %s::int[]) AS w(id, version) ON w.id = h.id"
            "  WHERE h.closed_at IS NULL AND h.owner_id IS DISTINCT FROM %s::uuid"
            "    AND (w.version IS NULL OR w.version = h.version) ORDER BY h.id FOR UPDATE OF h)"
            " RETURNING id, operation_id, destination_id, event_id",
            [owner_id, wanted, seen, owner_id],
        )
        rows = cursor.fetchall()
        append(line_of_hold(*row, kind="assigned", actor=by.actor, facts=facts) for row in rows)
        tell_owner([row[0] for row in rows], owner_id, by)
        return len(rows)


def tell_owner(hold_ids: Collection[UUID], owner_id: Any, by: By) -> None:
    """Of what others gave them; what they took themselves they know."""
    if owner_id is None or by.person_id == owner_id:
        return
    given = Hold.objects.filter(pk__in=hold_ids)
    people = frozenset({owner_id})
    tell_here(News(NoticeKind.ASSIGNED, hold.team_id, people, hold=hold) for hold in given)

"""Holds by their ids: which exist for a person, and what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connection

from opsledger.ledger.models import Hold


def existing(hold_ids: Sequence[UUID], team_ids: Sequence[UUID]) -> list[UUID]:
    """Those of these holds that are open and belong to these teams, in the given order."""
    found = set(
        Hold.objects.filter(pk__in=hold_ids, team_id__in=team_ids, closed_at__isnull=True).values_list("pk", flat=True)
    )
    return [hold_id for hold_id in dict.fromkeys(hold_ids) if hold_id in found]


def steps_of(hold_ids: Sequence[UUID]) -> list[tuple[UUID, int]]:
    """Operation and step number of the holds that are about a step."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.operation_id, s.number FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id"
            " WHERE h.id = ANY(%s) AND h.closed_at IS NULL ORDER BY h.operation_id, s.number",
            [list(hold_ids)],
        )
        return list(cursor.fetchall())


def hold_of(hold_id: UUID, team_ids: Sequence[UUID]) -> Hold | None:
    """A hold, open or closed; None when it does not exist for these teams."""
    rows = Hold.objects.select_related("step", "event", "owner", "destination")
    return rows.filter(pk=hold_id, team_id__in=team_ids).first()

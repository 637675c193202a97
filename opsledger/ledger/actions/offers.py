"""Offers to automations whose time ran while nobody could claim them: it begins anew when sending goes on."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from opsledger.ledger.actions.record import change_what_can_be, time_passed_at

BATCH = 500

_OFFERS = """
SELECT operation_id, number FROM ledger_step
 WHERE act = 'offer' AND (%s::uuid IS NULL OR destination_id = %s) ORDER BY operation_id, number
"""


def begin_offers_anew(destination_id: UUID | None) -> int:
    """Gives every open offer at a destination (None: at all of them) its whole time again, by the rule of table 4, row 10.

    Called before sending goes on, while nobody can claim: what a crash leaves undone is done when somebody asks again. In
    batches that commit; only the plan moves. Returns how many operations were gone through.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OFFERS, [destination_id, destination_id])
        rows = cursor.fetchall()
    offers: dict[UUID, set[int]] = {}
    for operation_id, number in rows:
        offers.setdefault(operation_id, set()).add(number)
    ids = list(offers)
    count = 0
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        count += change_what_can_be({one: time_passed_at(offers[one]) for one in batch})
    return count

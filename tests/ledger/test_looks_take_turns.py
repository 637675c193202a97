"""One destination that answers slowly, or has a long backlog, does not delay the lookups of the others."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from opsledger.ledger.actions.claim import ClaimedLook, claim_looks
from opsledger.ledger.models import Step
from tests.desk import Desk


def due_at(desk: Desk, workflow: str, count: int, minutes_ago: int) -> None:
    """So many steps whose lookup has been due for so long."""
    opened = [desk.open(workflow) for _ in range(count)]
    at = timezone.now() - timedelta(minutes=minutes_ago)
    Step.objects.filter(operation_id__in=[one.id for one in opened], number=1).update(act="look", act_at=at)


def by_slug(claimed: list[ClaimedLook]) -> Counter[str]:
    return Counter(one.destination_slug for one in claimed)


def test_destinations_take_turns_although_one_has_waited_longer(desk: Desk) -> None:
    due_at(desk, "classic_follow_up", 8, minutes_ago=60)
    due_at(desk, "campaign_follow_up", 2, minutes_ago=1)

    assert by_slug(claim_looks(4)) == {"crm_classic": 2, "crm": 2}
    assert by_slug(claim_looks(4)) == {"crm_classic": 4}  # nobody else waits


def test_a_destination_has_room_for_so_many_less_those_in_hand(desk: Desk) -> None:
    due_at(desk, "classic_follow_up", 8, minutes_ago=60)
    due_at(desk, "campaign_follow_up", 1, minutes_ago=1)
    slow = Step.objects.filter(destination_slug="crm_classic").values_list("destination_id", flat=True)[0]

    assert by_slug(claim_looks(8, each=3, busy={slow: 2})) == {"crm_classic": 1, "crm": 1}
    assert by_slug(claim_looks(8, each=3, busy={slow: 3})) == {}
    assert by_slug(claim_looks(8, each=3, busy={slow: 9})) == {}  # more than there is room for is no error


def test_no_lookup_is_claimed_twice(desk: Desk) -> None:
    due_at(desk, "classic_follow_up", 5, minutes_ago=60)
    first, second = claim_looks(3), claim_looks(3)
    assert len({one.step_id for one in (*first, *second)}) == 5


def test_due_lookups_are_found_by_their_index(desk: Desk) -> None:
    due_at(desk, "classic_follow_up", 3, minutes_ago=60)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        # Sorting three rows costs nothing: without it the index has to bring the order, whatever is known of the table.
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_incremental_sort = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM ledger_step s WHERE s.act = 'look' AND s.destination_id ="
            " (SELECT definition_id FROM ledger_destination LIMIT 1) AND s.act_at <= now()"
            " ORDER BY s.act_at, s.id LIMIT 5"
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "step_to_be_looked_up" in plan, plan
    assert "Sort" not in plan

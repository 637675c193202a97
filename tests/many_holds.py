"""Many holds at once, cheaply: operations that were recorded after their latest moment, and never sent."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

from opsledger.ledger.actions.incidents import record_incidents
from opsledger.ledger.actions.open import Opened, open_operations
from opsledger.ledger.models import Hold, Incident
from tests.desk import Desk

CLASSIC = "classic_follow_up"


def late(desk: Desk, count: int, *, workflow: str = CLASSIC, at: datetime | None = None) -> list[Hold]:
    """`count` holds *too late*, opened at `at` (now, without one), in the order of their ids."""
    ended = timezone.now() - timedelta(minutes=5)
    wanted = [desk.wanted(workflow)._replace(not_after=ended) for _ in range(count)]
    opened: list[Opened] = open_operations(wanted)
    found = Hold.objects.filter(operation_id__in=[one.id for one in opened])
    if at is not None:
        found.update(opened_at=at)
    return list(found.order_by("id"))


def an_incident(desk: Desk, count: int = 3, **how: object) -> Incident:
    """One incident of `count` open holds, as the sweep makes it."""
    holds = late(desk, count, **how)  # type: ignore[arg-type]
    record_incidents()
    incident = Hold.objects.get(pk=holds[0].pk).incident
    assert incident is not None
    return incident

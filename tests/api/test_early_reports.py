"""Laws 3 and 9: what is told of a record before anybody knows whose it is counts as soon as somebody does."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, deliver, event
from test_holds import settle

from opsledger.journal.models import Entry
from opsledger.ledger.models import EarlyReport, Event, Evidence, Hold, Step

TELL = "/operations/{}/steps/tell"


def tell(number: int, status: str, message: str = "M-1", **more: Any) -> Any:
    return deliver(event(number, type="mail.told", data={"status": status, "message": message} | more))


def claim(world: World, own: str = "order:1") -> str:
    world.record(own, "told")
    return str(world.auto.post(f"{TELL.format(own)}/claim").json()["attempt_id"])


def report(world: World, attempt: str, outcome: str, **more: Any) -> Any:
    return world.auto.post(
        f"/attempts/{attempt}/outcome", {"outcome": outcome, "evidence": {"how": "reply"}} | more
    )


def state(own: str = "order:1") -> str:
    return str(Step.objects.get(operation__operation_id=own).state)


def kinds(own: str = "order:1") -> list[str]:
    step = Step.objects.get(operation__operation_id=own)
    return list(
        Entry.objects.filter(subject_id=step.operation_id).order_by("seq").values_list("kind", flat=True)
    )


def by_reply(world: World, attempt: str) -> None:
    assert report(world, attempt, "accepted", reference="M-1").status_code == 200


def by_late_reply(world: World, attempt: str) -> None:
    report(world, attempt, "unknown")
    assert report(world, attempt, "accepted", reference="M-1").status_code == 200


def by_person(world: World, attempt: str) -> None:
    report(world, attempt, "unknown")
    (hold,) = world.auto.get("/holds").json()["items"]
    assert settle(world, hold, "happened_accepted", reference="M-1").status_code == 200


RECORDERS = [by_reply, by_late_reply, by_person]


@pytest.mark.parametrize("records", RECORDERS)
@pytest.mark.parametrize(
    ("status", "expected", "reason"),
    [("delivered", "confirmed", None), ("bounced", "failed", "delivery_failed")],
)
def test_what_came_before_the_reference_is_heard_with_it(
    world: World, records: Any, status: str, expected: str, reason: str | None
) -> None:
    attempt = claim(world)
    tell(1, status)
    assert EarlyReport.objects.get().reference == "M-1"

    records(world, attempt)

    assert state() == expected
    assert Hold.objects.filter(closed_at=None).values_list("reason", flat=True).first() == reason
    assert kinds()[-1] == "evidence_added"
    told = Entry.objects.get(kind="evidence_added")
    kept = Evidence.objects.get(kind="report")
    assert (told.actor, kept.origin, kept.late) == ("source:shop", "shop", False)
    assert not EarlyReport.objects.exists()

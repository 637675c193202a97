"""Events that tell the final effect of a step: delivered, bounced, twice, late, about somebody else's."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, deliver, event
from django.db import connection

from opsledger.journal.models import Entry
from opsledger.ledger.models import Event, Evidence, Hold, Operation, Step
from opsledger.local.postgres import Urls
from tests.by_hand import change_by_hand


@pytest.fixture
def accepted(world: World) -> World:
    """A message that its service has taken over under the reference M-1."""
    world.record("order:1", "told")
    attempt = world.auto.post("/operations/order:1/steps/tell/claim").json()["attempt_id"]
    report = {"outcome": "accepted", "reference": "M-1", "evidence": {"how": "202"}}
    assert world.auto.post(f"/attempts/{attempt}/outcome", report).json()["state"] == "accepted"
    return world


def identity(own: str = "order:1") -> str:
    found = Step.objects.get(operation__operation_id=own, number=1).identity
    assert found
    return found


def tell(number: int, **data: Any) -> Any:
    return deliver(event(number, type="mail.told", data=data))


def state() -> str:
    return Step.objects.get().state


def test_a_delivery_report_confirms_the_step_and_is_kept_as_evidence(accepted: World) -> None:
    assert tell(1, step=identity(), status="delivered").status_code == 200
    assert state() == "confirmed"
    kept = Evidence.objects.get(kind="report")
    assert (kept.origin, kept.says) == ("shop", "delivered")
    assert Entry.objects.get(kind="evidence_added").actor == "source:shop"
    assert accepted.auto.get("/operations/order:1").json()["state"] == "completed"


def test_the_same_report_again_is_one_piece_of_evidence(accepted: World) -> None:
    for _ in range(2):
        tell(1, message="M-1", status="delivered")
    assert (Evidence.objects.filter(kind="report").count(), Event.objects.get().delivery_count) == (1, 2)


def test_a_bounce_fails_the_step_and_asks_a_person(accepted: World) -> None:
    tell(1, message="M-1", status="bounced")
    assert (state(), Hold.objects.get().reason) == ("failed", "delivery_failed")


def test_a_bounce_after_a_delivery_is_a_dispute(accepted: World) -> None:
    tell(1, message="M-1", status="delivered")
    tell(2, message="M-1", status="bounced")
    assert Hold.objects.get(closed_at=None).reason == "disputed"


def test_less_than_what_is_known_changes_nothing(accepted: World) -> None:
    """I13: the state never goes back."""
    tell(1, message="M-1", status="delivered")
    tell(2, message="M-1", status="queued")
    assert state() == "confirmed"
    assert Event.objects.count() == 2


@pytest.mark.parametrize(
    "data",
    [
        {"status": "delivered"},
        {"status": "delivered", "message": "M-2"},
        {"status": "delivered", "step": "op_x-1"},
        {"status": "delivered", "step": "order:1"},
        {"status": "delivered", "step": 7},
        {"status": True, "message": "M-1"},
        {"message": "M-1"},
        {},
    ],
    ids=["nothing named", "other reference", "no id", "own id", "number", "no word", "no status", "empty"],
)
def test_an_event_that_names_no_step_of_ours_is_only_recorded(accepted: World, data: dict[str, Any]) -> None:
    assert tell(1, **data).status_code == 200
    assert state() == "accepted"
    assert not Evidence.objects.filter(kind="report").exists()
    assert Event.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_step_from_before_identities_were_stored_is_found_by_the_one_that_was_sent(
    accepted: World, database_urls: Urls
) -> None:
    own = accepted.auto.get("/operations/order:1").json()["id"]
    tell(1, step=f"{own}-1", status="delivered")
    assert state() == "accepted"  # its stored identity is another
    change_by_hand(database_urls, "UPDATE ledger_step SET identity = NULL")
    tell(2, step=f"{own}-1", status="delivered")
    assert state() == "confirmed"


def test_another_teams_step_is_not_told_of(accepted: World) -> None:
    accepted.other.post(
        "/operations", {"operation_id": "theirs", "workflow": "told", "params": {"subject": "x"}}
    )
    attempt = accepted.other.post("/operations/theirs/steps/tell/claim").json()["attempt_id"]
    report = {"outcome": "accepted", "reference": "M-9", "evidence": {"how": "202"}}
    accepted.other.post(f"/attempts/{attempt}/outcome", report)
    tell(1, step=identity("theirs"), status="delivered")
    tell(2, message="M-9", status="delivered")
    assert set(Step.objects.values_list("state", flat=True)) == {"accepted"}


def test_a_step_that_can_not_be_read_is_no_reason_to_lose_the_event(
    accepted: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What the event starts is recorded, too."""
    step = Step.objects.get()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_step SET not_ours = '5' WHERE id = %s", [step.pk])

    answer = deliver(event(1, data={"status": "bounced", "message": "M-1", "subject": "Call A"}))

    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    assert Event.objects.get().delivery_count == 1
    assert Operation.objects.filter(operation_id="shop:evt_1").exists()
    assert "could not be recorded; the event is kept" in caplog.text
    assert Step.objects.get(pk=step.pk).state == "accepted"

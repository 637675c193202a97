"""GET /operations/{id}: the whole record, masked, in a fixed number of statements, for its own team only."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, statements, wanted

from opsledger.ledger.models import Step
from opsledger.ledger.queries.record import record_of
from opsledger.lib.ids import parse


def test_the_record_says_what_is_known_and_what_must_happen_next(world: World) -> None:
    answer = world.record("order:1", params={"subject": "Call back", "account": "ACC-00004417"})
    record = world.auto.get(f"/operations/{answer.json()['id']}").json()
    assert record["title"] == "Follow up Call back"
    assert record["workflow_version"] == 1
    assert [step["state"] for step in record["steps"]] == ["ready", "waiting"]
    assert record["next"] == {
        "by": "engine",
        "what": "sends Create the task to crm",
        "at": record["steps"][0]["next_act_at"],
        "step": 1,
        "hold": None,
    }
    assert record["counters"] == {"steps": 2, "confirmed": 0, "attempts": 0, "events": 0}
    assert record["steps"][0]["protection"]["kind"] == "idempotency_key"
    assert len(record["steps"][0]["idempotency_key"]) >= 26


def test_sensitive_parameters_are_masked(world: World) -> None:
    world.record("order:1", params={"subject": "Call back", "account": "ACC-00004417"})
    for caller in (world.auto, world.owner, world.viewer):
        answer = caller.get("/operations/order:1")
        assert b"ACC-0000" not in answer.content
        shown = {one["name"]: (one["value"], one["masked"]) for one in answer.json()["params"]}
        assert shown == {"subject": ("Call back", False), "account": ("••••4417", True)}


@pytest.mark.parametrize("own", ["a-Z0_~:9", "x" * 200], ids=["every safe character", "200"])
def test_a_path_takes_an_own_id_of_safe_characters(world: World, own: str) -> None:
    world.record(own)
    assert world.auto.get(f"/operations/{own}").json()["operation_id"] == own


@pytest.mark.parametrize("own", ["a b", "a.b", "a%2Fb", "op_x", "..", "é"])
def test_a_path_takes_no_other_own_id(world: World, own: str) -> None:
    world.record(own)
    assert world.auto.get(f"/operations/{own}").status_code == 404
    assert world.auto.get("/operations", {"operation_id": own}).json()["items"][0]["operation_id"] == own


def test_an_own_id_that_looks_like_a_public_one_is_refused(world: World) -> None:
    first = world.record("one").json()["id"]
    assert world.record(first).status_code == 422
    assert world.auto.get(f"/operations/{first}").json()["operation_id"] == "one"


def test_another_teams_operation_is_not_there(world: World) -> None:
    theirs = world.other.post("/operations", wanted("theirs", "by_hand")).json()["id"]
    for name in ("theirs", theirs):
        assert world.auto.get(f"/operations/{name}").status_code == 404
        assert world.owner.post(f"/operations/{name}/cancel", {"reason": "x"}).status_code == 404
        assert world.auto.post(f"/operations/{name}/steps/create_task/claim").status_code == 404
        assert (
            world.owner.post(f"/operations/{name}/steps/create_task/withdraw", {"reason": "x"}).status_code
            == 404
        )
        evidence = {"says": "seen", "how": "x"}
        assert world.auto.post(f"/operations/{name}/steps/create_task/evidence", evidence).status_code == 404
    assert world.other.get("/operations/theirs").json()["state"] == "running"


def test_a_long_history_takes_no_more_statements_than_a_short_one(world: World) -> None:
    world.record("short", "by_hand")
    long = world.record("long", "by_hand", source_event={"source": "shop", "event_id": "1"}).json()["id"]
    for number in range(3):
        attempt = world.auto.post("/operations/long/steps/create_task/claim").json()["attempt_id"]
        report = {"outcome": "no_change", "no_change": "deferred", "evidence": {"how": f"try {number}"}}
        assert world.auto.post(f"/attempts/{attempt}/outcome", report).status_code == 200
        Step.objects.update(not_before=None)  # the delay is over
    world.record("long", "by_hand", source_event={"source": "shop", "event_id": "2"})
    counts = []
    for own in ("short", "long"):
        found = parse("op", world.auto.get(f"/operations/{own}").json()["id"])
        assert found is not None
        with statements() as executed:
            record = record_of(world.cast.launch.pk, found)
        assert record is not None
        counts.append(len(executed))
    assert counts[0] == counts[1] <= 14
    answer: dict[str, Any] = world.auto.get(f"/operations/{long}").json()
    assert len(answer["steps"][0]["attempts"]) == len(answer["evidence"]) == 3
    assert [one["event_id"] for one in answer["events"]] == ["1", "2"]


def test_a_cancelled_operation_says_what_took_effect(world: World) -> None:
    world.record("order:1", "by_hand")
    attempt = world.auto.post("/operations/order:1/steps/create_task/claim").json()["attempt_id"]
    report = {"outcome": "confirmed", "reference": "T-1", "evidence": {"how": "seen"}}
    world.auto.post(f"/attempts/{attempt}/outcome", report)
    record = world.decide("order:1", reason="called off").json()
    assert record["state"] == "cancelled"
    assert record["took_effect"] == ["create_task"]
    assert record["references"] == ["T-1"]
    again = world.decide("order:1", reason="called off")
    assert again.status_code == 409
    assert again.json()["code"] == "not_now"


@pytest.mark.parametrize("reason", ["", "   "])
def test_a_cancellation_needs_its_reason(world: World, reason: str) -> None:
    world.record()
    answer = world.decide("order:1", reason=reason)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "reason"

"""Two attempts made two records: one is kept by a call, and what was not sent yet names the kept one."""

from __future__ import annotations

from typing import Any

from api_world import World

from opsledger.ledger.models import Hold, Step, StepRequest

OWN = "order:1"


def two_records(world: World) -> dict[str, Any]:
    """Step 1 was sent twice and made T-2; the first attempt is reported late, as T-1. Its hold."""
    world.record(OWN, "by_hand")
    first = claim(world)
    report(world, first, {"outcome": "unknown"})
    hold = open_hold(world)
    body = {"answer": "absent_send_again", "checked_how": "search", "reason": "Their search shows none."}
    assert world.owner.post(f"/holds/{hold['id']}/settle", body, if_match=hold["version"]).status_code == 200
    report(world, claim(world), {"outcome": "confirmed", "reference": "T-2"})
    report(world, first, {"outcome": "confirmed", "reference": "T-1"})
    return open_hold(world)


def claim(world: World) -> str:
    return str(world.auto.post(f"/operations/{OWN}/steps/create_task/claim").json()["attempt_id"])


def report(world: World, attempt: str, outcome: dict[str, Any]) -> None:
    body = outcome | {"evidence": {"how": "their log"}}
    assert world.auto.post(f"/attempts/{attempt}/outcome", body).status_code == 200


def open_hold(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.owner.get("/holds").json()["items"][0]
    return found


def keep(world: World, hold: dict[str, Any], reference: str, **others: str) -> Any:
    body = {"answer": "keep_one", "reason": "Compared.", "reference": reference, "accept_difference": True}
    return world.owner.post(
        f"/holds/{hold['id']}/settle", body | {"others": others}, if_match=hold["version"]
    )


def test_what_was_done_with_each_other_record_is_part_of_the_answer(world: World) -> None:
    hold = two_records(world)
    assert (hold["reason"], hold["facts"]["references"]) == ("duplicate_found", ["T-1", "T-2"])

    silent, stranger = keep(world, hold, "T-1"), keep(world, hold, "T-9", **{"T-1": "x", "T-2": "x"})

    assert (silent.status_code, [one["field"] for one in silent.json()["errors"]]) == (422, ["others.T-2"])
    assert (stranger.status_code, [one["field"] for one in stranger.json()["errors"]]) == (422, ["reference"])
    assert Step.objects.get(number=1).not_ours == []
    assert keep(world, hold, "T-1", **{"T-2": "Closed there."}).status_code == 200
    assert Step.objects.get(number=1).not_ours == ["T-2"]


def test_a_frozen_request_that_names_the_other_record_is_made_anew_and_waits_for_approval(
    world: World,
) -> None:
    hold = two_records(world)
    frozen = StepRequest.objects.get(step__number=2)
    assert b"About T-2" in bytes(frozen.body)

    keep(world, hold, "T-1", **{"T-2": "Closed there."})

    step = Step.objects.get(number=2)
    assert (step.revision, step.state, step.request_digest) == (2, "waiting", None)
    assert Hold.objects.get(closed_at=None).reason == "approval_needed"
    request = world.owner.get(f"/operations/{OWN}/steps/send_message/request").json()
    assert "About T-1" in str(request)
    assert step.attempt_count == 0


def test_a_frozen_request_that_names_the_kept_record_stays(world: World) -> None:
    hold = two_records(world)

    keep(world, hold, "T-2", **{"T-1": "Closed there."})

    step = Step.objects.get(number=2)
    assert (step.revision, step.state, step.act) == (1, "ready", "send")
    assert not Hold.objects.filter(closed_at=None).exists()

"""Replays over the API: planned for one person, started once by the plan's digest, decided on a version."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import DEFINITIONS, Api, World, read

from opsledger.accounts.models import ApiToken, Membership
from opsledger.api.caller import Caller
from opsledger.api.operations import operation_ids_of
from opsledger.engine import replays
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.models import Replay, ReplayItem
from opsledger.ledger.queries import names
from opsledger.lib.ids import public


def rejected(world: World, own: str = "order:1") -> str:
    """An operation whose first step was refused by the destination; its id."""
    found = world.record(own, "by_hand").json()["id"]
    attempt = world.auto.post(f"/operations/{own}/steps/create_task/claim").json()["attempt_id"]
    body = {"outcome": "no_change", "no_change": "rejected", "evidence": {"how": "422"}}
    assert world.auto.post(f"/attempts/{attempt}/outcome", body).status_code == 200
    return str(found)


def confirmed(world: World, own: str) -> str:
    found = world.record(own, "by_hand").json()["id"]
    attempt = world.auto.post(f"/operations/{own}/steps/create_task/claim").json()["attempt_id"]
    body = {"outcome": "confirmed", "reference": f"T-{own}", "evidence": {"how": "201"}}
    world.auto.post(f"/attempts/{attempt}/outcome", body)
    return str(found)


def planned(world: World, *operations: str, by: str = "owner", **more: Any) -> dict[str, Any]:
    answer = getattr(world, by).post("/replays", {"scope": {"operations": list(operations)}, **more})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def start_of(made: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "plan": made["plan"],
        "plan_digest": made["plan_digest"],
        "name": "after the incident",
        "reason": "The queue was closed.",
        "touches": [one["slug"] for one in made["destinations"]],
        "mended": True,
    } | changes


def started(world: World, made: dict[str, Any], *, by: str = "owner", **changes: Any) -> Any:
    caller: Api = getattr(world, by)
    return caller.post(f"/replays/{made['id']}/start", start_of(made, **changes))


def test_a_plan_has_three_lists_and_writes_nothing(world: World) -> None:
    runs, kept = rejected(world), confirmed(world, "order:2")
    world.record("order:3", "by_hand")
    world.decide("order:3")

    plan = planned(world, runs, kept, "order:3")

    assert plan["counts"] == {"run": 2 + 1, "keep": 1, "refuse": 2}
    assert [(one["operation_id"], one["step"], one["reason"]) for one in plan["run"]] == [
        ("order:1", 1, "rejected"), ("order:1", 2, "after_a_step_that_runs"), ("order:2", 2, "never_sent"),
    ]  # fmt: skip
    assert plan["keep"][0]["reference"] == "T-order:2"
    assert plan["refused_by_reason"] == {"operation_cancelled": 2}
    assert {one["slug"] for one in plan["destinations"]} == {"crm", "mail"}
    assert plan["asks_whether_mended"] is True
    assert not Replay.objects.exists()


def test_the_names_of_a_scope_are_looked_up_with_one_query(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the ledger's id or by one's own, in any order; one that the team does not have is told by its place."""
    first, second = rejected(world), confirmed(world, "order:2")
    caller = Caller(ApiToken(), world.cast.launch.pk, By("token:00000000-0000-0000-0000-000000000001", "x"))
    asked: list[str] = []
    real = names.named_rows
    monkeypatch.setattr(names, "named_rows", lambda query, given: asked.append(query) or real(query, given))  # type: ignore[func-returns-value]

    found = operation_ids_of(caller, ["order:2", first, second, "order:1"])

    assert len(asked) == 1
    assert [public("op", one) for one in found] == [second, first, second, first]
    answer = world.owner.post("/replays", {"scope": {"operations": [first, "order:2", "order:9", "a b"]}})
    assert (answer.status_code, "It is number 3 of 4." in answer.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"operations": []},
        {"filter": {}},
        {"operations": ["order:1"], "filter": {"state": "held"}},
        {"filter": {"colour": "red"}},
        {"filter": {"state": "strange"}},
        {"filter": {"workflow": "of_no_operation"}},
    ],
    ids=str,
)
def test_a_scope_that_is_empty_or_unreadable_is_refused(world: World, scope: dict[str, Any]) -> None:
    rejected(world)
    answer = world.owner.post("/replays", {"scope": scope})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_a_filter_is_frozen_when_it_is_planned(world: World) -> None:
    first = rejected(world)
    plan = world.owner.post("/replays", {"scope": {"filter": {"state": "held"}}}).json()
    rejected(world, "order:2")

    assert started(world, plan).status_code == 201
    assert {
        item["operation"] for item in world.owner.get(f"/replays/{plan['id']}/items").json()["items"]
    } == {first}


def test_a_start_is_answered_once_with_201_and_then_with_200(world: World) -> None:
    plan = planned(world, rejected(world))

    first, again = started(world, plan), started(world, plan)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"] == plan["id"]
    assert first["ETag"] == '"1"'
    assert first.json()["counts"]["waiting"] == 2
    assert Replay.objects.count() == 1


def test_a_plan_that_moved_is_refused_with_what_was_and_what_is(world: World) -> None:
    moves, stays = rejected(world), rejected(world, "order:2")
    plan = planned(world, moves, stays)
    world.decide(moves)

    answer = started(world, plan)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (412, "plan_moved")
    assert problem["differences_count"] == 2
    difference = problem["differences"][0]
    assert (difference["operation"], difference["was"], difference["is"]) == (
        moves,
        "The destination refused it. The same request goes again if its cause was mended there.",
        "Its operation was cancelled.",
    )
    assert not Replay.objects.exists()
    assert started(world, problem["now"]).status_code == 201, "the plan as it is now can be started"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"plan": "nonsense"}, "plan"),
        ({"plan_digest": "0" * 64}, "plan_digest"),
        ({"name": ""}, "name"),
        ({"reason": " "}, "reason"),
        ({"touches": ["mail"]}, "touches.crm"),
        ({"per_second": {"crm": 5_000}}, "per_second.crm"),
        ({"sure": True}, "sure"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_start_names_what_is_wrong_with_it(world: World, changes: dict[str, Any], field: str) -> None:
    answer = started(world, planned(world, rejected(world)), **changes)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert not Replay.objects.exists()


def test_a_plan_is_started_under_its_own_id_only(world: World) -> None:
    plan = planned(world, rejected(world))
    other = plan["id"][:-1] + ("0" if plan["id"][-1] != "0" else "1")
    answer = world.owner.post(f"/replays/{other}/start", start_of(plan))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "plan")


def test_another_persons_plan_can_not_be_started(world: World) -> None:
    plan = planned(world, rejected(world))
    Membership.objects.create(person=world.cast.omar, team=world.cast.launch, role="owner")
    answer = started(world, plan, by="operator")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "plan")


@pytest.mark.parametrize("who", ["auto", "viewer", "operator", "admin", "stranger"])
def test_only_an_owner_plans_and_starts(world: World, who: str) -> None:
    plan = planned(world, rejected(world))
    caller: Api = getattr(world, who)
    status = 401 if who == "stranger" else 403

    assert caller.post("/replays", {"scope": {"operations": ["order:1"]}}).status_code == status
    assert caller.post(f"/replays/{plan['id']}/start", start_of(plan)).status_code == status
    assert started(world, plan).status_code == 201
    for what in ("pause", "resume", "abort"):
        answer = caller.post(f"/replays/{plan['id']}/{what}", {"reason": "x"}, if_match=1)
        assert answer.status_code == status
    assert Replay.objects.get().state == "running"


def test_another_teams_replay_does_not_exist(world: World) -> None:
    plan = planned(world, rejected(world))
    started(world, plan)

    for path in ("", "/items"):
        assert world.other_owner.get(f"/replays/{plan['id']}{path}").status_code == 404
    assert world.other_owner.get("/replays").json()["items"] == []
    for what in ("pause", "abort"):
        answer = world.other_owner.post(f"/replays/{plan['id']}/{what}", {"reason": "x"}, if_match=1)
        assert answer.status_code == 404
    assert world.other_owner.post("/replays", {"scope": {"operations": ["order:1"]}}).status_code == 404


def test_a_decision_carries_its_version_and_a_second_one_sees_the_first(world: World) -> None:
    plan = planned(world, rejected(world))
    version = started(world, plan).json()["version"]
    path = f"/replays/{plan['id']}"
    missing = world.owner.post(f"{path}/pause", {"reason": "wait"})
    assert (missing.status_code, missing.json()["code"]) == (428, "version_needed")

    paused = world.owner.post(f"{path}/pause", {"reason": "wait"}, if_match=version)
    late = world.owner.post(f"{path}/abort", {"reason": "stop"}, if_match=version)

    assert paused.json()["state"] == "paused"
    assert (late.status_code, late.json()["code"]) == (412, "stale")
    assert late.json()["current"]["changed_by"] == world.cast.olga.display_name
    again = world.owner.post(f"{path}/pause", {"reason": "wait"}, if_match=version + 1)
    assert (again.status_code, again.json()["code"]) == (409, "not_now")
    resumed = world.owner.post(f"{path}/resume", {"reason": "on"}, if_match=version + 1)
    assert resumed.json()["state"] == "running"
    aborted = world.owner.post(f"{path}/abort", {"reason": "stop"}, if_match=version + 2)
    assert aborted.json()["state"] == "aborting"


def test_items_are_listed_by_their_result_in_the_order_of_the_plan(live_world: World) -> None:
    world = live_world
    plan = planned(world, rejected(world), confirmed(world, "order:2"))
    started(world, plan)
    replays.run_once()

    path = f"/replays/{plan['id']}/items"
    everything = world.owner.get(path).json()["items"]

    assert [one["position"] for one in everything] == list(range(1, 5))
    assert [one["operation_id"] for one in world.owner.get(path, {"state": "kept"}).json()["items"]] == [
        "order:2"
    ]
    begun = world.owner.get(path, {"state": "started"}).json()["items"]
    assert {one["step"] for one in begun} == {1, 2}
    assert world.owner.get(path, {"state": "strange"}).status_code == 422
    assert world.owner.get(path, {"cursor": "x"}).status_code == 422
    assert world.owner.get(path, {"cursor": "3"}).json()["items"][0]["position"] == 4
    assert world.owner.get(f"/replays/{plan['id']}").json()["counts"]["started"] == len(begun)


def test_replays_are_listed_newest_first(world: World) -> None:
    plans = [planned(world, rejected(world, f"order:{number}")) for number in (1, 2)]
    for plan in plans:
        started(world, plan)

    listed = world.owner.get("/replays").json()

    assert [one["id"] for one in listed["items"]] == [plans[1]["id"], plans[0]["id"]]
    assert world.owner.get("/replays", {"cursor": plans[1]["id"]}).json()["items"][0]["id"] == plans[0]["id"]
    assert world.owner.get("/replays", {"cursor": "x"}).status_code == 422


def test_a_newer_definition_is_offered_and_not_taken_silently(world: World) -> None:
    operation = rejected(world)
    text = DEFINITIONS.replace('name = "Mail"', 'name = "New mail"')
    load(world.cast.launch.pk, read(text), actor="command:test")

    plain = planned(world, operation)
    chosen = planned(world, operation, newest=["mail"])
    wrong = world.owner.post("/replays", {"scope": {"operations": [operation]}, "newest": ["fax"]})

    mail = {one["slug"]: one for one in plain["destinations"]}["mail"]
    assert (mail["newest_version"], mail["could_take_the_newest"], mail["takes_the_newest"]) == (2, 1, False)
    assert {one["slug"]: one["takes_the_newest"] for one in chosen["destinations"]} == {
        "crm": False,
        "mail": True,
    }
    assert plain["plan_digest"] != chosen["plan_digest"]
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "newest")
    started(world, chosen)
    assert ReplayItem.objects.get(number=2).rebound_to is not None

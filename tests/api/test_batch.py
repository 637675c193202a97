"""POST /operations/batch: one answer per item, in order; one bad item spoils no other."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, statements, wanted

from opsledger.ledger.models import Operation, Refusal


def batch(world: World, *items: Any) -> list[dict[str, Any]]:
    answer = world.auto.post("/operations/batch", {"items": list(items)})
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_every_item_is_answered_in_order(world: World) -> None:
    world.record("known")
    world.auto.post("/operations", wanted("taken", amount=1))
    items = batch(
        world,
        wanted("new"),
        wanted("known"),
        wanted("taken", subject="Else"),
        wanted("a@b.example"),
        {"operation_id": "odd", "workflow": "follow_up", "params": {}, "colour": 1},
        "no object",
        wanted("new 2"),
    )
    assert [item["status"] for item in items] == [201, 200, 409, 422, 422, 422, 201]
    assert [item.get("operation_id") for item in items] == [
        "new",
        "known",
        "taken",
        "a@b.example",
        "odd",
        None,
        "new 2",
    ]
    assert items[2]["code"] == "operation_conflict"
    assert items[2]["differs"] == ["params.amount", "params.subject"]
    assert items[4]["errors"] == [{"field": "colour", "message": "is not a known field"}]
    assert Operation.objects.count() == 4
    refused = Refusal.objects.get()
    assert (refused.reason, refused.count) == ("invalid", 3)


def test_the_same_id_twice_in_a_batch_is_one_operation(world: World) -> None:
    items = batch(world, wanted("one"), wanted("one"), wanted("one", subject="Else"))
    assert [item["status"] for item in items] == [201, 200, 409]
    assert items[0]["id"] == items[1]["id"]
    assert Operation.objects.count() == 1


def test_a_batch_of_a_thousand_takes_no_more_statements_than_a_batch_of_one(world: World) -> None:
    batch(world, wanted("warm"))
    counts = []
    for size in (1, 1_000):
        with statements() as queries:
            items = batch(world, *[wanted(f"{size}:{index}") for index in range(size)])
        assert {item["status"] for item in items} == {201}
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("items", "message"),
    [([], "at least 1"), ([1] * 1_001, "at most 1,000"), ({}, "must be a list")],
    ids=["none", "1001", "no list"],
)
def test_a_batch_has_1_to_1000_items(world: World, items: Any, message: str) -> None:
    answer = world.auto.post("/operations/batch", {"items": items})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "items"
    assert message in answer.json()["errors"][0]["message"]


def test_items_may_name_events_owners_and_what_they_replace(world: World) -> None:
    world.record("old", "by_hand")
    world.decide("old")
    world.record("busy", "by_hand")
    items = batch(
        world,
        wanted("a") | {"source_event": {"source": "shop", "event_id": "1"}},
        wanted("b") | {"owner": "olga@example.test"},
        wanted("c") | {"replaces": "old"},
        wanted("d") | {"replaces": "busy"},
        wanted("e") | {"source_event": {"source": "none", "event_id": "1"}},
    )
    assert [item["status"] for item in items] == [201, 201, 201, 409, 422]
    assert items[3]["code"] == "replaced_is_open"

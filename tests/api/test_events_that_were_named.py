"""What an event starts is recorded when it is delivered, whoever named it before; and once, however it comes again."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from api_world import DEFINITIONS, World, deliver, event, read, wanted
from django.db import connections

from opsledger.api import hooks
from opsledger.journal.models import Entry
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.models import Delivery, Event, Hold, Operation

NAMED = {"source_event": {"source": "shop", "event_id": "evt_1"}}


def named(world: World, own: str = "my-own", workflow: str = "by_hand", **params: Any) -> None:
    assert world.auto.post("/operations", wanted(own, workflow, **params) | NAMED).status_code in {200, 201}


def renamed(world: World) -> None:
    """Events start their operations under another id from now on."""
    text = DEFINITIONS.replace('"shop:{event.id}"', '"shop2:{event.id}"')
    load(world.cast.launch.pk, read(text), actor="command:test")
    forget_current()
    hooks.forget()


def test_an_id_that_another_action_has_is_asked_about_at_each_delivery(world: World) -> None:
    """Somebody named the event, and took the id that it asks for, for something else."""
    named(world, "shop:evt_1", "follow_up", subject="Something else")

    told = [deliver(event(1)).json() for _ in range(3)]

    assert [(one["operation"], one["state"]) for one in told] == [(None, "held")] * 3
    (hold,) = world.owner.get("/holds").json()["items"]
    assert (hold["reason"], hold["facts"]["differs"]) == ("event_conflict", ["params.subject"])
    given = {"answer": "first_stands", "reason": "it was recorded by hand"}
    assert world.owner.post(f"/holds/{hold['id']}/settle", given, if_match=hold["version"]).status_code == 200
    assert deliver(event(1)).json()["state"] == "recorded"  # judged: nothing follows from it
    assert own_ids() == ["shop:evt_1"]


def own_ids() -> list[str]:
    return sorted(Operation.objects.values_list("operation_id", flat=True))


ORDERS = {
    "named, delivered": "nd",
    "delivered, named": "dn",
    "named, delivered, delivered": "ndd",
    "delivered, named, delivered": "dnd",
    "named, named, delivered": "nnd",
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
@pytest.mark.parametrize("later", [False, True], ids=["as it was", "renamed at last"])
def test_both_are_recorded_whatever_comes_first(world: World, order: str, later: bool) -> None:
    for step in order:
        named(world) if step == "n" else deliver(event(1))
    if later:
        renamed(world)
        deliver(event(1))
    assert own_ids() == ["my-own", "shop:evt_1"]
    assert not Hold.objects.exists()
    started = Operation.objects.get(operation_id="shop:evt_1")
    assert deliver(event(1)).json()["operation"] == world.auto.get("/operations/shop:evt_1").json()["id"]
    assert Entry.objects.get(subject_id=started.pk, seq=1).actor == "source:shop"
    assert Event.objects.get().delivery_count == Delivery.objects.count()


def test_the_first_delivery_of_a_named_event_is_in_the_journal(world: World) -> None:
    named(world)
    deliver(event(1))
    lines = Entry.objects.filter(subject_id=Event.objects.get().pk).order_by("seq")
    assert list(lines.values_list("kind", flat=True)) == ["event_named", "event_received"]
    assert json.loads(lines[1].body)["digest"] == bytes(Event.objects.get().digest).hex()


def test_an_operation_that_the_event_asks_for_is_the_one_it_started_whoever_recorded_it(world: World) -> None:
    named(world, "shop:evt_1", "follow_up", subject="Call")
    assert deliver(event(1)).json()["state"] == "running"
    renamed(world)
    deliver(event(1))
    assert own_ids() == ["shop:evt_1"]
    assert not Hold.objects.exists()


def test_a_second_event_of_the_same_action_has_started_it_too(world: World) -> None:
    text = DEFINITIONS.replace('"shop:{event.id}"', '"shop:{body.order}"')
    load(world.cast.launch.pk, read(text), actor="command:test")
    forget_current()
    hooks.forget()
    deliver(event(1, order="7"))
    deliver(event(2, order="7"))
    renamed(world)
    assert (
        deliver(event(2, order="7")).json()["operation"] == deliver(event(1, order="7")).json()["operation"]
    )
    assert own_ids() == ["shop:7"]


def test_one_that_is_another_action_is_asked_about(world: World) -> None:
    named(world, "shop:evt_1", "follow_up", subject="Another")
    assert deliver(event(1)).json()["state"] == "held"
    assert Hold.objects.get().reason == "event_conflict"
    deliver(event(1))
    assert Hold.objects.count() == 1


def test_an_event_that_was_held_and_is_named_meanwhile_still_starts_what_it_asks_for(world: World) -> None:
    deliver(event(1, data={"title": "Call"}))
    named(world)
    text = DEFINITIONS.replace('subject = "data.subject"', 'subject = "data.title"')
    load(world.cast.launch.pk, read(text), actor="command:test")
    forget_current()
    hooks.forget()
    deliver(event(1, data={"title": "Call"}))
    assert own_ids() == ["my-own", "shop:evt_1"]
    assert Hold.objects.get().closed_by == "evidence"


def test_a_link_from_before_it_was_kept_is_told_by_who_recorded_the_operation(world: World) -> None:
    deliver(event(1))
    named(world)
    renamed(world)
    assert not Operation.objects.filter(event_links__started=True).exists()
    deliver(event(1))
    assert own_ids() == ["my-own", "shop:evt_1"]


def test_of_first_deliveries_at_once_one_starts_it(live_world: World) -> None:
    named(live_world)
    barrier = Barrier(8)

    def come(_: int) -> Any:
        barrier.wait()
        try:
            return deliver(event(1)).json()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(come, range(8)))
    assert sorted(one["deliveries"] for one in answers) == list(range(1, 9))
    assert len({one["operation"] for one in answers}) == 1
    assert own_ids() == ["my-own", "shop:evt_1"]
    received = Entry.objects.filter(subject_id=Event.objects.get().pk, kind="event_received")
    assert received.count() == 1

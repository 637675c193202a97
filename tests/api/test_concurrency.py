"""Twenty at the same moment: one is first, the others see it, nobody gets an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from api_world import World, deliver, event, wanted
from django.conf import settings
from django.db import connection

from opsledger.engine import bell
from opsledger.ledger.actions.definitions import forget_current
from opsledger.ledger.models import Attempt, Delivery, Event, HeldReference, Operation, Refusal
from opsledger.local.postgres import Urls

THREADS = 20


def at_once(act: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """Runs `act` in so many threads, all let go together."""
    barrier, found = threading.Barrier(count), [None] * count

    def run(index: int) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=30)
            found[index] = act(index)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return found


def test_twenty_copies_of_an_event_are_one_event_one_operation_and_twenty_deliveries(
    live_world: World,
) -> None:
    """I11."""
    answers = at_once(lambda index: deliver(event(1)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["operation"] for answer in answers}) == 1
    assert sorted(answer.json()["deliveries"] for answer in answers) == list(range(1, THREADS + 1))
    assert (Event.objects.count(), Operation.objects.count(), Delivery.objects.count()) == (1, 1, THREADS)
    assert Event.objects.get().delivery_count == THREADS


def test_two_bodies_of_one_event_at_once_start_one_operation_and_one_hold(live_world: World) -> None:
    answers = at_once(lambda index: deliver(event(1, data={"subject": f"Call {index % 2}"})), 10)
    assert {answer.status_code for answer in answers} == {202}
    assert Operation.objects.count() == 1
    holds = live_world.owner.get("/holds").json()["items"]
    assert [hold["reason"] for hold in holds] == ["event_conflict"]


def test_twenty_callers_record_one_operation_once(live_world: World) -> None:
    answers = at_once(lambda index: live_world.auto.post("/operations", wanted()))
    assert sorted(answer.status_code for answer in answers) == [200] * (THREADS - 1) + [201]
    assert Operation.objects.count() == 1


def test_batches_in_opposite_orders_do_not_block_each_other(live_world: World) -> None:
    items = [wanted(f"order:{index}") for index in range(50)]
    answers = at_once(
        lambda index: live_world.auto.post(
            "/operations/batch", {"items": items if index % 2 else items[::-1]}
        ),
        6,
    )
    statuses = [item["status"] for answer in answers for item in answer.json()["items"]]
    assert (statuses.count(201), statuses.count(200)) == (50, 250)


def test_twenty_claims_of_one_step_open_one_attempt(live_world: World) -> None:
    live_world.record("order:1", "by_hand")
    answers = at_once(lambda index: live_world.auto.post("/operations/order:1/steps/create_task/claim"))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * (THREADS - 1)
    assert {answer.json()["reason"] for answer in answers if answer.status_code == 409} == {"in_flight"}
    assert Attempt.objects.count() == 1


def test_two_steps_that_name_one_reference_at_once_are_told_apart(live_world: World) -> None:
    attempts = []
    for index in range(2):
        live_world.record(f"order:{index}", "by_hand")
        claim = live_world.auto.post(f"/operations/order:{index}/steps/create_task/claim")
        attempts.append(claim.json()["attempt_id"])
    body = {"outcome": "confirmed", "reference": "T-1", "evidence": {"how": "seen"}}
    answers = at_once(lambda index: live_world.auto.post(f"/attempts/{attempts[index]}/outcome", body), 2)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert sorted(answer.json()["state"] for answer in answers) == ["confirmed", "unknown"]
    assert HeldReference.objects.count() == 1


def test_of_twenty_answers_on_one_version_one_is_taken(live_world: World) -> None:
    live_world.record("order:1", "by_hand")
    attempt = live_world.auto.post("/operations/order:1/steps/create_task/claim").json()["attempt_id"]
    live_world.auto.post(
        f"/attempts/{attempt}/outcome", {"outcome": "unknown", "evidence": {"how": "silence"}}
    )
    hold = live_world.owner.get("/holds").json()["items"][0]

    def answer(index: int) -> Any:
        body = {"answer": "happened", "no_reference_why": f"none {index}", "reason": "asked"}
        return live_world.owner.post(f"/holds/{hold['id']}/settle", body, if_match=hold["version"])

    answers = at_once(answer)
    assert sorted(one.status_code for one in answers) == [200] + [412] * (THREADS - 1)


def test_twenty_refusals_are_counted_twenty_times(live_world: World) -> None:
    at_once(lambda index: deliver(event(1), headers={}))
    assert Refusal.objects.get().count == THREADS


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port where nobody listens, and a bell that has not rung lately."""
    from opsledger.celery import app

    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:9/0")
    monkeypatch.setattr(app.conf, "broker_url", "redis://127.0.0.1:9/0")
    monkeypatch.setattr(bell, "_silent_until", 0.0)
    app.pool.force_close_all()
    app.__dict__.pop("amqp", None)


def test_without_a_broker_intake_still_answers_after_the_commit(live_world: World, no_broker: None) -> None:
    assert deliver(event(1)).status_code == 202
    assert live_world.auto.post("/operations", wanted()).status_code == 201
    assert Operation.objects.count() == 2
    assert json.loads(live_world.auto.get("/operations").content)["next"] is None


@pytest.mark.parametrize("definitions_known", [False, True], ids=["first query", "in the transaction"])
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_a_connection_that_died_while_idle_is_replaced_and_nothing_is_lost(
    live_world: World, database_urls: Urls, batch: bool, definitions_known: bool
) -> None:
    """F4 (a), at intake: the sender sees nothing of it."""
    live_world.record("before")
    connection.ensure_connection()
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    if not definitions_known:
        forget_current()
    if batch:
        answer = live_world.auto.post("/operations/batch", {"items": [wanted()]})
        assert answer.json()["items"][0]["status"] == 201
    else:
        assert live_world.record().status_code == 201
    assert Operation.objects.count() == 2

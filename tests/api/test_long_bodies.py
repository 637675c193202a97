"""Long bodies are computed in turns; who waits for the database keeps nobody else from computing."""

from __future__ import annotations

import json
import threading
from typing import Any

from api_world import World, wanted
from django.db import connection, transaction
from test_concurrency import at_once

from opsledger.api.long_bodies import LONG_BYTES
from opsledger.ledger.models import Operation
from tests.lock_waits import until_waiting

SECONDS_MAX = 20


def long_batch(world: World, *operation_ids: str) -> Any:
    body = json.dumps({"items": [wanted(one) for one in operation_ids]}) + " " * LONG_BYTES
    return world.auto.post("/operations/batch", body.encode())


def in_thread(act: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_a_long_body_that_waits_for_the_database_lets_the_next_one_pass(live_world: World) -> None:
    """Of nine operations each: such batches write by themselves."""
    first, second = [f"a:{n}" for n in range(9)], [f"b:{n}" for n in range(9)]
    with transaction.atomic():
        live_world.auto.post("/operations", wanted("a:5"))
        waiting, slow = in_thread(lambda: long_batch(live_world, *first))
        until_waiting(1, [waiting])
        passing, fast = in_thread(lambda: long_batch(live_world, *second))
        passing.join(SECONDS_MAX)
        passed_meanwhile = not passing.is_alive()
    waiting.join(SECONDS_MAX)
    passing.join(SECONDS_MAX)
    assert passed_meanwhile
    assert [item["status"] for item in fast[0].json()["items"]] == [201] * 9
    assert sorted(item["status"] for item in slow[0].json()["items"]) == [200] + [201] * 8


def test_long_bodies_of_few_operations_share_their_writes_and_none_waits_for_ever(live_world: World) -> None:
    answers = at_once(lambda index: [long_batch(live_world, f"{index}:{n}", "same") for n in range(5)], 8)
    statuses = [item["status"] for some in answers for answer in some for item in answer.json()["items"]]
    assert (statuses.count(201), statuses.count(200)) == (41, 39)
    assert Operation.objects.count() == 41

"""Whatever a long body waits for in the database, a lock, a pipeline's end or a commit, others compute meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_world import wanted
from django.db import connection, transaction
from test_content import FIELDS, PARAMS, Letters, letters, record
from test_long_bodies import SECONDS_MAX, in_thread

from opsledger.api.long_bodies import LONG_BYTES
from opsledger.ledger.models import Operation
from opsledger.ledger.records import lock
from opsledger.lib import turns
from tests.lock_waits import until_waiting


@pytest.fixture
def live(transactional_db: None) -> Letters:
    return letters()


def long_body(world: Letters, *items: dict[str, Any]) -> Any:
    return world.auto.post("/operations/batch", (json.dumps({"items": items}) + " " * LONG_BYTES).encode())


def edited(own: str) -> dict[str, Any]:
    """Brings a newer version of the content that others show: they are moved to it once this is recorded."""
    content = {"content_id": "letter:1", "fields": FIELDS | {"text": "Another text."}}
    return {"operation_id": own, "workflow": "letter", "params": PARAMS, "content": content}


LOCKED = {
    "an operation that is moved, in a pipeline": "SELECT FROM ledger_operation FOR UPDATE",
    "a workflow that a commit looks up": "SELECT FROM ledger_definition FOR UPDATE",
}


@pytest.mark.parametrize("locking", LOCKED.values(), ids=LOCKED.keys())
def test_what_waits_outside_of_a_statement_lets_the_next_one_pass(live: Letters, locking: str) -> None:
    assert record(live).status_code == 201
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(locking)
        waiting, slow = in_thread(lambda: long_body(live, edited("letter:b")))
        until_waiting(1, [waiting])
        passing, fast = in_thread(lambda: long_body(live, *[wanted(f"a:{n}") for n in range(9)]))
        passing.join(2)
        passed_meanwhile = not passing.is_alive()
    waiting.join(SECONDS_MAX)
    passing.join(SECONDS_MAX)
    assert passed_meanwhile
    assert [item["status"] for item in fast[0].json()["items"]] == [201] * 9
    assert [item["status"] for item in slow[0].json()["items"]] == [201]


def test_who_has_a_lock_and_comes_back_for_the_turn_is_not_waited_for_with_it(live: Letters) -> None:
    """The database sees one of the two waits only, so nobody but a time limit would end this ring."""
    assert record(live).status_code == 201
    with turns.taken(), transaction.atomic():
        lock(Operation.objects.values_list("pk", flat=True))
        with turns.left():
            moving, answers = in_thread(lambda: long_body(live, edited("letter:b")))
            until_waiting(1, [moving])
    moving.join(SECONDS_MAX)
    assert [item["status"] for item in answers[0].json()["items"]] == [201]


def test_a_long_body_whose_connection_is_cut_while_it_waits_is_recorded_and_leaves_no_turn_behind(
    live: Letters,
) -> None:
    with transaction.atomic():
        live.auto.post("/operations", wanted("a:5"))
        waiting, answers = in_thread(lambda: long_body(live, *[wanted(f"a:{n}") for n in range(9)]))
        until_waiting(1, [waiting])
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
        until_waiting(1, [waiting])  # by another connection
    waiting.join(SECONDS_MAX)
    assert sorted(item["status"] for item in answers[0].json()["items"]) == [200] + [201] * 8
    with turns.taken():
        assert turns.in_hand()

"""Batches that cross wait for each other, never in a ring; where others make a ring all the same, it is tried once more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from api_world import World, wanted
from django.db import OperationalError, connection, transaction
from test_concurrency import at_once
from test_content import FIELDS, PARAMS, letters

from opsledger.ledger.actions.events import EventName, event_names, open_named_events_here
from opsledger.ledger.models import ContentVersion, Event, Operation
from opsledger.local.postgres import Urls
from opsledger.rules.identity import dedupe_key
from tests.lock_waits import until_waiting

COUNT = 120


def statuses(answers: list[Any]) -> list[list[int]]:
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    return [[item["status"] for item in answer.json()["items"]] for answer in answers]


def crossing(w: World, *batches: list[dict[str, Any]]) -> list[list[int]]:
    return statuses(
        at_once(lambda index: w.auto.post("/operations/batch", {"items": batches[index]}), count=len(batches))
    )


def naming(own: str, name: object) -> dict[str, Any]:
    return wanted(own, "by_hand") | {"source_event": {"source": "shop", "event_id": f"e{name}"}}


def test_batches_that_name_the_same_new_events_in_opposite_orders(live_world: World) -> None:
    there, back = range(COUNT), range(COUNT - 1, -1, -1)
    batches = [
        [naming(f"{who}:{n}", n) for n in order] for who, order in zip("abcd", [there, back] * 2, strict=True)
    ]
    assert crossing(live_world, *batches) == [[201] * COUNT] * 4
    assert (Event.objects.count(), Operation.objects.count()) == (COUNT, 4 * COUNT)


def test_batches_that_add_events_to_the_same_operations_in_opposite_orders(live_world: World) -> None:
    own = [f"o:{n}" for n in range(COUNT)]
    crossing(live_world, [wanted(name, "by_hand") for name in own])
    batches = [
        [naming(name, f"{who}:{name}") for name in order]
        for who, order in (("a", own), ("b", own[::-1]), ("c", own))
    ]
    assert crossing(live_world, *batches) == [[200] * COUNT] * 3
    assert set(Operation.objects.values_list("event_count", flat=True)) == {3}


def test_batches_that_replace_and_add_and_record_the_same(live_world: World) -> None:
    w = live_world
    for turn in range(4):
        w.record(f"x{turn}", "by_hand")
        w.decide(f"x{turn}")
        names = [f"t{turn}:{n}" for n in range(COUNT)]
        replacing = wanted(names[0], "by_hand") | {"replaces": f"x{turn}"}
        plain = [wanted(name, "by_hand") for name in names]
        first, second = crossing(w, [replacing, *plain[1:]], [*plain[1:], naming(f"x{turn}", turn)])
        assert sorted([first[1:], second[:-1]]) == [[200] * (COUNT - 1), [201] * (COUNT - 1)]
        assert (first[0], second[-1]) == (201, 200)


def test_batches_that_bring_the_same_new_contents_in_opposite_orders(transactional_db: None) -> None:
    w = letters()

    def bringing(who: str, n: int) -> dict[str, Any]:
        content = {"content_id": f"c:{n}", "fields": FIELDS}
        return {"operation_id": f"{who}:{n}", "workflow": "letter", "params": PARAMS, "content": content}

    order = range(30)
    batches = [[bringing("a", n) for n in order], [bringing("b", n) for n in reversed(order)]]
    assert crossing(w, *batches) == [[201] * 30] * 2
    assert ContentVersion.objects.count() == 30


def test_one_operation_recorded_by_twenty_callers_with_an_event_each(live_world: World) -> None:
    answers = at_once(lambda index: live_world.auto.post("/operations", naming("x", index)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert Operation.objects.get().event_count == 20


def test_who_waits_too_long_for_a_row_is_told_that_nothing_was_recorded(
    live_world: World, database_urls: Urls
) -> None:
    live_world.record("x", "by_hand")
    with psycopg.connect(database_urls.superuser) as holder, connection.cursor() as cursor:
        holder.execute("SELECT 1 FROM ledger_operation WHERE operation_id = 'x' FOR UPDATE")
        cursor.execute("SET lock_timeout = '200ms'")
        try:
            answer = live_world.auto.post("/operations", naming("x", 1))
        finally:
            cursor.execute("RESET lock_timeout")
    assert (answer.status_code, answer.json()["code"]) == (503, "busy")
    assert "Nothing was recorded" in answer.json()["detail"]
    assert not Event.objects.exists()
    assert live_world.auto.post("/operations", naming("x", 1)).status_code == 200


# A ring that somebody else makes: another session holds the operation, and wants the event that intake has noted

EVENT = """
INSERT INTO ledger_event (id, team_id, source_id, source_version_id, event_id, event_key, digest, topic, occurred_text,
                          occurred_flagged, received_at, delivery_count, projection)
SELECT gen_random_uuid(), team_id, source_id, source_version_id, event_id, %s, digest, '', '', false, now(), 1, ''
  FROM ledger_event WHERE event_id = 'e0'
"""


@contextmanager
def ring(urls: Urls, key: bytes, *, times: int) -> Iterator[None]:
    """Holds operation x; so often, when somebody waits for it, it wants the event of this key, and gives it back then."""
    with psycopg.connect(urls.superuser) as holder:
        holder.execute("SET deadlock_timeout = '60s'")  # the other one of the two finds the ring
        holder.execute("SET statement_timeout = '1500ms'")  # after one ring, and before another one is found
        holder.execute("SELECT 1 FROM ledger_operation WHERE operation_id = 'x' FOR UPDATE")
        turn = threading.Thread(target=_turns, args=(holder, key, times))
        turn.start()
        yield
        turn.join(timeout=30)


def _turns(holder: psycopg.Connection, key: bytes, times: int) -> None:
    try:
        for _ in range(times):
            until_waiting(1, [])
            holder.execute("SAVEPOINT before")
            with suppress(psycopg.errors.QueryCanceled):  # who gave way was there again first, and may go on
                holder.execute(EVENT, [key])
            holder.execute("ROLLBACK TO SAVEPOINT before")
    finally:
        holder.rollback()
        connection.close()


@pytest.fixture
def key(live_world: World) -> bytes:
    """Of the event e1, which is known to nobody."""
    live_world.record("x", "by_hand")
    live_world.record("before", "by_hand", source_event={"source": "shop", "event_id": "e0"})
    return dedupe_key(str(Event.objects.get().source_id), "e1")


def test_events_are_noted_in_one_order_whoever_names_them(
    live_world: World, database_urls: Urls, key: bytes
) -> None:
    """One that somebody else is noting keeps both in the middle of theirs; then both go on."""
    team_id = live_world.cast.launch.pk
    names = sorted(event_names(team_id, [("shop", f"n{number}") for number in range(20)]).values())
    found: list[Any] = []

    def note(order: list[EventName]) -> None:
        try:
            with transaction.atomic():
                found.append(open_named_events_here(team_id, order, actor="command:test"))
        except OperationalError as why:
            found.append(why)
        finally:
            connection.close()

    rivals = [threading.Thread(target=note, args=(order,)) for order in (names, names[::-1])]
    with psycopg.connect(database_urls.superuser) as holder:
        holder.execute(EVENT, [names[10].key])
        for rival in rivals:
            rival.start()
        until_waiting(2, rivals)
        holder.rollback()
    for rival in rivals:
        rival.join(timeout=30)

    assert found[0] == found[1]
    assert set(found[0]) == set(names)


def test_what_had_to_give_way_is_tried_once_more(live_world: World, database_urls: Urls, key: bytes) -> None:
    with ring(database_urls, key, times=1):
        answer = live_world.auto.post("/operations", naming("x", 1))
    assert answer.status_code == 200
    assert sorted(Event.objects.values_list("event_id", flat=True)) == ["e0", "e1"]


@pytest.mark.parametrize("in_batch", [False, True], ids=["one", "batch"])
def test_what_had_to_give_way_twice_is_to_be_sent_again(
    live_world: World, database_urls: Urls, key: bytes, in_batch: bool
) -> None:
    body, path = naming("x", 1), "/operations"
    if in_batch:
        body, path = {"items": [body, wanted("new", "by_hand")]}, "/operations/batch"

    with ring(database_urls, key, times=2):
        answer = live_world.auto.post(path, body)

    assert (answer.status_code, answer.json()["code"], answer["Retry-After"]) == (503, "busy", "1")
    assert "Nothing was recorded" in answer.json()["detail"]
    assert (Event.objects.count(), Operation.objects.count()) == (1, 2)
    assert live_world.auto.post(path, body).status_code == 200

"""Every body that came under an event's id is asked about until a person has judged it; one question at a time."""

from __future__ import annotations

import gzip
import importlib
import json
import pkgutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread
from typing import Any
from uuid import UUID

import pytest
from api_world import DEFINITIONS, World, deliver, event, read, signed
from django.db import IntegrityError, connection, connections, transaction
from django.utils import timezone
from people import client_of

from opsledger.api import hooks
from opsledger.engine import sweep
from opsledger.journal.models import Entry
from opsledger.ledger import migrations
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.event_questions import ask_about_next_body_here
from opsledger.ledger.actions.events import NewEvent, open_event_here
from opsledger.ledger.models import Delivery, Event, Hold, Operation, RawBody
from opsledger.lib.ids import public
from opsledger.local.postgres import Urls
from tests.by_hand import change_by_hand
from tests.lock_waits import until_waiting


def body(letter: str, number: object = 1) -> dict[str, Any]:
    return event(number, data={"subject": f"Call {letter}"})


def incomplete() -> dict[str, Any]:
    return event(1, data={"account": "A-1"})


def open_hold(world: World) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = world.owner.get("/holds").json()["items"]
    assert len(found) < 2
    return found[0] if found else None


def asked_about(hold: dict[str, Any] | None) -> str:
    """The subject of the body that is in question."""
    assert hold is not None
    assert hold["reason"] == "event_conflict"
    row = RawBody.objects.get(digest=bytes.fromhex(hold["facts"]["other_body"]))
    subject: str = json.loads(bytes(row.content))["data"]["subject"]
    return subject.removeprefix("Call ")


def settle(world: World, answer: str = "first_stands", **more: Any) -> None:
    hold = open_hold(world)
    assert hold is not None
    given = {"answer": answer, "reason": "asked the shop"} | more
    settled = world.owner.post(f"/holds/{hold['id']}/settle", given, if_match=hold["version"])
    assert settled.status_code == 200, settled.content


def mend(world: World, old: str, new: str) -> None:
    assert old in DEFINITIONS
    load(world.cast.launch.pk, read(DEFINITIONS.replace(old, new)), actor="command:test")
    forget_current()
    hooks.forget()


def test_bodies_are_asked_about_one_after_another_each_once(world: World) -> None:
    deliver(body("A", 2))  # a neighbour
    for letter in "ABCBCD":
        deliver(body(letter))
    asked = []
    while (hold := open_hold(world)) is not None:
        asked.append(asked_about(hold))
        assert deliver(body(asked[-1])).json()["state"] == "held"  # what is asked about is not asked again
        settle(world)
    assert asked == ["B", "C", "D"]
    for letter in "ABCD":
        answer = deliver(body(letter)).json()
        assert answer["state"] == "running"  # nothing is open at the event: its operation is told
    assert Hold.objects.count() == 3
    assert Operation.objects.count() == 2
    assert not Hold.objects.filter(event__event_id="evt_2").exists()


def test_a_body_that_comes_after_the_answer_is_asked_about(world: World) -> None:
    deliver(body("A"))
    deliver(body("B"))
    settle(world)
    assert open_hold(world) is None
    deliver(body("C"))
    assert asked_about(open_hold(world)) == "C"


def test_the_journal_names_each_body_that_was_asked_about_and_who_answered(world: World) -> None:
    for letter in "ABC":
        deliver(body(letter))
    settle(world)
    lines = Entry.objects.filter(subject_id=Event.objects.get().pk).order_by("seq")
    olga = f"person:{world.cast.olga.pk}"
    assert list(lines.values_list("kind", "actor")) == [
        ("event_received", "source:shop"),
        ("event_held", "source:shop"),
        ("answered", olga),
        ("event_held", olga),
    ]
    others = [json.loads(line.body)["other_body"] for line in lines.filter(kind="event_held")]
    digests = [bytes(one.body.digest).hex() for one in Delivery.objects.filter(conflict=True).order_by("id")]
    assert others == digests


def test_a_body_in_other_clothes_is_not_asked_about_again(world: World) -> None:
    deliver(body("A"))
    deliver(body("B"))
    spaced = json.dumps(body("B"), indent=3).encode()
    deliver(spaced)
    settle(world)
    packed = gzip.compress(spaced)
    deliver(packed, headers=signed(packed) | {"Content-Encoding": "gzip"})
    assert open_hold(world) is None
    assert (Delivery.objects.filter(conflict=True).count(), Hold.objects.count()) == (3, 1)


@pytest.mark.parametrize("by", ["evidence", "first_stands", "recorded_apart"])
def test_a_body_that_waits_behind_another_question_is_asked_about_when_that_ends(
    world: World, by: str
) -> None:
    deliver(incomplete())
    deliver(body("B"))
    hold = open_hold(world)
    assert hold is not None
    assert hold["reason"] == "data_missing"
    if by == "evidence":
        mend(world, 'subject = "data.subject"', 'subject = "data.account"')
        assert deliver(incomplete()).json()["operation"]
    elif by == "recorded_apart":
        settle(world, by, operation=world.record("apart", "by_hand").json()["id"])
    else:
        settle(world, by)
    assert asked_about(open_hold(world)) == "B"
    settle(world)
    assert open_hold(world) is None


APART: dict[str, tuple[str, str]] = {
    "NUL and the sign for it": (r'"a\u0000"', r'"a\u2400"'),
    "half a pair and the sign for it": (r'"\ud83d"', r'"\ufffd"'),
    "one half and another": (r'"\ud83d"', r'"\ud83e"'),
    "a number that no database holds, and its text": ("1e2000", '"1e2000"'),
    "a number and its text": ("1", '"1"'),
    "numbers with other digits": ("1.10", "1.1"),
    "nothing and its word": ("null", '"null"'),
    "composed and decomposed": (r'"\u00fc"', r'"u\u0308"'),
}


@pytest.mark.parametrize(("one", "other"), APART.values(), ids=APART.keys())
def test_bodies_that_only_look_the_same_are_two(world: World, one: str, other: str) -> None:
    def raw(value: str) -> bytes:
        return f'{{"id":"evt_1","type":"task.seen","data":{value}}}'.encode()

    deliver(raw(one))
    assert deliver(raw(one)).json()["state"] == "recorded"
    assert deliver(raw(other)).json()["state"] == "held"


def test_bodies_that_say_the_same_are_one(world: World) -> None:
    deliver(b'{"id":"evt_1","type":"task.seen","data":{"a":"\\u00e9","b":[1,2]}}')
    deliver('{ "data":{"b":[1, 2],"a":"é"}, "type":"task.seen","id":"evt_1" }'.encode())
    assert not Delivery.objects.filter(conflict=True).exists()


@pytest.mark.parametrize("answer", ["first_stands", "recorded_apart"])
def test_that_the_first_stands_against_another_body_says_nothing_of_what_it_starts(
    world: World, answer: str
) -> None:
    deliver(event(1, type="task.seen"))
    deliver(body("B"))
    apart = {"operation": world.record("apart", "by_hand").json()["id"]}
    settle(world, answer, **(apart if answer == "recorded_apart" else {}))
    mend(world, 'topics = ["task.wanted"]', 'topics = ["task.wanted", "task.seen"]')
    deliver(event(1, type="task.seen"))
    started = Operation.objects.filter(operation_id="shop:evt_1").exists()
    assert started is (answer == "first_stands")


# What an earlier release has kept


def test_the_same_bytes_are_the_same_event_whatever_its_digest_was_taken_over(
    live_world: World, database_urls: Urls
) -> None:
    raw = rb'{"id":"evt_1","type":"task.seen","data":"a\u0000"}'
    deliver(raw)
    change_by_hand(database_urls, "UPDATE ledger_event SET digest = %s", b"-" * 32)
    change_by_hand(database_urls, "UPDATE ledger_delivery SET digest = NULL")
    assert deliver(raw).json()["state"] == "recorded"
    assert deliver(raw.replace(b":", b": ", 1)).json()["state"] == "recorded"
    assert deliver(raw.replace(b"a", b"b")).json()["state"] == "held"


def migration_of(topic: str) -> Any:
    names = [one.name for one in pkgutil.iter_modules(migrations.__path__) if one.name.endswith(f"_{topic}")]
    return importlib.import_module(f"{migrations.__name__}.{names[0]}")


def test_what_was_asked_about_before_it_was_kept_is_found_by_the_digest_of_its_question(
    live_world: World, database_urls: Urls
) -> None:
    for letter in "AABBC":
        deliver(body(letter))
    before = list(Delivery.objects.order_by("id").values_list("hold_id", flat=True))
    change_by_hand(database_urls, "UPDATE ledger_delivery SET hold_id = NULL, digest = NULL")
    with connection.cursor() as cursor:
        cursor.execute(migration_of("bodies_asked_about_before").ASKED)
    assert list(Delivery.objects.order_by("id").values_list("hold_id", flat=True)) == before
    hold = Hold.objects.get().pk
    assert before == [None, None, hold, hold, None]
    settle(live_world)
    assert asked_about(open_hold(live_world)) == "C"
    deliver(body("B"))
    settle(live_world)
    assert open_hold(live_world) is None


def test_only_another_body_is_asked_about(world: World) -> None:
    deliver(body("A"))
    deliver(body("B"))
    with pytest.raises(IntegrityError, match="only_another_body_is_asked_about"), transaction.atomic():
        Delivery.objects.update(hold=Hold.objects.get())


def test_a_body_that_nobody_was_asked_about_is_asked_about_by_the_sweep(world: World) -> None:
    """An earlier release asked about no body that came while another question was open."""
    for letter in "ABC":
        deliver(body(letter))
    deliver(body("A", 2))
    deliver(body("B", 2))  # a neighbour, which is being asked about
    Hold.objects.filter(event__event_id="evt_1").update(closed_at=timezone.now(), closed_by="person:0")
    before = set(Hold.objects.values_list("id", flat=True))
    assert sweep.run_once().asked == 1
    opened = Hold.objects.exclude(pk__in=before).get()
    assert (opened.event.event_id, opened.reason) == ("evt_1", "event_conflict")
    raw = bytes(Delivery.objects.get(hold=opened).body.content)
    assert b"Call C" in raw
    line = Entry.objects.filter(subject_id=opened.event_id, kind="event_held").order_by("seq").last()
    assert line is not None
    assert line.actor == "engine"
    assert sweep.run_once().asked == 0


# The page


def test_the_page_shows_the_body_in_question_and_leads_to_the_next(world: World) -> None:
    client = client_of(world.cast.olga)
    for letter in ("A", *["B"] * 25, "C"):
        deliver(body(letter))
    hold = Hold.objects.get()
    path = f"/holds/{public('hold', hold.pk)}"
    shown = client.post(f"{path}/reveal").content.decode()
    assert ("Call B" in shown, "Call C" in shown) == (True, False)
    given = {"answer": "first_stands", "reason": "B is a test", "version": "1"}
    answered = client.post(f"{path}/settle", given)
    following = Hold.objects.get(closed_at=None)
    assert (answered.status_code, answered["Location"]) == (303, f"/holds/{public('hold', following.pk)}/")
    assert "yet another body" in client.get(answered["Location"]).content.decode()
    shown = client.post(f"/holds/{public('hold', following.pk)}/reveal").content.decode()
    assert ("Call C" in shown, "Call B" in shown) == (True, False)


# At once


def test_an_answer_waits_for_a_delivery_that_is_being_kept_and_asks_about_its_body(live_world: World) -> None:
    deliver(body("A"))
    deliver(body("B"))
    hold, kept = Hold.objects.get(), Event.objects.get()
    raw = json.dumps(body("C")).encode()
    third = NewEvent(kept.team_id, kept.source_id, kept.source_version_id, "evt_1", raw, raw.decode(), "json")
    answered = []

    def answer() -> None:
        given = {"answer": "first_stands", "reason": "B is a test"}
        path = f"/holds/{public('hold', hold.pk)}/settle"
        try:
            answered.append(live_world.owner.post(path, given, if_match=1).status_code)
        finally:
            connections.close_all()

    thread = Thread(target=answer)
    with transaction.atomic():
        opened = open_event_here(third, actor="source:shop")
        assert opened.conflict
        assert ask_about_next_body_here(opened.id, actor="source:shop") is None  # B is being asked about
        thread.start()
        until_waiting(1, [thread])
    thread.join()
    assert answered == [200]
    assert asked_about(open_hold(live_world)) == "C"


def test_an_answer_and_another_body_at_once_leave_nothing_unasked(live_world: World) -> None:
    for number in range(6):
        deliver(body("A", number))
        deliver(body("B", number))
    barrier = Barrier(2)

    def closing(act: Callable[[], Any]) -> int:
        barrier.wait()
        try:
            return int(act().status_code)
        finally:
            connections.close_all()

    def answer(hold: UUID) -> int:
        given = {"answer": "first_stands", "reason": "B is a test"}
        path = f"/holds/{public('hold', hold)}/settle"
        return closing(lambda: live_world.owner.post(path, given, if_match=1))

    def come(event_id: str) -> int:
        return closing(lambda: deliver(body("C", event_id.removeprefix("evt_"))))

    with ThreadPoolExecutor(2) as threads:
        for hold, event_id in list(Hold.objects.order_by("id").values_list("id", "event__event_id")):
            both = threads.submit(answer, hold), threads.submit(come, event_id)
            assert [one.result() for one in both] == [200, 202]
    assert Hold.objects.filter(closed_at=None).count() == 6  # C of each
    assert not Delivery.objects.filter(conflict=True, hold=None).exists()

"""What is told again is the same one, whatever has become of what it names; what it says otherwise is said in the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from api_world import DEFINITIONS, World, read, statements, wanted
from test_content import FIELDS, LETTERS, letters, record

from opsledger.accounts.models import Membership
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.models import ContentVersion, Definition, Event, Operation

LATER = "2036-03-01T09:00:00Z"


def told(own: str = "y", workflow: str = "by_hand", **more: Any) -> dict[str, Any]:
    return wanted(own, workflow) | more


def send(world: World, body: dict[str, Any], *, in_batch: bool) -> tuple[int, dict[str, Any]]:
    if not in_batch:
        answer = world.auto.post("/operations", body)
        return answer.status_code, answer.json()
    item = world.auto.post("/operations/batch", {"items": [body]}).json()["items"][0]
    return item["status"], item


def settled(world: World, own: str) -> None:
    assert world.record(own, "by_hand").status_code == 201
    assert world.decide(own).status_code == 200


def reopened(world: World) -> None:
    """x was ended as never done; then the answer about it was taken back."""
    world.decide("x", "steps/create_task/withdraw")


def asks_for_more(world: World) -> None:
    more = '[[workflow.by_hand.params]]\nname = "region"\nlabel = "Region"\n'
    place = '[[workflow.by_hand.steps]]\nname = "create_task"'
    load(world.cast.launch.pk, read(DEFINITIONS.replace(place, more + place)), actor="command:test")
    forget_current()


def workflow_is_gone(world: World) -> None:
    Definition.objects.filter(team=world.cast.launch, kind="workflow", slug="by_hand").update(current=None)
    forget_current()


def source_is_gone(world: World) -> None:
    Definition.objects.filter(team=world.cast.launch, kind="source", slug="shop").update(current=None)


def owner_has_left(world: World) -> None:
    Membership.objects.filter(person=world.cast.olga).delete()


SINCE: dict[str, tuple[dict[str, Any], Callable[[World], None], list[str]]] = {
    "the earlier one is open again": ({"replaces": "x"}, reopened, []),
    "its workflow asks for more": ({}, asks_for_more, []),
    "its workflow asks for more, and it names others": (
        {"replaces": "x", "source_event": {"source": "shop", "event_id": "1"}},
        asks_for_more,
        [],
    ),
    "its workflow is gone": ({}, workflow_is_gone, []),
    "its owner has left": ({"owner": "olga@example.test"}, owner_has_left, ["owner"]),
    "its source is gone": (
        {"source_event": {"source": "shop", "event_id": "1"}},
        source_is_gone,
        ["source_event"],
    ),
}


@pytest.mark.parametrize("in_batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize(("more", "since", "stands"), SINCE.values(), ids=SINCE.keys())
def test_what_is_recorded_is_the_same_one_again_whatever_has_become_of_what_it_names(
    live_world: World, more: dict[str, Any], since: Callable[[World], None], stands: list[str], in_batch: bool
) -> None:
    w = live_world
    w.record("x", "by_hand")
    attempt = w.auto.post("/operations/x/steps/create_task/claim").json()["attempt_id"]
    w.auto.post(f"/attempts/{attempt}/outcome", {"outcome": "unknown", "evidence": {"how": "silence"}})
    hold = w.owner.get("/holds").json()["items"][0]
    ended = {"answer": "absent_end", "reason": "looked", "checked_how": "looked"}
    assert w.owner.post(f"/holds/{hold['id']}/settle", ended, if_match=hold["version"]).status_code == 200
    first = send(w, told(**more), in_batch=in_batch)
    neighbour = send(w, told("neighbour", "follow_up"), in_batch=False)
    assert (first[0], neighbour[0]) == (201, 201)

    since(w)
    again = send(w, told(**more), in_batch=in_batch)
    other = send(w, told(**more) | {"params": {"subject": "Else"}}, in_batch=in_batch)

    assert again[0] == 200, again
    assert (again[1]["id"], again[1]["result"]) == (first[1]["id"], "same")
    assert again[1].get("stands", []) == stands
    assert (other[0], other[1]["differs"]) == (409, ["params.subject"])
    assert Operation.objects.count() == 3


def test_all_that_would_be_refused_is_looked_up_at_once(world: World) -> None:
    bodies = [told(f"y:{index}") for index in range(30)]
    assert {item["status"] for item in _batch(world, bodies)} == {201}
    asks_for_more(world)
    _batch(world, bodies[:1])

    counts = []
    for size in (1, 30):
        with statements() as queries:
            items = _batch(world, bodies[:size])
        assert {item["status"] for item in items} == {200}
        counts.append(len(queries))

    assert counts[0] == counts[1]


@pytest.mark.parametrize("size", [1, 40])
def test_nothing_is_looked_up_for_what_is_new_and_names_nothing(world: World, size: int) -> None:
    _batch(world, [told("warm")])
    with statements() as queries:
        _batch(world, [told(f"y:{index}") for index in range(size)])
    assert len([query for query in queries if "ledger_operation" in query]) == 1


def _batch(world: World, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(world.auto.post("/operations/batch", {"items": bodies}).json()["items"])


def test_content_told_again_is_read_as_the_recorded_workflow_reads_it(transactional_db: None) -> None:
    w = letters()
    assert record(w).status_code == 201
    text_asks_for_more(w)

    again = [record(w).status_code, record(w, version=1).status_code]
    another = record(w, fields=FIELDS | {"text": "Else"})

    assert again == [200, 200]
    assert (another.status_code, another.json()["differs"]) == (409, ["content"])
    assert record(w, "letter:b").status_code == 422
    assert ContentVersion.objects.count() == 1


def text_asks_for_more(world: World) -> None:
    field = '[[workflow.letter.content]]\nname = "subject"\nlabel = "Subject"\n'
    place = '[[workflow.letter.steps]]\nname = "write"'
    load(world.cast.launch.pk, read(LETTERS.replace(place, field + place)), actor="command:test")
    forget_current()


def author_has_left(world: World) -> None:
    Membership.objects.filter(person=world.cast.omar).delete()


@pytest.mark.parametrize("since", [text_asks_for_more, author_has_left])
def test_a_proposal_told_again_under_its_key_is_the_first_one(
    transactional_db: None, since: Callable[[World], None]
) -> None:
    w = letters()
    author = {"kind": "person", "name": "Omar@example.test"}
    body = {"workflow": "letter", "fields": FIELDS, "author": author, "client_key": "k1"}
    first = w.auto.post("/content/letter:1/versions", body)
    since(w)

    again = w.auto.post("/content/letter:1/versions", body)
    others = [
        w.auto.post("/content/letter:1/versions", body | {"fields": FIELDS | {"text": "Else"}}),
        w.auto.post("/content/letter:1/versions", body | {"client_key": "k2"}),
        w.robot.post("/content/letter:1/versions", body),
    ]

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["version"]["id"] == first.json()["version"]["id"]
    assert [one.status_code for one in others] == [422] * 3
    assert ContentVersion.objects.count() == 1


# What it says otherwise


@pytest.mark.parametrize("in_batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize(
    ("first", "again"),
    [({}, "x"), ({"replaces": "x"}, "z"), ({"replaces": "x"}, "nothing")],
    ids=["nothing before", "another one before", "one that is not here"],
)
def test_replacing_told_otherwise_is_a_conflict_that_names_it(
    live_world: World, first: dict[str, str], again: str, in_batch: bool
) -> None:
    w = live_world
    settled(w, "x")
    settled(w, "z")
    recorded = send(w, told(**first), in_batch=in_batch)
    kept = w.auto.get("/operations/y").json()["replaces"]

    status, problem = send(w, told(replaces=again), in_batch=in_batch)

    assert (recorded[0], status, problem["code"]) == (201, 409, "operation_conflict")
    assert problem["differs"] == ["replaces"]
    assert w.auto.get("/operations/y").json()["replaces"] == kept
    assert send(w, told(**first), in_batch=in_batch)[0] == 200


def test_replacing_by_number_or_by_own_id_is_the_same(live_world: World) -> None:
    settled(live_world, "x")
    number = live_world.auto.get("/operations/x").json()["id"]
    answers = [live_world.record("y", replaces=name).status_code for name in ("x", number, "x")]
    assert answers == [201, 200, 200]


OTHERWISE: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "another owner": ({"owner": "olga@example.test"}, {"owner": "otto@example.test"}, ["owner"]),
    "an owner, and none before": ({}, {"owner": "olga@example.test"}, ["owner"]),
    "another time": ({"not_after": LATER}, {"not_after": "2036-03-02T09:00:00Z"}, ["not_after"]),
    "a time, and none before": ({}, {"not_after": LATER}, ["not_after"]),
    "the same time in another zone": ({"not_after": LATER}, {"not_after": "2036-03-01T10:00:00+01:00"}, []),
    "neither": ({"owner": "olga@example.test", "not_after": LATER}, {}, []),
    "the same": (
        {"owner": "olga@example.test", "not_after": LATER},
        {"owner": "olga@example.test", "not_after": LATER},
        [],
    ),
    "both": ({}, {"owner": "olga@example.test", "not_after": LATER}, ["owner", "not_after"]),
}


@pytest.mark.parametrize("in_batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize(("first", "again", "stands"), OTHERWISE.values(), ids=OTHERWISE.keys())
def test_an_owner_and_a_limit_told_otherwise_stand_as_they_are_recorded_and_it_is_said(
    world: World, first: dict[str, Any], again: dict[str, Any], stands: list[str], in_batch: bool
) -> None:
    assert send(world, told(**first), in_batch=in_batch)[0] == 201
    before = world.auto.get("/operations/y").json()

    status, answer = send(world, told(**again), in_batch=in_batch)

    assert (status, answer.get("stands", [])) == (200, stands)
    assert world.auto.get("/operations/y").json() == before


def test_what_is_told_twice_in_a_batch_is_compared_as_if_it_had_been_told_before(live_world: World) -> None:
    w = live_world
    settled(w, "x")
    event = {"source_event": {"source": "shop", "event_id": "2"}}
    items = _batch(
        w,
        [
            told(replaces="x"),
            told(),
            told(replaces="y"),
            told() | event,
            told() | {"params": {"subject": "Else"}} | {"source_event": {"source": "shop", "event_id": "3"}},
            told(not_after=LATER),
        ],
    )
    assert [item["status"] for item in items] == [201, 200, 409, 200, 409, 200]
    assert len({item["id"] for item in items}) == 1
    assert [item.get("differs") for item in items] == [
        None,
        None,
        ["replaces"],
        None,
        ["params.subject"],
        None,
    ]
    assert items[5]["stands"] == ["not_after"]
    shown = w.auto.get("/operations/y").json()
    assert ([one["event_id"] for one in shown["events"]], shown["counters"]["events"]) == (["2"], 1)
    assert [one.event_id for one in Event.objects.all()] == ["2"]


def test_several_events_of_one_action_in_a_batch_are_all_counted(live_world: World) -> None:
    live_world.record("y", "by_hand")
    events = [{"source_event": {"source": "shop", "event_id": name}} for name in "abca"]
    items = _batch(live_world, [told() | event for event in events])
    assert {item["status"] for item in items} == {200}
    shown = live_world.auto.get("/operations/y").json()
    assert (sorted(one["event_id"] for one in shown["events"]), shown["counters"]["events"]) == (
        ["a", "b", "c"],
        3,
    )

"""POST /operations: recorded once, the same again changes nothing, another under the same id is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_world import World, wanted

from opsledger.ledger.models import Event, Operation, OperationParams


def test_an_operation_is_recorded_and_says_where(world: World) -> None:
    answer = world.auto.post("/operations", wanted())
    body = answer.json()
    assert answer.status_code == 201
    assert answer["Location"] == body["url"] == f"/api/v1/operations/{body['id']}"
    assert body["state"] == "running"
    assert body["result"] == "recorded"
    assert world.auto.get(f"/operations/{body['id']}").json()["operation_id"] == "order:1"


def test_the_same_one_again_is_the_first_one(world: World) -> None:
    first = world.record()
    again = world.record()
    assert again.status_code == 200
    assert again.json() == first.json() | {"result": "same"}
    assert Operation.objects.count() == 1


def test_another_action_under_a_taken_id_is_a_conflict_that_names_the_fields(world: World) -> None:
    first = world.record()
    other = world.auto.post("/operations", wanted(subject="Write", amount=3))
    problem = other.json()
    assert other.status_code == 409
    assert problem["code"] == "operation_conflict"
    assert problem["differs"] == ["params.amount", "params.subject"]
    assert problem["operation"]["id"] == first.json()["id"]
    assert world.auto.post("/operations", wanted(workflow="by_hand")).json()["differs"] == ["workflow"]
    assert Operation.objects.count() == 1


def test_an_id_belongs_to_its_team(world: World) -> None:
    assert world.record().status_code == 201
    assert world.other.post("/operations", wanted()).status_code == 201


@pytest.mark.parametrize(
    ("one", "other"),
    [("id", "ID"), ("id", "id "), ("\u00fc", "u\u0308"), ("a|b", "a:b")],
    ids=["case", "space", "composed", "separator"],
)
def test_ids_are_compared_byte_for_byte(world: World, one: str, other: str) -> None:
    assert [world.record(own).status_code for own in (one, other, one)] == [201, 201, 200]


@pytest.mark.parametrize(
    "own",
    [
        "",
        " ",
        "x" * 201,
        "a\nb",
        "a\u0000b",
        "\ud83d",
        "max@harbour.example",
        "call:+4915112345678",
        "a\u200bb",
    ],
    ids=["empty", "space", "too long", "line break", "nul", "half", "e-mail", "telephone", "invisible"],
)
def test_an_id_that_can_not_be_one_is_refused_at_its_field(world: World, own: str) -> None:
    answer = world.record(own)
    assert answer.status_code == 422
    assert {error["field"] for error in answer.json()["errors"]} == {"operation_id"}
    assert Operation.objects.count() == 0


@pytest.mark.parametrize(
    "own", ["x" * 200, "../a?b#c%2F", "+4911", "a@b", "📦"], ids=["200", "path", "plus", "at", "emoji"]
)
def test_any_other_printable_id_is_taken(world: World, own: str) -> None:
    answer = world.record(own)
    assert answer.status_code == 201
    assert world.auto.get("/operations", {"operation_id": own}).json()["items"][0]["operation_id"] == own


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("unknown field", {"operation_id": "a", "workflow": "follow_up", "params": {"subject": "x"}, "ownr": "x"},
     "ownr", "is not a known field; did you mean owner?"),
    ("unknown param", wanted(colour="red"), "params.colour", "is not a known field"),
    ("missing param", {"operation_id": "a", "workflow": "follow_up", "params": {}}, "params.subject", "is missing"),
    ("missing field", {"operation_id": "a", "params": {}}, "workflow", "is missing"),
    ("number as id", wanted() | {"operation_id": 7}, "operation_id", "must be text"),
    ("text as number", wanted(amount="ten"), "params.amount", "must be a number"),
    ("params a list", wanted() | {"params": []}, "params", "must be an object"),
    ("unknown workflow", wanted(workflow="nothing"), "workflow", "There is no workflow “nothing” in this team."),
    ("time without zone", wanted() | {"not_after": "2026-03-01T09:00:00"}, "not_after", "must be a time with its zone"),
    ("no such day", wanted() | {"not_after": "2026-02-30T09:00:00Z"}, "not_after", "must be a time with its zone"),
    (
        "content",
        wanted() | {"content": {"content_id": "c", "fields": {"text": "x"}}},
        "content",
        "takes no versioned content",
    ),
    ("unknown owner", wanted() | {"owner": "nobody@example.test"}, "owner", "must be the sign-in name"),
    ("owner elsewhere", wanted() | {"owner": "rita@example.test"}, "owner", "must be the sign-in name"),
    ("owner without the role", wanted() | {"owner": "vera@example.test"}, "owner", "must be the sign-in name"),
    ("unknown source", wanted() | {"source_event": {"source": "none", "event_id": "1"}}, "source_event.source",
     "is not a source of this team"),
    ("unknown field inside", wanted() | {"source_event": {"source": "shop", "event_id": "1", "x": 1}},
     "source_event.x", "is not a known field"),
    ("replaces nothing", wanted() | {"replaces": "nothing"}, "replaces", "names no operation of this team"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_what_is_wrong_is_told_at_its_field(
    world: World, body: dict[str, Any], field: str, message: str
) -> None:
    answer = world.auto.post("/operations", body)
    problem = answer.json()
    assert answer.status_code == 422, problem
    assert [error["field"] for error in problem["errors"]] == [field]
    assert message in problem["errors"][0]["message"]
    assert "Nothing was recorded" in problem["detail"]
    assert not Operation.objects.exists()
    assert not Event.objects.exists()


def test_everything_wrong_is_told_at_once(world: World) -> None:
    body = {"operation_id": "a@b.example", "workflow": "follow_up", "params": {"colour": 1}}
    body["content"] = {"content_id": "c", "version": 1}
    fields = [error["field"] for error in world.auto.post("/operations", body).json()["errors"]]
    assert fields == ["operation_id", "params.colour", "params.subject", "content"]


def test_numbers_keep_their_digits(world: World) -> None:
    raw = (
        b'{"operation_id":"n","workflow":"follow_up","params":{"subject":"x","amount":12345678901234567.890}}'
    )
    assert world.auto.post("/operations", raw).status_code == 201
    assert b'"amount":12345678901234567.890' in OperationParams.objects.get().params.encode()
    shown = world.auto.get("/operations/n")
    assert b'"value":12345678901234567.890' in shown.content
    assert world.auto.post("/operations", raw.replace(b"890}", b"89}")).json()["differs"] == ["params.amount"]


@pytest.mark.parametrize(
    ("subject", "shown"),
    [("a\u0000b", "a\u2400b"), ("\ud83d", "\ufffd"), ("a\\u0000b", "a\\u0000b"), ("📦", "📦")],
    ids=["nul", "half a pair", "mere mention", "emoji"],
)
def test_texts_that_databases_refuse_are_kept_and_shown_replaced(
    world: World, subject: str, shown: str
) -> None:
    """I1, I2: every page that shows them works."""
    assert world.auto.post("/operations", wanted(subject=subject)).status_code == 201
    assert world.auto.post("/operations", wanted(subject=subject)).status_code == 200
    kept = json.loads(OperationParams.objects.get().params)["subject"]
    assert kept == subject
    record = world.auto.get("/operations/order:1").json()
    assert record["title"] == f"Follow up {shown}"
    assert record["params"][0]["value"] == shown
    assert world.auto.get("/operations").json()["items"][0]["title"] == f"Follow up {shown}"


def test_an_owner_is_named_by_sign_in_name(world: World) -> None:
    world.record(owner="olga@example.test")
    record = world.auto.get("/operations/order:1").json()
    assert record["owner"] == {"name": "Olga", "by": "operation", "taken": True}


def test_without_an_owner_the_teams_fallback_answers_for_it_and_nobody_has_taken_it(world: World) -> None:
    world.record()
    assert world.auto.get("/operations/order:1").json()["owner"] == {
        "name": "Olga",
        "by": "team",
        "taken": False,
    }
    assert world.auto.get("/operations").json()["items"][0]["owner"] is None


def test_another_event_of_the_same_action_is_added_without_a_conflict(world: World) -> None:
    first = world.record(source_event={"source": "shop", "event_id": "1"})
    again = world.record(source_event={"source": "shop", "event_id": "2"})
    same = world.record(source_event={"source": "shop", "event_id": "2"})
    assert [answer.status_code for answer in (first, again, same)] == [201, 200, 200]
    record = world.auto.get("/operations/order:1").json()
    assert [one["event_id"] for one in record["events"]] == ["1", "2"]
    assert record["counters"]["events"] == 2


# Replacing an earlier operation


def _claimed(world: World, own: str) -> str:
    world.record(own, "by_hand")
    return str(world.auto.post(f"/operations/{own}/steps/create_task/claim").json()["attempt_id"])


def _report(world: World, attempt: str, outcome: str, **more: Any) -> None:
    body = {"outcome": outcome, "evidence": {"how": "seen"}} | more
    assert world.auto.post(f"/attempts/{attempt}/outcome", body).status_code == 200


@pytest.mark.parametrize("state", ["to be sent", "in flight", "unknown"])
def test_an_operation_that_may_still_have_an_effect_is_not_replaced(world: World, state: str) -> None:
    if state == "to be sent":
        world.record("old", "by_hand")
    else:
        attempt = _claimed(world, "old")
        if state == "unknown":
            _report(world, attempt, "unknown")
    answer = world.record("new", replaces="old")
    assert answer.status_code == 409
    assert answer.json()["code"] == "replaced_is_open"
    assert state.split()[-1] in answer.json()["detail"]
    assert not Operation.objects.filter(operation_id="new").exists()


@pytest.mark.parametrize("named", ["own id", "public id"])
def test_a_settled_operation_may_be_replaced(world: World, named: str) -> None:
    old = world.record("old", "by_hand").json()["id"]
    assert world.decide("old").status_code == 200
    assert world.record("new", replaces="old" if named == "own id" else old).status_code == 201
    assert world.auto.get("/operations/new").json()["replaces"] == old
    assert len(world.auto.get("/operations/old").json()["replaced_by"]) == 1


def test_another_teams_operation_can_not_be_replaced(world: World) -> None:
    theirs = world.other.post("/operations", wanted("theirs", "by_hand")).json()["id"]
    for name in ("theirs", theirs):
        assert world.record(f"new {name}", replaces=name).json()["errors"][0]["field"] == "replaces"

"""What a caller wrote may come back in an answer: strict JSON all the same, whichever door it came through.

The doors are read off the calls themselves, so one that is added is tried too. `api_world` holds every answer against the
strictest reader; a text that no such reader takes is shown as on pages: NUL as ␀, half of a surrogate pair as �.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_world import Api, World, deliver, event, signed, strictly, wanted
from lane_client import LaneClient

from opsledger.api.calls import CALLS
from opsledger.api.routes import Call
from opsledger.api.shapes.recording import Batch, NewOperation
from opsledger.ledger.models import Operation

TEXTS = {"\ud800": "�", "a\udfffb": "a�b", "\ude00\ud83d": "��", "a\x00b": "a␀b"}
KEY = object()  # in a place: the text stands for a field's name
Place = tuple[Any, ...]


def places(schema: dict[str, Any], known: dict[str, Any], at: Place = ()) -> Iterator[Place]:
    """Every place of a body where a text can stand, as value or as name."""
    for one in schema.get("anyOf", [schema]):
        one = known[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
        if one.get("type") == "object":
            yield (*at, KEY)
        if one.get("additionalProperties"):
            yield (*at, "x")
        if one.get("type") == "array":
            yield (*at, 0)
            yield from places(one["items"], known, (*at, 0))
        for name, inner in one.get("properties", {}).items():
            yield (*at, name)
            yield from places(inner, known, (*at, name))


def places_of(shape: Any) -> list[Place]:
    if shape is Batch:
        return [("items", 0), (KEY,), *[("items", 0, *place) for place in places_of(NewOperation)]]
    schema = shape.model_json_schema()
    return list(dict.fromkeys(places(schema, schema.get("$defs", {}))))


def put(body: Any, place: Place, text: str, value: Any) -> Any:
    """The body with this value there, and with whatever has to be around it."""
    if not place:
        return value
    name, rest = text if place[0] is KEY else place[0], place[1:]
    if isinstance(name, int):
        made = list(body) if isinstance(body, list) and body else [None]
        made[name] = put(made[name], rest, text, value)
        return made
    inside = body if isinstance(body, dict) else {}
    return inside | {name: put(inside.get(name), rest, text, value)}


def written(call: Call, place: Place) -> str:
    return ".".join("*" if one is KEY else str(one) for one in place)


@pytest.fixture
def things(world: World) -> dict[str, str]:
    """What the names in addresses stand for: an operation with an attempt, its hold, and ids of nothing."""
    world.record("order:1", "by_hand")
    attempt = world.auto.post("/operations/order:1/steps/create_task/claim").json()["attempt_id"]
    world.auto.post(f"/attempts/{attempt}/outcome", {"outcome": "unknown", "evidence": {"how": "silence"}})
    hold = world.auto.get("/holds").json()["items"][0]["id"]
    return {
        "operation": "order:1",
        "step": "create_task",
        "attempt": attempt,
        "hold": hold,
        "content": "spring",
    }


def address(call: Call, things: dict[str, str], **changed: str) -> str:
    path = call.path
    for name in ("operation", "step", "attempt", "hold", "content", "version", "replay", "proposal"):
        path = path.replace(f"{{{name}}}", changed.get(name, things.get(name, f"{name}_0")))
    assert "{" not in path
    return path


def said(answer: Any) -> str:
    """All texts of an answer."""
    return json.dumps(strictly(answer.content), ensure_ascii=False)


def callers(world: World) -> tuple[Any, ...]:
    return world.auto, world.owner


@pytest.mark.parametrize("call", [one for one in CALLS if one.shape], ids=lambda call: call.name)
def test_whatever_a_body_says_is_answered_in_strict_json(
    world: World, things: dict[str, str], call: Call
) -> None:
    for place in places_of(call.shape):
        for text, shown in TEXTS.items():
            body = put(copy.deepcopy(dict(call.example)), place, text, 1 if place[-1] is KEY else text)
            answers = [
                caller.post(address(call, things), body, if_match=1 if call.versioned else None)
                for caller in callers(world)
            ]
            assert any(one.status_code != 403 for one in answers), written(call, place)
            if place == (KEY,):  # an unknown field is named
                assert any(shown in said(one) for one in answers), written(call, place)


@pytest.mark.parametrize("call", [one for one in CALLS if one.shape], ids=lambda call: call.name)
def test_bytes_that_are_half_of_a_pair_are_answered_so_too(
    world: World, things: dict[str, str], call: Call
) -> None:
    raw = json.dumps(dict(call.example) | {"half": 1}).encode().replace(b"half", b"\xed\xa0\xbd")
    for caller in callers(world):
        answer = caller.post(address(call, things), raw, if_match=1 if call.versioned else None)
        assert answer.status_code == 403 or "�" in said(answer)


NO_TEXT = ["%00", "%ED%A0%BD", "%FF", "a%F0%9F%98%80", "%0D%0AX:1"]


@pytest.mark.parametrize("call", [one for one in CALLS if one.method == "GET"], ids=lambda call: call.name)
def test_whatever_a_query_says_is_answered_in_strict_json(
    world: World, things: dict[str, str], call: Call
) -> None:
    for text in NO_TEXT:
        for pair in [
            f"{text}=1",
            *[f"{query.name}={text}" for query in call.query],
            f"limit=1&{text}={text}",
        ]:
            answer = _raw(world.owner, "GET", address(call, things), pair)
            assert answer.status_code < 500, pair
            strictly(answer.content)


@pytest.mark.parametrize("call", [one for one in CALLS if "{" in one.path], ids=lambda call: call.name)
def test_whatever_an_address_names_is_answered_in_strict_json(
    world: World, things: dict[str, str], call: Call
) -> None:
    names = [part[1:-1] for part in call.path.split("/") if part.startswith("{")]
    for text in NO_TEXT:
        for name in names:
            path = address(call, things, **{name: text})
            answers = [_raw(caller, call.method, path, body=call.example) for caller in callers(world)]
            assert {one.status_code for one in answers} <= {403, 404, 409, 422}, name
            assert any(one.status_code != 403 for one in answers)
            for answer in answers:
                strictly(answer.content)


def _raw(caller: Api, method: str, path: str, query: str = "", body: Any = None) -> Any:
    """The address is sent as it stands."""
    headers = caller._headers | {"If-Match": '"1"'}
    return LaneClient().generic(
        method, f"/api/v1{path}", json.dumps(dict(body or {})), "application/json",
        headers=headers, QUERY_STRING=query,
    )  # fmt: skip


HEADERS = ["If-Match", "Content-Type", "Content-Encoding", "Authorization", "X-Request-Id", "Idempotency-Key"]


VALUES = ["caf\xe9", "\xed\xa0\xbd", "\xff\xfe", '"\\ud800"', "x\r\nSet-Cookie: y"]


@pytest.mark.parametrize("name", HEADERS)
def test_whatever_a_header_says_is_answered_in_strict_json(
    world: World, things: dict[str, str], name: str
) -> None:
    for value in VALUES:
        known = {"Authorization": f"Bearer {value}", "Content-Type": f"application/json; charset={value}"}
        headers = world.owner._headers | {"If-Match": '"1"', name: known.get(name, value)}
        kind = headers.pop("Content-Type", "application/json")
        path = f"/api/v1/holds/{things['hold']}/note"
        answer = LaneClient().generic("POST", path, b'{"text":"x"}', kind, headers=headers)
        assert answer.status_code < 500, value
        strictly(answer.content)
        assert not [one for one in answer.headers.values() if value in one]


# Items of a batch


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_refused_item_repeats_its_own_id_as_it_can_be_shown(world: World, text: str) -> None:
    items = [
        wanted(text),
        wanted("good"),
        wanted("named") | {text: 1},
        text,
        [text],
        {"operation_id": [text]},
    ]

    refused, good, named, *rest = world.auto.post("/operations/batch", {"items": items}).json()["items"]

    assert (refused["status"], refused["operation_id"]) == (422, TEXTS[text])
    assert (good["status"], good["operation_id"]) == (201, "good")
    assert (named["status"], named["errors"][0]["field"]) == (422, TEXTS[text])
    assert [(one["status"], one["operation_id"]) for one in rest] == [(422, None)] * 3
    assert Operation.objects.count() == 1


@pytest.mark.parametrize(
    "field",
    [
        "workflow",
        "owner",
        "replaces",
        "source_event.source",
        "source_event.event_id",
        "params.subject",
        "params.*",
    ],
)
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_one_item_and_a_batch_of_it_are_answered_alike(world: World, field: str, text: str) -> None:
    place = tuple(KEY if part == "*" else part for part in field.split("."))
    item = put(wanted(), place, text, text)
    if "source_event" in item:
        item["source_event"] = {"source": "shop", "event_id": "evt_1"} | item["source_event"]

    alone = world.auto.post("/operations", item)
    in_batch = world.auto.post("/operations/batch", {"items": [item]}).json()["items"][0]

    assert alone.status_code == in_batch["status"] + (in_batch.get("result") == "same")
    assert alone.json().get("errors") == in_batch.get("errors")


# What was taken, read again


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_what_was_recorded_is_read_as_it_can_be_shown(world: World, text: str) -> None:
    made = world.record("order:1", params={"subject": text, "account": text})
    assert made.status_code == 201, made.content

    record = world.owner.get("/operations/order:1").json()

    assert (record["title"], record["params"][0]["value"]) == (f"Follow up {TEXTS[text]}", TEXTS[text])
    assert world.owner.get("/operations").json()["items"][0]["title"] == record["title"]


# Deliveries


@pytest.mark.parametrize("field", ["id", "type", "at", "data.subject", "data.amount", "data.*", "*"])
def test_whatever_a_delivery_says_is_answered_in_strict_json(world: World, field: str) -> None:
    place = tuple(KEY if part == "*" else part for part in field.split("."))
    for number, text in enumerate(TEXTS):
        deliver(put(event(number), place, text, text))
        deliver(put(event(number, more=1), place, text, text))
    for hold in world.owner.get("/holds").json()["items"]:
        world.owner.get(f"/holds/{hold['id']}")
    for one in world.owner.get("/operations").json()["items"]:
        world.owner.get(f"/operations/{one['id']}")


def test_whatever_source_an_address_names_is_answered_in_strict_json(world: World) -> None:
    assert {deliver(event(1), source=text).status_code for text in NO_TEXT} == {404}


@pytest.mark.parametrize("name", ["X-Signature", "X-GitHub-Delivery", "X-GitHub-Event", "Content-Encoding"])
def test_whatever_a_deliverys_headers_say_is_answered_in_strict_json(world: World, name: str) -> None:
    raw = json.dumps(event(1)).encode()
    for value in VALUES:
        for source in ("shop", "board"):
            deliver(raw, headers=signed(raw) | {name: value}, source=source)

"""Every behaviour as a client sees it at the socket, and whether it acted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from raw_http import Arrived, RawClient, ask, message, request_bytes, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer
from opsledger.destinations.sandbox.behaviours import DESCRIPTIONS, Acts, Behaviour


@dataclass(frozen=True)
class Row:
    behaviour: str
    status: int | None  # None: no whole head arrived
    end: str
    effects_count: int
    whole: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    shows: Callable[[Arrived], bool] = lambda arrived: True

    def __str__(self) -> str:
        return "-".join([self.behaviour, *(f"{name}={value}" for name, value in self.options.items())])


def code(expected: str) -> Callable[[Arrived], bool]:
    return lambda arrived: arrived.json["error"]["code"] == expected


def header(name: str, expected: str | None) -> Callable[[Arrived], bool]:
    return lambda arrived: arrived.headers.get(name) == expected


TABLE = [
    Row("answer", 201, "open", 1, shows=lambda arrived: arrived.json["id"] == "T-58213"),
    Row("lose_reply_after_acting", None, "closed", 1, whole=False, shows=lambda arrived: arrived.raw == b""),
    Row("lose_reply_before_acting", None, "closed", 0, whole=False, shows=lambda arrived: arrived.raw == b""),
    Row("reset_after_acting", None, "reset", 1, whole=False, shows=lambda arrived: arrived.raw == b""),
    Row("silence_after_acting", None, "silent", 1, whole=False, shows=lambda arrived: arrived.raw == b""),
    Row("silence_after_acting", None, "closed", 1, whole=False, options={"seconds": 0}),
    Row("silence_after_acting", 201, "open", 1, options={"seconds": 0, "answer": True}),
    Row("act_late", None, "closed", 0, whole=False, options={"seconds": 60}),
    Row("act_late", 504, "open", 0, options={"seconds": 60, "status": 504}),
    Row("act_late", None, "silent", 0, whole=False, options={"seconds": 60, "hold": True}),
    Row("error_after_acting", 500, "open", 1, shows=code("server_error")),
    Row("error_after_acting", 502, "open", 1, options={"status": 502}),
    Row("error_after_acting", 503, "open", 1, options={"status": 503, "retry_after": "-0000"}),
    Row("error_before_acting", 503, "open", 0, shows=header("retry-after", None)),
    Row("error_before_acting", 408, "open", 0, options={"status": 408}),
    Row("cut_reply", 201, "closed", 1, whole=False, shows=lambda arrived: len(arrived.body) > 0),
    Row("cut_reply", 201, "closed", 1, whole=False, options={"sent": 0}),
    Row("cut_reply", 201, "closed", 1, whole=False, options={"sent": 100_000}),
    Row(
        "cut_headers",
        None,
        "closed",
        1,
        whole=False,
        shows=lambda arrived: arrived.raw.startswith(b"HTTP/1.1 2"),
    ),
    Row(
        "missing_last_chunk",
        201,
        "closed",
        1,
        whole=False,
        shows=lambda arrived: b'"T-58213"' in arrived.body,
    ),
    Row(
        "close_delimited",
        201,
        "closed",
        1,
        whole=False,
        shows=lambda arrived: arrived.json["id"] == "T-58213",
    ),
    Row("close_delimited", 201, "closed", 1, whole=False, options={"sent": 9}),
    Row("drip", None, "silent", 1, whole=False, options={"interval": 3600}, shows=lambda a: a.raw == b"H"),
    Row("drip", 201, "closed", 1, options={"interval": 0}),
    Row("empty_success", 204, "open", 1, shows=lambda arrived: arrived.body == b""),
    Row("empty_success", 201, "open", 1, options={"status": 201}, shows=header("location", None)),
    Row(
        "empty_success",
        201,
        "open",
        1,
        options={"status": 201, "location": True},
        shows=header("location", "/crm/tasks/T-58213"),
    ),
    Row(
        "empty_success",
        200,
        "open",
        1,
        options={"status": 200, "whitespace": True},
        shows=lambda arrived: arrived.body.isspace(),
    ),
    Row("not_json", 200, "open", 0, shows=header("content-type", "text/html; charset=utf-8")),
    Row(
        "not_json",
        200,
        "open",
        1,
        options={"act": True, "content_type": "application/json"},
        shows=lambda arrived: arrived.body.startswith(b"<!doctype"),
    ),
    Row("wrong_shape", 201, "open", 1, shows=lambda arrived: "id" not in arrived.json),
    Row(
        "wrong_shape", 200, "open", 0, options={"act": False}, shows=lambda arrived: "id" not in arrived.json
    ),
    Row("conflict_running", 409, "open", 0, shows=code("request_in_progress")),
    Row(
        "conflict_exists_named",
        409,
        "open",
        1,
        shows=lambda arrived: arrived.json["error"]["id"] == "T-58213",
    ),
    Row(
        "conflict_exists_named",
        409,
        "open",
        0,
        options={"id": "T-7"},
        shows=lambda arrived: arrived.json["error"]["id"] == "T-7",
    ),
    Row("conflict_exists_unnamed", 409, "open", 0, shows=lambda arrived: "id" not in arrived.json["error"]),
    Row("key_mismatch", 422, "open", 0, shows=code("key_reused_with_other_parameters")),
    Row("rate_limited", 429, "open", 0, shows=header("retry-after", "1")),
    Row("rate_limited", 429, "open", 0, options={"retry_after": "²"}, shows=header("retry-after", "²")),
    Row("rate_limited", 429, "open", 0, options={"retry_after": None}, shows=header("retry-after", None)),
    Row("unauthorised", 401, "open", 0),
    Row("forbidden", 403, "open", 0),
    Row(
        "invalid",
        422,
        "open",
        0,
        shows=lambda arrived: arrived.json["error"]["fields"][0]["field"] == "subject",
    ),
    Row("invalid", 404, "open", 0, options={"status": 404}),
    *[
        Row("redirect", status, "open", 0, options={"status": status})
        for status in (300, 301, 302, 303, 307, 308)
    ],
    Row(
        "redirect",
        303,
        "open",
        1,
        options={"status": 303, "act": True},
        shows=header("location", "/elsewhere"),
    ),
    Row(
        "too_large",
        201,
        "open",
        1,
        shows=lambda arrived: len(arrived.body) > 1 << 20 and "T-" in arrived.json["id"],
    ),
    Row("multi", 207, "open", 1, shows=lambda arrived: arrived.json["items"][0]["id"] == "T-58213"),
    Row(
        "multi",
        200,
        "open",
        0,
        options={"status": 200, "statuses": [409, 201, None]},
        shows=lambda arrived: [item["index"] for item in arrived.json["items"]] == [0, 1],
    ),
    Row("act_twice", 201, "open", 2),
    Row(
        "act_with_difference",
        201,
        "open",
        1,
        options={"field": "due_date", "value": "2026-04-17"},
        shows=lambda arrived: arrived.json["due_date"] == "2026-04-17",
    ),
    Row("early_answer", 413, "closed", 0),
    Row(
        "early_answer",
        201,
        "closed",
        0,
        options={"status": 201},
        shows=lambda arrived: "id" not in arrived.json,
    ),
    Row("early_answer", None, "closed", 0, whole=False, options={"status": None}),
    Row("find_late", 201, "open", 1),
]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_a_behaviour_is_what_the_table_says(peer: SandboxPeer, control: SandboxControl, row: Row) -> None:
    control.script(row.behaviour, **row.options)
    with RawClient(peer.url) as client:
        ask_it = client.ask_in_vain if row.end == "silent" else client.ask
        arrived = ask_it("POST", "/crm/tasks", task("op-1"))
        assert (arrived.status, arrived.end, arrived.is_whole) == (row.status, row.end, row.whole)
        assert row.shows(arrived)
        effects = control.effects(identity="op-1")
        assert len(effects) == row.effects_count
        (request,) = control.requests()
        assert (request["behaviour"], request["acted"]) == (row.behaviour, row.effects_count > 0)
        if row.status is not None:
            assert request["status"] == row.status


def test_the_table_has_every_behaviour() -> None:
    assert {row.behaviour for row in TABLE} == set(Behaviour) == set(DESCRIPTIONS)


@pytest.mark.parametrize(
    "behaviour", [one for one in Behaviour if DESCRIPTIONS[one].acts in (Acts.YES, Acts.NO)]
)
def test_what_a_description_says_of_acting_is_true(behaviour: Behaviour) -> None:
    acts = {row.effects_count > 0 for row in TABLE if row.behaviour == behaviour}
    assert acts == {DESCRIPTIONS[behaviour].acts is Acts.YES}


def test_a_used_up_rule_leaves_the_next_request_alone(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("lose_reply_after_acting")
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    assert ask(peer.url, "POST", "/crm/tasks", task("op-2")).status == 201


def test_a_late_act_comes_when_its_time_has_come(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("act_late", seconds=60)
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    control.advance(55)
    assert control.effects() == []
    control.advance(5)
    (effect,) = control.effects()
    (request,) = control.requests()
    assert (effect["identity"], effect["request"], request["acted"]) == ("op-1", request["number"], True)


def test_a_late_act_needs_no_later_request(peer: SandboxPeer, control: SandboxControl) -> None:
    acted = peer.world.clock.rings
    control.script("act_late", seconds=0.05, hold=True)
    with RawClient(peer.url) as client:
        client.send(request_bytes("POST", "/crm/tasks", task("op-1")))
        client.sock.settimeout(10)
        assert client.sock.recv(1) == b""  # held in silence until it acted
    assert peer.world.clock.rings > acted
    while not control.effects():
        assert peer.world.clock.wait_for_ring(peer.world.clock.rings, peer.world.clock.now() + 0.01)
    assert len(control.effects()) == 1


def test_work_that_takes_its_time_is_answered_late(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("answer", seconds=60)
    with RawClient(peer.url) as client:
        assert client.ask_in_vain("POST", "/crm/tasks", task("op-1")).end == "silent"
        assert control.effects() == []
        control.advance(60)
        assert client.receive().status == 201


def test_a_client_that_leaves_a_silence_changes_nothing(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("silence_after_acting")
    with RawClient(peer.url) as client:
        client.ask_in_vain("POST", "/crm/tasks", task("op-1"))
    assert len(control.effects()) == 1
    assert ask(peer.url, "GET", "/crm/tasks/T-58213").status == 200


def test_an_early_answer_does_not_wait_for_the_body(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("early_answer", method="POST")
    head = request_bytes("POST", "/crm/tasks", b"", content_type="application/json", idempotency_key="k-1")
    with RawClient(peer.url) as client:
        client.send(head.replace(b"Content-Length: 0", b"Content-Length: 60000000"))
        arrived = client.receive()
    assert (arrived.status, control.effects()) == (413, [])
    (request,) = control.requests()
    assert (request["complete"], request["key"], request["body_bytes"]) == (False, "k-1", 0)


def test_an_early_close_over_an_unread_body_resets(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("early_answer", status=None, reset=True)
    assert ask(peer.url, "POST", "/crm/tasks", task("op-1", note="x" * 200_000)).end == "reset"
    assert control.effects() == []


def test_a_behaviour_that_bends_a_success_lets_a_refusal_through(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    for behaviour in ("empty_success", "wrong_shape", "multi", "conflict_exists_named"):
        control.script(behaviour)
        assert ask(peer.url, "POST", "/crm/tasks", task("op-1", subject="")).status == 422
    assert control.effects() == []


def test_a_conflict_names_the_record_that_is_there(peer: SandboxPeer, control: SandboxControl) -> None:
    ask(peer.url, "POST", "/mail/messages", message("op-1"))
    first = ask(peer.url, "POST", "/crm/tasks", task("op-1")).json["id"]
    control.script("conflict_exists_named")
    assert ask(peer.url, "POST", "/crm/tasks", task("op-1")).json["error"]["id"] == first
    assert len(control.effects(kind="task_created")) == 1


def test_finding_late_touches_that_record_alone(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("find_late", seconds=30, identity="op-late")
    for identity in ("op-late", "op-other"):
        ask(peer.url, "POST", "/crm/tasks", task(identity))

    def found() -> list[str]:
        return [item["external_id"] for item in ask(peer.url, "GET", "/crm/tasks").json["items"]]

    assert found() == ["op-other"]
    assert ask(peer.url, "GET", "/crm/tasks/T-58213").status == 200
    control.advance(30)
    assert found() == ["op-late", "op-other"]


def test_a_record_can_be_hidden_from_reads_too(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("find_late", seconds=30, reads=True)
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    paths = ("/crm/tasks/T-58213", "/crm/tasks/by-external-id/op-1")
    assert [ask(peer.url, "GET", path).status for path in paths] == [404, 404]
    control.advance(30)
    assert [ask(peer.url, "GET", path).status for path in paths] == [200, 200]


def test_two_records_are_found_after_acting_twice(peer: SandboxPeer, control: SandboxControl) -> None:
    control.script("act_twice")
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    items = ask(peer.url, "GET", "/crm/tasks?external_id=op-1").json["items"]
    assert [item["id"] for item in items] == ["T-58213", "T-58214"]
    assert ask(peer.url, "GET", "/crm/tasks/by-external-id/op-1").status == 300


@pytest.mark.parametrize(
    "behaviour", ["lose_reply_before_acting", "error_before_acting", "rate_limited", "not_json"]
)
def test_lookups_can_fail_too(peer: SandboxPeer, control: SandboxControl, behaviour: str) -> None:
    ask(peer.url, "POST", "/crm/tasks", task("op-1"))
    control.script(behaviour, method="GET")
    assert ask(peer.url, "GET", "/crm/tasks?external_id=op-1").status != 200 or behaviour == "not_json"
    assert control.requests()[-1]["behaviour"] == behaviour

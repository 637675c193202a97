"""The CRM: creating, reading, searching with a lag and in pages, conditions, upserts, identities."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from raw_http import ask, request_bytes, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer


def create(peer: SandboxPeer, identity: str, **fields: Any) -> str:
    return str(ask(peer.url, "POST", "/crm/tasks", task(identity, **fields)).json["id"])


def found(peer: SandboxPeer, query: str) -> list[str]:
    items = ask(peer.url, "GET", f"/crm/tasks?{query}").json["items"]
    return [item["id"] for item in items]


def test_a_created_task_is_read_back_as_it_was_given(peer: SandboxPeer) -> None:
    given = task("op-1", priority=7, tags=["a", {"b": None}], note="Grüße 🎉")
    created = ask(peer.url, "POST", "/crm/tasks", given)
    read = ask(peer.url, "GET", created.headers["location"])
    assert read.json == created.json
    assert {name: read.json[name] for name in given} == given
    assert (read.json["id"], read.json["version"]) == ("T-58213", 1)


@pytest.mark.parametrize(
    ("body", "status", "fields"),
    [
        ({"external_id": "x"}, 422, ["subject"]),
        ({"subject": 5, "external_id": ["x"]}, 422, ["subject", "external_id"]),
        ({"subject": "s", "id": "T-1", "version": 2}, 422, ["id", "version"]),
        ({"subject": "s", "external_id": "\ud83d"}, 422, ["external_id"]),
        (b'{"subject":"a","subject":"b"}', 400, []),
        (b'{"subject":NaN}', 400, []),
        (b'{"subject":"\xe8"}', 400, []),
        (b"[]", 400, []),
        (b"", 400, []),
        (b"[" * 100_000, 400, []),
    ],
    ids=["missing", "types", "own", "surrogate", "twice", "nan", "latin", "list", "empty", "deep"],
)
def test_bad_input_is_refused_by_name_and_does_nothing(
    peer: SandboxPeer, control: SandboxControl, body: Any, status: int, fields: list[str]
) -> None:
    reply = ask(peer.url, "POST", "/crm/tasks", body)
    assert reply.status == status
    assert [one["field"] for one in reply.json["error"].get("fields", [])] == fields
    assert (len(control.requests()), control.effects()) == (1, [])


def test_only_json_is_understood(peer: SandboxPeer) -> None:
    reply = ask(
        peer.url, "POST", "/crm/tasks", b"subject=x", content_type="application/x-www-form-urlencoded"
    )
    assert reply.status == 415


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/crm/tasks/T-1", 404),
        ("GET", "/nowhere", 404),
        ("DELETE", "/crm/tasks/T-1", 405),
        ("GET", "/crm/tasks/%FF", 400),
        ("GET", "/crm/tasks?external_ids=x", 400),
        ("GET", "/crm/tasks?external_id=x&external_id=y", 400),
        ("GET", "/crm/tasks?external_id=%FF", 400),
        ("GET", "/crm/tasks?cursor=nonsense", 400),
    ],
)
def test_what_is_not_there_is_said(peer: SandboxPeer, method: str, path: str, status: int) -> None:
    assert ask(peer.url, method, path).status == status


def test_search_lags_and_a_read_does_not(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(search_lag_seconds=30)
    reference = create(peer, "op-1")
    assert found(peer, "external_id=op-1") == []
    assert ask(peer.url, "GET", "/crm/tasks/by-external-id/op-1").json["id"] == reference
    control.advance(29)
    assert found(peer, "external_id=op-1") == []
    control.advance(1)
    assert found(peer, "external_id=op-1") == [reference]


def test_a_search_compares_all_its_fields_exactly(peer: SandboxPeer) -> None:
    mine = create(peer, "op-1", subject="Grüße: 1")
    create(peer, "op-1", subject="grüße: 1")
    create(peer, "op-2", subject="Grüße: 1")
    assert found(peer, f"external_id=op-1&subject={quote('Grüße: 1')}") == [mine]
    assert len(found(peer, "external_id=op-1")) == 2


def test_pages_lead_to_every_record_once(peer: SandboxPeer, control: SandboxControl) -> None:
    control.mode(page_size=2)
    made = [create(peer, "op-1") for _ in range(5)]
    create(peer, "op-2")
    seen, following = [], "/crm/tasks?external_id=op-1"
    while following:
        page = ask(peer.url, "GET", following).json
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        following = page["next"]
    assert seen == made


def test_an_exactly_full_page_has_no_next(peer: SandboxPeer) -> None:
    for _ in range(5):
        create(peer, "op-1")
    assert ask(peer.url, "GET", "/crm/tasks?external_id=op-1").json["next"] is None


@pytest.mark.parametrize(
    "condition",
    [{"if_match": '"1"'}, {"if_match": '"7", "1"'}, {"if_match": "*"}],
    ids=["version", "list", "any"],
)
def test_a_change_under_a_condition_that_holds(peer: SandboxPeer, condition: dict[str, str]) -> None:
    reference = create(peer, "op-1")
    changed = ask(peer.url, "PATCH", f"/crm/tasks/{reference}", {"queue": "other"}, **condition)
    assert (changed.status, changed.json["queue"], changed.json["version"]) == (200, "other", 2)
    assert changed.json["subject"] == task("op-1")["subject"]


@pytest.mark.parametrize(
    ("document", "headers"),
    [
        ({"queue": "x"}, {"if_match": '"2"'}),
        ({"queue": "x"}, {"if_match": "1"}),
        ({"queue": "x", "version": 2}, {}),
    ],
    ids=["other version", "not a tag", "in the body"],
)
def test_a_condition_that_fails_changes_nothing(
    peer: SandboxPeer, control: SandboxControl, document: dict[str, Any], headers: dict[str, str]
) -> None:
    reference = create(peer, "op-1")
    assert ask(peer.url, "PATCH", f"/crm/tasks/{reference}", document, **headers).status == 412
    assert ask(peer.url, "GET", f"/crm/tasks/{reference}").json["version"] == 1
    assert [effect["kind"] for effect in control.effects()] == ["task_created"]


def test_our_own_repeat_of_a_conditional_change_is_refused(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    reference = create(peer, "op-1")
    control.script("lose_reply_after_acting", method="PATCH")
    patch = ("PATCH", f"/crm/tasks/{reference}", {"queue": "other"})
    assert ask(peer.url, *patch, if_match='"1"').status is None
    assert ask(peer.url, *patch, if_match='"1"').status == 412
    assert len(control.effects(kind="task_updated")) == 1


def test_upsert_creates_then_changes_then_refuses_several(peer: SandboxPeer, control: SandboxControl) -> None:
    path = "/crm/tasks/by-external-id/op-1"
    created = ask(peer.url, "PUT", path, {"subject": "s"})
    changed = ask(peer.url, "PUT", path, {"subject": "s2"})
    assert (created.status, changed.status) == (201, 200)
    assert (created.json["id"], created.json["external_id"]) == (changed.json["id"], "op-1")
    create(peer, "op-1")
    several = ask(peer.url, "PUT", path, {"subject": "s3"})
    assert (several.status, len(several.json["matches"])) == (300, 2)
    assert [effect["kind"] for effect in control.effects()] == [
        "task_created",
        "task_updated",
        "task_created",
    ]


def test_an_upsert_refuses_two_identities(peer: SandboxPeer, control: SandboxControl) -> None:
    assert ask(peer.url, "PUT", "/crm/tasks/by-external-id/op-1", task("op-2")).status == 422
    assert control.effects() == []


ALIKE = [
    "a9UxGNy",
    "a9UxGNY",
    "id",
    "id ",
    "\u00fc",
    "u\u0308",
    "a/b",
    "a%2Fb",
    "..",
    "T-1:ä|☃",
    "x\x00y",
    "x\x00z",
]


def test_identities_that_only_look_alike_stay_distinct(peer: SandboxPeer, control: SandboxControl) -> None:
    made = {identity: create(peer, identity) for identity in ALIKE}
    for identity, reference in made.items():
        encoded = quote(identity, safe="")
        assert found(peer, f"external_id={encoded}") == [reference]
        assert ask(peer.url, "GET", f"/crm/tasks/by-external-id/{encoded}").json["id"] == reference
        assert [effect["reference"] for effect in control.effects(identity=identity)] == [reference]


def test_a_read_belongs_to_the_records_identity(peer: SandboxPeer, control: SandboxControl) -> None:
    reference = create(peer, "op-1")
    ask(peer.url, "GET", f"/crm/tasks/{reference}")
    ask(peer.url, "GET", "/crm/tasks?external_id=op-1")
    ask(peer.url, "GET", "/crm/tasks?external_id=op-2")
    assert [request["method"] for request in control.requests(identity="op-1")] == ["POST", "GET", "GET"]


def test_the_digest_is_of_the_bytes_that_came(peer: SandboxPeer, control: SandboxControl) -> None:
    import hashlib

    sent = b'{ "subject":"caf\xc3\xa9" ,"total":1.10}'
    ask(peer.url, "POST", "/crm/tasks", sent)
    (request,) = control.requests()
    assert request["body_sha256"] == hashlib.sha256(sent).hexdigest()
    assert (request["body"].encode(), request["body_bytes"]) == (sent, len(sent))


def test_credentials_are_not_remembered(peer: SandboxPeer, control: SandboxControl) -> None:
    assert b"s3cret" in request_bytes("GET", "/crm/tasks", authorization="Bearer s3cret")
    ask(peer.url, "GET", "/crm/tasks", authorization="Bearer s3cret", x_api_key="s3cret", cookie="a=s3cret")
    assert "s3cret" not in str(control.requests())

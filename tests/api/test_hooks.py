"""POST /hooks/{source}: the signature over the received bytes, one event however often it is told, nothing dropped."""

from __future__ import annotations

import gzip
import json
import re
import time
from typing import Any
from urllib.parse import quote

import pytest
from api_world import DEFINITIONS, SECRET, World, deliver, event, read, signed, wanted
from django.conf import settings
from lane_client import LaneClient

from opsledger.api import hooks
from opsledger.journal.models import Entry
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.models import (
    Delivery,
    Event,
    Hold,
    Operation,
    OperationParams,
    RawBody,
    Refusal,
    Step,
)
from opsledger.lib.ids import public
from opsledger.sources.signatures import sign


def refused(source: str = "shop") -> dict[str, int]:
    return dict(Refusal.objects.filter(source_slug=source).values_list("reason", "count"))


def test_a_delivery_records_its_event_and_its_operation_together(world: World) -> None:
    answer = deliver(event(1))
    body = answer.json()
    assert answer.status_code == 202  # what this source wants to hear while its operation is open
    assert (body["deliveries"], body["state"]) == (1, "running")
    found = Event.objects.get()
    assert body["event"] == public("evt", found.pk)
    assert (found.event_id, found.topic, found.occurred_flagged) == ("evt_1", "task.wanted", False)
    record = world.auto.get("/operations", {"operation_id": "shop:evt_1"}).json()["items"][0]
    assert body["operation"] == record["id"]
    assert record["counters"]["events"] == 1
    assert Entry.objects.get(kind="operation_recorded").actor == "source:shop"


def test_the_same_event_again_is_counted_on_the_same_event(world: World) -> None:
    first = deliver(event(1)).json()
    again = deliver(event(1)).json()
    assert again == first | {"deliveries": 2}
    assert (Event.objects.count(), Operation.objects.count(), Delivery.objects.count()) == (1, 1, 2)
    assert RawBody.objects.count() == 1


def test_blanks_and_compression_make_no_other_event(world: World) -> None:
    deliver(event(1))
    spaced = json.dumps(event(1), indent=2).encode()
    packed = gzip.compress(json.dumps(event(1)).encode())
    assert deliver(spaced).json()["deliveries"] == 2
    answer = deliver(packed, headers=signed(packed) | {"Content-Encoding": "gzip"})
    assert answer.json()["deliveries"] == 3
    assert not Hold.objects.exists()
    assert RawBody.objects.count() == 3


def test_the_answer_changes_when_the_operation_is_settled(world: World) -> None:
    own = deliver(event(1)).json()["operation"]
    world.decide(own)
    answer = deliver(event(1))
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")


def test_the_same_event_id_with_another_body_is_held_and_starts_nothing(world: World) -> None:
    deliver(event(1))
    answer = deliver(event(1, data={"subject": "Something else"}))
    assert (answer.status_code, answer.json()["state"]) == (202, "held")
    hold = Hold.objects.get()
    assert (hold.reason, hold.event_id) == ("event_conflict", Event.objects.get().pk)
    assert (Operation.objects.count(), Delivery.objects.filter(conflict=True).count()) == (1, 1)
    assert json.loads(OperationParams.objects.get().params) == {"subject": "Call"}
    deliver(event(1, data={"subject": "Something else"}))
    assert Hold.objects.count() == 1


def test_an_event_that_can_not_start_its_operation_is_kept_and_held(world: World) -> None:
    answer = deliver(event(1, data={"amount": "ten"}))
    assert (answer.status_code, answer.json()["state"]) == (202, "held")
    hold = Hold.objects.get()
    assert hold.reason == "data_missing"
    assert json.loads(hold.facts)["problems"] == [
        ["params.subject", "is missing"],
        ["params.amount", "must be a number"],
    ]
    assert not Operation.objects.exists()


PRIVATE = "alice.4417@customers.example"
QUOTED_BY_NOBODY: dict[str, tuple[dict[str, Any], str]] = {
    "no number": ({"data": {"subject": "x", "amount": PRIVATE}}, "params.amount"),
    "a number in words, very long": ({"data": {"subject": "x", "amount": PRIVATE * 99}}, "params.amount"),
    "no text but a list": ({"data": {"subject": [PRIVATE]}}, "params.subject"),
    "no text but an object": ({"data": {"subject": {PRIVATE: PRIVATE}}}, "params.subject"),
    "no text but a number": ({"data": {"subject": 4417}}, "params.subject"),
    "too long": ({"data": {"subject": "x", "account": PRIVATE * 999}}, "params.account"),
    "something is missing beside it": ({"data": {"account": PRIVATE}}, "params.subject"),
    "an address as the event's id": ({"id": PRIVATE}, "operation_id"),
    "a telephone number as the event's id": ({"id": "+441632960441"}, "operation_id"),
    "a line break in the event's id": ({"id": f"{PRIVATE}\n"}, "operation_id"),
    "a very long address as the event's id": ({"id": f"{'4417' * 99}{PRIVATE}"}, "operation_id"),
}


@pytest.mark.parametrize(("told", "field"), QUOTED_BY_NOBODY.values(), ids=QUOTED_BY_NOBODY.keys())
def test_a_hold_at_an_event_names_fields_and_quotes_nothing_of_the_payload(
    world: World, told: dict[str, Any], field: str
) -> None:
    answer = deliver(event(1, **told))
    hold = Hold.objects.get()
    assert {path for path, _ in json.loads(hold.facts)["problems"]} == {field}
    kept = [answer.content.decode(), hold.facts, hold.title, hold.if_nobody]
    kept += Entry.objects.values_list("body", flat=True)
    assert not [text for text in kept if re.search("4417|customers|0441", without_digests(text))]


def without_digests(text: str) -> str:
    """Digests and ids hold any four digits now and then."""
    return re.sub(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12,}|(op|evt)_[0-9a-z]{26}", "", text)


@pytest.mark.parametrize("by", ["another body", "another operation"])
def test_a_conflict_at_an_event_quotes_nothing_of_either(world: World, by: str) -> None:
    if by == "another body":
        deliver(event(1, data={"subject": f"Call {PRIVATE}"}))
        deliver(event(1, data={"subject": f"Write {PRIVATE}"}))
        expected = {"other_body"}
    else:
        world.auto.post("/operations", wanted("shop:evt_1", subject=PRIVATE))
        deliver(event(1, data={"subject": f"Write {PRIVATE}"}))
        expected = {"operation", "differs"}
    hold = Hold.objects.get(reason="event_conflict")
    assert set(json.loads(hold.facts)) == expected
    kept = [hold.facts, hold.title, *Entry.objects.values_list("body", flat=True)]
    assert not [text for text in kept if re.search("4417|customers", without_digests(text))]


def test_a_redelivery_after_the_definition_was_mended_starts_it_and_ends_the_hold(world: World) -> None:
    deliver(event(1, data={"title": "Call"}))
    text = DEFINITIONS.replace('subject = "data.subject"', 'subject = "data.title"')
    load(world.cast.launch.pk, read(text), actor="command:test")
    forget_current()
    hooks.forget()
    assert deliver(event(1, data={"title": "Call"})).json()["operation"]
    assert Hold.objects.get().closed_by == "evidence"


def test_what_a_person_judged_is_not_started_by_a_redelivery(world: World) -> None:
    deliver(event(1, data={}))
    hold = world.owner.get("/holds").json()["items"][0]
    body = {"answer": "first_stands", "reason": "a test event"}
    assert world.owner.post(f"/holds/{hold['id']}/settle", body, if_match=1).status_code == 200
    assert deliver(event(1, data={})).status_code == 200
    assert Hold.objects.count() == 1


def test_an_event_that_names_a_taken_operation_is_held(world: World) -> None:
    world.auto.post("/operations", wanted("shop:evt_1", subject="Another"))
    assert deliver(event(1)).json()["state"] == "held"
    facts = json.loads(Hold.objects.get().facts)
    assert (Hold.objects.get().reason, facts["differs"]) == ("event_conflict", ["params.subject"])


def test_an_event_that_an_automation_named_first_is_filled_in_by_its_delivery(world: World) -> None:
    world.record(source_event={"source": "shop", "event_id": "evt_1"})
    answer = deliver(event(1))
    assert answer.json()["deliveries"] == 1
    assert Event.objects.get().topic == "task.wanted"
    assert not Hold.objects.exists()
    assert world.auto.get("/operations/order:1").json()["events"][0]["deliveries"] == 1


def test_other_topics_are_recorded_and_start_nothing(world: World) -> None:
    answer = deliver(event(1, type="task.seen"))
    assert (answer.status_code, answer.json()["operation"], answer.json()["state"]) == (200, None, "recorded")
    assert Event.objects.get().topic == "task.seen"


# Bodies (the intake table)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\\u0000", "\\u2400"), ("\\\\u0000", "\\\\u0000"), ("\\ud83d", "\\ufffd"), ("📦", "\\ud83d\\udce6")],
    ids=["I1 nul", "I1 mere mention", "I2 half a pair", "emoji"],
)
def test_a_text_that_databases_refuse_is_kept_to_the_byte_and_shown_replaced(
    world: World, text: str, shown: str
) -> None:
    raw = f'{{"id":"evt_1","type":"task.wanted","data":{{"subject":"a{text}b"}}}}'.encode()
    answer = deliver(raw)
    assert answer.status_code == 202, answer.content
    assert bytes(RawBody.objects.get().content) == raw
    assert f"a{shown}b" in Event.objects.get().projection
    found = world.auto.get("/operations").json()["items"][0]
    assert found["title"].startswith("Follow up a")


def test_half_a_pair_as_bytes_is_kept_too(world: World) -> None:
    raw = b'{"id":"evt_1","type":"task.wanted","data":{"subject":"\xed\xa0\xbd"}}'
    assert deliver(raw).status_code == 202
    assert bytes(RawBody.objects.get().content) == raw


def test_numbers_keep_their_digits(world: World) -> None:
    """I4: the id is the number's own text, and so is the parameter."""
    raw = b'{"id":9007199254740993,"type":"task.wanted","data":{"subject":"x","amount":1.10}}'
    assert deliver(raw).status_code == 202
    assert Event.objects.get().event_id == "9007199254740993"
    assert '"amount":1.10' in OperationParams.objects.get().params
    assert b'"amount":1.10' in bytes(Step.objects.get(number=1).requests.get().body)


BODIES: list[tuple[str, bytes, str, int, str]] = [
    ("I5 key twice", b'{"id":"a","id":"b","type":"task.wanted"}', "", 400, "duplicate_key"),
    ("I5 key twice inside", b'{"id":"a","data":{"x":1,"x":2}}', "", 400, "duplicate_key"),
    ("I6 20,000 brackets", b"[" * 20_000, "", 400, "depth"),
    ("I6 depth 101", b'{"id":' + b"[" * 100 + b"]" * 100 + b"}", "", 400, "depth"),
    ("I7 utf-16", '{"id":1}'.encode("utf-16-le"), "", 400, "encoding"),
    ("I7 latin-1", b'{"id":"\xe8"}', "", 400, "encoding"),
    ("I8 form", b"payload=%7B%7D", "application/x-www-form-urlencoded", 415, "content_type"),
    ("I8 multipart", b"--x--", "multipart/form-data; boundary=x", 415, "content_type"),
    ("I8 nothing", b"", "", 400, "empty"),
    ("I8 null", b"null", "", 400, "not_an_object"),
    ("I8 list", b"[]", "", 400, "not_an_object"),
    ("no id", b'{"type":"task.wanted"}', "", 400, "event_id_missing"),
]


@pytest.mark.parametrize(
    ("raw", "kind", "status", "reason"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_a_body_that_can_not_be_read_is_refused_with_its_reason_and_counted(
    world: World, raw: bytes, kind: str, status: int, reason: str
) -> None:
    headers = signed(raw) | {"Content-Type": kind or "application/json"}
    answer = deliver(raw, headers=headers, kind=kind or "application/json")
    assert (answer.status_code, answer.json()["code"]) == (status, reason)
    assert refused() == {reason: 1}
    assert Refusal.objects.get().team == world.cast.launch
    assert not Event.objects.exists()


def test_a_byte_order_mark_is_tolerated(world: World) -> None:
    assert deliver(b"\xef\xbb\xbf" + json.dumps(event(1)).encode()).status_code == 202


def test_a_bomb_is_refused_under_the_limit_of_what_it_unpacks_to(world: World) -> None:
    raw = gzip.compress(b'{"id":"' + b"a" * (settings.INTAKE_BODY_BYTES_MAX + 1) + b'"}')
    answer = deliver(raw, headers=signed(raw) | {"Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert str(settings.INTAKE_BODY_BYTES_MAX) in answer.json()["detail"]


@pytest.mark.parametrize("extra", [0, 1], ids=["limit", "limit+1"])
def test_there_is_one_limit_and_it_is_named(world: World, extra: int) -> None:
    raw = json.dumps(event(1)).encode()
    raw += b" " * (settings.INTAKE_BODY_BYTES_MAX + extra - len(raw))
    answer = deliver(raw)
    assert answer.status_code == (413 if extra else 202)
    assert refused() == ({"body_too_large": 1} if extra else {})


def test_a_forms_field_is_unwrapped_where_the_source_says_so(world: World) -> None:
    raw = f"payload={quote(json.dumps({'a': 1}))}".encode()
    source = next(one for one in read(DEFINITIONS) if one.slug == "board")
    from opsledger.sources.profiles import completed

    headers = sign(completed(source).signature, SECRET, raw) | {"X-GitHub-Delivery": "d-1"}
    headers |= {"Content-Type": "application/x-www-form-urlencoded"}
    slug = f"src_{_board(world)}"
    answer = deliver(raw, headers=headers, source=slug, kind="application/x-www-form-urlencoded")
    assert answer.status_code == 200, answer.content
    assert Event.objects.get().event_id == "d-1"


def _board(world: World) -> str:
    from opsledger.ledger.models import Definition

    found = Definition.objects.get(team=world.cast.launch, slug="board")
    return public("src", found.pk).removeprefix("src_")


# Signatures


@pytest.mark.parametrize(
    "raw",
    [
        '{"id":"evt_1","type":"x","data":"📦"}'.encode(),
        b'{"id":"evt_1","type":"x","data":"\\u001B"}',
        '{"id":"evt_1","type":"x","data":"\u2028"}'.encode(),
        b'{ "id" :"evt_1",   "type":"x" }',
    ],
    ids=["emoji", "upper-case escape", "line separator", "odd spacing"],
)
def test_the_signature_is_over_the_exact_bytes(world: World, raw: bytes) -> None:
    """S1."""
    assert deliver(raw).status_code == 200
    assert deliver(raw.replace(b":", b": ", 1), headers=signed(raw)).status_code == 401
    assert refused() == {"signature_mismatch": 1}


def test_any_active_secret_may_have_signed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: while secrets rotate, unknown schemes are ignored, and an ended secret is refused."""
    monkeypatch.setenv("API_TEST_SECRET_OLD", "the old secret")
    monkeypatch.setenv("API_TEST_SECRET_ENDED", "the ended secret")
    hooks.forget()
    raw = json.dumps(event(1)).encode()
    now = int(time.time())
    new, old, ended = (
        signed(raw, secret, at=now)["X-Signature"]
        for secret in (SECRET, "the old secret", "the ended secret")
    )
    entries = [new.split(",")[1], old.split(",")[1], "v0=garbage"]
    for order in ([0, 1, 2], [2, 1], [1, 2, 0]):
        header = ",".join([f"t={now}", *(entries[index] for index in order)])
        assert deliver(raw, headers={"X-Signature": header}).status_code == 202
    assert set(Delivery.objects.values_list("secret_name", flat=True)) == {
        "API_TEST_SECRET",
        "API_TEST_SECRET_OLD",
    }
    assert deliver(raw, headers={"X-Signature": ended}).status_code == 401
    assert refused() == {"secret_expired": 1}


@pytest.mark.parametrize(
    "header",
    ["t=1,v1=\xe9", "\xe9", "", "v1=00", "t=1,v1=zz", "t=99999999999999999999,v1=00"],
    ids=["not ascii", "one byte", "empty", "no time", "no hex", "far time"],
)
def test_a_signature_header_of_any_form_is_a_401_and_counted(world: World, header: str) -> None:
    """S4."""
    answer = deliver(event(1), headers={"X-Signature": header})
    assert answer.status_code == 401
    assert sum(refused().values()) == 1
    assert not Event.objects.exists()


def test_a_repeated_signature_header_is_refused(world: World) -> None:
    raw = json.dumps(event(1)).encode()
    one = signed(raw)["X-Signature"]
    assert deliver(raw, headers={"X-Signature": one}).status_code == 202
    other = one.replace("v1=", "v1=00")
    assert deliver(raw, headers={"X-Signature": f"{other}, {other}"}).status_code == 401


def test_an_old_signature_is_refused(world: World) -> None:
    raw = json.dumps(event(1)).encode()
    assert deliver(raw, headers=signed(raw, at=int(time.time()) - 301)).status_code == 401
    assert refused() == {"timestamp_outside": 1}


def test_without_its_secret_a_source_asks_to_try_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_TEST_SECRET")
    hooks.forget()
    answer = deliver(event(1))
    assert (answer.status_code, answer["Retry-After"]) == (503, "60")


# Which source


@pytest.mark.parametrize("name", ["nothing", "crm", "SHOP", "src_" + "0" * 26, "a%00b", "é"])
def test_an_unknown_source_is_a_404_that_tells_nothing_more(world: World, name: str) -> None:
    answer = deliver(event(1), source=name)
    assert answer.status_code == 404
    assert answer.json()["detail"] == "There is no such source."
    assert refused("") == {"unknown_source": 1}


ELSEWHERE = "the secret of the other team"


@pytest.fixture
def two_shops(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Another team has a source of the same name, with a secret of its own."""
    monkeypatch.setenv("ELSEWHERE_SECRET", ELSEWHERE)
    text = DEFINITIONS.replace('"API_TEST_SECRET"', '"ELSEWHERE_SECRET"')
    load(world.cast.returns.pk, [one for one in read(text) if one.slug == "shop"], actor="command:test")
    forget_current()
    hooks.forget()
    return world


def counted() -> set[tuple[str, str, int]]:
    return set(Refusal.objects.values_list("team__slug", "reason", "count"))


@pytest.mark.parametrize(("secret", "whose"), [(SECRET, "launch"), (ELSEWHERE, "returns")])
def test_of_two_sources_with_one_name_the_signature_says_whose_delivery_it_is(
    two_shops: World, secret: str, whose: str
) -> None:
    raw = json.dumps(event(1)).encode()
    answer = deliver(raw, headers=signed(raw, secret))
    assert answer.status_code == 202, answer.content
    assert Event.objects.get().team == getattr(two_shops.cast, whose)
    assert Operation.objects.get().team == getattr(two_shops.cast, whose)
    assert counted() == set()


def test_both_may_tell_of_the_same_event_id_and_it_is_two_events(two_shops: World) -> None:
    raw = json.dumps(event(1)).encode()
    for secret in (SECRET, ELSEWHERE):
        assert deliver(raw, headers=signed(raw, secret)).json()["deliveries"] == 1
    assert Event.objects.values("team").distinct().count() == 2


def test_a_signature_of_neither_is_refused_and_counted_by_both(two_shops: World) -> None:
    raw = json.dumps(event(1)).encode()
    answer = deliver(raw, headers=signed(raw, "nobody's"))
    assert (answer.status_code, answer.json()["code"]) == (401, "signature_mismatch")
    teams = (two_shops.cast.launch.slug, two_shops.cast.returns.slug)
    assert counted() == {(team, "signature_mismatch", 1) for team in teams}
    assert not Event.objects.exists()


def test_what_only_the_right_source_refuses_is_counted_there_alone(two_shops: World) -> None:
    raw = b'{"type":"task.wanted"}'
    answer = deliver(raw, headers=signed(raw, ELSEWHERE))
    assert (answer.status_code, answer.json()["code"]) == (400, "event_id_missing")
    assert counted() == {(two_shops.cast.returns.slug, "event_id_missing", 1)}


def test_where_one_secret_is_not_configured_the_sender_tries_again(
    two_shops: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELSEWHERE_SECRET")
    hooks.forget()
    raw = json.dumps(event(1)).encode()
    assert deliver(raw, headers=signed(raw, ELSEWHERE)).status_code == 503
    assert deliver(raw).status_code == 202


def test_two_sources_with_one_name_and_one_secret_are_not_guessed_between(
    two_shops: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELSEWHERE_SECRET", SECRET)
    hooks.forget()
    answer = deliver(event(1))
    assert (answer.status_code, answer.json()["code"]) == (409, "several_sources")
    assert "src_" in answer.json()["todo"]
    teams = (two_shops.cast.launch.slug, two_shops.cast.returns.slug)
    assert counted() == {(team, "several_sources", 1) for team in teams}
    assert not Event.objects.exists()

    own = two_shops.cast.returns.definition_set.get(slug="shop")
    assert deliver(event(1), source=public("src", own.pk)).status_code == 202
    assert Event.objects.get().team == two_shops.cast.returns


def test_too_large_a_body_is_counted_by_all_of_that_name(two_shops: World) -> None:
    assert deliver(b" " * (settings.INTAKE_BODY_BYTES_MAX + 1)).status_code == 413
    assert {reason for _, reason, _ in counted()} == {"body_too_large"}
    assert len(counted()) == 2


def test_a_source_is_reached_by_its_public_id(world: World) -> None:
    from opsledger.ledger.models import Definition

    found = Definition.objects.get(slug="shop")
    assert deliver(event(1), source=public("src", found.pk)).status_code == 202


def test_only_post_is_taken_and_no_csrf_is_asked_for(world: World) -> None:
    answer = LaneClient().get("/hooks/shop")
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    raw = json.dumps(event(1)).encode()
    strict = LaneClient(enforce_csrf_checks=True)
    found = strict.post("/hooks/shop", raw, content_type="application/json", headers=signed(raw))
    assert found.status_code == 202


@pytest.mark.parametrize("told", ["2026-02-30", "2026-03-01T09:00:00", -1, 0, 99999999999999], ids=str)
def test_an_implausible_time_is_kept_as_text_and_flagged(world: World, told: Any) -> None:
    """I16."""
    assert deliver(event(1, at=told)).status_code == 202
    found = Event.objects.get()
    assert (found.occurred_at, found.occurred_text, found.occurred_flagged) == (None, str(told), True)


def test_milliseconds_are_understood(world: World) -> None:
    deliver(event(1, at=1767267099257))
    found = Event.objects.get()
    assert found.occurred_at is not None
    assert found.occurred_at.year == 2026


def test_long_ids_that_share_their_beginning_stay_two(world: World) -> None:
    """I15."""
    common = "x" * 2_900
    for end in ("a" * 100, "b" * 100):
        body = event(1, id=common + end, type="task.seen")
        assert deliver(body).status_code == 200
    assert Event.objects.count() == 2

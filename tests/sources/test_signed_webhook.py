"""From one delivery to what happened: which event, when, which operation with which parameters."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from opsledger.lib import strict_json
from opsledger.sources.refusals import Refusal
from opsledger.sources.registry import answer_status, check_source, receive
from opsledger.sources.signed_webhook import Occurrence
from opsledger.sources.times import read_time

from .senders import NOW, delivery, secret, source

SHOP = source()
BY_BODY = source(event_id="body:event.id", occurred_at="body:at")


def answer(raw: bytes | dict[str, Any], of: Any = SHOP, **sent: Any) -> Occurrence | Refusal:
    raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    return receive(of, delivery(of, raw, **sent), raw, NOW, [secret()], bytes_max=100_000)


def told(raw: bytes | dict[str, Any], of: Any = SHOP, **sent: Any) -> Occurrence:
    occurrence = answer(raw, of, **sent)
    assert isinstance(occurrence, Occurrence), occurrence
    return occurrence


def refused(raw: bytes | dict[str, Any], of: Any = SHOP, **sent: Any) -> tuple[int, str]:
    refusal = answer(raw, of, **sent)
    assert isinstance(refusal, Refusal), refusal
    return refusal.status, refusal.reason


def test_a_delivery_says_what_happened() -> None:
    raw = (
        b'{"type":"answered","timestamp":"2026-11-03T11:59:00Z","data":{"subject":" Ring \\u0000","n":1.10}}'
    )
    assert told(raw) == Occurrence(
        event_id="evt_1",
        topic="answered",
        occurred_at=datetime(2026, 11, 3, 11, 59, tzinfo=UTC),
        occurred_text="2026-11-03T11:59:00Z",
        flagged=False,
        operation_id="shop:evt_1",
        params={"subject": " Ring \x00"},
        said='{"data":{"n":1.10,"subject":" Ring \\u0000"},"timestamp":"2026-11-03T11:59:00Z","type":"answered"}',
        projection={
            "type": "answered",
            "timestamp": "2026-11-03T11:59:00Z",
            "data": {"subject": " Ring \u2400", "n": strict_json.Number("1.10")},
        },
        secret_name="SHOP_SECRET",
    )


def test_the_signature_comes_before_everything_but_the_size() -> None:
    raw = b"\xff not JSON"
    assert receive(SHOP, [], raw, NOW, [secret()], bytes_max=100).status == 401  # type: ignore[union-attr]
    assert receive(SHOP, [], b"x" * 101, NOW, [secret()], bytes_max=100).status == 413  # type: ignore[union-attr]
    assert refused(raw) == (400, "encoding")


def test_a_packed_body_is_verified_packed() -> None:
    packed = gzip.compress(b'{"data":{"subject":"x"}}')
    assert told(packed, content_encoding="gzip").params == {"subject": "x"}
    headers = delivery(SHOP, b'{"data":{"subject":"x"}}', content_encoding="gzip")
    assert receive(SHOP, headers, packed, NOW, [secret()], bytes_max=100).status == 401  # type: ignore[union-attr]


# Identity

PAIRS = {
    "letter case": ("a9UGNy", "a9UGNY"),
    "a trailing blank": ("id", "id "),
    "composed and decomposed": ("\u00fc", "u\u0308"),
    "15 and 18 characters": ("001A0000006Vm9r", "001A0000006Vm9rIAC"),
    "a long common beginning": ("x" * 2900 + "a" * 100, "x" * 2900 + "b" * 100),
    "a number and its text with a zero": ("12", "012"),
}


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=PAIRS.keys())
def test_ids_are_opaque_and_exact(first: str, second: str) -> None:
    of = source(event_id="body:id", starts="", operation_id="")
    assert [told({"id": one}, of).event_id for one in (first, second)] == [first, second]


def test_an_id_may_be_a_number_of_any_size() -> None:
    of = source(event_id="body:id")
    assert told(b'{"id":90071992547409931234}', of).operation_id == "shop:90071992547409931234"


@pytest.mark.parametrize(
    "value", ["", None, True, [], {}, "x" * 4001, "a\x00", "\ud83d"], ids=lambda value: ascii(value)[:12]
)
def test_an_event_without_a_usable_id_is_refused(value: Any) -> None:
    status, reason = refused({"id": value}, source(event_id="body:id"))
    assert status == 400
    assert reason.startswith("event_id_")


UNNAMED: dict[str, tuple[str, dict[str, Any], str]] = {
    "beyond the limit": ("shop:{event.id}", {"id": "x" * 196}, "must have 1 to 200 characters; this one has 201"),
    "not printable": ("shop:{event.id}", {"id": "a\nb"}, "must hold printable characters only; this one holds U+000A"),
    "the number of an operation": (
        "{event.id}", {"id": "op_00000000000000000000000017"},
        "must not read as the number of an operation, op_ and 26 characters: those are given here",
    ),
    "an address": (
        "{body.who}", {"id": "1", "who": "jon@doe.example"},
        "must not hold an e-mail address: no personal data in identities",
    ),
    "its value is missing": (
        "{body.order}", {"id": "1"},
        "can't be made: the event has no body.order, which its operation is named after",
    ),
    "its value is a list": (
        "{body.order}:{event.id}", {"id": "1", "order": ["7"]},
        "can't be made: the event has no body.order, which its operation is named after",
    ),
    "its value is empty": (
        "{body.order}", {"id": "1", "order": ""},
        "can't be made: the event has no body.order, which its operation is named after",
    ),
    "its value holds NUL": (
        "{body.order}", {"id": "1", "order": "a\x00"},
        "must hold printable characters only; this one holds U+0000",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("template", "raw", "why"), UNNAMED.values(), ids=UNNAMED.keys())
def test_an_event_whose_operation_can_not_be_named_is_no_refusal_and_says_why(
    template: str, raw: dict[str, Any], why: str
) -> None:
    of = source(event_id="body:id", operation_id=template)
    one = told(raw, of)
    assert (one.event_id, one.operation_id, one.unnamed) == (raw["id"], "", (why,))
    nothing = told(raw, source(event_id="body:id", operation_id=template, topics=["answered"]))
    assert (nothing.operation_id, nothing.unnamed) == ("", ())


def test_an_operation_id_at_its_limit_is_taken_and_values_are_never_looked_at_again() -> None:
    assert told({"id": "x" * 195}, source(event_id="body:id")).operation_id == "shop:" + "x" * 195
    of = source(event_id="body:id", operation_id="{body.order}")
    assert told({"id": "1", "order": "{event.id}"}, of).operation_id == "{event.id}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a", "b:c"), ("a:b", "c")),
        (("a/", "b"), ("a", "/b")),
        (("a%3A", "b"), ("a:", "b")),
        (("\u00fc", "x"), ("u\u0308", "x")),
    ],
    ids=str,
)
def test_values_put_together_never_meet(first: tuple[str, str], second: tuple[str, str]) -> None:
    of = source(event_id="body:id", operation_id="{body.shop}:{event.id}")
    ids = [told({"shop": shop, "id": name}, of).operation_id for shop, name in (first, second)]
    assert ids[0] != ids[1]


# Topics and parameters


def test_only_named_topics_start_something() -> None:
    of = source(topics=["answered"])
    assert told({"type": "answered"}, of).operation_id == "shop:evt_1"
    for topic in ("Answered", "answered ", None, 5):
        other = told({"type": topic, "data": {"subject": "x"}}, of)
        assert (other.operation_id, other.params) == ("", {})


def test_params_are_found_by_path_and_absent_ones_left_out() -> None:
    of = source(
        params={
            "a": "items.1.id",
            "b": "body:x",
            "c": "header:X-Shop",
            "d": "items.2",
            "e": "gone.x",
            "f": "null",
        }
    )
    raw = b'{"items":[{"id":1},{"id":2.50}],"x":{"y":1},"null":null}'
    params = told(raw, of, X_Shop="harbour").params
    assert {name: str(value) for name, value in params.items()} == {
        "a": "2.50",
        "b": "{'y': 1}",
        "c": "harbour",
    }


# Times

PLAUSIBLE = {
    "zone": ("2026-11-03T10:00:00+02:00", "2026-11-03T08:00:00"),
    "zulu": ("2026-11-03T10:00:00Z", "2026-11-03T10:00:00"),
    "lower case": ("2026-11-03t10:00:00z", "2026-11-03T10:00:00"),
    "no seconds": ("2026-11-03T10:00Z", "2026-11-03T10:00:00"),
    "seven digits": ("2026-11-03T10:00:00.1234567Z", "2026-11-03T10:00:00.123456"),
    "nine digits": ("2026-11-03T10:00:00.480992003Z", "2026-11-03T10:00:00.480992"),
    "epoch": (1767267099, "2026-01-01T11:31:39"),
    "epoch in milliseconds": (1767267099257, "2026-01-01T11:31:39.257000"),
    "epoch in microseconds": (1767267099257000, "2026-01-01T11:31:39.257000"),
    "epoch in nanoseconds": (1767267099257000000, "2026-01-01T11:31:39.257000"),
    "epoch as text": ("1767267099", "2026-01-01T11:31:39"),
    "epoch with a fraction": (strict_json.Number("1521472262.000002"), "2018-03-19T15:11:02.000002"),
    "within a day ahead": ("2026-11-04T11:59:59Z", "2026-11-04T11:59:59"),
}


@pytest.mark.parametrize(("value", "moment"), PLAUSIBLE.values(), ids=PLAUSIBLE.keys())
def test_a_plausible_time_is_read(value: Any, moment: str) -> None:
    read = read_time(value, NOW)
    assert read is not None
    assert read.isoformat() == f"{moment}+00:00"


IMPLAUSIBLE = [
    *(-1, 0, 10**30, True, [], {"a": 1}, strict_json.Number("1e9")),
    *(
        "2026-02-30T10:00:00Z",
        "2026-02-30",
        "2026-11-03T10:00:00",
        "2026-11-05T12:00:00Z",
        "1999-12-31T23:59:59Z",
    ),
    *(
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00",
        "2026-11-03T10:00:00+99:99",
        "2026-11-03T25:00:00Z",
    ),
    *("yesterday", "\u0661767267099", "1e9", "NaN"),
]


@pytest.mark.parametrize("value", IMPLAUSIBLE, ids=lambda value: ascii(value)[:24])
def test_an_implausible_time_is_kept_as_text_and_flagged(value: Any) -> None:
    raw = strict_json.dumps({"event": {"id": "e"}, "at": value}).encode()
    occurrence = told(raw, BY_BODY)
    assert (occurrence.occurred_at, occurrence.flagged) == (None, True)
    assert occurrence.occurred_text == (value if isinstance(value, str) else strict_json.dumps(value))


def test_a_time_of_great_length_is_shortened() -> None:
    occurrence = told({"event": {"id": "e"}, "at": "x" * 90_000}, BY_BODY)
    assert (len(occurrence.occurred_text), occurrence.flagged) == (201, True)
    assert told({"event": {"id": "e"}, "at": ""}, BY_BODY).occurred_text == '""'


def test_an_event_that_tells_no_time_is_not_flagged() -> None:
    occurrence = told({"event": {"id": "e"}}, BY_BODY)
    assert (occurrence.occurred_at, occurrence.occurred_text, occurrence.flagged) == (None, "", False)


def test_what_is_stored_beside_the_event_can_be_stored() -> None:
    occurrence = told(b'{"event":{"id":"e"},"at":"\\u0000\\ud83d","type":"a\\u0000"}', BY_BODY)
    assert (occurrence.occurred_text, occurrence.topic) == ("\u2400\ufffd", "a\u2400")


# Registry


def test_a_kind_or_profile_that_does_not_exist_is_told_by_name() -> None:
    assert check_source(SHOP) == []
    assert check_source(replace(SHOP, delivery="strip")) == [
        ("source.shop.delivery", "is not a known profile; did you mean stripe?")
    ]
    assert check_source(replace(SHOP, kind="signed_webhok")) == [
        ("source.shop.kind", "is not a known kind; did you mean signed_webhook?")
    ]


def test_each_source_hears_what_it_wants() -> None:
    flow = source(delivery="shopify_flow")
    assert (answer_status(flow, done=False), answer_status(flow, done=True)) == (202, 200)
    assert (answer_status(SHOP, done=False), answer_status(SHOP, done=True)) == (200, 200)
    assert answer_status(source(answer_while_open=202), done=False) == 202


def test_a_late_delivery_is_a_retry_not_a_replay() -> None:
    """A sender that retries for hours signs each attempt anew; the event's own time may be old."""
    raw = {"type": "answered", "timestamp": "2026-11-01T00:00:00Z"}
    assert told(raw).occurred_at == NOW - timedelta(days=2, hours=12)

"""Hostile and unusual JSON: one reading, every digit, no crash."""

from __future__ import annotations

import json
import pickle
import time
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsledger.lib.strict_json import BadJson, Number, dumps, loads, loads_stored, projection


def refused(raw: bytes, **limits: Any) -> BadJson:
    with pytest.raises(BadJson) as told:
        loads(raw, **limits)
    assert told.value.sentence.endswith(".")
    return told.value


@pytest.mark.parametrize(
    "raw",
    [
        b'{"event_id":"A","event_id":"B","amount":1,"amount":900}',
        b'{"data":{"id":1,"x":{},"id":1}}',
        b'[[{"a":1,"\\u0061":2}]]',
        b'{"\\ud83d":1,"\xed\xa0\xbd":2}',
        b'{"":1,"":2}',
    ],
    ids=repr,
)
def test_a_key_twice_in_one_object_is_refused_at_any_level(raw: bytes) -> None:
    assert refused(raw).reason == "duplicate_key"


def test_the_same_key_in_two_objects_is_no_duplicate() -> None:
    assert loads(b'{"a":{"a":1},"b":[{"a":2},{"a":3}]}') == {"a": {"a": 1}, "b": [{"a": 2}, {"a": 3}]}


def test_the_duplicate_is_named_and_shortened() -> None:
    assert '"event_id"' in refused(b'{"event_id":1,"x":2,"event_id":3}').sentence
    assert len(refused(b'{"%s":1,"%s":2}' % (b"k" * 5000, b"k" * 5000)).sentence) < 200


@pytest.mark.parametrize(
    ("raw", "fits"),
    [
        (b"[" * 99 + b"]" * 99, True),
        (b"[" * 100 + b"]" * 100, True),
        (b"[" * 101 + b"]" * 101, False),
        (b"[" * 20_000, False),
        (b"[" * 20_000 + b"]" * 20_000, False),
        (b'{"a":' * 101 + b"1" + b"}" * 101, False),
        (b'[{"a":' * 50 + b"1" + b"}]" * 50, True),
        (b'[{"a":' * 51 + b"1" + b"}]" * 51, False),
        (b"[" + b",".join([b"[[]]"] * 500) + b"]", True),  # many, but not deep
        (b'["' + b"[{" * 500 + b'"]', True),  # in a text they are no brackets
        (b'["\\"' + b"[" * 500 + b'"]', True),
        (b'["\\\\",' + b"[" * 101 + b"]" * 102, False),
        (b'["\xe2\x80\xa8",' + b"[" * 101 + b"]" * 102, False),
    ],
    ids=lambda value: repr(value[:12]) if isinstance(value, bytes) else None,
)
def test_the_depth_has_a_limit_of_its_own(raw: bytes, fits: bool) -> None:
    if fits:
        loads(raw)
    else:
        assert refused(raw).reason == "depth"


def test_a_text_that_never_ends_is_read_once() -> None:
    raw = b"[[[[" * 30 + b'"' + b'\\"' * 400_000
    started = time.process_time()
    assert refused(raw).reason == "depth"
    assert refused(b"[[[[" * 30 + b"]" * 120 + b'"' + b'\\"' * 400_000 + b"\\").reason == "depth"
    assert time.process_time() - started < 2


def test_the_depth_limit_is_the_callers() -> None:
    assert loads(b"[[1]]", depth_max=2) == [[1]]
    assert refused(b"[[[1]]]", depth_max=2).reason == "depth"


VALUES = st.recursive(
    st.text(alphabet='ab"\\\\[]{}\u00e9', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('[]{}"\\\\a', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@settings(max_examples=300)
@given(VALUES, st.integers(0, 5))
def test_what_stands_in_texts_is_no_depth(value: Any, depth_max: int) -> None:
    raw = json.dumps(value).encode()
    if depth_of(value) <= depth_max:
        assert loads(raw, depth_max=depth_max) == value
    else:
        assert refused(raw, depth_max=depth_max).reason == "depth"


@settings(max_examples=60)
@given(st.binary(max_size=40), st.integers(90, 110))
def test_no_bytes_crash_the_reader(junk: bytes, depth: int) -> None:
    for raw in (junk, b"[" * depth + junk + b"]" * depth, b'{"a":"' + junk + b'"}'):
        with suppress(BadJson):
            json.loads(dumps(projection(loads(raw))).encode("utf-8"))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b" \r\n\t", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        ('{"a":1}'.encode("utf-16-le"), "encoding"),
        ('{"a":1}'.encode("utf-16"), "encoding"),
        ('{"a":1}'.encode("utf-32-be"), "encoding"),
        (b'{"name":"caf\xe8"}', "encoding"),
        (b'{"a":"\xc0\xaf"}', "encoding"),
        (b'{"a":NaN}', "syntax"),
        (b'{"a":Infinity}', "syntax"),
        (b'{"a":-Infinity}', "syntax"),
        (b'{"a":1}{"b":2}', "syntax"),
        (b'{"a":01}', "syntax"),
        (b'{"a":1,}', "syntax"),
        (b"{'a':1}", "syntax"),
        (b'{"a":"\x00"}', "syntax"),
        (b'{"a":"line\nbreak"}', "syntax"),
        (b'{"a":"\\x41"}', "syntax"),
        (b'{"a":1', "syntax"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "syntax"),
        ("{\u00a0}".encode(), "syntax"),
        ('{"a":\u0665}'.encode(), "syntax"),
        (b"<html>", "syntax"),
        (b"9" * 4301, "number"),
        (b"0." + b"9" * 4300, "number"),
        (b"1e999999999999999999999", "number"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else value,
)
def test_what_is_not_our_json_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    assert refused(raw).reason == reason


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"\xef\xbb\xbf{}", {}),
        (b"null", None),
        (b"[]", []),
        (b' "x" ', "x"),
        (b"\n5\r\n", 5),
        (b"true", True),
    ],
    ids=repr,
)
def test_every_json_value_is_read(raw: bytes, value: Any) -> None:
    assert loads(raw) == value


@pytest.mark.parametrize(
    "digits",
    [
        "9007199254740993",
        "12345678901234567.89",
        "1.10",
        "1e2",
        "1E+2",
        "-0",
        "-0.0",
        "0e0",
        "1e999999",
        "0.00000001",
        "9" * 4300,
    ],
    ids=lambda text: text[:20],
)
def test_a_number_keeps_its_digits(digits: str) -> None:
    value = loads(digits.encode())
    assert str(value) == digits
    assert dumps(value) == digits
    assert dumps(loads_stored(dumps({"n": [value]}))) == f'{{"n":[{digits}]}}'


def test_numbers_compare_and_travel_as_numbers() -> None:
    value = loads(b"1.10")
    assert value == Decimal("1.1")
    assert str(pickle.loads(pickle.dumps(value))) == "1.10"  # noqa: S301  our own bytes
    assert repr(value) == "Number('1.10')"


def test_nul_shows_and_the_text_of_its_escape_stays() -> None:
    value = loads(rb'{"a":"x\u0000y","b":"x\\u0000y","c\u0000":["\u0000"]}')
    assert value == {"a": "x\x00y", "b": "x\\u0000y", "c\x00": ["\x00"]}
    assert projection(value) == {"a": "x\u2400y", "b": "x\\u0000y", "c\u2400": ["\u2400"]}
    assert value["a"] == "x\x00y", "the value itself is untouched"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (b'"a\xed\xa0\xbdb"', "a\ufffdb"),
        (b'"\xed\xa0\xbd\xed\xb8\x80"', "\ufffd\ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (b'"\xf0\x9f\x98\x80"', "\U0001f600"),
        (rb'"\\ud83d"', "\\ud83d"),
        (b'"\xef\xbf\xbd"', "\ufffd"),
    ],
    ids=repr,
)
def test_half_a_surrogate_pair_is_kept_and_shown_replaced(raw: bytes, shown: str) -> None:
    value = loads(raw)
    assert projection(value) == shown
    projection(value).encode("utf-8")
    assert projection(loads(dumps(value).encode())) in {shown, "\U0001f600"}


def test_keys_that_would_look_the_same_stay_two() -> None:
    value = loads(rb'{"a\u0000":1,"a\u2400":2,"\ud800":3,"\udfff":4}')
    assert projection(value) == {"a\u2400\ufffd": 1, "a\u2400": 2, "\ufffd": 3, "\ufffd\ufffd": 4}


def test_an_exponent_that_no_database_holds_is_shown_as_text() -> None:
    shown = projection(loads(b'{"a":1e999999,"b":1e-5000,"c":1e5,"d":0e9999}'))
    assert (shown["a"], shown["b"]) == ("1e999999", "1e-5000")
    assert isinstance(shown["c"], Number)


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_dumps_and_loads_agree(value: Any) -> None:
    shown = projection(value)
    assert loads(dumps(value).encode()) == shown
    assert json.loads(dumps(value)) == shown


@settings(max_examples=300)
@given(
    st.recursive(
        st.text(st.sampled_from("a\x00\u2400\ud83d\ude00\ufffd\U0001f600é"), max_size=4),
        lambda x: (
            st.lists(x) | st.dictionaries(st.text(st.sampled_from("a\x00\u2400\ud83d\ufffd"), max_size=3), x)
        ),
    )
)
def test_what_dumps_writes_any_strict_reader_takes(value: Any) -> None:
    """No half of a surrogate pair, no NUL, and no key twice, though two look the same when they are shown."""
    text = dumps(value)
    assert text.isascii()
    assert loads(text.encode()) == projection(value)
    assert not set("\x00\ud83d\ude00") & set(json.dumps(json.loads(text), ensure_ascii=False))


def test_dumps_refuses_what_json_can_not_say() -> None:
    for value in (float("nan"), Decimal("NaN")):
        with pytest.raises((ValueError, TypeError)):
            dumps(value)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"a":"' + b"[" * 500 + b'"}', ""),
        (b'{"a":"' + b'[\\"[\\\\' * 500 + b'"}', ""),
        (b'["\\\\",' + b"[" * 500, "depth"),
        (b'["\\"",' + b"[" * 500, "depth"),
        (b'["\\\\\\"[",' + b"[" * 500, "depth"),
        (b'["never ends ' + b"[" * 500, "syntax"),
        (b'[\\"' + b"[" * 100_000, "depth"),
        (b'\\"' + b"[" * 100_000 + b'"', "depth"),
        (b"[" * 100_000 + b'\\"', "depth"),
        (b'"' + b"\\" * 100_001 + b"[" * 500, "syntax"),
    ],
    ids=lambda raw: repr(raw[:12]) if isinstance(raw, bytes) else raw,
)
def test_only_brackets_outside_of_texts_are_depth(raw: bytes, reason: str) -> None:
    if not reason:
        assert loads(raw)
        return
    with pytest.raises(BadJson) as refused:
        loads(raw)
    assert refused.value.reason == reason

"""Reading the JSON of a reply: what could be understood in two ways is not understood at all."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.rules.reading import ABSENT, Number, Unreadable, at, read_json, reference_at, text_at

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

UNREADABLE = {
    "empty": (b"", "it is not JSON"),
    "a page": (b"<html>", "it is not JSON"),
    "cut off": (b'{"id": "a', "it is not JSON"),
    "the same key twice": (b'{"id": 1, "id": 2}', "it has the same key twice in one object"),
    "the same key twice, one level down": (
        b'{"a": {"id": 1, "id": 2}}',
        "it has the same key twice in one object",
    ),
    "20,000 brackets": (b"[" * 20_000, "it is nested more than 100 deep"),
    "depth 101": (b"[" * 101 + b"]" * 101, "it is nested more than 100 deep"),
    "depth 101 after a string with a quote": (
        b'{"\\"[": ' + b"[" * 100 + b"]" * 100 + b"}",
        "it is nested more than 100 deep",
    ),
    "not a number": (b'{"a": NaN}', "it holds NaN, which is not JSON"),
    "infinity": (b'{"a": -Infinity}', "it holds -Infinity, which is not JSON"),
    "Latin-1": (b'"\xe8"', "it is not UTF-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16-le"), "it is not JSON"),
    "half a surrogate pair in raw bytes": (b'"\xed\xa0\xbd"', "it is not UTF-8"),
}


@pytest.mark.parametrize(("body", "why"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_body_can_not_be_read(body: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=f"^{why}$"):
        read_json(body)


def test_depth_99_a_byte_order_mark_and_brackets_inside_text_are_read() -> None:
    assert read_json(b"[" * 99 + b"]" * 99)
    assert read_json(b'\xef\xbb\xbf{"a": true}') == {"a": True}
    assert read_json(b'"' + b"[" * 500 + b'"') == "[" * 500


def test_numbers_keep_their_text() -> None:
    document = read_json(
        b'{"id": 9007199254740993, "total": 12345678901234567.89, "price": 1.10, "text": "1"}'
    )
    assert text_at(document, "id") == "9007199254740993"
    assert text_at(document, "total") == "12345678901234567.89"
    assert text_at(document, "price") == "1.10"
    assert isinstance(at(document, "price"), Number)
    assert not isinstance(at(document, "text"), Number)
    assert text_at(read_json(b"1" * 10_000), "") == "1" * 10_000


PATHS = {
    "a field": ("a", {"b": ["x", {"c": "y"}]}),
    "the document": ("", None),
    "a place in a list": ("a.b.0", "x"),
    "a field of a list's item": ("a.b.1.c", "y"),
    "beyond a list": ("a.b.2", ABSENT),
    "a name where a list stands": ("a.b.c", ABSENT),
    "a minus": ("a.b.-1", ABSENT),
    "below text": ("a.b.0.x", ABSENT),
    "nothing": ("z", ABSENT),
    "null": ("n", None),
}


@pytest.mark.parametrize(("path", "found"), PATHS.values(), ids=PATHS.keys())
def test_a_path_leads_to(path: str, found: object) -> None:
    document = read_json(b'{"a": {"b": ["x", {"c": "y"}]}, "n": null}')
    assert at(document, path) == (document if path == "" else found)


REFERENCES = {
    "text": (b'"T-1"', "T-1"),
    "text with a blank at its end": (b'"T-1 "', "T-1 "),
    "a whole number": (b"9007199254740993", "9007199254740993"),
    "empty text": (b'""', None),
    "blanks": (b'"  "', None),
    "null": (b"null", None),
    "true": (b"true", None),
    "a list": (b'["T-1"]', None),
    "an object": (b"{}", None),
    "a NUL": (rb'"T\u0000"', None),
    "half a surrogate pair": (rb'"\ud83d"', None),
    "a whole surrogate pair": (rb'"\ud83d\ude00"', "😀"),
}


@pytest.mark.parametrize(("value", "found"), REFERENCES.values(), ids=REFERENCES.keys())
def test_a_reference_is(value: bytes, found: str | None) -> None:
    document = read_json(b'{"id": ' + value + b"}")
    assert reference_at(document, "id") == found
    assert reference_at(document, "") is None


def test_true_and_false_are_words_and_null_is_no_text() -> None:
    document = read_json(b'{"ok": false, "on": true, "none": null, "list": []}')
    texts = [text_at(document, path) for path in ("ok", "on", "none", "list", "absent")]
    assert texts == ["false", "true", None, None, None]


@UNHURRIED
@given(st.binary() | st.text(alphabet='"\\[]{}:,1e-. a').map(str.encode))
def test_only_unreadable_is_ever_raised(body: bytes) -> None:
    try:
        read_json(body)
    except Unreadable:
        return


@UNHURRIED
@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_what_was_written_is_read(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


def test_quotes_without_an_end_take_no_longer_than_their_length() -> None:
    with pytest.raises(Unreadable):
        read_json(b'"' + b'\\"' * 130_000)

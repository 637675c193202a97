"""Bodies as senders really send them: accepted whole, or refused with a word and a sentence."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from opsledger.rules.definitions import SourceDefinition
from opsledger.sources.bodies import FORM, Body, check_size, read_body
from opsledger.sources.refusals import Refusal

from .senders import source

SHOP = source()
FORMS = source(content_types=[FORM], form_field="payload")
JSON = "application/json"


def read(
    raw: bytes, kind: str = JSON, encoding: str = "", of: SourceDefinition = SHOP, limit: int = 1000
) -> Body:
    body = read_body(raw, kind, encoding, of, bytes_max=limit)
    assert isinstance(body, Body), body
    return body


def refused(
    raw: bytes, kind: str = JSON, encoding: str = "", of: SourceDefinition = SHOP, limit: int = 1000
) -> tuple[int, str]:
    answer = read_body(raw, kind, encoding, of, bytes_max=limit)
    assert isinstance(answer, Refusal), answer
    assert answer.sentence.endswith(".")
    return answer.status, answer.reason


def of_size(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - 8) + b'"}'


GOOD = {
    "plain": (b'{"a":1}', JSON, ""),
    "charset": (b'{"a":1}', 'Application/JSON; Charset="UTF-8"', ""),
    "other json": (b'{"a":1}', "application/cloudevents+json", ""),
    "byte order mark": (b'\xef\xbb\xbf{"a":1}', JSON, ""),
    "identity": (b'{"a":1}', JSON, "identity"),
    "gzip": (gzip.compress(b'{"a":1}'), JSON, "gzip"),
    "gzip in two members": (gzip.compress(b'{"a"') + gzip.compress(b":1}"), JSON, "GZIP"),
    "gzip of a byte order mark": (gzip.compress(b'\xef\xbb\xbf{"a":1}'), JSON, "x-gzip"),
}


@pytest.mark.parametrize(("raw", "kind", "encoding"), GOOD.values(), ids=GOOD.keys())
def test_what_means_the_same_reads_the_same(raw: bytes, kind: str, encoding: str) -> None:
    assert read(raw, kind, encoding).value == {"a": 1}


BAD: dict[str, tuple[Any, ...]] = {
    "empty": (b"", JSON, "", 400, "empty"),
    "null": (b"null", JSON, "", 400, "not_an_object"),
    "array": (b"[]", JSON, "", 400, "not_an_object"),
    "text": (b'"x"', JSON, "", 400, "not_an_object"),
    "a key twice": (
        b'{"event_id":"A","event_id":"B","amount":1,"amount":900}',
        JSON,
        "",
        400,
        "duplicate_key",
    ),
    "a key twice below": (b'{"a":{"b":1,"b":2}}', JSON, "", 400, "duplicate_key"),
    "too deep": (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", JSON, "", 400, "depth"),
    "UTF-16": ('{"a":1}'.encode("utf-16-le"), JSON, "", 400, "encoding"),
    "UTF-16, declared": ('{"a":1}'.encode("utf-16-le"), JSON + "; charset=utf-16", "", 415, "charset"),
    "Latin-1": (b'{"a":"\xe8"}', JSON, "", 400, "encoding"),
    "Latin-1, declared": (b'{"a":"\xe8"}', JSON + "; charset=iso-8859-1", "", 415, "charset"),
    "a form": (b"payload=%7B%22a%22%3A1%7D", FORM, "", 415, "content_type"),
    "multipart": (b"--x\r\n", "multipart/form-data; boundary=x", "", 415, "content_type"),
    "no type": (b'{"a":1}', "", "", 415, "content_type"),
    "plain text": (b'{"a":1}', "text/plain", "", 415, "content_type"),
    "brotli": (b'{"a":1}', JSON, "br", 415, "content_encoding"),
    "gzip twice": (gzip.compress(gzip.compress(b"{}")), JSON, "gzip, gzip", 415, "content_encoding"),
    "no gzip": (b'{"a":1}', JSON, "gzip", 400, "bad_gzip"),
    "cut gzip": (gzip.compress(b'{"a":1}')[:-4], JSON, "gzip", 400, "bad_gzip"),
    "gzip and more": (gzip.compress(b'{"a":1}') + b"more", JSON, "gzip", 400, "bad_gzip"),
    "gzip of nothing": (gzip.compress(b""), JSON, "gzip", 400, "empty"),
    "nothing as gzip": (b"", JSON, "gzip", 400, "empty"),
    "not JSON": (b"<html>", JSON, "", 400, "syntax"),
}


@pytest.mark.parametrize(("raw", "kind", "encoding", "status", "reason"), BAD.values(), ids=BAD.keys())
def test_what_can_not_be_read_is_refused_with_its_reason(
    raw: bytes, kind: str, encoding: str, status: int, reason: str
) -> None:
    assert refused(raw, kind, encoding) == (status, reason)


@pytest.mark.parametrize(("size", "fits"), [(999, True), (1000, True), (1001, False)], ids=str)
def test_one_limit_holds_packed_and_unpacked(size: int, fits: bool) -> None:
    raw = of_size(size)
    assert len(raw) == size
    for encoding, sent in (
        ("", raw),
        ("gzip", gzip.compress(raw)),
        ("gzip", gzip.compress(raw[:9]) + gzip.compress(raw[9:])),
    ):
        if fits:
            read(sent, encoding=encoding)
        else:
            assert refused(sent, encoding=encoding) == (413, "body_too_large")


def test_the_limit_is_named() -> None:
    assert check_size(1000, 1000) is None
    answer = check_size(1001, 1000)
    assert answer is not None
    assert (answer.status, "1000 bytes" in answer.sentence) == (413, True)


def test_a_body_that_unpacks_to_a_gigabyte_is_stopped_at_the_limit() -> None:
    member = gzip.compress(b"\x00" * 16_000_000)
    assert refused(member * 64, encoding="gzip", limit=1_048_576) == (413, "body_too_large")


# Forms

GOOD_FORMS = {
    "one field": b"payload=%7B%22a%22%3A1%7D",
    "lower-case escapes": b"payload=%7b%22a%22%3a1%7d",
    "blanks as plus": b"payload=%7B%22a%22+:+1%7D",
    "among others": b"x=1&payload=%7B%22a%22%3A1%7D&y=",
    "an escaped name": b"p%61yload=%7B%22a%22%3A1%7D",
}


@pytest.mark.parametrize("raw", GOOD_FORMS.values(), ids=GOOD_FORMS.keys())
def test_a_forms_field_is_unwrapped_where_the_source_says_so(raw: bytes) -> None:
    assert read(raw, FORM, of=FORMS).value == {"a": 1}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "form_field"),
        (b"other=%7B%7D", "form_field"),
        (b"payload=%7B%7D&payload=%7B%7D", "form_field"),
        (b"payload=", "empty"),
        (b"payload=%5B%5D", "not_an_object"),
        (b"payload=%7B%22a%22%3A%22%E8%22%7D", "encoding"),
        (b"payload=%", "syntax"),
    ],
    ids=repr,
)
def test_a_form_without_its_one_field_is_refused(raw: bytes, reason: str) -> None:
    assert refused(raw, FORM, of=FORMS) == (400, reason)


def test_a_source_of_forms_takes_no_json_unless_it_says_so() -> None:
    assert refused(b"{}", of=FORMS) == (415, "content_type")
    both = source(content_types=[FORM, JSON], form_field="payload")
    assert read(b"{}", of=both).value == {}


# Characters and numbers


def test_the_stored_copy_shows_what_no_database_holds_and_keeps_the_rest() -> None:
    body = read(rb'{"a":"\u0000","b":"\\u0000","c":"\ud83d","d":"\ud83d\ude00"}')
    assert body.projection == {"a": "\u2400", "b": "\\u0000", "c": "\ufffd", "d": "\U0001f600"}
    assert body.value["a"] == "\x00"
    assert read(b'{"a":"\xed\xa0\xbd"}').projection == {"a": "\ufffd"}


def test_numbers_keep_their_digits() -> None:
    value = read(b'{"id":9007199254740993,"total":12345678901234567.89,"price":1.10}').value
    assert [str(one) for one in value.values()] == ["9007199254740993", "12345678901234567.89", "1.10"]

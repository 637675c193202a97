"""Keys, digests and identifiers: opaque, byte-exact, never glued together without their lengths."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.lib.ids import parse, public
from opsledger.rules.identity import (
    KEY_LENGTH_MIN,
    _base32,
    allowed_in_path,
    canonical_json,
    code_points,
    dedupe_key,
    digest,
    hex_digest,
    idempotency_key,
    looks_the_same,
    operation_digest,
    refuse_operation_id,
    refuse_own_id,
    step_identity,
)
from opsledger.rules.reading import read_json

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
UUID_BYTES = bytes(range(16))

# Canonical JSON

CANONICAL = {
    "keys in order": ({"b": 1, "a": {"d": None, "c": True}}, '{"a":{"c":true,"d":null},"b":1}'),
    "keys by code point": ({"a": 1, "B": 2, "é": 3, "😀": 4}, '{"B":2,"a":1,"\\u00e9":3,"\\ud83d\\ude00":4}'),
    "lists and tuples": ([1, (2, "x")], '[1,[2,"x"]]'),
    "a decimal keeps its text": (Decimal("1.10"), "1.10"),
    "a decimal with exponent": (Decimal("1E+2"), "1E+2"),
    "a big whole number": (9007199254740993, "9007199254740993"),
    "a float by its shortest text": (0.1, "0.1"),
    "a number of a reply": (read_json(b'{"p": 1.10}'), '{"p":1.10}'),
    "text that looks like a number": ("1.10", '"1.10"'),
    "a NUL and half a surrogate pair": ("\0\ud83d", '"\\u0000\\ud83d"'),
    "nothing": ({}, "{}"),
}


@pytest.mark.parametrize(("value", "text"), CANONICAL.values(), ids=CANONICAL.keys())
def test_canonical_json(value: Any, text: str) -> None:
    assert canonical_json(value) == text
    assert text.isascii()


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), Decimal("NaN"), Decimal("Infinity"), Decimal("sNaN")],
    ids=["nan", "infinity", "decimal nan", "decimal infinity", "signalling nan"],
)
def test_what_is_no_json_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a JSON number"):
        canonical_json({"a": [value]})


@pytest.mark.parametrize(
    "value", [b"x", {1: 2}, {None: 1}, object(), {1, 2}], ids=lambda value: type(value).__name__
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_nesting_has_a_limit_of_its_own() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    assert canonical_json(nested(100))
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        canonical_json(nested(101))
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        canonical_json(nested(50_000))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@UNHURRIED
@given(VALUES)
def test_canonical_json_is_read_back_as_the_same_value(value: Any) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text, parse_float=Decimal)) == text


@UNHURRIED
@given(st.dictionaries(st.text(), st.integers(), max_size=5))
def test_the_order_of_keys_makes_no_difference(value: dict[str, int]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


# Digests and keys


def test_a_digest_is_sha256_over_lengths_and_parts() -> None:
    plain = b"\0\0\0\0\0\0\0\x01a" + b"\0\0\0\0\0\0\0\x02bc"
    assert digest(b"a", b"bc") == hashlib.sha256(plain).digest()
    assert hex_digest(b"a", b"bc") == hashlib.sha256(plain).hexdigest()


GLUED = {
    "the boundary moves": (("a", "bc"), ("ab", "c")),
    "a separator inside: |": (("a", "b|c"), ("a|b", "c")),
    "a separator inside: :": (("a", "b:c"), ("a:b", "c")),
    "a separator inside: /": (("a", "b/c"), ("a/b", "c")),
    "a separator inside: a control character": (("a", "b\x1fc"), ("a\x1fb", "c")),
    "an empty field": (("ab", ""), ("", "ab")),
    "letter case": (("s", "a9UGNy"), ("s", "a9UGNY")),
    "a trailing space": (("s", "id"), ("s", "id ")),
    "composed and decomposed": (("s", "\u00fc"), ("s", "u\u0308")),
    "15 and 18 characters of one Salesforce id": (("s", "001ak00000OQTie"), ("s", "001ak00000OQTieAAH")),
    "3,000 characters that share the first 2,900": (
        ("s", "x" * 2900 + "a" * 100),
        ("s", "x" * 2900 + "b" * 100),
    ),
    "two halves of surrogate pairs": (("s", "\ud83d"), ("s", "\ud83e")),
}


@pytest.mark.parametrize(("one", "other"), GLUED.values(), ids=GLUED.keys())
def test_distinct_events_have_distinct_keys(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert dedupe_key(*one) != dedupe_key(*other)
    assert dedupe_key(*one) == dedupe_key(*one)
    assert len(dedupe_key(*one)) == 32


@pytest.mark.parametrize(("one", "other"), GLUED.values(), ids=GLUED.keys())
def test_distinct_operations_have_distinct_digests(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert operation_digest(*one, b"") != operation_digest(*other, b"")


def test_content_is_part_of_an_operations_digest() -> None:
    digests = {
        operation_digest("w", "{}", b""),
        operation_digest("w", "{}", b"c" * 32),
        operation_digest("w", "{}c", b"c" * 31),
        operation_digest("w", '{"a":1}', b""),
        operation_digest("v", "{}", b""),
    }
    assert len(digests) == 5


@UNHURRIED
@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_digests_are_equal_exactly_when_the_parts_are(one: list[bytes], other: list[bytes]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


@UNHURRIED
@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=2, max_size=2, unique=True))
def test_event_keys_are_injective_over_field_boundaries(pair: list[tuple[str, str]]) -> None:
    assert dedupe_key(*pair[0]) != dedupe_key(*pair[1])


TEAM, OTHER_TEAM = UUID_BYTES, bytes(16)
ACTION = (TEAM, "shop:1", "create_task")
OTHERS = {
    "another team": (OTHER_TEAM, "shop:1", "create_task"),
    "another operation": (TEAM, "shop:2", "create_task"),
    "the operation's id in capitals": (TEAM, "SHOP:1", "create_task"),
    "a blank at its end": (TEAM, "shop:1 ", "create_task"),
    "another step": (TEAM, "shop:1", "send_message"),
    "the border one further": (TEAM, "shop:1c", "reate_task"),
    "the border one before": (TEAM, "shop:", "1create_task"),
    "all of it in the operation's id": (TEAM, "shop:1create_task", ""),
    "part of the team's number in the operation's id": (
        TEAM[:-1],
        TEAM[-1:].decode("latin-1") + "shop:1",
        "create_task",
    ),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_another_action_has_another_key_and_another_identity(other: tuple[bytes, str, str]) -> None:
    assert step_identity(*other) != step_identity(*ACTION)
    assert idempotency_key(*other, 1, 255) != idempotency_key(*ACTION, 1, 255)


def test_the_same_action_has_the_same_key_and_identity_wherever_it_is_recorded() -> None:
    assert step_identity(*ACTION) == step_identity(*ACTION)
    assert idempotency_key(*ACTION, 1, 255) == idempotency_key(*ACTION, 1, 255)
    assert step_identity(*ACTION)[3:] != idempotency_key(*ACTION, 1, 26)


def test_every_revision_has_a_key_of_its_own() -> None:
    assert len({idempotency_key(*ACTION, revision, 255) for revision in (1, 2, 11, 256)}) == 4


@UNHURRIED
@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), min_size=2, max_size=2, unique=True))
def test_keys_and_identities_are_injective_over_field_boundaries(pair: list[tuple[str, str]]) -> None:
    one, other = pair
    assert step_identity(TEAM, *one) != step_identity(TEAM, *other)
    assert idempotency_key(TEAM, *one, 1, 255) != idempotency_key(TEAM, *other, 1, 255)


@pytest.mark.parametrize("operation_id", ["x", "é" * 200, "\ud83d", "a/b?c=d&e%20"], ids=ascii)
def test_an_identity_is_29_plain_characters_whatever_the_operations_id(operation_id: str) -> None:
    assert re.fullmatch(r"ol_[0-9a-v]{26}", step_identity(TEAM, operation_id, "s" * 63))


@pytest.mark.parametrize(("length_max", "length"), [(26, 26), (30, 30), (32, 32), (255, 32)])
def test_a_key_is_ascii_and_fits_the_destination(length_max: int, length: int) -> None:
    key = idempotency_key(*ACTION, 1, length_max)
    assert len(key) == length
    assert set(key) <= set("0123456789abcdefghijklmnopqrstuv")
    assert idempotency_key(*ACTION, 1, 255).startswith(key)


def test_a_key_that_would_hold_less_than_128_bits_is_refused() -> None:
    assert KEY_LENGTH_MIN * 5 >= 128
    with pytest.raises(ValueError, match="takes 25 characters as a key; 26 are needed"):
        idempotency_key(*ACTION, 1, 25)


def test_a_key_never_changes_between_releases() -> None:
    assert idempotency_key(TEAM, "shop:1", "create_task", 2, 255) == "89uroj6oskvui3ncuf71o90fs2s25b0i"
    assert step_identity(TEAM, "shop:1", "create_task") == "ol_5luid3mv9cimn5v220pindv97k"
    assert hex_digest(b"a", b"bc") == "3fafa1cf2f19a7c1129beb20cf0983f73a489a221fc0dd2f16d1be292d089205"
    assert (
        operation_digest("w", "{}", b"").hex()
        == "cda1e529c13c252aca0efa26c492f60c489c0f243089001320f8076d725457d6"
    )
    assert (
        dedupe_key("shop", "evt-1").hex()
        == "fbdc4116faf3fe2ed3869cab342329241f99e604a20d96bba3336a5e08227ab4"
    )


# Operation ids

GOOD_IDS = {
    "one character": "a",
    "200 characters": "x" * 200,
    "separators": "shop:order/17|a#b?c=d&e%",
    "two dots": "../..",
    "a trailing space": "id ",
    "composed": "\u00fc",
    "decomposed": "u\u0308",
    "an emoji": "order 😀",
    "a percent escape": "a%2Fb",
    "a plus with 7 digits": "a+1234567",
    "a plus with 16 digits": "a+1234567890123456",
    "8 digits without a plus": "12345678",
    "an at sign": "user@host",
    "a version": "pkg@1.2.3",
    "an at sign at the end": "a.b@",
}
NUMBER_GIVEN_HERE = "must not read as the number of an operation, op_ and 26 characters: those are given here"
BAD_IDS = {
    "empty": ("", "must have 1 to 200 characters; this one has 0"),
    "201 characters": ("x" * 201, "must have 1 to 200 characters; this one has 201"),
    "3,000 characters": ("x" * 3000, "must have 1 to 200 characters; this one has 3000"),
    "a line break": ("a\nb", "must hold printable characters only; this one holds U+000A"),
    "a NUL": ("a\0", "must hold printable characters only; this one holds U+0000"),
    "half a surrogate pair": ("\ud83d", "must hold printable characters only; this one holds U+D83D"),
    "a zero-width space": ("a\u200bb", "must hold printable characters only; this one holds U+200B"),
    "a right-to-left override": ("a\u202eb", "must hold printable characters only; this one holds U+202E"),
    "spaces only": ("   ", "must hold more than spaces"),
    "an e-mail address": (
        "jon@doe.example",
        "must not hold an e-mail address: no personal data in identities",
    ),
    "an e-mail address inside": (
        "order-17/jon.d+x@mail.doe.example/2",
        "must not hold an e-mail address: no personal data in identities",
    ),
    "an e-mail address in other letters": (
        "jürgen@müller.example",
        "must not hold an e-mail address: no personal data in identities",
    ),
    "an e-mail address, percent-encoded": (
        "jon%40doe.example",
        "must not hold an e-mail address: no personal data in identities",
    ),
    "an e-mail address in wide letters": (
        "ｊｏｎ＠ｄｏｅ.ｅｘａｍｐｌｅ",
        "must not hold an e-mail address: no personal data in identities",
    ),
    "a plus with 8 digits": (
        "a+12345678b",
        "must not hold a + with 8 to 15 digits (a telephone number): no personal data",
    ),
    "a plus with 15 digits": (
        "+123456789012345",
        "must not hold a + with 8 to 15 digits (a telephone number): no personal data",
    ),
    "the number of an operation": ("op_00000000000000000000000017", NUMBER_GIVEN_HERE),
    "the number of the last operation": ("op_7zzzzzzzzzzzzzzzzzzzzzzzzz", NUMBER_GIVEN_HERE),
    "a plus with 8 digits, percent-encoded": (
        "%2b12345678",
        "must not hold a + with 8 to 15 digits (a telephone number): no personal data",
    ),
}


@pytest.mark.parametrize("text", GOOD_IDS.values(), ids=GOOD_IDS.keys())
def test_an_operation_id_may_be(text: str) -> None:
    assert refuse_operation_id(text) == []


@pytest.mark.parametrize(("text", "reason"), BAD_IDS.values(), ids=BAD_IDS.keys())
def test_an_operation_id_is_refused(text: str, reason: str) -> None:
    assert refuse_operation_id(text) == [reason]


@UNHURRIED
@given(
    st.text(alphabet="0123456789abcdefghijklmnopqrstuvwxyz_A\n١", min_size=25, max_size=27)
    | st.uuids().map(lambda number: public("op", number)[3:])
)
def test_what_reads_as_a_number_is_no_operation_id(body: str) -> None:
    refused = refuse_operation_id(f"op_{body}") == [NUMBER_GIVEN_HERE]
    assert refused is (parse("op", f"op_{body}") is not None)
    assert NUMBER_GIVEN_HERE not in refuse_own_id(
        f"op_{body}"
    )  # other things may be named after an operation


@UNHURRIED
@given(st.text())
def test_no_text_raises(text: str) -> None:
    refuse_operation_id(text)
    looks_the_same(text, text + "x")
    assert len(code_points(text)) == len(text)


PATHS = {
    "letters, digits and - _ ~ :": ("Shop:order-17_a~b", True),
    "begins with op_": ("op_17", False),
    "begins with op": ("op-17", True),
    "a slash": ("a/b", False),
    "dots": ("..", False),
    "a percent sign": ("a%2Fb", False),
    "a space": ("a ", False),
    "a line break at the end": ("a\n", False),
    "other letters": ("ü", False),
    "other digits": ("١", False),
    "empty": ("", False),
    "201 characters": ("x" * 201, False),
}


@pytest.mark.parametrize(("text", "allowed"), PATHS.values(), ids=PATHS.keys())
def test_an_own_id_in_a_path(text: str, allowed: bool) -> None:
    assert allowed_in_path(text) is allowed


# Looks the same as

ALIKE = {
    "letter case": ("a9U GNy", "a9U GNY", True),
    "a trailing space": ("id", "id ", True),
    "a no-break space inside": ("a b", "a\u00a0b", True),
    "composed and decomposed": ("\u00fc", "u\u0308", True),
    "wide letters": ("abc", "ａｂｃ", True),
    "a zero-width space": ("ab", "a\u200bb", True),
    "a Cyrillic letter": ("pay", "p\u0430y", True),
    "a Greek letter": ("no", "n\u03bf", True),
    "the same": ("id", "id", False),
    "another letter": ("id", "ie", False),
    "another accent": ("\u00fc", "u", False),
}


@pytest.mark.parametrize(("one", "other", "same"), ALIKE.values(), ids=ALIKE.keys())
def test_two_ids_look_the_same(one: str, other: str, same: bool) -> None:
    assert looks_the_same(one, other) is same
    assert looks_the_same(other, one) is same


@UNHURRIED
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=10))
def test_the_normal_forms_of_one_text_look_the_same(text: str) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert all(form == text or looks_the_same(text, form) for form in forms)


def test_code_points_tell_what_looks_the_same_apart() -> None:
    assert code_points("u\u0308 ") == (
        "U+0075 LATIN SMALL LETTER U",
        "U+0308 COMBINING DIAERESIS",
        "U+0020 SPACE",
    )
    assert code_points("\n") == ("U+000A unnamed",)


@given(st.binary(min_size=20, max_size=64))
def test_base_32_is_that_of_the_standard_library(digested: bytes) -> None:
    whole = base64.b32hexencode(digested).decode().lower().rstrip("=")
    assert all(_base32(digested, part) == whole[:part] for part in range(33))

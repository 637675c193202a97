"""A compiled request gives what the plain renderer gives, byte for byte, whatever is defined and whatever is filled in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsledger.lib.strict_json import loads_stored
from opsledger.rules.definitions import DestinationDefinition, build_definition
from opsledger.rules.reading import Number
from opsledger.rules.rendering import (
    CompiledRequest,
    Missing,
    RenderedRequest,
    compiled,
    keyless_digest,
    request_digest,
)
from tests.rules.plain_renderer import render_plainly

BASE_URL = "https://peer.example/v1/"
SOURCE = {"url": "https://peer.example/docs", "checked": "2026-03-01"}
NAMES = ["a", "b", "number", "none"]

# Templates

FIXED = st.text(
    st.characters(exclude_characters="{}$", exclude_categories=["Cs"]), max_size=6
) | st.sampled_from(["{{", "}}", "${HOME}", '"\\', "\u2028", "é", "\x00", "%s", "a/b?c=d&e"])
PLACES = st.sampled_from(
    [
        *(f"params.{name}" for name in NAMES),
        "content.body",
        "content.gone",
        "step.identity",
        "steps.first.reference",
        "steps.other.reference",
        "operation.id",
    ]
)
PLACEHOLDERS = st.builds(
    lambda place, optional: f"{{{place}{'?' if optional else ''}}}", PLACES, st.integers(0, 3).map(bool)
)
TEXTS = st.lists(FIXED | PLACEHOLDERS, max_size=3).map("".join)
LEAVES = PLACEHOLDERS | TEXTS | st.none() | st.booleans() | st.integers() | st.sampled_from([1.5, 0.1])
FIELDS = st.sampled_from(["key", "meta", "z", "A", "é", '"', "a_very_long_name"])
BODIES = st.dictionaries(
    FIELDS, st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=3)),
    max_size=5,
)  # fmt: skip
PLAIN = st.text("ab/?=&%é{{", max_size=0) | st.sampled_from(["x", "/tasks", "a%20b", "q é", "1"])
HEADERS = st.dictionaries(
    st.sampled_from(["X-One", "x-two", "Content-Type", "Accept"]),
    PLACEHOLDERS | st.sampled_from(["application/json; charset=utf-8", "a b", "text {params.a?} {operation.id}"]),
    max_size=2,
)  # fmt: skip
KEYS_IN = st.sampled_from(["", "header:Idempotency-Key", "body:key", "body:meta.key", "body:z"])


@st.composite
def destinations(draw: st.DrawFn) -> DestinationDefinition:
    """A destination with one action, of every form that a definition may have; what is refused is drawn again."""
    body = draw(st.none() | BODIES)
    key_in = draw(KEYS_IN)
    if key_in == "body:meta.key" and body is not None:
        body["meta"] = draw(st.dictionaries(FIELDS, LEAVES, max_size=2))
    request = {
        "method": draw(st.sampled_from(["POST", "PUT", "DELETE"])),
        "path": "/" + "/".join(draw(st.lists(PLAIN | PLACEHOLDERS, max_size=3))),
        "query": draw(st.dictionaries(st.sampled_from(["q", "é", "a b"]), TEXTS, max_size=2)),
        "headers": draw(HEADERS),
        "body": body,
    }
    action: dict[str, Any] = {"title": "T", "request": request}
    if key_in:
        length = draw(st.sampled_from([40, 255]))
        action["protection"] = {
            "kind": "idempotency_key",
            "key_in": key_in,
            "key_length_max": length,
            "source": SOURCE,
        }
    table = {"name": "D", "base_url": BASE_URL, "actions": {"a": action}}
    made, problems = build_definition("destination", "d", table)
    if problems or not isinstance(made, DestinationDefinition):
        return draw(destinations())
    return made


# Values

CHARACTERS = st.text(max_size=8) | st.sampled_from(
    ["", ".", "..", "\ud83d", "\r\n", "é", "{operation.id}", "plain"]
)
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [Number("1.10"), Number("-0"), Number("1e2")]
)  # fmt: skip
VALUES = CHARACTERS | NUMBERS | st.booleans() | st.none() | st.lists(CHARACTERS, max_size=2)
PARAMS = st.dictionaries(st.sampled_from(NAMES), VALUES) | st.fixed_dictionaries(
    {name: CHARACTERS.filter(lambda text: text not in {"", ".", ".."}) for name in NAMES}
)
CONTENT = st.none() | st.fixed_dictionaries({"body": CHARACTERS})
REFERENCES = st.sampled_from([{}, {"first": "T-1"}, {"first": "é/ü", "other": "2"}])
KEYS = st.sampled_from(
    ["0123456789abcdefghijklmnopqrstuv", "k-1", "with space ", "é", "x" * 41, "line\nbreak"]
)


def test_compiled_requests_are_the_plain_ones() -> None:
    seen = {RenderedRequest: 0, Missing: 0}
    fixed = 0

    @settings(max_examples=600, deadline=None)
    @given(destinations(), PARAMS, CONTENT, REFERENCES, KEYS, st.sampled_from(["op_1", "op_2"]))
    def are_equal(
        destination: DestinationDefinition,
        params: dict[str, Any],
        content: dict[str, Any] | None,
        references: dict[str, str],
        key: str,
        operation_id: str,
    ) -> None:
        nonlocal fixed
        action = destination.actions["a"]
        values = {
            "params": params,
            "content": content or {},
            "step": {"identity": "ol_1"},
            "steps": {name: {"reference": reference} for name, reference in references.items()},
            "operation": {"id": operation_id},
        }
        request = compiled(action, BASE_URL)
        made = request.render(params, "ol_1", references, key, operation_id=operation_id, content=content)
        assert made == render_plainly(action, values, key, BASE_URL)
        seen[type(made)] += 1
        fixed += isinstance(made, RenderedRequest) and request.fixed is not None

    are_equal()
    assert min(*seen.values(), fixed) > 40, (seen, fixed)


@pytest.fixture
def keyed() -> CompiledRequest:
    action = {
        "title": "T",
        "request": {"method": "POST", "path": "/x", "body": {"a": "{params.a}"}},
        "protection": {"kind": "idempotency_key", "key_in": "header:Idempotency-Key", "source": SOURCE},
    }
    table = {"name": "D", "base_url": BASE_URL, "actions": {"a": action}}
    made, problems = build_definition("destination", "d", table)
    assert isinstance(made, DestinationDefinition), problems
    return compiled(made.actions["a"], BASE_URL)


def test_a_key_that_no_header_can_carry_is_refused_where_all_else_is_fixed(keyed: CompiledRequest) -> None:
    assert keyed.fixed is not None
    assert isinstance(keyed.render({"a": "x"}, "ol_1", {}, "a\nb"), Missing)
    assert isinstance(keyed.render({"a": "x"}, "ol_1", {}, "ab"), RenderedRequest)


PLACES: dict[str, dict[str, Any]] = {
    "path": {"path": "/of/{operation.id}"},
    "query": {"query": {"q": "of {operation.id}"}},
    "header": {"headers": {"X-Of": "{operation.id?}"}},
    "body": {"body": {"deep": [{"of": "{operation.id}"}]}},
    "none": {"body": {"of": "{step.identity}"}, "path": "/operation.id"},
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_known_whether_our_own_id_is_named(place: str) -> None:
    action = {"title": "T", "request": {"method": "POST", "path": "/a"} | PLACES[place]}
    table = {"name": "D", "base_url": BASE_URL, "actions": {"a": action}}
    made, problems = build_definition("destination", "d", table)
    assert isinstance(made, DestinationDefinition), problems
    assert compiled(made.actions["a"], BASE_URL).names_operation is (place != "none")


def test_a_key_takes_no_null_away_either() -> None:
    """What is approved is the request without its key, so nothing may stand where the key goes."""
    action = {
        "title": "T",
        "request": {"method": "POST", "path": "/a", "body": {"meta": {"key": None}}},
        "protection": {"kind": "idempotency_key", "key_in": "body:meta.key", "source": SOURCE},
    }
    table = {"name": "D", "base_url": BASE_URL, "actions": {"a": action}}
    _, problems = build_definition("destination", "d", table)
    assert [message for path, message in problems if path.endswith("key_in")] == [
        "names meta.key, but the request's body has a value there already"
    ]


def test_one_request_leaves_nothing_for_the_next(keyed: CompiledRequest) -> None:
    first = keyed.render({"a": "x"}, "ol_1", {}, "k1")
    assert isinstance(keyed.render({}, "ol_1", {}, "k1"), Missing)
    assert keyed.render({"a": "x"}, "ol_1", {}, "k1") == first


def test_the_key_taken_out_of_what_is_sent_leaves_what_was_approved() -> None:
    """Law 7: the worker compares the approved digest with the bytes at hand, less their key."""
    seen = 0

    @settings(max_examples=600, deadline=None)
    @given(destinations(), PARAMS, CONTENT, REFERENCES, KEYS)
    def is_what_was_approved(
        destination: DestinationDefinition,
        params: dict[str, Any],
        content: dict[str, Any] | None,
        references: dict[str, str],
        key: str,
    ) -> None:
        nonlocal seen
        action = destination.actions["a"]
        made = compiled(action, BASE_URL).render(params, "ol_1", references, key, content=content)
        if isinstance(made, Missing):
            return
        seen += 1
        parsed = loads_stored(made.body.decode()) if made.body else None
        protection = action.profile.protection
        headers = list(made.headers)
        assert request_digest(made.method, made.url, headers, made.body) == made.digest
        keyless = keyless_digest(protection, made.method, made.url, headers, made.body, parsed)
        assert keyless == made.content_digest

    is_what_was_approved()
    assert seen > 40, seen

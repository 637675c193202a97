"""What shows content, what of it may change, and the digests that an approval and an operation carry."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsledger.lib.strict_json import loads_stored
from opsledger.rules.content import (
    check_version,
    content_part,
    covered_digest,
    needs_approval,
    shows_content,
)
from opsledger.rules.definition_types import (
    APPROVAL_SECONDS,
    ActionDefinition,
    FieldKind,
    ParamDefinition,
    ParamType,
    RequestTemplate,
    StepDefinition,
    WorkflowDefinition,
)
from opsledger.rules.definitions import from_json, to_json
from opsledger.rules.profile import Protection, ProtectionKind
from opsledger.rules.reading import Number
from opsledger.rules.rendering import RenderedRequest, keyless_digest, render_request
from tests.rules.builders import PLAIN, SOURCE, profile


def action(**parts: Any) -> ActionDefinition:
    request = {"method": "POST", "path": "/x", **parts}
    return ActionDefinition("Tell", PLAIN, RequestTemplate(**request))


@pytest.mark.parametrize(
    ("parts", "shows"),
    [
        ({"path": "/x/{content.a}"}, True),
        ({"query": (("q", "{content.a?}"),)}, True),
        ({"headers": (("X-A", "{content.a}"),)}, True),
        ({"body": {"deep": [{"text": "before {content.a} after"}]}}, True),
        ({"body": {"text": "{params.content}", "note": "{{content.a}}"}}, False),
        ({}, False),
    ],
    ids=["path", "query", "header", "deep in the body", "other values, and braces", "nothing"],
)
def test_a_step_shows_content_where_its_request_has_a_place_for_it(parts: Any, shows: bool) -> None:
    assert shows_content(action(**parts)) is shows


def workflow(*content: ParamDefinition, **words: Any) -> WorkflowDefinition:
    return WorkflowDefinition("w", "t", "o", {"default": 1}, "n", (), content=content, **words)


def field(name: str = "text", **words: Any) -> ParamDefinition:
    return ParamDefinition(name, name.title(), **words)


SHOWS, SILENT = action(body={"text": "{content.text}"}), action()


@pytest.mark.parametrize(
    ("content", "asks", "made", "needed"),
    [
        (field(), False, SHOWS, False),
        (field(), True, SHOWS, True),
        (field(), True, SILENT, True),
        (field(kind=FieldKind.SENSITIVE), False, SHOWS, True),
        (field(sensitive=True), False, SHOWS, True),
        (field(kind=FieldKind.SENSITIVE), False, SILENT, False),
        (field(kind=FieldKind.LOCKED), False, SHOWS, False),
    ],
    ids=[
        "free",
        "asked for",
        "asked for, shows none",
        "sensitive",
        "sensitive as before",
        "not shown",
        "locked",
    ],
)
def test_which_requests_need_an_approval(
    content: ParamDefinition, asks: bool, made: ActionDefinition, needed: bool
) -> None:
    step = StepDefinition("s", "S", "d", "a", needs_approval=asks)

    assert needs_approval(workflow(content), step, made) is needed


# What may change

LETTER = workflow(
    field("text"),
    field("amount", type=ParamType.DECIMAL, kind=FieldKind.LOCKED),
    field("note", required=False),
)
FIRST = {"text": "Hello", "amount": Number("1.10")}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        (FIRST | {"text": "Bye"}, []),
        (FIRST | {"note": "new"}, []),
        (FIRST | {"amount": Number("1.1")}, ["fields.amount"]),
        (FIRST | {"amount": "1.10"}, ["fields.amount"]),
        (FIRST | {"amount": Number("2"), "text": "Bye"}, ["fields.amount"]),
        ({"text": "Bye"}, ["fields.amount"]),
        (FIRST | {"title": "?"}, ["fields.title"]),
        ("text", ["fields"]),
    ],
    ids=["free", "one more", "other digits", "as text", "another value", "missing", "unknown", "no object"],
)
def test_locked_fields_carry_the_value_of_the_version_before(fields: Any, wrong: list[str]) -> None:
    kept, problems = check_version(LETTER, fields, FIRST)

    assert [path for path, _ in problems] == wrong
    assert kept == ({} if wrong else fields)


def test_the_first_version_may_say_anything() -> None:
    assert check_version(LETTER, {"text": "a", "amount": "9"}, None)[1] == []


def test_an_approval_is_good_for_seven_days_unless_said_otherwise() -> None:
    assert workflow().approved_for_seconds == APPROVAL_SECONDS == 604_800
    assert workflow(approval_seconds=60).approved_for_seconds == 60


def test_a_stored_workflow_reads_back_with_its_kinds() -> None:
    step = StepDefinition("s", "S", "d", "a")
    made = WorkflowDefinition(
        "w",
        "t",
        "o",
        {"default": 1},
        "n",
        (step,),
        content=(field(kind=FieldKind.SENSITIVE),),
        approval_seconds=9,
    )

    stored = json.loads(json.dumps(to_json(made)))

    assert from_json(stored) == made
    assert "kind" not in to_json(workflow(field()))["content"][0]  # versions stored before stay the same text


# Digests

ONE, TWO = UUID(int=1).bytes, UUID(int=2).bytes


def test_what_is_covered_has_one_digest_whatever_its_order() -> None:
    covered = [(ONE, 1, "aa"), (TWO, 2, "bb")]

    assert covered_digest(covered) == covered_digest(reversed(covered))


@pytest.mark.parametrize(
    "other",
    [
        [(ONE, 1, "aa")],
        [(ONE, 1, "aa"), (TWO, 2, "bc")],
        [(ONE, 2, "aa"), (TWO, 2, "bb")],
        [(ONE, 1, "aa"), (TWO, 2, "bb"), (TWO, 3, "bb")],
        [(ONE, 1, "aabb"), (TWO, 2, "")],
        [],
    ],
    ids=["fewer", "another request", "another revision", "more", "glued", "nothing"],
)
def test_anything_else_has_another(other: list[tuple[bytes, int, str]]) -> None:
    assert covered_digest(other) != covered_digest([(ONE, 1, "aa"), (TWO, 2, "bb")])


@given(st.text(max_size=9), st.binary(max_size=9), st.text(max_size=9), st.binary(max_size=9))
def test_a_contents_part_of_an_operations_digest_is_its_own(
    one: str, first: bytes, other: str, second: bytes
) -> None:
    assert (content_part(one, first) == content_part(other, second)) == ((one, first) == (other, second))


# The request with its key left out, made from what is about to be sent


def rendered(protection: Protection, **body: Any) -> tuple[ActionDefinition, RenderedRequest]:
    made = ActionDefinition(
        "Tell",
        profile(protection=protection),
        RequestTemplate("POST", "/x/{params.id}", headers=(("X-Key", "ours"),), body=body or None),
    )
    params = {"id": "a b", "amount": Number("1.10"), "text": "Grüße, 😀"}
    request = render_request(made, params, "s", {}, "the-key", "https://peer.example")
    assert isinstance(request, RenderedRequest)
    return made, request


KEYED_BY = {
    "nothing": Protection(),
    "header": Protection(ProtectionKind.IDEMPOTENCY_KEY, key_in="header:Idempotency-Key", source=SOURCE),
    "the header's name twice": Protection(ProtectionKind.CLIENT_ID, key_in="header:X-Key", source=SOURCE),
    "body": Protection(ProtectionKind.CLIENT_ID, key_in="body:id", source=SOURCE),
    "deep in the body": Protection(ProtectionKind.CLIENT_ID, key_in="body:meta.id", source=SOURCE),
    "a kind without key": Protection(ProtectionKind.CONDITIONAL, key_in="header:If-Match", source=SOURCE),
}


@pytest.mark.parametrize("protection", KEYED_BY.values(), ids=KEYED_BY.keys())
def test_the_approved_request_is_found_in_what_is_sent(protection: Protection) -> None:
    _, sent = rendered(protection, text="{params.text}", amount="{params.amount}", meta={"n": 1})

    digest = keyless_digest(
        protection, sent.method, sent.url, list(sent.headers), sent.body, loads_stored(sent.body.decode())
    )

    assert digest == sent.content_digest
    changed = sent.body.replace(b"1.10", b"1.11")
    other = keyless_digest(
        protection, sent.method, sent.url, list(sent.headers), changed, loads_stored(changed.decode())
    )
    assert other != sent.content_digest

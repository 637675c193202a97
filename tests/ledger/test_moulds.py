"""An operation that is cast in the mould of its kind is written as the rules would have it written, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsledger.engine.loading import read_files
from opsledger.ledger import definitions
from opsledger.ledger.actions.definitions import current_workflow, load
from opsledger.ledger.actions.moulds import Casting
from opsledger.ledger.actions.new_operations import NewOperation, Row, begin, row_of
from opsledger.lib.strict_json import loads
from opsledger.rules.definition_types import ParamDefinition, ParamType, WorkflowDefinition
from opsledger.rules.definitions import check_params
from tests.desk import AUTOMATION, Desk

# Every kind of first step: sent or offered, with a value in the address and in a header that can't take all texts, with our
# own number in the body, after an approval; and percent signs wherever something is filled in.
MORE = """
[destination.hundred]
name = "100 % sure"
base_url = "http://127.0.0.1:9"
[destination.hundred.actions.tell]
title = "Tell it"
effect = "create"
[destination.hundred.actions.tell.request]
method = "POST"
path = "/of/{params.text}"
query = { n = "{params.number?}" }
[destination.hundred.actions.tell.request.headers]
X-Whose = "{params.text} {operation.id}"
[destination.hundred.actions.tell.request.body]
id = "{operation.id}"
step = "{step.identity}"
all = ["{params.text}", "{params.number?}", "{params.sum?}", "{params.sure?}", "%(at)s"]
[destination.hundred.actions.tell.reply]
reference = "id"

[destination.hundred.actions.keep]
title = "Keep it"
effect = "create"
[destination.hundred.actions.keep.request]
method = "PUT"
path = "/kept"
[destination.hundred.actions.keep.request.body]
text = "{params.text}"
sum = "{params.sum?}"
[destination.hundred.actions.keep.reply]
reference = "id"
meanings = { "422:error.code=key_reused_with_other_parameters" = "key_mismatch" }
source = { url = "https://opsledger.example/docs/kept", checked = "2026-11-01" }
[destination.hundred.actions.keep.protection]
kind = "idempotency_key"
key_in = "body:key"
key_length_max = 30
window_seconds = 86_400
replay = "first_answer"
[destination.hundred.actions.keep.protection.source]
url = "https://opsledger.example/docs/kept"
checked = "2026-11-01"
[destination.hundred.actions.keep.timing]
claim_within_seconds = 600
"""
WORKFLOW = """
[workflow.{slug}]
title = "100 % {{params.text}} {{params.number}}"
owner = "owner"
if_nobody = "Nothing."
due_seconds = {{ default = 3600 }}
params = [
    {{ name = "text", label = "Text", max_length = 60 }},
    {{ name = "number", label = "Number", type = "integer", required = false }},
    {{ name = "sum", label = "Sum", type = "decimal", required = false }},
    {{ name = "sure", label = "Sure", type = "boolean", required = false }},
]
"""
CONTENT = """content = [{ name = "greeting", label = "Greeting" }]
"""
STEP = """
[[workflow.{slug}.steps]]
name = "{action}{number}"
title = "Do it"
destination = "hundred"
action = "{action}"
{more}
"""
STEPS: dict[str, list[tuple[str, str]]] = {
    "told": [("tell", ""), ("keep", "")],
    "kept": [("keep", ""), ("tell", 'performer = "automation"'), ("keep", "")],
    "offered": [("keep", 'performer = "automation"\nlease_seconds = 60'), ("tell", "")],
    "late_yes": [("keep", ""), ("tell", "needs_approval = true")],
    "asked": [("tell", "needs_approval = true"), ("keep", "")],
}
ASKED_AT_ONCE = {"asked"}


def _definitions() -> str:
    parts = [MORE]
    for slug, steps in STEPS.items():
        parts.append(WORKFLOW.format(slug=slug))
        parts.append(CONTENT if any("approval" in more for _, more in steps) else "")
        parts += [
            STEP.format(slug=slug, action=action, number=number, more=more)
            for number, (action, more) in enumerate(steps, start=1)
        ]
    return "".join(parts)


TEXTS = st.text(max_size=60) | st.sampled_from(
    ["", ".", "..", "a b", "%", "%s", "%(at)s", "\0", "\0digest\0", "\\u0000", "é", "日本", "\ud800", "\r\n", '"', "x" * 60]
)  # fmt: skip
VALUES: dict[ParamType, st.SearchStrategy[Any]] = {
    ParamType.TEXT: TEXTS,
    ParamType.INTEGER: st.integers() | st.sampled_from(["0", "-7", "12345678901234567890"]),
    ParamType.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False) | st.sampled_from(["1.10", "-0"]),
    ParamType.BOOLEAN: st.booleans(),
    ParamType.DATE: st.dates().map(str),
    ParamType.EMAIL: st.sampled_from(["one@customers.example", "two+%s@customers.example"]),
}
LAST = datetime.fromisoformat("9000-01-01")
MAYBE = st.none() | st.uuids()


def _as_sent(value: Any) -> str:
    """JSON as a caller writes it: numbers with all of their digits."""
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


@st.composite
def given_params(draw: st.DrawFn, workflow: WorkflowDefinition) -> dict[str, Any]:
    """Parameters as they come in, checked; what the check refuses is drawn again."""

    def one(param: ParamDefinition) -> str | None:
        value = draw(VALUES[param.type])
        return None if not param.required and draw(st.booleans()) else _as_sent(value)

    texts = {param.name: one(param) for param in workflow.params}
    body = ",".join(f"{json.dumps(name)}:{text}" for name, text in texts.items() if text is not None)
    params, problems = check_params(workflow, loads(b"{" + body.encode("utf-8", "surrogatepass") + b"}"))
    return params if not problems else draw(given_params(workflow))


@pytest.fixture
def kinds(desk: Desk, tmp_path: Path) -> list[str]:
    """Workflows of every kind, loaded."""
    (tmp_path / "more.toml").write_text(_definitions())
    load(desk.team.pk, read_files([tmp_path]), actor="command:test")
    return [*STEPS, "campaign_follow_up", "classic_follow_up", "branch_follow_up"]


def _numbers() -> Callable[[], UUID]:
    """The same ids for both ways."""
    numbers = count(1)
    return lambda: UUID(int=next(numbers) << 64)


def _both(one: NewOperation, now: datetime) -> tuple[Row | None, Row, bool]:
    begun = begin(one, now, ids=_numbers())
    return Casting(now, ids=_numbers()).cast(one), row_of(one, begun), bool(begun.record.holds)


def test_a_cast_row_is_the_row_that_the_rules_give(desk: Desk, kinds: list[str]) -> None:
    seen = {"cast": 0, "asked": 0}

    @settings(max_examples=1_000)
    @given(
        data=st.data(),
        slug=st.sampled_from(kinds),
        operation_id=st.text(min_size=1, max_size=200),
        ids=st.tuples(MAYBE, MAYBE, MAYBE),
        now=st.datetimes(timezones=st.just(UTC), max_value=LAST),
    )
    def rows_are_equal(
        data: st.DataObject, slug: str, operation_id: str, ids: tuple[UUID | None, ...], now: datetime
    ) -> None:
        current = current_workflow(desk.team.pk, slug)
        params = data.draw(given_params(definitions.workflow(current.version_id)))
        one = NewOperation(
            desk.team.pk,
            operation_id,
            current.version_id,
            current.destinations,
            params,
            AUTOMATION.actor,
            *ids,
        )
        made, wanted, asked = _both(one, now)
        if asked:
            seen["asked"] += 1
            assert made is None
        else:
            seen["cast"] += 1
            assert made == wanted

    rows_are_equal()
    assert min(seen.values()) > 100, seen


@pytest.mark.parametrize("slug", sorted(ASKED_AT_ONCE))
def test_what_waits_for_a_person_at_once_is_left_to_the_rules(
    desk: Desk, kinds: list[str], slug: str
) -> None:
    current = current_workflow(desk.team.pk, slug)
    one = NewOperation(
        desk.team.pk, "a", current.version_id, current.destinations, {"text": "b"}, AUTOMATION.actor
    )
    made, _, asked = _both(one, datetime(2026, 1, 1, tzinfo=UTC))
    assert asked
    assert made is None


def test_a_latest_moment_is_left_to_the_rules(desk: Desk, kinds: list[str]) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    current = current_workflow(desk.team.pk, "told")
    one = NewOperation(
        desk.team.pk,
        "a",
        current.version_id,
        current.destinations,
        {"text": "b"},
        AUTOMATION.actor,
        not_after=now,
    )
    assert Casting(now).cast(one) is None

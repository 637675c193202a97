"""Ordinary replies of steps of every effect, in workflows of every form: the rows are those that the rules would write.

The steps share one destination and build upon what earlier ones brought, in address and body.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.engine.loading import read_files
from opsledger.ledger.actions import ordinary
from opsledger.ledger.actions.definitions import current_workflow, load
from opsledger.ledger.actions.new_operations import NewOperation
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.actions.record import record_sends
from opsledger.ledger.models import Step
from tests.desk import AUTOMATION, Desk
from tests.ledger.test_ordinary_replies import answered, claimed_of, one_transaction, reply_to, taken_back

DESTINATION = """
[destination.wide]
name = "100 % wide"
base_url = "http://127.0.0.1:9"
sends_per_second = 100
max_in_flight = 100
"""
ACTION = """
[destination.wide.actions.{name}]
title = "Do {name}"
effect = "{effect}"
[destination.wide.actions.{name}.request]
method = "POST"
path = "/{name}{path}"
[destination.wide.actions.{name}.request.body]
text = "{{params.text}} {{{{steps}}}}"
{brought}
kept = {{ step = "{{step.identity}}", operation = "{{operation.id}}" }}
[destination.wide.actions.{name}.reply]
reference = "id"
empty_ok = true
id_space = "{effect}d"
meanings = {{ "422:code=key_reused" = "key_mismatch" }}
source = {{ url = "https://opsledger.example/docs/kept", checked = "2026-11-01" }}
"""
FINAL = """
[destination.wide.actions.NAME.lookup]
settles = "positive_only"
quiet_seconds = 10
delays_seconds = [3, 7, 15]
last_look_seconds = 45
identity = "kept.step"
by_reference = true
decisive = { text = "text" }
[destination.wide.actions.NAME.search]
path = "/sent"
query = { id = "{step.identity}" }
records = "items"
[destination.wide.actions.NAME.read]
path = "/sent/{reference}"
[destination.wide.actions.NAME.status]
field = "status"
confirmed = ["delivered"]
failed = ["bounced"]
[destination.wide.actions.NAME.final_effect]
by = "lookup"
deadline_seconds = 120
look_delays_seconds = [3, 6]
"""
KEYED = """
[destination.wide.actions.NAME.protection]
kind = "idempotency_key"
key_in = "body:kept.key"
window_seconds = 86_400
replay = "first_answer"
[destination.wide.actions.NAME.protection.source]
url = "https://opsledger.example/docs/kept"
checked = "2026-11-01"
"""
WORKFLOW = """
[workflow.{slug}]
title = "{slug} {{params.text}}"
owner = "owner"
if_nobody = "Nothing."
due_seconds = {{ default = 3600 }}
params = [{{ name = "text", label = "Text", max_length = 60 }}]
"""
STEP = """
[[workflow.{slug}.steps]]
name = "s{number}"
title = "Step {number}"
destination = "wide"
action = "{action}"
{more}
"""
EFFECTS = {"make": "create", "change": "update", "follow": "update", "send": "message"}
WORDS = [
    "",
    'performer = "automation"\nlease_seconds = 60',
    "accepted_is_enough = true",
    "continues_after_failure = true",
]


def _action(kind: str, number: int) -> str:
    """`follow` can't be sent without what the first step brought; the others take what there is."""
    earlier = [f"{{steps.s{one}.reference?}}" for one in range(1, number)]
    action = ACTION.format(
        name=f"{kind}{number}",
        effect=EFFECTS[kind],
        path="/{steps.s1.reference}" if kind == "follow" and number > 1 else "",
        brought="".join(f'b{place} = "{one}"\n' for place, one in enumerate(earlier))
        + f'all = "{"/".join(earlier)}"',
    )
    more = {"make": KEYED, "send": FINAL}.get(kind, "")
    return action + more.replace("NAME", f"{kind}{number}")


def _definitions() -> tuple[str, list[str]]:
    parts = [DESTINATION, *(_action(kind, number) for kind in EFFECTS for number in (1, 2, 3))]
    slugs = []
    for index, kinds in enumerate(product(EFFECTS, EFFECTS, ["make", "follow"])):
        slugs.append(f"w{index}")
        words = [WORDS[2] if index % 3 == 0 else "", WORDS[index % 4], WORDS[index // 4 % 4]]
        parts.append(WORKFLOW.format(slug=slugs[-1]))
        parts += [
            STEP.format(slug=slugs[-1], number=number, action=f"{kind}{number}", more=more)
            for number, (kind, more) in enumerate(zip(kinds, words, strict=True), start=1)
        ]
    return "".join(parts), slugs


@pytest.fixture
def slugs(desk: Desk, tmp_path: Path) -> list[str]:
    text, slugs = _definitions()
    (tmp_path / "wide.toml").write_text(text)
    load(desk.team.pk, read_files([tmp_path]), actor="command:test")
    return slugs


REFERENCES = st.none() | st.text(min_size=1, max_size=9) | st.sampled_from(
    ["T-1", "..", ".", "a/b", "{steps.s1.reference}", "%(request)s", "%", "\x01", "x" * 10_000, "same"]
)  # fmt: skip


def test_ordinary_replies_of_all_effects(desk: Desk, slugs: list[str]) -> None:
    seen = {"ordinary": 0, "rules": 0}

    @settings(max_examples=300, suppress_health_check=list(HealthCheck), deadline=None)
    @given(
        slug=st.sampled_from(slugs),
        text=st.text(min_size=1, max_size=9),
        replies=st.lists(
            st.tuples(REFERENCES, st.sampled_from([201, 201, 201, 202])), min_size=1, max_size=3
        ),
    )
    def rows_are_equal(slug: str, text: str, replies: list[tuple[str | None, int]]) -> None:
        current = current_workflow(desk.team.pk, slug)
        wanted = NewOperation(
            desk.team.pk, "a", current.version_id, current.destinations, {"text": text}, AUTOMATION.actor
        )
        with one_transaction():
            opened = open_operations([wanted])[0]
            for number, (reference, status) in enumerate(replies, start=1):
                if not Step.objects.filter(operation_id=opened.id, number=number, act="send").exists():
                    return
                claimed = claimed_of(opened.id)
                own = (
                    f" {number}" if claimed.action.startswith("make") else ""
                )  # one record proves no two creates
                body = b"" if reference is None else json.dumps({"id": f"{reference}{own}"}).encode()
                sent = reply_to(claimed, answered(body, status))
                row = ordinary._row(claimed, sent)
                if row:
                    by_rules = taken_back(lambda: record_sends([sent]), opened.id)  # noqa: B023
                    at_once = taken_back(lambda: ordinary._record([row]), opened.id)  # noqa: B023
                    assert at_once == by_rules
                seen["ordinary" if row else "rules"] += 1
                ordinary.record_replies([(claimed, sent)])

    rows_are_equal()
    assert seen["ordinary"] > 100, seen

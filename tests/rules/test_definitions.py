"""Definitions are read strictly, mistakes are named with their place, stored versions read back the same."""

from __future__ import annotations

import copy
import json
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from opsledger.rules.definitions import (
    DestinationDefinition,
    WorkflowDefinition,
    build_definition,
    check_params,
    check_together,
    environment_names,
    from_json,
    read_definitions,
    to_json,
    with_environment,
)
from opsledger.rules.profile import Meaning, ProtectionKind, Settles
from opsledger.rules.reading import Number
from opsledger.rules.record import Performer

DOCUMENTED = {"url": "https://crm.example/docs", "checked": "2026-03-01"}
ACTION = {
    "title": "Create a task",
    "effect": "create",
    "request": {
        "method": "POST",
        "path": "/tasks",
        "headers": {"X-Team": "{params.team}"},
        "query": {"dry": "no"},
        "body": {
            "subject": "{params.subject}",
            "external_id": "{step.identity}",
            "to": {"name": "{params.team}"},
        },
    },
    "protection": {
        "kind": "idempotency_key",
        "key_in": "header:Idempotency-Key",
        "window_seconds": 86400,
        "source": DOCUMENTED,
    },
    "reply": {"reference": "id", "meanings": {"409": "still_running", "409:code=exists": "exists_named"}},
    "lookup": {
        "settles": "both",
        "quiet_seconds": 5,
        "delays_seconds": [2, 5],
        "last_look_seconds": 60,
        "identity": "external_id",
        "by_reference": True,
        "decisive": {"subject": "subject", "to.name": "to.name"},
        "source": DOCUMENTED,
    },
    "search": {"path": "/tasks", "query": {"external_id": "{step.identity}"}, "records": "items"},
    "read": {"path": "/tasks/{reference}"},
    "sensitive": ["to.name"],
    "timing": {"connect_seconds": 2.5, "total_seconds": 20, "lease_seconds": 40},
}
DESTINATION = {
    "name": "CRM",
    "base_url": "${CRM_URL}/v1",
    "record_url": "/tasks/{reference}.html",
    "credential": {"environment": "CRM_TOKEN", "header": "Authorization: Bearer {secret}"},
    "client_retries": {
        "library": "crm-sdk",
        "version": "4.1",
        "default_attempts": 3,
        "must_set": "retries",
        "set_to": "0",
    },
    "actions": {"create_task": ACTION},
}
WORKFLOW = {
    "title": "Call {params.team}",
    "owner": "maria",
    "if_nobody": "Nobody calls.",
    "due_seconds": {"default": 3600, "outcome_unknown": 600},
    "params": [
        {"name": "team", "label": "Team"},
        {"name": "subject", "label": "Subject", "max_length": 5},
        {"name": "card", "label": "Card", "required": False, "sensitive": True},
    ],
    "steps": [{"name": "task", "title": "Task", "destination": "crm", "action": "create_task"}],
}
SOURCE = {
    "name": "Shop",
    "signature": {"header": "X-Signature", "scheme": "sha256"},
    "secrets": [{"environment": "SHOP_SECRET", "active_until": "2026-03-01T00:00:00Z"}],
    "event_id": "header:X-Event",
    "topic": "type",
    "topics": ["order"],
    "starts": "call",
    "operation_id": "shop:{event.id}",
    "params": {"team": "data.team", "subject": "data.subject"},
}
DOCUMENT = {"destination": {"crm": DESTINATION}, "workflow": {"call": WORKFLOW}, "source": {"shop": SOURCE}}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with one field set; None takes it away."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = path.split("/")
    at: Any = document
    for name in parents:
        at = at[int(name)] if isinstance(at, list) else at[name]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return document


def test_a_whole_document_is_read() -> None:
    definitions, problems = read_definitions(DOCUMENT)
    assert problems == []
    destination, workflow, source = definitions
    assert isinstance(destination, DestinationDefinition)
    profile = destination.actions["create_task"].profile
    assert (profile.destination, profile.action) == ("crm", "create_task")
    assert profile.protection.kind is ProtectionKind.IDEMPOTENCY_KEY
    assert profile.lookup is not None
    assert profile.lookup.settles is Settles.BOTH
    assert profile.lookup.decisive == (("subject", "subject"), ("to.name", "to.name"))
    assert profile.reply.meanings[1] == ("409:code=exists", Meaning.EXISTS_NAMED)
    assert profile.timing.connect_seconds == 2.5
    assert isinstance(workflow, WorkflowDefinition)
    assert workflow.steps[0].performer is Performer.ENGINE
    assert (workflow.due_seconds_for("outcome_unknown"), workflow.due_seconds_for("disputed")) == (600, 3600)
    assert check_together(definitions) == []
    assert source.slug == "shop"


@pytest.mark.parametrize("slug", ["destination/crm", "workflow/call", "source/shop"])
def test_a_stored_version_reads_back_the_same(slug: str) -> None:
    kind, _, name = slug.partition("/")
    definition, problems = build_definition(kind, name, DOCUMENT[kind][name])
    assert problems == []
    assert definition is not None
    stored = json.dumps(to_json(definition), sort_keys=True)
    assert from_json(json.loads(stored)) == definition
    assert json.dumps(to_json(from_json(json.loads(stored))), sort_keys=True) == stored


def test_numbers_in_a_stored_version_may_be_exact_decimals() -> None:
    definition, _ = build_definition("destination", "crm", DESTINATION)
    assert definition is not None
    stored = json.loads(json.dumps(to_json(definition)), parse_float=Decimal)
    assert from_json(stored) == definition


A = "destination.crm.actions.create_task"
CRM = "destination/crm/"
ACT = CRM + "actions/create_task/"
MISTAKES = {
    "unknown kind": ("destinations", {}, "destinations", "did you mean destination?"),
    "unknown field": (
        CRM + "sends_per_secnd",
        3,
        "destination.crm.sends_per_secnd",
        "did you mean sends_per_second?",
    ),
    "unknown field of an action": (ACT + "lokup", {}, A + ".lokup", "did you mean lookup?"),
    "unknown field deep inside": (
        ACT + "lookup/quiet_second",
        5,
        A + ".lookup.quiet_second",
        "did you mean quiet_seconds?",
    ),
    "seconds as text": (
        ACT + "lookup/quiet_seconds",
        "5",
        A + ".lookup.quiet_seconds",
        "must be a whole number of seconds, 0 or more",
    ),
    "seconds below zero": (
        ACT + "lookup/quiet_seconds",
        -1,
        A + ".lookup.quiet_seconds",
        "must be a whole number of seconds, 0 or more",
    ),
    "seconds as true": (
        ACT + "lookup/quiet_seconds",
        True,
        A + ".lookup.quiet_seconds",
        "must be a whole number of seconds",
    ),
    "a fraction of a second": (
        ACT + "lookup/quiet_seconds",
        1.5,
        A + ".lookup.quiet_seconds",
        "must be a whole number of seconds",
    ),
    "endless seconds": (
        ACT + "timing/total_seconds",
        float("inf"),
        A + ".timing.total_seconds",
        "must be a number of seconds",
    ),
    "a delay that is no number": (
        ACT + "lookup/delays_seconds",
        [2, "5"],
        A + ".lookup.delays_seconds[1]",
        "must be a whole number of seconds",
    ),
    "a due time that is no number": (
        "workflow/call/due_seconds/default",
        "1h",
        "workflow.call.due_seconds.default",
        "must be a whole number of seconds",
    ),
    "missing field": (CRM + "base_url", None, "destination.crm.base_url", "is missing"),
    "a list where a table belongs": (ACT + "lookup", [], A + ".lookup", "must be a table"),
    "a table where a list belongs": ("workflow/call/steps", {}, "workflow.call.steps", "must be a list"),
    "text where a table belongs": (
        "workflow/call",
        "x",
        "workflow.call",
        "must be a table of fields, not text",
    ),
    "a word that is none": (
        ACT + "protection/kind",
        "idempotency",
        A + ".protection.kind",
        "did you mean idempotency_key?",
    ),
    "one look only": (ACT + "lookup/looks_min", 1, A + ".lookup.looks_min", "must be 2 or more"),
    "falling delays": (
        ACT + "lookup/delays_seconds",
        [9, 3],
        A + ".lookup.delays_seconds",
        "must not decrease",
    ),
    "undocumented protection": (ACT + "protection/source", None, A + ".protection.source", "is missing"),
    "undocumented absence": (ACT + "lookup/source", None, A + ".lookup.source", "is missing"),
    "a key without a place": (
        ACT + "protection/key_in",
        "Idempotency-Key",
        A + ".protection.key_in",
        "must say where the key goes",
    ),
    "a key in no table": (
        ACT + "protection/key_in",
        "body:meta.key",
        A + ".protection.key_in",
        "has no table for it",
    ),
    "a key where a value stands": (
        ACT + "protection/key_in",
        "body:subject",
        A + ".protection.key_in",
        "has a value there already",
    ),
    "a window without protection": (ACT + "protection/kind", "none", A + ".protection", "its kind is none"),
    "deadlines that do not nest": (ACT + "timing/lease_seconds", 20, A + ".timing", "must nest"),
    "a lease beyond the broker": (ACT + "timing/lease_seconds", 4000, A + ".timing", "must nest"),
    "a client that repeats": (
        CRM + "client_retries/must_set",
        None,
        "destination.crm.client_retries.must_set",
        "sends up to 3 times by itself",
    ),
    "a search that settles nothing": (ACT + "lookup", None, A + ".lookup", "is missing"),
    "a read that is promised": (ACT + "read", None, A + ".read", "is missing"),
    "a decisive field that is not sent": (
        ACT + "lookup/decisive",
        {"subjct": "subject"},
        A + ".lookup.decisive",
        "names subjct",
    ),
    "a sensitive field that is not sent": (ACT + "sensitive", ["phone"], A + ".sensitive[0]", "names phone"),
    "a final effect without words": (
        ACT + "final_effect",
        {"by": "lookup", "deadline_seconds": 60, "look_delays_seconds": [5]},
        A + ".status",
        "is missing",
    ),
    "a report from nowhere": (
        ACT + "final_effect",
        {"by": "report", "deadline_seconds": 60},
        A + ".report",
        "is missing",
    ),
    "a placeholder of no kind": (
        ACT + "request/body/subject",
        "{secret.token}",
        A + ".request.body",
        "names secret.token",
    ),
    "a single brace": (
        ACT + "request/body/subject",
        "{params.subject",
        A + ".request.body",
        "single brace at character 1",
    ),
    "a query in the path": (ACT + "request/path", "/tasks?x=1", A + ".request.path", "neither ? nor #"),
    "a method that is none": (ACT + "request/method", "SEND", A + ".request.method", "must be one of"),
    "an address of no scheme": (
        CRM + "base_url",
        "file:///etc",
        "destination.crm.base_url",
        "must begin with http://",
    ),
    "a page of no scheme": (
        CRM + "record_url",
        "javascript:alert(1)",
        "destination.crm.record_url",
        "must be a path",
    ),
    "a credential without its secret": (
        CRM + "credential/header",
        "Authorization: Bearer",
        "destination.crm.credential.header",
        "must hold {secret}",
    ),
    "a slug with capitals": ("destination/CRM", DESTINATION, "destination.CRM", "must be named with a-z"),
    "a title of no param": (
        "workflow/call/title",
        "Call {params.nobody}",
        "workflow.call.title",
        "not a param",
    ),
    "a title that tells a secret": (
        "workflow/call/title",
        "Card {params.card}",
        "workflow.call.title",
        "is sensitive",
    ),
    "no default due time": (
        "workflow/call/due_seconds",
        {"disputed": 5},
        "workflow.call.due_seconds.default",
        "is missing",
    ),
    "a due time for no reason": (
        "workflow/call/due_seconds",
        {"default": 5, "lost": 5},
        "workflow.call.due_seconds.lost",
        "is not a reason",
    ),
    "two steps of one name": (
        "workflow/call/steps",
        WORKFLOW["steps"] * 2,
        "workflow.call.steps",
        "names task more than once",
    ),
    "a kind for a param": (
        "workflow/call/params/0/kind",
        "locked",
        "workflow.call.params[0].kind",
        "is for fields of content",
    ),
    "no such kind": (
        "workflow/call/content",
        [{"name": "text", "label": "Text", "kind": "lock"}],
        "workflow.call.content[0].kind",
        "did you mean locked",
    ),
    "free and sensitive": (
        "workflow/call/content",
        [{"name": "text", "label": "Text", "kind": "free", "sensitive": True}],
        "workflow.call.content[0].kind",
        "leave one of them out",
    ),
    "an approval for no time": (
        "workflow/call/approval_seconds",
        0,
        "workflow.call.approval_seconds",
        "must be 1 or more",
    ),
    "approval of nothing": (
        "workflow/call/steps/0/needs_approval",
        True,
        "workflow.call.content",
        "is missing",
    ),
    "a lease above the longest": (
        "workflow/call/steps",
        [{**WORKFLOW["steps"][0], "performer": "automation", "longest_seconds": 5}],
        "workflow.call.steps[0].lease_seconds",
        "not above longest_seconds",
    ),
    "an unsigned body": (
        "source/shop/signature/signed",
        "{timestamp}",
        "source.shop.signature.signed",
        "must hold {body}",
    ),
    "a timestamp that is not signed": (
        "source/shop/signature/timestamp_header",
        "X-Time",
        "source.shop.signature",
        "must name the timestamp's place",
    ),
    "an id space that is no name": (
        "destination/crm/actions/create_task/reply/id_space",
        "Tasks and notes",
        "destination.crm.actions.create_task.reply.id_space",
        "must be named with a-z",
    ),
    "a source that signs nothing": ("source/shop/signature", None, "source.shop.signature", "is missing"),
    "no secret": ("source/shop/secrets", [], "source.shop.secrets", "is empty"),
    "an end without zone": (
        "source/shop/secrets",
        [{"environment": "S", "active_until": "2026-03-01"}],
        "source.shop.secrets[0].active_until",
        "with its zone",
    ),
    "one operation for all events": (
        "source/shop/operation_id",
        "shop",
        "source.shop.operation_id",
        "holds no value of the event",
    ),
    "values glued together": (
        "source/shop/operation_id",
        "{event.topic}{event.id}",
        "source.shop.operation_id",
        "side by side",
    ),
    "values glued by a letter": (
        "source/shop/operation_id",
        "{event.topic}-{event.id}",
        "source.shop.operation_id",
        "must have a : or /",
    ),
    "a start without an id": (
        "source/shop/operation_id",
        None,
        "source.shop.operation_id",
        "belong together",
    ),
    "an answer that is no success": (
        "source/shop/answer_done",
        404,
        "source.shop.answer_done",
        "from 200 to 299",
    ),
    "a form that is not accepted": (
        "source/shop/form_field",
        "payload",
        "source.shop.content_types",
        "must hold application/x-www-form-urlencoded",
    ),
}


@pytest.mark.parametrize(("where", "value", "path", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place(where: str, value: Any, path: str, message: str) -> None:
    definitions, problems = read_definitions(changed(where, value))
    told = [(place, text) for place, text in problems if place == path and message in text]
    assert told, problems
    assert len(definitions) == (3 if where in {"destinations", "destination/CRM"} else 2), (
        "its neighbours are kept"
    )


def test_all_mistakes_are_told_at_once() -> None:
    document = changed(ACT + "lookup/quiet_seconds", "5")
    document["destination"]["crm"]["nam"] = "x"
    document["destination"]["crm"]["actions"]["create_task"]["request"]["body"] = {"when": float("nan")}
    document["workflow"]["call"]["steps"][0]["performer"] = "robot"
    paths = [path for path, _ in read_definitions(document)[1]]
    assert paths == [
        A + ".lookup.quiet_seconds",
        A + ".request.body.when",
        "destination.crm.nam",
        "workflow.call.steps[0].performer",
    ]


@pytest.mark.parametrize(
    "name", ["Host", "content-length", "Connection", "Transfer-Encoding", "TE", "Upgrade"]
)
@pytest.mark.parametrize("where", ["request/headers", "protection/key_in", "credential"])
def test_a_header_that_is_the_transports_to_set_is_refused_when_it_is_loaded(name: str, where: str) -> None:
    path, value = {
        "request/headers": (ACT + "request/headers", {name: "x"}),
        "protection/key_in": (ACT + "protection/key_in", f"header:{name}"),
        "credential": ("destination/crm/credential/header", f"{name}: {{secret}}"),
    }[where]
    _, problems = read_definitions(changed(path, value))
    assert [message for _, message in problems if "transport's to set" in message]


TOGETHER = {
    "destination": (
        "workflow/call/steps/0/destination",
        "crn",
        "workflow.call.steps[0].destination",
        "names crn",
    ),
    "action": (
        "workflow/call/steps/0/action",
        "create",
        "workflow.call.steps[0].action",
        "not one of create_task",
    ),
    "param": (
        ACT + "request/body/subject",
        "{params.topic}",
        "workflow.call.steps[0].action",
        "needs params.topic",
    ),
    "own reference": (
        ACT + "request/body/subject",
        "{steps.task.reference}",
        "workflow.call.steps[0].action",
        "needs steps.task",
    ),
    "workflow": ("source/shop/starts", "cal", "source.shop.starts", "names cal"),
    "needed param": ("source/shop/params", {"team": "x"}, "source.shop.params.subject", "call needs it"),
    "foreign param": (
        "source/shop/params/colour",
        "x",
        "source.shop.params.colour",
        "is not a param of call",
    ),
}


@pytest.mark.parametrize(("where", "value", "path", "message"), TOGETHER.values(), ids=TOGETHER.keys())
def test_what_a_definition_names_must_exist(where: str, value: Any, path: str, message: str) -> None:
    definitions, problems = read_definitions(changed(where, value))
    assert problems == []
    (told,) = check_together(definitions)
    assert told[0] == path
    assert message in told[1]


def test_addresses_take_their_variables_once() -> None:
    definition, _ = build_definition("destination", "crm", DESTINATION)
    assert isinstance(definition, DestinationDefinition)
    assert environment_names(definition) == ("CRM_URL",)
    resolved = with_environment(definition, {"CRM_URL": "https://crm.example/${HOME}"}.__getitem__)
    assert resolved.base_url == "https://crm.example/${HOME}/v1"
    assert definition.base_url == "${CRM_URL}/v1"


def test_from_json_refuses_what_is_no_definition() -> None:
    with pytest.raises(ValueError, match="is no kind"):
        from_json({"slug": "x"})


def test_the_demo_definitions_are_valid() -> None:
    folder = Path(__file__).parents[2] / "demo" / "definitions"
    definitions, mistakes = [], []
    for path in sorted(folder.glob("*.toml")):
        found, problems = read_definitions(tomllib.loads(path.read_text(encoding="utf-8")))
        definitions += found
        mistakes += problems
    assert mistakes == []
    assert check_together(definitions) == []
    assert {"crm", "crm_classic", "mail", "shop", "campaign_follow_up"} <= {one.slug for one in definitions}


# Parameters


def a_workflow(**param: Any) -> WorkflowDefinition:
    definition, problems = build_definition(
        "workflow", "w", {**WORKFLOW, "title": "T", "params": [{"name": "p", "label": "P", **param}]}
    )
    assert problems == []
    assert isinstance(definition, WorkflowDefinition)
    return definition


GOOD_VALUES = [
    ("text", " id \u00fc u\u0308 \x00 \ud83d "),
    ("text", ""),
    ("integer", 9007199254740993),
    ("integer", "9007199254740993"),
    ("integer", Decimal("-0")),
    ("decimal", Decimal("1.10")),
    ("decimal", "1.10"),
    ("decimal", Decimal("12345678901234567.89")),
    ("decimal", 3),
    ("decimal", Number("1e2")),
    ("date", "2028-02-29"),
    ("boolean", False),
    ("email", "jo.o'neill+x@mail.example"),
]


@pytest.mark.parametrize(("kind", "value"), GOOD_VALUES, ids=repr)
def test_a_good_value_is_kept_as_it_is(kind: str, value: Any) -> None:
    kept, problems = check_params(a_workflow(type=kind), {"p": value})
    assert problems == []
    assert type(kept["p"]) is type(value)
    assert str(kept["p"]) == str(value)


BAD_VALUES = [
    ("text", 5, "must be text"),
    ("text", Number("5"), "must be text"),
    ("text", "x" * 10_001, "has 10001 characters; at most 10000 fit"),
    ("integer", 1.0, "must be a whole number"),
    ("integer", Decimal("1.0"), "must be a whole number"),
    ("integer", True, "must be a whole number"),
    ("integer", "007", "must be a whole number"),
    ("integer", "\u0665", "must be a whole number"),
    ("integer", " 5", "must be a whole number"),
    ("decimal", "1,10", "must be a number"),
    ("decimal", "NaN", "must be a number"),
    ("decimal", Decimal("Infinity"), "must be a number"),
    ("decimal", 1.1, "must be a number"),
    ("date", "2026-02-30", "must be a date"),
    ("date", "2026-W01-1", "must be a date"),
    ("date", "20260301", "must be a date"),
    ("boolean", 1, "must be true or false"),
    ("boolean", "true", "must be true or false"),
    ("email", "Jo <jo@mail.example>", "must be one e-mail address"),
    ("email", "jo@mail.example\r\nBcc: all@mail.example", "must be one e-mail address"),
    ("email", "jo", "must be one e-mail address"),
    ("email", "jo@@mail.example", "must be one e-mail address"),
    ("text", ["x"], "must be text"),
    ("text", None, "is missing"),
]


@pytest.mark.parametrize(("kind", "value", "message"), BAD_VALUES, ids=lambda value: repr(value)[:30])
def test_a_bad_value_is_refused_with_its_name(kind: str, value: Any, message: str) -> None:
    kept, ((path, text),) = check_params(a_workflow(type=kind), {"p": value})
    assert (kept, path) == ({}, "params.p")
    assert message in text


def test_unknown_params_are_refused_and_absent_optional_ones_left_out() -> None:
    workflow = a_workflow(required=False)
    assert check_params(workflow, {"p": None}) == ({}, [])
    assert check_params(workflow, {}) == ({}, [])
    assert check_params(workflow, {"P": "x"}) == ({}, [("params.P", "is not a known field")])
    assert check_params(workflow, ["x"]) == ({}, [("params", "must be an object")])

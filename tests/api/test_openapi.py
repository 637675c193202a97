"""The document describes what is served; the page is the document, and needs no script."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from api_world import World, deliver
from django.test import Client

from opsledger.api.calls import CALLS
from opsledger.api.docs import sections
from opsledger.api.hooks import _refused
from opsledger.api.openapi import document
from opsledger.api.problems import KINDS
from opsledger.api.shapes.recording import Batch, NewOperation
from opsledger.demo.people import PEOPLE
from opsledger.engine.loading import read_files
from opsledger.rules.definition_types import WorkflowDefinition
from opsledger.rules.definitions import check_params
from opsledger.sources.refusals import Refusal

ROOT = Path(__file__).resolve().parents[2]


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_document_is_served_as_json(client: Client) -> None:
    answer = client.get("/api/v1/openapi.json")
    assert answer["Content-Type"] == "application/json"
    assert answer.json()["openapi"] == "3.1.0"


def test_every_call_and_every_reference_is_in_the_document() -> None:
    described = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in document()["paths"].items()
        for method in methods
    }
    assert described == {(call.method, call.path) for call in CALLS}
    schemas = document()["components"]["schemas"]
    assert {ref.rpartition("/")[2] for ref in references(document())} <= set(schemas)


def test_operation_ids_are_unique_and_every_path_name_is_a_parameter() -> None:
    calls = [call for methods in document()["paths"].values() for call in methods.values()]
    assert len({call["operationId"] for call in calls}) == len(CALLS)
    for path, methods in document()["paths"].items():
        for call in methods.values():
            named = {one["name"] for one in call["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"\{([a-z]+)\}", path))


def test_objects_that_are_taken_refuse_what_they_do_not_know() -> None:
    schemas = document()["components"]["schemas"]
    for name in (
        "NewOperation",
        "SourceEvent",
        "Outcome",
        "HowKnown",
        "Evidence",
        "Settlement",
        "Assignment",
    ):
        assert schemas[name]["additionalProperties"] is False


@pytest.mark.parametrize("call", [call for call in CALLS if call.shape], ids=lambda call: call.name)
def test_every_example_is_valid(call: Any) -> None:
    call.shape.model_validate(dict(call.example))


def test_a_batch_example_holds_valid_operations() -> None:
    batch = next(call for call in CALLS if call.shape is Batch)
    for item in batch.example["items"]:
        NewOperation.model_validate(item)


@pytest.mark.parametrize("call", [call for call in CALLS if call.intake], ids=lambda call: call.name)
def test_an_example_of_an_operation_is_recorded_by_the_demo_as_it_stands(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_URL", "http://127.0.0.1:9")
    definitions = read_files([ROOT / "demo" / "definitions"])
    workflows = {one.slug: one for one in definitions if isinstance(one, WorkflowDefinition)}
    for item in call.example.get("items", [call.example]):
        assert check_params(workflows[item["workflow"]], item["params"])[1] == []


def test_a_list_is_read_as_its_example_shows(world: World) -> None:
    """And the document says of a field of the query that it has to be there."""
    lists = [call for call in CALLS if call.method == "GET" and "{" not in call.path]
    shown = {call.anchor: call.curl for tag in sections() for call in tag.calls}
    for call in lists:
        address = re.search(r'"\$OPSLEDGER/api/v1([^"]*)"', shown[call.name])
        assert address
        path, _, query = address[1].partition("?")
        assert world.owner.get(path, dict(parse_qsl(query))).status_code == 200, call.name
        parameters = document()["paths"][f"/api/v1{call.path}"]["get"]["parameters"]
        required = {one["name"] for one in parameters if one["in"] == "query" and one["required"]}
        assert (world.owner.get(call.path).status_code == 200) is not bool(required), call.name


def test_an_example_names_somebody_of_the_demo() -> None:
    named = {call.example["owner"] for call in CALLS if "owner" in (call.example or {})}
    assert named
    assert named <= {email for email, _name, _roles in PEOPLE}


def test_the_page_shows_every_call_and_every_problem(client: Client) -> None:
    text = client.get("/api/docs").content.decode()
    for call in CALLS:
        assert f'id="{call.name}"' in text
        assert f"{call.method} /api/v1{call.path}" in text
    for code in KINDS:
        assert f'id="problem-{code}"' in text


def test_the_page_needs_nothing_from_elsewhere_and_nothing_inline(client: Client) -> None:
    answer = client.get("/api/docs")
    text = answer.content.decode()
    assert "<script" not in text
    assert "<style" not in text
    assert not re.search(r"\s(style|on[a-z]+)=", text)
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert addresses
    assert all(re.match(r"(#|/(?!/))", address) for address in addresses)
    assert "script-src 'self'" in answer["Content-Security-Policy"]


def test_the_types_of_problems_lead_to_the_page(world: World) -> None:
    text = Client().get("/api/docs").content.decode()
    answers = [
        world.auto.get("/operations/none"),
        world.auto.post("/operations", b"{"),
        deliver({}, headers={}),
    ]
    for answer in [*answers, deliver(b"x" * 10_000_000, headers={})]:
        page, _, anchor = answer.json()["type"].partition("#")
        assert page == "/api/docs"
        assert f'id="{anchor}"' in text


def test_every_refusal_of_a_delivery_leads_to_its_place(client: Client) -> None:
    text = client.get("/api/docs").content.decode()
    for status in (400, 401, 409, 413, 415, 503):
        kind = json.loads(_refused(Refusal("said", status, "Said.")).content)["type"]
        assert f'id="{kind.partition("#")[2]}"' in text, status


def test_the_page_says_from_where_the_figures_may_be_read(client: Client) -> None:
    assert "METRICS_ALLOWED_NETWORKS" in client.get("/api/docs").content.decode()


def test_the_guide_names_every_call_and_every_problem() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    for call in CALLS:
        assert f"`{call.method} {call.path}`" in text, call.path
    for code in KINDS:
        assert f"`{code}`" in text, code

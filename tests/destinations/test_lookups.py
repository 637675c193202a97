"""Reading a destination: what a lookup makes of a reply, over a real connection."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opsledger.destinations.http import Lookup, Wire, read, search
from opsledger.destinations.transport import AddressGuard
from opsledger.rules.definitions import DestinationDefinition, read_definitions
from opsledger.rules.facts import LookupStatus
from tests.destinations.transport.servers import answers, serving

WIRE = Wire(AddressGuard.of(["127.0.0.0/8"]))
SOURCE = {"url": "https://crm.example/docs", "checked": "2026-03-01"}


def destination(url: str) -> DestinationDefinition:
    action = {
        "title": "Create a task",
        "effect": "create",
        "request": {"method": "POST", "path": "/tasks", "body": {"total": "1.10", "to": {"name": "x"}}},
        "reply": {"reference": "id"},
        "lookup": {
            "settles": "both",
            "quiet_seconds": 5,
            "delays_seconds": [2],
            "last_look_seconds": 60,
            "identity": "own",
            "by_reference": True,
            "decisive": {"total": "sum.total", "to.name": "to"},
            "source": SOURCE,
        },
        "search": {
            "path": "/tasks",
            "query": {"own": "{step.identity}"},
            "records": "items",
            "reference": "id",
            "next_page": "next",
        },
        "read": {"path": "/tasks/{reference}", "reference": "id"},
    }
    document = {"destination": {"crm": {"name": "CRM", "base_url": url, "actions": {"create": action}}}}
    found, problems = read_definitions(document)
    assert not problems, problems
    assert isinstance(found[0], DestinationDefinition)
    return found[0]


def looked(body: bytes, *, by_reference: bool = False) -> Lookup:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with serving(answers(head + body)) as server:
        crm = destination(server.url("").rstrip("/"))
        action = crm.actions["create"]
        return read(WIRE, crm, action, "T-1") if by_reference else search(WIRE, crm, action, "op-1", {})


ONE = b'{"id": %s, "own": "op-1", "sum": {"total": 1.10}, "sum.total": 9, "to": ["a", 2.50]}'
FIELDS = (("sum.total", "1.10"), ("to", '["a",2.50]'))
REFERENCES = {
    "text": (b'"T-1"', "T-1"),
    "a number above 2^53": (b"9007199254740993", "9007199254740993"),
    "null": (b"null", ""),
    "blank": (b'" "', ""),
    "an object": (b"{}", ""),
}


@pytest.mark.parametrize(("reference", "kept"), REFERENCES.values(), ids=REFERENCES.keys())
@pytest.mark.parametrize("by_reference", [False, True], ids=["searched", "read"])
def test_a_record_is_read_to_the_digit(reference: bytes, kept: str, by_reference: bool) -> None:
    record = ONE % reference
    body = record if by_reference else b'{"items": [%s]}' % record
    found = looked(body, by_reference=by_reference)
    assert found.fact.status is LookupStatus.RECORDS
    (one,) = found.fact.records
    assert (one.reference, one.identity, one.fields) == (kept, "op-1", FIELDS)


def test_a_record_without_its_reference_has_none() -> None:
    found = looked(b'{"items": [{"own": "op-1"}]}')
    assert [(one.reference, one.fields) for one in found.fact.records] == [("", ())]


NO_ANSWER = {
    "a page": b"<html>",
    "the same key twice": b'{"items": [], "items": []}',
    "no list": b'{"items": {}}',
    "nothing": b"",
    "not a number": b'{"items": [NaN]}',
}


@pytest.mark.parametrize("body", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_a_reply_that_can_be_read_in_two_ways_is_no_answer(body: bytes) -> None:
    fact = looked(body).fact
    assert (fact.status, fact.error, fact.records) == (LookupStatus.NO_ANSWER, "unexpected_answer", ())


PAGES: dict[str, tuple[Any, bool]] = {
    "no next page": (None, True),
    "an empty one": ("", True),
    "false": (False, True),
    "one that can't be followed": ({"cursor": "x"}, False),
    "true": (True, False),
}


@pytest.mark.parametrize(("following", "complete"), PAGES.values(), ids=PAGES.keys())
def test_all_pages_are_read_or_the_answer_is_not_complete(following: Any, complete: bool) -> None:
    fact = looked(json.dumps({"items": [], "next": following}).encode()).fact
    assert (fact.status, fact.complete) == (LookupStatus.RECORDS, complete)


@pytest.mark.parametrize(
    "following",
    [
        "https://elsewhere.example/tasks?page=2",
        "//elsewhere.example/tasks",
        "http://127.0.0.1:1/tasks",
        "http://[::1",
    ],
    ids=["another host", "another host, no scheme", "another port", "no address"],
)
def test_a_next_page_elsewhere_is_not_followed_and_is_no_refusal_of_access(following: str) -> None:
    """The credential stays here, so what is there is not read; that the first page came shows that we are let in."""
    found = looked(json.dumps({"items": [{"id": "T-1", "own": "op-1"}], "next": following}).encode())
    assert (found.fact.status, found.fact.complete) == (LookupStatus.RECORDS, False)
    assert [one.reference for one in found.fact.records] == ["T-1"]

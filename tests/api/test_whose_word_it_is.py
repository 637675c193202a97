"""Law 10: what an automation tells of a record is its own word, in the journal and in what is known by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from api_world import World, read
from test_references import MORE, claim, evidence, looked, recovers, report, step

from opsledger.journal.models import Entry
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.record import record_looks
from opsledger.ledger.models import Attempt, Evidence, Hold

NAMES = ["crm", "Maria Lopez, maria@customers.example", "destination:crm"]


def last_line() -> Entry:
    line = Entry.objects.filter(subject_id=step().operation_id).order_by("seq").last()
    assert line is not None
    return line


def found(**fields: str) -> dict[str, Any]:
    return {"reference": "T-1", "identity": step().identity, "fields": {"subject": "Call back"} | fields}


@pytest.fixture
def unknown(world: World) -> World:
    recovers(world)
    report(world, claim(world, "order:1"), "unknown")
    return world


@pytest.mark.parametrize("name", NAMES)
def test_a_record_that_an_automation_tells_of_is_known_by_its_report(unknown: World, name: str) -> None:
    """Whatever its token is called: a name never says who."""
    teller = unknown.token(name, "report", "read")

    answer = teller.post(
        "/operations/order:1/steps/create_task/evidence", {"says": "found", "how": "seen there"} | found()
    )

    assert answer.json()["state"] == "confirmed"
    assert (last_line().kind, last_line().actor.partition(":")[0]) == ("evidence_added", "token")
    assert Attempt.objects.get().known_by == "report"
    assert not Entry.objects.filter(actor__contains="aria").exists()
    assert not Entry.objects.filter(actor__startswith="destination:").exists()
    assert (Evidence.objects.get(kind="report").origin, Hold.objects.filter(closed_at=None).count()) == (
        name,
        0,
    )


def test_what_a_lookup_finds_is_the_destinations_word(unknown: World) -> None:
    record_looks([looked("T-1")])

    assert (last_line().kind, last_line().actor) == ("lookup_ended", "destination:crm")
    assert Attempt.objects.get().known_by == "lookup"


def test_a_contradiction_says_that_it_was_told_and_not_looked_up(world: World) -> None:
    report(world, claim(world, "order:1"), "confirmed", reference="T-7")

    evidence(world, "found", **found())

    said = json.loads(Hold.objects.get(closed_at=None).facts)
    assert step().state == "unknown"
    assert [one["known_by"] for one in said["statements"]] == ["automation", "report"]
    assert last_line().actor.startswith("token:")


def test_a_failure_that_a_lookup_found_is_known_by_the_lookup(world: World) -> None:
    """`report` was written whoever had told of it."""
    load(world.cast.launch.pk, read(MORE), actor="command:test")
    report(world, claim(world, "order:1", "ticketed"), "accepted", reference="T-1")

    record_looks([looked("T-1", final="failed")])

    assert (step().state, Attempt.objects.get().known_by) == ("failed", "lookup")

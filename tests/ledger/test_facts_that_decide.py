"""Laws 5, 6 and 10: what an open hold knows of records that were found is in the journal, and is proved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from opsledger.ledger.actions import change
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.models import Hold
from opsledger.local.postgres import Urls
from opsledger.rules.facts import FoundRecord
from tests.by_hand import change_by_hand
from tests.console.scenes import Scenes
from tests.desk import Desk, step_identity
from tests.proof import faults_found


@pytest.fixture
def scenes(desk: Desk) -> Scenes:
    return Scenes(desk)


def hold_of(opened: Opened) -> Hold:
    return Hold.objects.get(operation_id=opened.id, closed_at=None)


def put(urls: Urls, opened: Opened, facts: Mapping[str, object]) -> None:
    """Facts of its hold that are there by hand; None takes one away."""
    hold = hold_of(opened)
    kept = {name: value for name, value in (json.loads(hold.facts) | facts).items() if value is not None}
    assert change_by_hand(urls, "UPDATE ledger_hold SET facts = %s WHERE id = %s", json.dumps(kept), hold.pk)


def unnamed(scenes: Scenes) -> Opened:
    """A lookup finds a record that carries its identity and no reference, while somebody is asked already."""
    opened = scenes.unknown()
    identity = step_identity(opened.id, 1)
    scenes.look(opened, FoundRecord("", identity, scenes.record(opened, "T-1").fields))
    return opened


DECIDING: dict[str, object] = {
    "found_unnamed": True,
    "reference": "T-0",
    "references": ["T-0", "T-1"],
    "candidates": ["T-0"],
    "taken_by": "order:2",
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_record_that_nobody_found_is_seen(scenes: Scenes, database_urls: Urls, name: str) -> None:
    opened, neighbour = scenes.unknown(), scenes.unknown()
    assert faults_found() == ""

    put(database_urls, opened, {name: DECIDING[name]})

    said = faults_found()
    assert str(opened.id) in said and str(hold_of(opened).pk) in said
    assert str(neighbour.id) not in said


@pytest.mark.parametrize(
    ("scene", "facts"),
    [
        (unnamed, {"found_unnamed": None}),
        (unnamed, {"found_unnamed": False}),
        (Scenes.differs, {"reference": None}),
        (Scenes.differs, {"reference": "T-0"}),
        (Scenes.duplicate, {"references": ["T-58401"]}),
        (Scenes.duplicate, {"references": ["T-58409", "T-58401"]}),
    ],
    ids=[
        "found without a reference",
        "the same, denied",
        "what differs",
        "another that differs",
        "one of two",
        "two, the other way round",
    ],
)
def test_a_record_that_was_found_and_is_changed_is_seen(
    scenes: Scenes, database_urls: Urls, scene: Any, facts: dict[str, object]
) -> None:
    opened = scene(scenes)
    assert set(facts) <= set(json.loads(hold_of(opened).facts))
    assert faults_found() == ""

    put(database_urls, opened, facts)

    assert str(opened.id) in faults_found()


def test_what_is_shown_alone_is_not_compared(scenes: Scenes, database_urls: Urls) -> None:
    opened = scenes.differs()

    put(database_urls, opened, {"look_sentence": "Said by hand.", "rows": None})

    assert faults_found() == ""


def test_a_hold_of_before_the_digests_is_proved_from_its_next_change(
    scenes: Scenes, database_urls: Urls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(change, "facts_told", lambda rows: {})
        opened = scenes.differs()
    assert faults_found() == ""
    put(database_urls, opened, {"reference": "T-58301"})
    assert faults_found() == ""  # nothing tells what it was

    scenes.look(opened, scenes.record(opened, "T-58302", due_date="2027-02-28"))
    assert faults_found() == ""
    put(database_urls, opened, {"reference": "T-58303"})

    assert str(opened.id) in faults_found()

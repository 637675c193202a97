"""What a definition says beside its versions is what its newest version says; an owner's choice stands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsledger.engine import replays
from opsledger.engine.loading import read_files
from opsledger.journal.models import Entry
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Destination, Hold, Recovery
from tests.desk import DEFINITIONS, Desk, step_identity
from tests.replaying import by_owner, started, unknown

DECLARED = 'automatic_recovery = "not_drilled"\n'


class Folder:
    """The demo's definitions, to be changed and loaded again."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk, self.folder = desk, folder / "definitions"
        shutil.copytree(DEFINITIONS, self.folder)

    def write(self, name: str, change: Callable[[str], str]) -> None:
        file = self.folder / name
        file.write_text(change(file.read_text()))

    def load(self, name: str = "crm.toml", change: Callable[[str], str] = lambda text: text) -> None:
        self.write(name, change)
        load(self.desk.team.pk, read_files([self.folder]), actor="command:olga")
        forget_current()


@pytest.fixture
def folder(desk: Desk, tmp_path: Path) -> Folder:
    return Folder(desk, tmp_path)


def taken_back(text: str) -> str:
    """By the first action of the file."""
    return text.replace(DECLARED, "", 1)


def declared_again(text: str) -> str:
    return text.replace('effect = "create"\n', f'effect = "create"\n{DECLARED}', 1)


def without_the_action(text: str) -> str:
    """The first action of the file goes by another name."""
    return text.replace("actions.create_task", "actions.create_a_task")


def recovers(action: str = "create_task", destination: str = "crm") -> bool:
    return Recovery.objects.get(destination__slug=destination, action=action).enabled


def lines(destination: str = "crm") -> list[dict[str, bool]]:
    subject = Destination.objects.get(slug=destination).pk
    found = Entry.objects.filter(subject_id=subject, kind="recovery_changed").order_by("seq")
    return [json.loads(one.body)["recovers"] for one in found]


# Automatic recovery


def test_recovery_follows_its_definition_with_a_line_for_each_turn(desk: Desk, folder: Folder) -> None:
    seen = [recovers()]
    for change in (taken_back, lambda text: text, declared_again, lambda text: text):
        folder.load(change=change)
        seen.append(recovers())

    assert seen == [True, False, False, True, True]
    assert [one for one in lines() if "create_task" in one] == [
        {"create_task": True}, {"create_task": False}, {"create_task": True},
    ]  # fmt: skip
    assert recovers(destination="crm_classic")
    assert lines("crm_classic") == [{"create_task": True}]


def test_an_action_that_its_definition_no_longer_has_does_not_recover(desk: Desk, folder: Folder) -> None:
    for file in folder.folder.glob("*_follow_up.toml"):
        folder.write(file.name, with_the_other_action)
    folder.load(change=without_the_action)

    assert (recovers(), recovers("create_a_task")) == (False, True)


def with_the_other_action(text: str) -> str:
    old = 'destination = "crm"\naction = "create_task"'
    return text.replace(old, old.replace("create_task", "create_a_task"))


@pytest.mark.parametrize("chosen", [True, False], ids=["turned on", "turned off"])
@pytest.mark.parametrize("change", [taken_back, lambda text: text], ids=["taken back", "declared"])
def test_an_owners_choice_stands(
    desk: Desk, folder: Folder, change: Callable[[str], str], chosen: bool
) -> None:
    person = by_owner(desk).person_id
    Recovery.objects.filter(destination__slug="crm", action="create_task").update(
        enabled=chosen, drilled=chosen, changed_by=person, changed_at=database_now()
    )

    folder.load(change=change)

    assert recovers() is chosen
    assert lines().count({"create_task": not chosen}) == (0 if chosen else 1)  # the one of the first load


# Steps that were under way by it


def lost(desk: Desk, workflow: str) -> Opened:
    """Its first step is unknown; it would be looked up, or sent again, by itself."""
    opened = desk.open(workflow)
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=identity)
    desk.send()
    assert not Hold.objects.filter(operation_id=opened.id).exists()
    return opened


@pytest.mark.parametrize("plan", ["look", "send"])
def test_what_was_to_go_on_by_itself_asks_a_person_instead(desk: Desk, folder: Folder, plan: str) -> None:
    opened, neighbour = lost(desk, "campaign_follow_up"), lost(desk, "classic_follow_up")
    while desk.step(opened).act != plan:
        desk.hurry()
        desk.look()
    asked = Hold.objects.filter(operation_id=neighbour.id).count()
    sent = len(desk.sandbox.requests(method="POST", identity=step_identity(opened.id, 1)))

    folder.load(change=taken_back)

    assert Hold.objects.get(operation_id=opened.id, closed_at=None).reason == "outcome_unknown"
    assert Hold.objects.filter(operation_id=neighbour.id).count() == asked
    for _ in range(3):
        desk.hurry()
        desk.send()
        desk.look()
    assert len(desk.sandbox.requests(method="POST", identity=step_identity(opened.id, 1))) == sent
    assert desk.step(opened).state == "unknown"


def test_what_a_person_asked_to_be_sent_again_is_sent_all_the_same(desk: Desk, folder: Folder) -> None:
    """Under protection, as the start of a replay asks."""
    opened = unknown(desk, "campaign_follow_up", acted=False)
    started(desk, [opened])
    replays.run_once()
    assert (desk.step(opened).act, desk.step(opened).resend_asked) == ("send", True)

    folder.load(change=taken_back)
    Destination.objects.update(send_tokens=5.0)
    desk.send()

    assert desk.step(opened).state == "confirmed"


# Limits


LIMITS: dict[str, tuple[str, str, Any, Any]] = {
    "sends a second": ("sends_per_second", "sends_per_second = 20\n", 20.0, 10.0),
    "sends at once": ("in_flight_max", "max_in_flight = 8\n", 8, 8),
}


@pytest.mark.parametrize(("column", "words", "said", "unsaid"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_that_a_definition_no_longer_says_are_the_usual_ones(
    desk: Desk, folder: Folder, column: str, words: str, said: Any, unsaid: Any
) -> None:
    assert getattr(Destination.objects.get(slug="crm"), column) == said
    folder.load(change=lambda text: text.replace(words, ""))

    assert getattr(Destination.objects.get(slug="crm"), column) == unsaid

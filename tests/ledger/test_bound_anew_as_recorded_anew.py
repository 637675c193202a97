"""A step that a replay binds to a newer definition has what one recorded now would have."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opsledger.engine import replays
from opsledger.engine.loading import read_files
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.models import Definition, Step
from tests.desk import DEFINITIONS, Desk
from tests.replaying import opened_by, planned, rejected

OWN = {
    "id",
    "operation_id",
    "identity",
    "act_at",
    "ready_at",
}  # of each step, and of the moment it was recorded

BY_ENGINE = 'action = "send_message"\n'
BY_AUTOMATION = f'{BY_ENGINE}performer = "automation"\nlease_seconds = 600\nlongest_seconds = 1200\n'


def of_the_message(words: str, other: str) -> Callable[[str], str]:
    """The first of the file is the message's."""
    return lambda text: re.sub(words, other, text, count=1)


NEWER: dict[str, Callable[[str], str]] = {
    "another name": of_the_message('name = "', 'name = "New '),
    "more tries": of_the_message("tries_max = 3", "tries_max = 7"),
    "a longer lease": of_the_message("lease_seconds = 15", "lease_seconds = 40"),
    "a longer deadline": of_the_message("total_seconds = 5", "total_seconds = 9"),
}


class Files:
    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk, self.folder = desk, folder / "definitions"
        shutil.copytree(DEFINITIONS, self.folder)

    def load(self, name: str, change: Callable[[str], str]) -> None:
        file = self.folder / name
        before = file.read_text()
        file.write_text(change(before))
        assert file.read_text() != before
        load(self.desk.team.pk, read_files([self.folder]), actor="command:test")
        forget_current()


@pytest.fixture
def files(desk: Desk, tmp_path: Path) -> Files:
    return Files(desk, tmp_path)


def row(step: Step) -> dict[str, object]:
    return {
        field.attname: getattr(step, field.attname)
        for field in Step._meta.concrete_fields
        if field.attname not in OWN
    }


@pytest.mark.parametrize("change", NEWER.values(), ids=NEWER.keys())
@pytest.mark.parametrize("performer", ["the engine", "an automation"])
def test_a_step_that_is_bound_anew_is_as_one_recorded_anew(
    desk: Desk, files: Files, performer: str, change: Callable[[str], str]
) -> None:
    if performer == "an automation":
        files.load("campaign_follow_up.toml", lambda text: text.replace(BY_ENGINE, BY_AUTOMATION))
    opened, neighbour = (rejected(desk, "campaign_follow_up") for _ in range(2))
    before = row(desk.step(neighbour, 2))
    files.load("mail.toml", change)

    plan = planned(desk, [opened], newest=frozenset({"mail"}))
    assert [item.rebound for item in plan.items] == [False, True]
    opened_by(desk, plan)
    replays.run_once()

    assert row(desk.step(opened, 2)) == row(desk.step(desk.open("campaign_follow_up"), 2))
    assert row(desk.step(neighbour, 2)) == before
    if performer == "an automation":
        assert desk.step(opened, 2).lease_seconds == 600


SHOWS = 'text = "{params.message_text}"', 'text = "{content.text}"'
CONTENT = """
[[workflow.campaign_follow_up.content]]
name = "text"
label = "Text"
kind = "sensitive"
max_length = 5_000
"""


@pytest.mark.parametrize("turn", [SHOWS, SHOWS[::-1]], ids=["shows content now", "shows none any more"])
def test_a_definition_that_shows_other_content_is_for_new_operations_only(
    desk: Desk, files: Files, turn: tuple[str, str]
) -> None:
    (files.folder / "branch_follow_up.toml").unlink()  # sends the same message, and has no content
    files.load("campaign_follow_up.toml", lambda text: text + CONTENT)
    if turn != SHOWS:
        files.load("mail.toml", lambda text: text.replace(*SHOWS, 1))
    opened = rejected(desk, "campaign_follow_up")
    before = desk.step(opened, 2)
    files.load("mail.toml", lambda text: text.replace(*turn, 1))
    assert Definition.objects.get(slug="mail").current_id != before.destination_version_id

    plan = planned(desk, [opened], newest=frozenset({"mail"}))

    assert [(item.rebound, item.newer_version_id) for item in plan.items] == [(False, None)] * 2

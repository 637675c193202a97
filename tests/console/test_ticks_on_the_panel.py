"""The decision panel offers a tick at each later step that the answer would end, or may bring back, and takes it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from people import client_of
from scenes import DEFERRED, UNKNOWN, Scenes, hold_path, path_of

from opsledger.console.forms import by_person
from opsledger.ledger.actions.interventions import settle_withdraw
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import record_time_passed
from opsledger.ledger.models import Step
from opsledger.lib.ids import new_id
from opsledger.rules.answers import Answer
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import Outcome
from tests.desk import load_with_steps, turn_recovery

FOLLOW_UP = "campaign_follow_up"
MESSAGE_FIRST = """
[[workflow.campaign_follow_up.steps]]
name = "send_message"
title = "Send the message"
destination = "mail"
action = "send_message"

[[workflow.campaign_follow_up.steps]]
name = "create_task"
title = "Create the task"
destination = "crm"
action = "create_task"

[[workflow.campaign_follow_up.steps]]
name = "create_reminder"
title = "Create the reminder"
destination = "crm"
action = "create_task"
"""
CARD = re.compile(r'<div class="if (\w+) stack">')


@pytest.fixture
def message_first(scenes: Scenes, tmp_path: Path) -> Scenes:
    """A message, and two tasks that are made once it is known to have come."""
    load_with_steps(scenes.desk.team.pk, tmp_path, FOLLOW_UP, MESSAGE_FIRST)
    turn_recovery(on=False)  # also of what was loaded now
    return scenes


def not_proven(scenes: Scenes) -> Opened:
    opened = scenes.open(workflow=FOLLOW_UP)
    taken_over = Finding(Outcome.ACCEPTED, KnownBy.REPLY, reference=f"M-{new_id().hex[:6]}")
    scenes.send(taken_over, sentence="Taken over.")
    long_ago = timezone.now() - timedelta(hours=1)
    Step.objects.filter(operation_id=opened.id, number=1).update(
        accepted_at=long_ago, looks=4, looked_at=long_ago, act="await", act_at=long_ago
    )
    record_time_passed(10)
    return opened


def ticks(client: Client, opened: Opened) -> dict[str, list[str]]:
    """The later steps that each card offers a tick for."""
    parts = CARD.split(client.get(path_of(opened)).content.decode())
    cards = zip(parts[1::2], parts[2::2], strict=True)
    return {card: re.findall(r'name="keep" value="(\d+)"', text) for card, text in cards}


def post(client: Client, scenes: Scenes, opened: Opened, answer: str, **data: Any) -> int:
    hold = scenes.hold(opened)
    fields = {"version": str(hold.version), "answer": answer, "reason": "I looked at the destination."} | data
    return client.post(hold_path(hold, "settle"), fields).status_code


def states(scenes: Scenes, opened: Opened) -> list[str]:
    steps = Step.objects.filter(operation_id=opened.id).order_by("number")
    return [step.state for step in steps]


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        ([], ["accepted", "cancelled", "cancelled"]),
        (["2"], ["accepted", "ready", "cancelled"]),
        (["2", "3"], ["accepted", "ready", "waiting"]),
    ],
    ids=["none", "the next", "both"],
)
def test_what_is_left_as_accepted_lets_go_on_what_is_ticked(
    message_first: Scenes, kept: list[str], wanted: list[str]
) -> None:
    client, opened = client_of(message_first.owner), not_proven(message_first)
    assert ticks(client, opened)["leave_accepted"] == ["2", "3"]

    assert post(client, message_first, opened, "leave_accepted", keep=kept) == 303

    assert states(message_first, opened) == wanted


def tried_and_cancelled(scenes: Scenes) -> Opened:
    """Its task was refused for now; then the answer about the message was taken back, and the message denied."""
    opened, by = scenes.open(workflow=FOLLOW_UP), by_person(scenes.owner)
    message = scenes.send(UNKNOWN)
    scenes.settle(opened, Answer.HAPPENED, reference="M-1")
    scenes.send(DEFERRED, says="deferred", sentence="The reply was 429: busy.")
    version = scenes.desk.operation(opened).version
    settle_withdraw(opened.id, 1, "It was the neighbour’s message.", by, version=version)
    scenes.settle(opened, Answer.ABSENT_END, checked_how="searched there")
    scenes.end(message, Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="M-1"), sentence="A late reply.")
    return opened


def test_a_step_that_was_tried_in_vain_comes_back_by_its_tick(message_first: Scenes) -> None:
    client, opened = client_of(message_first.owner), tried_and_cancelled(message_first)
    assert states(message_first, opened) == ["unknown", "cancelled", "cancelled"]
    assert ticks(client, opened)["happened"] == ["2", "3"]
    given = {"happened_as": "confirmed", "no_reference_why": "Their list names none.", "keep": ["2"]}

    assert post(client, message_first, opened, "happened", **given) == 303

    assert states(message_first, opened) == ["confirmed", "ready", "cancelled"]

"""Ways to make a replay do more than was planned, or say less than it did."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from content_cast import hold_of
from django.core.management import call_command

from opsledger.engine import replays
from opsledger.engine.loading import read_files
from opsledger.journal.models import Entry
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.replays import open_replay
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Replay, Step
from opsledger.ledger.replay_plan import Plan
from opsledger.rules.answers import Answer
from tests.desk import DEFINITIONS, Desk
from tests.replaying import by_owner, frozen, items, opened_by, planned, rejected, start_of


def newer_mail(desk: Desk, folder: Path) -> None:
    """A newer definition of the destination of second steps: more tries, another lease."""
    copied = folder / "definitions"
    shutil.copytree(DEFINITIONS, copied)
    file = copied / "mail.toml"
    text = file.read_text()
    file.write_text(text.replace('name = "', 'name = "New ', 1))
    load(desk.team.pk, read_files([copied]), actor="command:test")
    forget_current()


def started_with_newest(desk: Desk, opened: Opened) -> tuple[Plan, Replay]:
    plan = planned(desk, [opened], newest=frozenset({"mail"}))
    assert [item.rebound for item in plan.items] == [False, True]
    return plan, open_replay(frozen(desk, plan), start_of(plan), by_owner(desk)).replay


def bound(step: Step) -> tuple[Any, ...]:
    return step.destination_version_id, step.tries_max, step.lease_seconds, step.total_seconds


def sent_again(desk: Desk, opened: Opened) -> None:
    hold = hold_of(opened)
    settle_hold(hold.pk, Decision(Answer.SAME_AGAIN, "Mended.", hold.version), by_owner(desk))


def ended(desk: Desk, opened: Opened) -> None:
    hold = hold_of(opened)
    settle_hold(hold.pk, Decision(Answer.END_FAILED, "Not wanted.", hold.version), by_owner(desk))


def cancelled(desk: Desk, opened: Opened) -> None:
    version = desk.operation(opened).version
    settle_cancel(opened.id, "Not wanted.", by_owner(desk), version=version)


@pytest.mark.parametrize("meanwhile", [sent_again, ended, cancelled])
def test_what_is_skipped_keeps_the_definition_that_it_had(desk: Desk, tmp_path: Path, meanwhile: Any) -> None:
    opened = rejected(desk, "campaign_follow_up")
    newer_mail(desk, tmp_path)
    _, replay = started_with_newest(desk, opened)
    meanwhile(desk, opened)
    before, lines = bound(desk.step(opened, 2)), Entry.objects.filter(subject_id=opened.id).count()

    replays.run_once()

    assert {state for state, _, _ in items(replay).values()} == {"skipped"}
    assert bound(desk.step(opened, 2)) == before
    assert Entry.objects.filter(subject_id=opened.id).count() == lines
    call_command("verify_ledger")


def test_what_begins_takes_the_definition_that_was_chosen_and_its_history_says_so(
    desk: Desk, tmp_path: Path
) -> None:
    opened, neighbour = rejected(desk, "campaign_follow_up"), rejected(desk, "campaign_follow_up")
    newer_mail(desk, tmp_path)
    before = bound(desk.step(neighbour, 2))
    plan, _ = started_with_newest(desk, opened)

    replays.run_once()

    assert desk.step(opened, 2).destination_version_id == plan.items[1].destination_version_id
    assert bound(desk.step(neighbour, 2)) == before
    told = Entry.objects.get(subject_id=opened.id, kind="replayed")
    assert '"rebound":{"2":' in told.body
    call_command("verify_ledger")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"per_second": {"crm-classic": 0.5}}, "per_second.crm-classic"),
        ({"touches": frozenset({"crm_classic", "shop"})}, "touches.shop"),
    ],
    ids=["a rate for a system that it does not touch", "a tick for one"],
)
def test_what_is_said_of_a_system_that_the_plan_does_not_touch_is_refused(
    desk: Desk, changes: dict[str, Any], field: str
) -> None:
    plan = planned(desk, [rejected(desk)])

    with pytest.raises(Refused, match="does not touch") as why:
        opened_by(desk, plan, **changes)

    assert why.value.field == field
    assert not Replay.objects.exists()

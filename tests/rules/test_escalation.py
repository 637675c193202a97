"""What is due of an open hold when nobody acts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from opsledger.rules.escalation import Clock, Planned, Standing, Step, due, planned

DUE = datetime(2026, 7, 1, 14, tzinfo=UTC)
MARIA, JON, OLGA, WANDA = (UUID(int=number) for number in range(1, 5))
HERE = Standing(MARIA, owner_gone=False, deputy=None, workflow_owner=WANDA, fallback=OLGA)
AWAY, UNOWNED = replace(HERE, deputy=JON), replace(HERE, owner=None)
GONE = replace(HERE, owner_gone=True)
NEW = Clock(DUE, 3600)
REMINDED = replace(NEW, reminded_at=DUE)
DONE = replace(REMINDED, escalated_at=DUE + timedelta(hours=1))


def minutes(number: int) -> datetime:
    return DUE + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("standing", "clock", "after", "step", "to"),
    [
        pytest.param(HERE, NEW, -1, None, None, id="not-due-yet"),
        pytest.param(HERE, NEW, 0, Step.REMIND, MARIA, id="due"),
        pytest.param(AWAY, NEW, 0, Step.REMIND, JON, id="due-and-away"),
        pytest.param(UNOWNED, NEW, 0, Step.REMIND, None, id="due-and-unowned"),
        pytest.param(HERE, REMINDED, 59, None, None, id="reminded"),
        pytest.param(HERE, REMINDED, 60, Step.ESCALATE, OLGA, id="overdue"),
        pytest.param(UNOWNED, REMINDED, 60, Step.ESCALATE, OLGA, id="overdue-and-unowned"),
        pytest.param(HERE, DONE, 10_000, None, None, id="once-only"),
        pytest.param(HERE, NEW, 10_000, Step.REMIND, MARIA, id="never-escalated-before-a-reminder"),
        pytest.param(GONE, NEW, -600, Step.HAND_OVER, WANDA, id="gone-before-it-is-due"),
        pytest.param(GONE, DONE, 600, Step.HAND_OVER, WANDA, id="gone-after-everything"),
        pytest.param(replace(GONE, deputy=JON), NEW, -600, Step.HAND_OVER, JON, id="gone-with-a-deputy"),
        pytest.param(
            replace(GONE, workflow_owner=None), NEW, -600, Step.HAND_OVER, OLGA, id="gone-and-nobody-named"
        ),
    ],
)
def test_what_is_due(
    standing: Standing, clock: Clock, after: int, step: Step | None, to: UUID | None
) -> None:
    found = due(standing, clock, minutes(after))
    assert (found and found.step, found and found.to) == (step, to)


def test_a_late_reminder_leaves_time_to_act() -> None:
    late = replace(NEW, reminded_at=minutes(300))
    assert due(HERE, late, minutes(359)) is None
    assert due(HERE, late, minutes(360)) == Planned(Step.ESCALATE, minutes(360), OLGA)


def test_the_plan_names_every_step_with_its_time() -> None:
    assert planned(GONE, NEW, minutes(-30)) == [
        Planned(Step.HAND_OVER, minutes(-30), WANDA),
        Planned(Step.REMIND, DUE, WANDA),
        Planned(Step.ESCALATE, minutes(60), OLGA),
    ]

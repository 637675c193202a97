"""Sequences that once broke a row of the tables, each as short as it could be made."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opsledger.rules import transitions
from opsledger.rules.record import Act, Operation
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    BY_LOOKUP,
    KEYED,
    LOOKUP,
    POSITIVE_ONLY,
    REJECTED,
    World,
    accepted,
    policy,
    profile,
    reasons,
)

NO_ANSWER = Look("no_answer")


def unknown(world: World) -> Operation:
    operation = world.lose(world.claim(world.opened()))
    assert operation.step(1).act is Act.LOOK
    return operation


def look_at_once(world: World, operation: Operation, look: Look = NO_ANSWER) -> Operation:
    """*Check now*, and the lookup's answer."""
    asked = transitions.look_requested(operation, 1, world.now, world.moment)
    world.now += timedelta(seconds=1)
    return transitions.looked(asked, 1, look, world.moment)


def look_as_planned(world: World, operation: Operation, look: Look = NO_ANSWER) -> Operation:
    step = operation.step(1)
    assert step.act is Act.LOOK
    assert step.act_at is not None
    world.now = max(world.now, step.act_at)
    return transitions.looked(operation, 1, look, world.moment)


@pytest.mark.parametrize("shape", [LOOKUP, POSITIVE_ONLY], ids=["settles both", "positive only"])
def test_looks_that_a_person_asked_for_use_up_none_of_the_planned_ones(shape: object) -> None:
    """Row 19: the looks go on until the profile's last one, however often somebody asks in between."""
    impatient, patient = World(policy(profile(lookup=shape))), World(policy(profile(lookup=shape)))
    asked, neighbour = (
        look_as_planned(impatient, unknown(impatient)),
        look_as_planned(patient, unknown(patient)),
    )
    for _ in range(10):
        asked = look_at_once(impatient, asked)

    ends = []
    for world, operation in ((impatient, asked), (patient, neighbour)):
        while operation.step(1).act is Act.LOOK:
            operation = look_as_planned(world, operation)
        assert reasons(operation) == [HoldReason.OUTCOME_UNKNOWN]
        ends.append(world.now)
    assert ends[0] >= ends[1]


def test_an_absence_is_still_proven_after_many_questions_in_the_quiet_period() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = look_as_planned(world, unknown(world))
    for _ in range(10):
        operation = look_at_once(world, operation)

    for answer in ("none", "absent"):
        operation = look_as_planned(world, operation, Look(answer, counted=True))

    assert operation.step(1).state is StepState.READY


def test_a_look_that_a_person_wants_later_puts_off_none_of_the_planned_ones() -> None:
    """Laws 3 and 13: until then nobody would look, and no hold would say so."""
    world = World(policy(profile(lookup=LOOKUP)))
    operation = unknown(world)
    planned_at = operation.step(1).act_at
    assert planned_at is not None

    asked = transitions.look_requested(operation, 1, planned_at + timedelta(days=10), world.moment)

    assert (asked.step(1).act, asked.step(1).act_at) == (Act.LOOK, planned_at)


def test_a_look_that_a_person_wants_later_is_made_then_and_somebody_is_asked_before() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = unknown(world)
    wanted_at = world.now + timedelta(days=10)
    operation = transitions.look_requested(operation, 1, wanted_at, world.moment)

    while not operation.holds:
        operation = look_as_planned(world, operation)

    assert world.now < wanted_at
    assert reasons(operation) == [HoldReason.OUTCOME_UNKNOWN]
    assert (operation.step(1).act, operation.step(1).act_at) == (Act.LOOK, wanted_at)
    assert look_as_planned(world, operation).step(1).act is Act.NONE


def test_a_final_effect_that_is_late_is_asked_about_although_somebody_wants_a_look_later() -> None:
    world = World(policy(profile(lookup=LOOKUP, final_effect=BY_LOOKUP)))
    operation = world.sent(world.opened(), accepted())
    wanted_at = world.now + timedelta(days=10)
    operation = transitions.look_requested(operation, 1, wanted_at, world.moment)

    while operation.step(1).act is Act.LOOK and operation.step(1).act_at != wanted_at:
        operation = look_as_planned(world, operation, Look("running"))
    operation = transitions.time_passed(operation, world.at(2.5))

    assert reasons(operation) == [HoldReason.DELIVERY_NOT_PROVEN]
    assert (operation.step(1).act, operation.step(1).act_at) == (Act.LOOK, wanted_at)


def test_a_look_that_a_person_wants_later_does_not_bring_a_send_forward() -> None:
    """Row 19 comes before row 20: first it is looked up until the last look, then sent again under protection."""
    long = replace(KEYED, window_seconds=5000)
    world = World(policy(profile(lookup=LOOKUP, protection=long)))
    operation = unknown(world)
    beyond_protection = world.now + timedelta(days=10)

    asked = transitions.look_requested(operation, 1, beyond_protection, world.moment)

    assert asked.step(1).act is Act.LOOK


def test_records_that_others_tell_of_use_up_none_of_the_planned_looks() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = unknown(world)
    planned = operation.step(1).looks, operation.step(1).act_at

    for _ in range(10):
        operation = transitions.looked(operation, 1, Look("candidates", planned=False), world.moment)

    assert (operation.step(1).looks, operation.step(1).act) == (planned[0], Act.LOOK)


def test_looks_for_the_final_effect_are_not_used_up_by_questions() -> None:
    world = World(policy(profile(lookup=LOOKUP, final_effect=BY_LOOKUP)))
    operation = world.sent(world.opened(), accepted())
    for _ in range(5):
        operation = look_at_once(world, operation, Look("running"))

    assert operation.step(1).act is Act.LOOK


def test_a_stored_refusal_that_is_the_first_attempts_answer_settles_the_first_attempt() -> None:
    world = World(policy(profile(protection=KEYED)))
    operation = world.lose(world.claim(world.opened()))
    assert operation.step(1).act is Act.SEND

    operation = world.sent(operation, replace(REJECTED, settles_earlier=True))

    assert [one.no_change for one in operation.step(1).attempts] == [NoChange.REJECTED, NoChange.REJECTED]
    assert reasons(operation) == [HoldReason.REJECTED]


def test_a_fresh_refusal_speaks_for_its_own_attempt_alone() -> None:
    world = World(policy(profile(protection=KEYED)))

    operation = world.sent(world.lose(world.claim(world.opened())), REJECTED)

    assert operation.step(1).attempts[0].outcome is Outcome.UNKNOWN
    assert operation.step(1).state is StepState.UNKNOWN

"""What a person said of a step that they left as accepted, or closed as never known, ends when that no longer stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import Answer
from opsledger.rules.learning import Finding
from opsledger.rules.record import Act, KnownBy, Operation
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState
from tests.rules.builders import (
    BOUNCED,
    DELIVERED,
    World,
    accepted,
    confirmed,
    message,
    policy,
    reasons,
    say,
    states,
)

S, R, A = StepState, HoldReason, Answer
REFUSED_LATE = Finding(Outcome.NO_CHANGE, KnownBy.AUTOMATION, no_change=NoChange.REJECTED)
TICK = frozenset({2})


def left(world: World, **given: Any) -> Operation:
    """Taken over as M-1, its delivery not told in time, and left at that."""
    operation = world.sent(world.opened(), accepted("M-1"))
    operation = transitions.time_passed(operation, world.at(3))
    assert reasons(operation) == [R.DELIVERY_NOT_PROVEN]
    return say(world, operation, A.LEAVE_ACCEPTED, **given)


def never_known(world: World, **given: Any) -> Operation:
    operation = world.lose(world.claim(world.opened()))
    return say(world, operation, A.CLOSE_UNKNOWN, **given)


def refused_late(world: World, operation: Operation) -> Operation:
    return world.hear(operation, REFUSED_LATE, attempt=1)


def named_otherwise(world: World, operation: Operation) -> Operation:
    return world.hear(operation, accepted("M-9"), attempt=1)


def taken_over_after_all(world: World, operation: Operation) -> Operation:
    return world.hear(operation, accepted("M-1"), attempt=1)


def withdrawn(world: World, operation: Operation) -> Operation:
    return transitions.withdrawn(operation, 1, world.moment, by="person:x")


Overturn = Callable[[World, Operation], Operation]
OVERTURNED: dict[str, tuple[Callable[..., Operation], Overturn]] = {
    "left as accepted, then refused": (left, refused_late),
    "left as accepted, then another record": (left, named_otherwise),
    "never known, then taken over": (never_known, taken_over_after_all),
    "never known, withdrawn": (never_known, withdrawn),
}


@pytest.mark.parametrize(("make", "overturn"), OVERTURNED.values(), ids=OVERTURNED)
def test_what_was_said_ends_when_the_step_is_unknown_again(
    make: Callable[..., Operation], overturn: Overturn
) -> None:
    world = World(policy(message()), policy())
    operation = overturn(world, make(world, keep_later=TICK))
    assert reasons(operation) == [R.DISPUTED]

    step = operation.step(1)
    assert (step.state, step.final_waived, step.go_on_after) == (S.UNKNOWN, False, False)


@pytest.mark.parametrize(("make", "overturn"), OVERTURNED.values(), ids=OVERTURNED)
def test_a_second_send_waits_for_its_own_final_effect(
    make: Callable[..., Operation], overturn: Overturn
) -> None:
    world = World(policy(message()), policy())
    operation = overturn(world, make(world, keep_later=TICK))
    operation = say(world, operation, A.ABSENT_SEND_AGAIN)

    operation = world.sent(operation, accepted("M-2"))

    assert (operation.state, states(operation)) == (OperationState.RUNNING, [S.ACCEPTED, S.WAITING])
    assert operation.step(1).act is Act.AWAIT
    operation = transitions.time_passed(operation, world.at(9))
    assert reasons(operation) == [R.DELIVERY_NOT_PROVEN]
    assert states(say(world, operation, A.LEAVE_ACCEPTED)) == [S.ACCEPTED, S.CANCELLED]


ONE_RECORD = {name: case for name, case in OVERTURNED.items() if case[1] is not named_otherwise}


@pytest.mark.parametrize(("make", "overturn"), ONE_RECORD.values(), ids=ONE_RECORD)
def test_what_a_person_says_was_taken_over_waits_for_its_own_final_effect(
    make: Callable[..., Operation], overturn: Overturn
) -> None:
    world = World(policy(message()), policy())
    operation = overturn(world, make(world, keep_later=TICK))

    operation = say(world, operation, A.HAPPENED_ACCEPTED, reference="M-1")

    assert (operation.step(1).act, states(operation)) == (Act.AWAIT, [S.ACCEPTED, S.WAITING])


def test_of_two_records_it_is_asked_before_anything_is_awaited() -> None:
    world = World(policy(message()), policy())
    operation = named_otherwise(world, left(world, keep_later=TICK))

    operation = say(world, operation, A.HAPPENED_ACCEPTED, reference="M-1")

    assert (reasons(operation), operation.step(1).act) == ([R.DUPLICATE_FOUND], Act.NONE)
    assert states(operation) == [S.ACCEPTED, S.WAITING]
    operation = say(world, operation, A.KEEP_ONE, reference="M-1")
    assert (reasons(operation), operation.step(1).act) == ([], Act.AWAIT)


def test_what_no_later_step_follows_is_awaited_all_the_same() -> None:
    world = World(policy(message()))
    operation = left(world)
    assert operation.state is OperationState.COMPLETED

    operation = say(world, refused_late(world, operation), A.ABSENT_SEND_AGAIN)
    operation = world.sent(operation, accepted("M-2"))

    assert (operation.state, operation.step(1).act) == (OperationState.RUNNING, Act.AWAIT)


# What says nothing against it


def said_less(world: World, operation: Operation) -> Operation:
    return world.hear(operation, accepted("M-1"), attempt=1)


def time_passed(world: World, operation: Operation) -> Operation:
    return transitions.time_passed(operation, world.at(20))


@pytest.mark.parametrize("event", [said_less, time_passed])
def test_what_was_left_as_accepted_stays_left(event: Overturn) -> None:
    world = World(policy(message()), policy())

    operation = event(world, left(world, keep_later=TICK))

    assert (operation.step(1).act, states(operation)) == (Act.NONE, [S.ACCEPTED, S.READY])
    assert world.sent(operation, confirmed("N-1"), 2).state is OperationState.COMPLETED


@pytest.mark.parametrize(
    ("report", "first"), [(DELIVERED, S.CONFIRMED), (BOUNCED, S.FAILED)], ids=["delivered", "bounced"]
)
def test_a_final_effect_that_is_told_later_is_heard(report: Finding, first: StepState) -> None:
    world = World(policy(message()))
    operation = left(world)

    operation = transitions.reported(operation, 1, report, final=True, moment=world.moment)

    assert states(operation) == [first]
    assert not operation.step(1).final_waived

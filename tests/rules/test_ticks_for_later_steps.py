"""Which later steps go on, and which come back: those that a person ticked, and no others (rules.md, table 8)."""

from __future__ import annotations

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, Given, answered, ends_without_tick
from opsledger.rules.record import Operation
from opsledger.rules.states import StepState
from tests.rules.builders import World, accepted, confirmed, message, policy, states

S, A = StepState, Answer


def say(world: World, operation: Operation, answer: Answer, number: int = 1, **given: object) -> Operation:
    hold = operation.hold_on(number)
    assert hold is not None, states(operation)
    return answered(operation, hold.id, Given(answer, **given), world.moment)  # type: ignore[arg-type]


def unknown(*later: object) -> tuple[World, Operation]:
    world = World(policy(), *(later or (policy(), policy())))  # type: ignore[arg-type]
    return world, world.lose(world.claim(world.opened()))


def not_proven(*later: object, **words: object) -> tuple[World, Operation]:
    world = World(policy(message(), **words), *(later or (policy(), policy())))  # type: ignore[arg-type]
    operation = world.sent(world.opened(), accepted())
    return world, transitions.time_passed(operation, world.at(3))


# Those that go on after what nobody proved

OPEN = {A.CLOSE_UNKNOWN: unknown, A.LEAVE_ACCEPTED: not_proven}
TICKS = {
    "none": (frozenset[int](), [S.CANCELLED, S.CANCELLED]),
    "the next": (frozenset({2}), [S.READY, S.CANCELLED]),
    "the one after it": (frozenset({3}), [S.CANCELLED, S.CANCELLED]),  # it is behind the one that ended
    "both": (frozenset({2, 3}), [S.READY, S.WAITING]),
}


@pytest.mark.parametrize("answer", OPEN, ids=lambda answer: answer.value)
@pytest.mark.parametrize(("kept", "later"), TICKS.values(), ids=TICKS)
def test_a_later_step_without_a_tick_ends(
    answer: Answer, kept: frozenset[int], later: list[StepState]
) -> None:
    world, operation = OPEN[answer]()

    after = say(world, operation, answer, keep_later=kept)

    assert states(after)[1:] == later


@pytest.mark.parametrize("answer", OPEN, ids=lambda answer: answer.value)
def test_what_follows_a_ticked_step_goes_on_by_its_own_tick_only(answer: Answer) -> None:
    world, operation = OPEN[answer]()

    after = say(world, operation, answer, keep_later=frozenset({2}))
    done = world.sent(after, confirmed("N-1"), 2)

    assert states(done)[1:] == [S.CONFIRMED, S.CANCELLED]


@pytest.mark.parametrize(
    ("made", "later"),
    [
        (lambda: not_proven(accepted_is_enough=True), [S.READY, S.WAITING]),
        (lambda: not_proven(policy(continues_after_failure=True), policy()), [S.READY, S.CANCELLED]),
    ],
    ids=["accepted is enough", "the next goes on whatever came before"],
)
def test_what_the_workflow_lets_go_on_needs_no_tick(made: object, later: list[StepState]) -> None:
    world, operation = made()  # type: ignore[operator]

    after = say(world, operation, A.LEAVE_ACCEPTED)

    assert states(after)[1:] == later
    offered = ends_without_tick(operation, operation.step(1), A.LEAVE_ACCEPTED, world.policies)
    assert [step.number for step in offered] == [n for n in (2, 3) if later[n - 2] is S.CANCELLED]

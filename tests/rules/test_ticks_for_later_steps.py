"""Which later steps go on, and which come back: those that a person ticked, and no others (rules.md, table 8)."""

from __future__ import annotations

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, ends_without_tick, may_come_back
from opsledger.rules.learning import Finding
from opsledger.rules.record import Operation
from opsledger.rules.states import HoldReason, Outcome, StepState
from tests.rules.builders import (
    DEFERRED,
    NOT_SENT,
    REJECTED,
    World,
    accepted,
    confirmed,
    message,
    policy,
    reasons,
    say,
    states,
)

S, A = StepState, Answer


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


# Those that come back when the answer that had cancelled them is overturned


def tried(world: World, operation: Operation, finding: Finding) -> Operation:
    """The second step is sent, then the answer about the first is taken back and given as absent."""
    operation = say(world, operation, A.HAPPENED, reference="T-1")
    operation = world.sent(operation, finding, 2)
    operation = transitions.withdrawn(operation, 1, world.moment, by="person:x")
    operation = say(world, operation, A.ABSENT_END)
    return world.hear(operation, confirmed("T-1"), attempt=1)


BROUGHT_BACK = {
    A.HAPPENED: S.READY,
    A.HAPPENED_ACCEPTED: S.WAITING,
    A.ABSENT_SEND_AGAIN: S.WAITING,
    A.ABSENT_REVISE: S.WAITING,
}


@pytest.mark.parametrize("answer", BROUGHT_BACK, ids=lambda answer: answer.value)
@pytest.mark.parametrize("finding", [NOT_SENT, DEFERRED], ids=["not sent", "deferred"])
def test_a_cancelled_step_that_was_tried_in_vain_comes_back_by_a_tick(
    answer: Answer, finding: Finding
) -> None:
    world, operation = unknown(policy())
    operation = tried(world, operation, finding)
    assert states(operation) == [S.UNKNOWN, S.CANCELLED]
    assert may_come_back(operation, operation.step(1)) == [operation.step(2)]

    without = say(world, operation, answer, reference="T-1")
    after = say(world, operation, answer, reference="T-1", keep_later=frozenset({2}))

    assert (states(without)[1], states(after)[1]) == (S.CANCELLED, BROUGHT_BACK[answer])


def test_what_comes_back_goes_on_with_the_tries_that_it_has_left() -> None:
    world, operation = unknown(policy())
    operation = say(
        world, tried(world, operation, DEFERRED), A.HAPPENED, reference="T-1", keep_later=frozenset({2})
    )

    operation = world.sent(operation, DEFERRED, 2)

    assert reasons(operation) == [HoldReason.ATTEMPTS_EXHAUSTED]
    assert [attempt.number for attempt in operation.step(2).attempts] == [1, 2]


def test_what_was_rejected_is_asked_about_when_it_comes_back() -> None:
    world, operation = unknown(policy())
    operation = say(world, operation, A.HAPPENED, reference="T-1")
    operation = world.sent(operation, REJECTED, 2)
    operation = transitions.withdrawn(operation, 1, world.moment, by="person:x")
    operation = say(world, operation, A.CLOSE_UNKNOWN)
    operation = world.hear(operation, confirmed("T-1"), attempt=1)
    assert (states(operation)[1], reasons(operation)) == (S.CANCELLED, [HoldReason.DISPUTED])

    after = say(world, operation, A.HAPPENED, reference="T-1", keep_later=frozenset({2}))

    assert (states(after)[1], reasons(after)) == (S.READY, [HoldReason.REJECTED])


@pytest.mark.parametrize(
    "outcome", [Outcome.UNKNOWN, Outcome.CONFIRMED, Outcome.ACCEPTED], ids=lambda one: one.value
)
def test_what_may_have_had_an_effect_never_comes_back(outcome: Outcome) -> None:
    world, operation = unknown(policy())
    operation = tried(world, operation, DEFERRED)
    operation.step(2).attempts[0].outcome, operation.step(2).attempts[0].no_change = outcome, None

    after = say(world, operation, A.HAPPENED, reference="T-1", keep_later=frozenset({2}))

    assert may_come_back(operation, operation.step(1)) == []
    assert states(after)[1] is S.CANCELLED

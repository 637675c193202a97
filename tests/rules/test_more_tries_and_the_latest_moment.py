"""More tries waive the operation's latest moment only where it is past: the person then says *late* as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.profile import Retries
from opsledger.rules.record import Act, Operation, Performer
from opsledger.rules.states import HoldReason
from tests.rules.builders import NOT_SENT, World, at, policy, profile, reasons, states

R = HoldReason
LATEST = 8  # ticks
ONE_TRY = profile(retries=Retries(tries_max=1, delays_seconds=(0,)))


def exhausted(world: World) -> Operation:
    return world.sent(world.opened(not_after=at(LATEST)), NOT_SENT)


def unclaimed(world: World) -> Operation:
    operation = world.opened(not_after=at(LATEST), performer=Performer.AUTOMATION)
    return transitions.time_passed(operation, world.at(2))


ASKED_EARLIER: dict[HoldReason, Callable[[World], Operation]] = {
    R.ATTEMPTS_EXHAUSTED: exhausted,
    R.NOBODY_CLAIMED: unclaimed,
}


def asked(reason: HoldReason) -> tuple[World, Operation]:
    world = World(policy(ONE_TRY))
    operation = ASKED_EARLIER[reason](world)
    assert reasons(operation) == [reason]
    return world, operation


def more_tries(world: World, operation: Operation) -> Operation:
    return answered(operation, operation.holds[0].id, Given(Answer.MORE_TRIES), world.moment)


@pytest.mark.parametrize("reason", ASKED_EARLIER, ids=lambda reason: reason.value)
def test_more_tries_before_the_latest_moment_keep_it(reason: HoldReason) -> None:
    world, operation = asked(reason)

    operation = more_tries(world, operation)

    step = operation.step(1)
    assert step.act in {Act.SEND, Act.OFFER}
    assert not step.lateness_waived
    operation = transitions.time_passed(operation, world.at(LATEST))
    assert reasons(operation) == [R.TOO_LATE]


@pytest.mark.parametrize("reason", ASKED_EARLIER, ids=lambda reason: reason.value)
def test_a_question_that_is_answered_late_is_answered_all_the_same(reason: HoldReason) -> None:
    world, operation = asked(reason)
    world.at(LATEST)

    operation = more_tries(world, operation)

    assert operation.step(1).act in {Act.SEND, Act.OFFER}
    operation = transitions.time_passed(operation, world.at(LATEST + 1))
    assert reasons(operation) == []


@pytest.mark.parametrize("reason", ASKED_EARLIER, ids=lambda reason: reason.value)
def test_what_a_person_sent_late_once_is_not_asked_about_again(reason: HoldReason) -> None:
    world, operation = asked(reason)
    operation = transitions.time_passed(more_tries(world, operation), world.at(LATEST))
    operation = more_tries(world, operation)
    assert operation.step(1).lateness_waived

    operation = transitions.time_passed(operation, world.at(LATEST + 1))

    assert (states(operation), reasons(operation)) == (states(asked(reason)[1]), [])


def test_without_a_latest_moment_nothing_is_waived() -> None:
    world = World(policy(ONE_TRY))
    operation = world.sent(world.opened(), NOT_SENT)

    assert not more_tries(world, operation).step(1).lateness_waived

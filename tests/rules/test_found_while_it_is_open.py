"""Laws 5, 6 and 9 for an attempt that is still open: what is found for it meanwhile is remembered until it is settled."""

from __future__ import annotations

import pytest

from opsledger.rules import transitions
from opsledger.rules.absence import FOUND_UNNAMED, named
from opsledger.rules.answers import ANSWERS, Answer, answers_for
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy, Operation
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    DEFERRED,
    LOOKUP,
    NOT_SENT,
    REJECTED,
    UNCLEAR,
    World,
    confirmed,
    policy,
    profile,
    reasons,
    states,
)

S, R = StepState, HoldReason
TWO = ("T-1", "T-2")

FOUND = Look("confirmed", reference="T-1", facts={"reference": "T-1"})
DIFFERS = Look("differs", reference="T-1", facts={"reference": "T-1"})
DUPLICATE = Look("duplicate", facts={"references": list(TWO)})
UNNAMED = Look("no_answer", facts={FOUND_UNNAMED: True})
NOT_COMPARED = Look("no_answer", reference="T-1", facts={"reference": "T-1"})
TAKEN = Look("no_answer", reference="T-1", facts={"reference": "T-1", "taken_by": "op-7"})
TOLD = {
    "equal": FOUND,
    "differs": DIFFERS,
    "duplicate": DUPLICATE,
    "without a reference": UNNAMED,
    "nothing to compare": NOT_COMPARED,
    "held by another": TAKEN,
}
EACH = pytest.mark.parametrize("look", TOLD.values(), ids=TOLD)


def told_while_open(world: World, look: Look) -> Operation:
    operation = world.claim(world.opened())
    after = transitions.looked(operation, 1, look, world.moment)
    assert states(after) == states(operation)  # its reply is waited for
    assert after.step(1).open_attempt is not None
    return after


def looks_in_vain(world: World, operation: Operation) -> Operation:
    for ticks, answer in ((3, "none"), (5, "absent")):
        operation = transitions.looked(operation, 1, Look(answer, counted=True), world.at(ticks))
    return operation


@pytest.mark.parametrize("recovers", [True, False], ids=["recovers", "proposes"])
@EACH
def test_what_was_found_before_the_lease_ended_is_not_absent_after_it(look: Look, recovers: bool) -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=recovers))
    operation = world.lose(told_while_open(world, look))

    operation = looks_in_vain(world, operation)

    step = operation.step(1)
    assert (step.state, step.attempts[0].outcome) == (S.UNKNOWN, Outcome.UNKNOWN)
    (reason,) = reasons(operation)
    assert reason in {R.DISPUTED, R.RECORD_DIFFERS, R.DUPLICATE_FOUND}


@pytest.mark.parametrize("finding", [NOT_SENT, DEFERRED, REJECTED], ids=["not sent", "deferred", "rejected"])
@EACH
def test_a_reply_that_says_no_change_contradicts_what_was_found(look: Look, finding: Finding) -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = told_while_open(world, look)

    operation = world.hear(operation, finding)

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])
    assert named(operation.step(1)) == ((look.reference,) if look.reference else ())
    if look is FOUND:
        said = [one["outcome"] for one in operation.holds[0].facts["statements"]]
        assert said == ["found", "no_change"]


def test_a_reply_under_the_name_that_was_found_confirms_it() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = world.hear(told_while_open(world, FOUND), confirmed("T-1"))

    assert (states(operation), reasons(operation)) == ([S.CONFIRMED], [])
    assert operation.step(1).reference == "T-1"


@pytest.mark.parametrize(
    "finding",
    [confirmed("T-2"), Finding(Outcome.UNKNOWN, KnownBy.REPLY, reference="T-2")],
    ids=["confirmed", "named by a 409"],
)
def test_a_reply_under_another_name_is_a_second_record(finding: Finding) -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = world.hear(told_while_open(world, FOUND), finding)

    assert reasons(operation) == [R.DUPLICATE_FOUND]
    assert operation.holds[0].facts["references"] == list(TWO)


@pytest.mark.parametrize("lost", [True, False], ids=["the lease ends", "an unclear reply"])
def test_the_name_stands_when_nobody_knows_and_a_look_that_finds_it_settles_it(lost: bool) -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = told_while_open(world, FOUND)
    operation = world.lose(operation) if lost else world.hear(operation, UNCLEAR)
    assert (states(operation), named(operation.step(1))) == ([S.UNKNOWN], ("T-1",))

    operation = transitions.looked(operation, 1, FOUND, world.at(3))

    assert (states(operation), reasons(operation)) == ([S.CONFIRMED], [])


@pytest.mark.parametrize("look", [DIFFERS, DUPLICATE, UNNAMED], ids=["differs", "duplicate", "unnamed"])
def test_what_is_asked_meanwhile_is_answered_when_the_attempt_has_ended(look: Look) -> None:
    """No answer ends an attempt that is under way, so none is taken and lost."""
    world = World(policy(profile(lookup=LOOKUP)))
    operation = told_while_open(world, look)
    assert answers_for(operation, operation.holds[0]) == (Answer.STILL_UNKNOWN,)

    operation = world.lose(operation)

    assert set(answers_for(operation, operation.holds[0])) == set(ANSWERS[operation.holds[0].reason])


def test_what_was_only_alike_is_no_name() -> None:
    """The neighbour: it decides nothing, and absence is proven as before."""
    world = World(policy(profile(lookup=LOOKUP)))
    alike = Look("candidates", facts={"candidates": ["T-9"]})
    operation = world.lose(told_while_open(world, alike))

    operation = looks_in_vain(world, operation)

    assert (states(operation), reasons(operation)) == ([S.READY], [])
    assert operation.step(1).attempts[0].no_change is NoChange.ABSENT

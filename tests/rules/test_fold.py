"""The journal says what changed, and folding it gives the record again."""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import replace
from itertools import product

import pytest

from opsledger.rules import fold, transitions
from opsledger.rules.fold import BrokenFold
from opsledger.rules.record import Act, Attempt, Operation, Step
from opsledger.rules.states import STEP_MOVES, HoldReason, OperationState, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import DEFERRED, LOOKUP, REJECTED, World, at, confirmed, policy, profile
from tests.rules.explorer import SCENARIOS, Scenario, Walk
from tests.rules.laws import kept

S = StepState
EVENTS = 60


def through_text(patch: fold.Patch) -> fold.Patch:
    """As the journal keeps it."""
    kept: fold.Patch = json.loads(json.dumps(patch, sort_keys=True))
    return kept


def folded(patches: list[fold.Patch]) -> Operation:
    operation = fold.begin("op", through_text(patches[0]))
    for patch in patches[1:]:
        fold.apply(operation, through_text(patch))
    return operation


# Whole lives


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("seed", range(3))
def test_the_journal_of_any_life_folds_to_its_record(scenario: Scenario, seed: int) -> None:
    chance = random.Random(f"{scenario.name} {seed}")
    walk = Walk(scenario)
    node = walk.first()
    patches = [fold.opened(node.operation)]
    for _ in range(EVENTS):
        following = list(walk.events(node))
        _, after = chance.choice(following)
        patches.append(fold.difference(node.operation, after.operation))
        node = after

    assert kept(folded(patches)) == kept(node.operation)


# One change


def test_what_did_not_change_leaves_no_trace() -> None:
    world = World()
    operation = world.opened()

    assert fold.difference(operation, operation.copy()) == {}


def test_the_plan_and_the_pages_facts_are_left_out() -> None:
    world = World()
    operation = world.sent(world.opened(), REJECTED)
    after = operation.copy()
    step = after.steps[0]
    step.act, step.act_at, step.send_until = Act.SEND, at(1), at(2)
    step.not_before, step.looked_at, step.look_at = at(3), at(4), at(5)
    after.holds[0].facts = {"rows": []}

    assert fold.difference(operation, after) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("revision", 2),
        ("request_digest", "abc"),
        ("reference", "T-1"),
        ("tries_extra", 3),
        ("ready_at", at(1)),
        ("accepted_at", at(2)),
        ("unknown_at", at(3)),
        ("looks", 4),
        ("looks_none", 2),
        ("rejection_waived", True),
        ("lateness_waived", True),
        ("final_waived", True),
        ("never_known", True),
        ("go_on_after", True),
        ("not_ours", ("T-1", "T-2")),
        ("integrity_alarm", True),
        ("record_changed", False),
        ("answered_with_error", True),
        ("approval_needed", True),
        ("content_number", 2),
        ("approved_digest", "abc"),
        ("approved_until", at(4)),
        ("resend_asked", True),
        ("look_applies", True),
    ],
)
def test_every_kept_field_of_a_step_comes_back(name: str, value: object) -> None:
    before = World().opened()
    after = before.copy()
    setattr(after.steps[0], name, value)

    fold.apply(before, through_text(fold.difference(before, after)))

    assert getattr(before.steps[0], name) == value
    assert type(getattr(before.steps[0], name)) is type(value)


def test_no_field_of_a_step_is_forgotten() -> None:
    (mark,) = test_every_kept_field_of_a_step_comes_back.pytestmark  # type: ignore[attr-defined]
    tested = {name for name, _ in mark.args[1]}
    planned = {"act", "act_at", "send_until", "not_before", "looked_at", "look_at"}
    fixed = {"number", "name", "destination", "action", "performer", "attempts", "state"}

    assert {field.name for field in dataclasses.fields(Step)} == tested | planned | fixed


def test_an_operations_own_fields_come_back() -> None:
    before = World().opened()
    after = replace(before.copy(), cancelled=True, not_after=at(9), state=OperationState.HELD)

    fold.apply(before, through_text(fold.difference(before, after)))

    assert (before.cancelled, before.not_after, before.state) == (True, at(9), OperationState.HELD)


def test_a_latest_moment_that_is_taken_away_is_gone() -> None:
    before = World().opened(not_after=at(9))
    after = replace(before.copy(), not_after=None)

    fold.apply(before, through_text(fold.difference(before, after)))

    assert before.not_after is None


def test_holds_open_and_close() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    lost = world.lose(world.claim(world.opened()))
    held = transitions.looked(lost, 1, Look("duplicate"), world.moment)

    opening = fold.difference(lost, held)
    closing = fold.difference(held, lost)

    (hold,) = held.holds
    expected = {"step": 1, "reason": "duplicate_found", "opened_at": world.now.isoformat()}
    assert opening["holds"] == {hold.id: expected}
    assert closing["holds"] == {hold.id: None}


def test_the_claims_of_the_engine_fold_like_those_of_the_rules() -> None:
    """`claim_sends` writes its own line; it holds what the rules would have said."""
    world = World()
    operation = world.opened()
    claimed = world.claim(operation)
    attempt = claimed.steps[0].attempts[0]

    by_statement = {
        "attempts": {
            attempt.id: {
                "step": 1,
                "number": 1,
                "revision": 1,
                "opened_at": attempt.opened_at.isoformat(),
                "lease_ends_at": attempt.lease_ends_at.isoformat(),
            }
        },
        "steps": {"1": {"state": "in_flight"}},
    }

    assert fold.difference(operation, claimed) == by_statement


# What can't follow


@pytest.mark.parametrize(
    "move", sorted(product(S, S)), ids=lambda move: f"{move[0].value} to {move[1].value}"
)
def test_a_move_that_does_not_exist_is_refused(move: tuple[StepState, StepState]) -> None:
    operation = World().opened()
    operation.steps[0].state = move[0]
    patch = {"steps": {"1": {"state": move[1].value}}}

    if move in STEP_MOVES:
        fold.apply(operation, patch)
        assert operation.steps[0].state is move[1]
    else:
        with pytest.raises(BrokenFold, match="can't move"):
            fold.apply(operation, patch)


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ({"steps": {"1": {"colour": "red"}}}, "no colour"),
        ({"steps": {"1": {"act": "send"}}}, "no act"),
        ({"attempts": {"a1": {"step": 1, "colour": "red"}}}, "no colour"),
        ({"holds": {"h1": None}}, "was not open"),
    ],
    ids=["an unknown field", "a planned field", "an unknown field of an attempt", "a hold that was not open"],
)
def test_an_entry_that_can_not_follow_is_refused(patch: fold.Patch, why: str) -> None:
    with pytest.raises(BrokenFold, match=why):
        fold.apply(World().opened(), patch)


def test_a_second_open_attempt_is_refused() -> None:
    world = World()
    operation = world.claim(world.opened())
    times = {"opened_at": at(1).isoformat(), "lease_ends_at": at(2).isoformat()}

    with pytest.raises(BrokenFold, match="two open attempts"):
        fold.apply(operation, {"attempts": {"other": {"step": 1, "number": 2, "revision": 1, **times}}})


def test_a_hold_that_is_opened_twice_is_refused() -> None:
    world = World()
    operation = world.sent(world.opened(), REJECTED)
    hold = operation.holds[0]
    again = {"step": 1, "reason": HoldReason.REJECTED.value, "opened_at": at(1).isoformat()}

    with pytest.raises(BrokenFold, match="opened twice"):
        fold.apply(operation, {"holds": {hold.id: again}})


def test_a_journal_that_does_not_begin_is_refused() -> None:
    with pytest.raises(BrokenFold, match="does not open"):
        fold.begin("op", {"state": "held"})


# Copies


def test_a_change_leaves_the_record_that_it_was_made_from() -> None:
    world = World(policy(), policy())
    operation = world.sent(world.opened(), DEFERRED)
    text = json.dumps(fold.opened(operation), sort_keys=True)

    world.hear(world.claim(operation), confirmed())
    transitions.cancel_requested(operation, world.moment)

    assert json.dumps(fold.opened(operation), sort_keys=True) == text
    twin = operation.copy()
    assert twin == operation
    twin.steps[0].attempts.append(Attempt("x", 9, 1, at(0), at(1)))
    twin.holds.clear()
    assert len(operation.steps[0].attempts) == 1

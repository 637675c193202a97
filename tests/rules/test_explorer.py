"""The laws hold on every path of the explorer, and its paths go everywhere.

`EXPLORER_TRANSITIONS` in the environment walks further than the default; `python -m tests.rules.explorer all` to the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from opsledger.rules.answers import ANSWERS, REVISES, Answer
from opsledger.rules.states import STEP_MOVES, HoldReason, Outcome, StepState
from tests.rules.explorer import SCENARIOS, TRANSITIONS_MAX, Scenario, Violation, Visited, Walk, line
from tests.rules.laws import Broken, check_record

S, R = StepState, HoldReason
BOUND = int(os.environ.get("EXPLORER_TRANSITIONS", TRANSITIONS_MAX))
# What no profile of the explorer leads to: see the tests of single rules.
NOT_WALKED = frozenset({R.INTEGRITY_ALARM, R.DATA_MISSING})
# Skipping and reopening are decided outside of one operation's walk.
MOVES_NOT_WALKED = frozenset({(S.WAITING, S.SKIPPED), (S.READY, S.SKIPPED), (S.FAILED, S.READY)})


@pytest.fixture(scope="module")
def walked() -> Iterator[dict[str, Visited]]:
    done: dict[str, Visited] = {}
    yield done
    for visited in done.values():
        assert visited.states > 0, line(visited)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_laws_hold(scenario: Scenario, walked: dict[str, Visited]) -> None:
    walked[scenario.name] = visited = Walk(scenario).run(BOUND)

    assert visited.ended or visited.transitions >= BOUND, line(visited)


def test_the_walks_go_everywhere(walked: dict[str, Visited]) -> None:
    """A law that is never put to the test is not shown: every move, question and answer comes up."""
    for scenario in SCENARIOS:
        if scenario.name not in walked:  # this test alone was asked for
            walked[scenario.name] = Walk(scenario).run(BOUND)
    every = walked.values()

    moves = set().union(*(visited.moves for visited in every))
    given = set().union(*(visited.answers for visited in every))
    wanted = {(reason, answer) for reason, answers in ANSWERS.items() for answer in answers}

    assert STEP_MOVES - moves == MOVES_NOT_WALKED
    assert {pair for pair in wanted - given if pair[0] not in NOT_WALKED} == set()


def test_a_broken_law_is_told_with_its_shortest_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from opsledger.rules import learning

    def forgets_that_unknown_is_unknown(*arguments: object) -> None:
        step = arguments[1]
        step.attempts[-1].outcome = Outcome.NO_CHANGE  # type: ignore[attr-defined]
        step.state = S.FAILED  # type: ignore[attr-defined]

    monkeypatch.setattr(learning, "follow_attempts", forgets_that_unknown_is_unknown)

    with pytest.raises(Violation) as told:
        Walk(SCENARIOS[0]).run(BOUND)

    lines = str(told.value).splitlines()
    assert lines[0].startswith("no protection, no lookup: ")
    assert 2 <= len(lines) <= 4
    assert lines[1].startswith("  1. step 1 is sent: ")


def test_a_second_effect_is_a_broken_law() -> None:
    walk = Walk(SCENARIOS[0])
    node = walk.first()
    check_record(node, walk.policies, walk.world.moment)
    twice = replace(node.peers[0], effects=("R1", "R2"))

    with pytest.raises(Broken, match="no second effect"):
        check_record(replace(node, peers=(twice, *node.peers[1:])), walk.policies, walk.world.moment)
    told = replace(twice, denied=True)
    check_record(replace(node, peers=(told, *node.peers[1:])), walk.policies, walk.world.moment)


def test_people_may_answer_anything_that_is_offered() -> None:
    walk = Walk(SCENARIOS[0])
    node = next(after for event, after in walk.events(walk.first()) if "lost" in event.label)
    node = next(after for event, after in walk.events(node) if "error" in event.label)

    given = {event.given.answer for event, _ in walk.events(node) if event.given is not None}

    assert given == set(ANSWERS[R.OUTCOME_UNKNOWN]) - REVISES  # walked where the scenario says so
    assert Answer.HAPPENED in given  # although nothing happened

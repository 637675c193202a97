"""docs/states.md says what the code does: its chart is the table of moves, and every state and reason has its paragraph."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opsledger.rules.answers import ANSWERS, Answer
from opsledger.rules.states import (
    DESTINATION_REASONS,
    ENDED_STATES,
    FINAL_STATES,
    NEVER_SENT_STATES,
    STEP_MOVES,
    HoldReason,
    NoChange,
    OperationState,
    Outcome,
    StepState,
)

DOCUMENT = (Path(__file__).parents[2] / "docs" / "states.md").read_text()
ARROW = re.compile(r"^\s+(\w+) --> (\w+): (\S.*)$", re.MULTILINE)
WORDS_MIN = 12  # less than a sentence or two says nothing


def paragraphs(title: str) -> dict[str, str]:
    """The paragraphs of a chapter, by their headings."""
    chapter = DOCUMENT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    parts = re.split(r"^### (\w+)\n", chapter, flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def test_the_chart_is_the_table_of_moves() -> None:
    drawn = [(one, other) for one, other, _ in ARROW.findall(DOCUMENT)]

    assert len(drawn) == len(set(drawn))
    assert {(one.value, other.value) for one, other in STEP_MOVES} == set(drawn)


@pytest.mark.parametrize(
    ("title", "words"),
    [("Attempts", Outcome), ("Steps", StepState), ("Operations", OperationState), ("Holds", HoldReason)],
    ids=["attempts", "steps", "operations", "holds"],
)
def test_every_word_has_its_paragraph_in_order(title: str, words: type[Outcome]) -> None:
    written = paragraphs(title)

    assert list(written) == [word.value for word in words]
    for name, text in written.items():
        assert len(text.split()) >= WORDS_MIN, f"{name} says too little"


def test_every_kind_of_no_change_is_explained() -> None:
    said = paragraphs("Attempts")["no_change"]

    assert {kind.value for kind in NoChange} <= set(re.findall(r"`(\w+)`", said))


@pytest.mark.parametrize("reason", HoldReason, ids=lambda reason: reason.value)
def test_the_answers_of_a_hold_are_those_of_the_code(reason: HoldReason) -> None:
    _, _, listed = paragraphs("Holds")[reason.value].partition("Answers:")

    assert re.findall(r"`(\w+)`", listed) == [answer.value for answer in ANSWERS.get(reason, ())]


def test_every_answer_belongs_to_a_hold() -> None:
    assert {answer for answers in ANSWERS.values() for answer in answers} == set(Answer)


def test_holds_without_answers_are_not_about_a_step() -> None:
    assert set(HoldReason) - set(ANSWERS) == DESTINATION_REASONS | {HoldReason.EVENT_CONFLICT}


# The table of moves


def test_nothing_leads_from_done_to_sending() -> None:
    done = {StepState.CONFIRMED, StepState.ACCEPTED, StepState.SKIPPED}

    assert not [
        move for move in STEP_MOVES if move[0] in done and move[1] in {StepState.READY, StepState.IN_FLIGHT}
    ]


def test_nothing_is_in_flight_that_was_not_ready_or_unknown() -> None:
    before = {one for one, other in STEP_MOVES if other is StepState.IN_FLIGHT}

    assert before == {StepState.READY, StepState.UNKNOWN}


def test_every_state_is_reached_and_every_one_but_skipped_is_left() -> None:
    reached, left = {other for _, other in STEP_MOVES}, {one for one, _ in STEP_MOVES}

    assert reached == set(StepState)
    assert left == set(StepState) - {StepState.SKIPPED}


def test_the_groups_of_states() -> None:
    assert not FINAL_STATES & NEVER_SENT_STATES
    assert StepState.UNKNOWN not in FINAL_STATES
    assert OperationState.HELD not in ENDED_STATES
    open_states = {"running", "reconciling", "awaiting_approval", "held"}
    assert {state.value for state in set(OperationState) - ENDED_STATES} == open_states

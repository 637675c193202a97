"""Two texts side by side, word by word: nothing is lost, and only what differs is marked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsledger.console.differences import COMPARED_MAX, Part, difference


def marked(parts: tuple[Part, ...]) -> str:
    return "".join(f"[{part.text}]" if part.changed else part.text for part in parts)


@pytest.mark.parametrize(
    ("before", "after", "ours", "theirs"),
    [
        ("one two three", "one 2 three", "one [two ]three", "one [2 ]three"),
        ("launch-care", "launch-desk", "launch-[care]", "launch-[desk]"),
        ("the same", "the same", "the same", "the same"),
        ("", "new", "", "[new]"),
        ("10 % of it", "15 % of it", "[10 ]% of it", "[15 ]% of it"),
        ("a b", "a  b", "[a ]b", "[a  ]b"),
        ("Zürich", "Zurich", "[Zürich]", "[Zurich]"),
    ],
    ids=["a word", "part of a name", "nothing", "from nothing", "a number", "a blank", "a letter"],
)
def test_only_what_differs_is_marked(before: str, after: str, ours: str, theirs: str) -> None:
    made = difference(before, after)
    assert (marked(made.before), marked(made.after)) == (ours, theirs)


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_parts_of_each_side_are_its_text_and_the_unmarked_ones_are_common(
    before: str, after: str
) -> None:
    made = difference(before, after)
    assert "".join(part.text for part in made.before) == before
    assert "".join(part.text for part in made.after) == after
    same = ["".join(part.text for part in side if not part.changed) for side in (made.before, made.after)]
    assert same[0] == same[1]
    if before != after:
        assert any(part.changed for part in made.before + made.after)


def test_a_text_that_is_too_long_to_compare_is_shown_as_changed_whole() -> None:
    long = "word " * COMPARED_MAX
    made = difference(long, f"{long}more")
    assert [part.changed for part in made.before + made.after] == [True, True]


def test_many_repeated_words_are_compared_in_no_time() -> None:
    """The same word thousands of times is what a quadratic comparison dies of."""
    text = "a " * (COMPARED_MAX // 2 - 1)
    made = difference(text, f"b{text[1:]}")
    assert marked(made.after).startswith("[b ]")

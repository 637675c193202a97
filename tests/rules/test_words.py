"""Spans, errors and fields as people read them."""

from __future__ import annotations

import pytest

from opsledger.rules.words import error_words, field_words, lasted


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "less than 0.1 s"), (0.04, "less than 0.1 s"), (0.05, "0.1 s"), (30.0, "30.0 s")],
)
def test_what_rounds_to_nothing_is_said_to_be_short(seconds: float, said: str) -> None:
    assert lasted(seconds) == said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("status_503", "it answered with status 503"),
        ("status_", "status "),
        ("connection_reset", "connection reset"),
        ("", "no reason given"),
    ],
)
def test_an_error_is_told_in_words(error: str, said: str) -> None:
    assert error_words(error) == said


def test_a_field_is_told_without_its_path() -> None:
    assert field_words("task.due_date") == "task › due date"

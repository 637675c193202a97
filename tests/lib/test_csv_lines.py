"""Cells of a report stay text in a spreadsheet."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

import pytest

from opsledger.lib.csv_lines import lines, safe


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\u200b=1", "＝1"], ids=repr
)
def test_what_could_be_a_formula_is_text(text: str) -> None:
    assert safe(text) == f"'{text}"


@pytest.mark.parametrize("text", ["order:1", "a=1", "", "5 - 3", "'quoted"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_numbers_times_and_nothing_are_written_plainly() -> None:
    assert [safe(-5), safe(None), safe(datetime(2026, 3, 1, 9, tzinfo=UTC))] == [
        "-5",
        "",
        "2026-03-01T09:00:00Z",
    ]


def test_every_row_comes_back_whatever_it_holds() -> None:
    rows = [(f"a{number}", 'quoted "x", and a comma', "two\nlines") for number in range(450)]
    text = b"".join(lines(["one", "two", "three"], rows)).decode("utf-8-sig")
    assert [tuple(row) for row in csv.reader(io.StringIO(text, newline=""))] == [
        ("one", "two", "three"),
        *rows,
    ]

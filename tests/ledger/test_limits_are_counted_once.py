"""What is written for so many rows at most is written for no more of them, however the statement is planned.

`id IN (SELECT … LIMIT n)` may be planned as a loop that asks the subquery again for each row: with SKIP LOCKED, or after the
first rows have gone, it finds others each time. `id = ANY(ARRAY(SELECT … LIMIT n))` is asked once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import opsledger

SOURCES = Path(opsledger.__file__).resolve().parent
JOINED = re.compile(r'"\s*\n\s*f?"')  # texts that Python puts together
ASKED = re.compile(r"\bIN\s*\(\s*SELECT\b")


def limited(text: str) -> Iterator[str]:
    """Subqueries behind an IN that have a limit of their own."""
    text = JOINED.sub(" ", text)
    for found in ASKED.finditer(text):
        start = text.index("(", found.start())
        depth = own = 0
        for place in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            own += depth == 1 and text.startswith("LIMIT", place)
            if depth == 0:
                break
        if own:
            yield " ".join(text[found.start() : place + 1].split())


def test_no_statement_asks_for_its_rows_again_and_again() -> None:
    files = [one for kind in ("*.py", "*.sql") for one in SOURCES.rglob(kind)]
    assert len(files) > 400
    assert {str(one): told for one in files if (told := list(limited(one.read_text(encoding="utf-8"))))} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("DELETE FROM a WHERE id IN (SELECT id FROM a WHERE x IN (1) ORDER BY id LIMIT 2)", 1),
        ('"DELETE FROM a WHERE id IN (SELECT id FROM a"\n    " LIMIT %s FOR UPDATE SKIP LOCKED)"', 1),
        ("DELETE FROM a WHERE id IN (SELECT id FROM a WHERE EXISTS (SELECT FROM b LIMIT 1))", 0),
        ("DELETE FROM a WHERE id = ANY(ARRAY(SELECT id FROM a LIMIT 2))", 0),
    ],
)
def test_such_a_statement_is_found(text: str, count: int) -> None:
    assert len(list(limited(text))) == count

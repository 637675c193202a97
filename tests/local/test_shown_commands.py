"""Wherever a command is shown, it is also shown how it is given beside `make up`, whose environment another shell lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWN = [
    path
    for path in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("templates/**/*.html")]
    if "manage.py " in path.read_text()
]


def test_there_are_such_places() -> None:
    assert {path.name for path in SHOWN} >= {"README.md", "operating.md", "definitions.md", "audit.html"}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_a_command_is_shown_for_make_up_too(path: Path) -> None:
    assert "make manage ARGS=" in path.read_text()

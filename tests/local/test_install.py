"""What is installed, and what is left out where the servers are one's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opsledger.local.install import EMBEDDED, without_embedded

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ("requirements.txt", "requirements-dev.txt")


def pinned(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE))


def test_own_servers_need_everything_but_the_embedded_ones():
    whole = (ROOT / "requirements.txt").read_text()
    left = without_embedded(whole)
    assert set(pinned(whole)) - set(pinned(left)) == set(EMBEDDED)
    hashes = whole.count("--hash") - left.count("--hash")
    assert hashes >= len(EMBEDDED)
    assert not re.search(r"^ +--hash.*\n(?=# )", left)


@pytest.mark.parametrize("name", FILES)
def test_every_requirement_is_pinned_with_hashes_and_names_no_index(name):
    text = (ROOT / name).read_text()
    blocks = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert len(blocks) > 20
    assert all("==" in block.splitlines()[0] and "--hash=sha256:" in block for block in blocks)
    assert not re.search(r"https?://|file:|--index|--find-links|--trusted", text)


def test_what_runs_and_what_tests_agree_on_versions():
    runs, tests = (pinned((ROOT / name).read_text()) for name in FILES)
    shared = runs.keys() & tests.keys()
    assert shared
    assert {name: runs[name] for name in shared} == {name: tests[name] for name in shared}


@pytest.mark.parametrize(
    ("source", "target"), [("requirements.in", FILES[0]), ("requirements-dev.in", FILES[1])]
)
def test_everything_asked_for_is_pinned(source, target):
    asked = re.findall(r"^([A-Za-z0-9][A-Za-z0-9-]*)", (ROOT / source).read_text(), re.MULTILINE)
    assert {name.lower() for name in asked} <= pinned((ROOT / target).read_text()).keys()

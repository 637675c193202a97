"""The journal taken along in a real browser, with and without a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scenes import Scenes
from test_selections_in_browser import LOOKS, no_axe_faults

from opsledger.accounts.roles import Role

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scripts", [True, False], ids=["with a script", "without"])
def test_export_gives_what_the_page_shows_as_a_file(
    scenes: Scenes, open_page: Callable[..., Any], scripts: bool
) -> None:
    scenes.unknown()
    vera = scenes.member("Vera", Role.VIEWER)
    page = open_page(vera, "/audit/?actor=worker", java_script_enabled=scripts)
    with page.expect_download() as taken:
        page.get_by_role("button", name="Export").click()
    assert taken.value.suggested_filename == "journal-desk.jsonl"
    *lines, end = [json.loads(line) for line in Path(taken.value.path()).read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"attempt_opened"}
    assert (end["end"], end["lines"]) == (True, len(lines))


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_is_accessible_and_never_wider_than_the_window(
    scenes: Scenes, open_page: Callable[..., Any], look: str, tmp_path: Path
) -> None:
    scenes.unknown()
    page = open_page(scenes.owner, "/audit/", **LOOKS[look])
    page.screenshot(path=tmp_path / f"audit-{look}.png", full_page=True)
    no_axe_faults(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

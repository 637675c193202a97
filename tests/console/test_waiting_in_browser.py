"""What waits at a stopped destination in a real browser: chosen, ended with a reason, with and without a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scenes import Scenes
from test_selections_in_browser import LOOKS, no_axe_faults
from test_waiting_page import address, waits

from opsledger.ledger.models import BulkRun, Operation, Selection
from opsledger.lib.ids import public

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


@pytest.mark.parametrize("scripts", [True, False], ids=["with a script", "without"])
def test_those_chosen_are_ended_from_the_destinations_page(
    scenes: Scenes, open_page: Open, scripts: bool
) -> None:
    some = waits(scenes, 3)
    page = open_page(scenes.owner, "/destinations/", java_script_enabled=scripts)
    page.get_by_role("link", name="See what waits, end those chosen for crm_classic").click()
    page.get_by_role("heading", name="What waits for crm_classic").wait_for()
    for row in (0, 1):
        page.locator("tbody input[type=checkbox]").nth(row).check()
    page.get_by_role("button", name="End those chosen…").click()
    page.get_by_role("heading", name="Act on these 2").wait_for()
    page.get_by_label("Reason").fill("The account is closed.")
    page.get_by_role("button", name="End 2 operations").click()
    page.get_by_text("2 of 2 steps have their result").wait_for()
    states = dict(Operation.objects.values_list("pk", "state"))
    assert [states[one.id] for one in some] == ["cancelled", "cancelled", "running"]


@pytest.mark.parametrize("look", LOOKS)
def test_the_pages_are_accessible_and_never_wider_than_the_window(
    scenes: Scenes, open_page: Open, look: str, tmp_path: Path
) -> None:
    waits(scenes, 3)
    page = open_page(scenes.owner, address(scenes), **LOOKS[look])
    seen(page, tmp_path / f"waiting-{look}.png")
    page.get_by_role("button", name="Choose all that wait").click()
    page.get_by_role("heading", name="Act on these 3").wait_for()
    seen(page, tmp_path / f"chosen-{look}.png")
    page.get_by_label("Reason").fill("The account is closed.")
    page.get_by_role("button", name="End 3 operations").click()
    page.get_by_text("3 of 3 steps have their result").wait_for()
    seen(page, tmp_path / f"ended-{look}.png")
    page = open_page(scenes.owner, f"/selections/{public('sel', Selection.objects.get().pk)}/", **LOOKS[look])
    seen(page, tmp_path / f"left-{look}.png")
    assert BulkRun.objects.get().done_count == 3
    page = open_page(scenes.owner, "/destinations/", **LOOKS[look])
    seen(page, tmp_path / f"destinations-{look}.png")


def seen(page: Any, picture: Path) -> None:
    page.screenshot(path=picture, full_page=True)
    no_axe_faults(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), picture.name

"""Selections in a real browser: a page is ticked, all of a view is frozen, and each hold tells what became of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from scenes import Scenes

from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import bulk as engine
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.models import BulkRun, Hold
from opsledger.lib.ids import public
from opsledger.rules.bulk import Verb
from tests.bulk import begun, selected

pytestmark = pytest.mark.browser
AXE = Path(settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
Open = Callable[..., Any]


def some(scenes: Scenes, count: int) -> list[Hold]:
    return [scenes.hold(scenes.unknown()) for _ in range(count)]


def no_axe_faults(page: Any) -> None:
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    faults = [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found["violations"]]
    assert faults == []


def test_a_page_is_ticked_and_assigned_and_what_somebody_changed_meanwhile_is_told(
    scenes: Scenes, open_page: Open
) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    holds = some(scenes, 3)
    page = open_page(scenes.owner, "/")
    page.get_by_label("Select all on this page").check()
    assert page.locator("tbody input:checked").count() == 3
    settle_assign([holds[1].pk], omar.pk, by_person(omar))  # by a second person, while this page is read
    page.get_by_label("Assign to").select_option(label="me")
    page.get_by_role("button", name="Assign", exact=False).last.click()
    told = page.get_by_role("status").get_by_text(
        "2 holds are Test owner’s now. 1 skipped: changed since you looked."
    )
    told.wait_for()
    told.get_by_role("link", name="See each").click()
    page.get_by_text("3 of 3 holds have their result").wait_for()
    page.get_by_role("link", name="Skipped").click()
    page.wait_for_url("**show=skipped**")
    assert page.get_by_text("It changed after it was selected.").count() == 1
    owners = dict(Hold.objects.values_list("pk", "owner_id"))
    assert owners == {holds[0].pk: scenes.owner.pk, holds[1].pk: omar.pk, holds[2].pk: scenes.owner.pk}


def test_the_headers_tick_shows_all_some_or_none(scenes: Scenes, open_page: Open) -> None:
    some(scenes, 2)
    page = open_page(scenes.owner, "/")
    every, rows = page.get_by_label("Select all on this page"), page.locator("tbody input[type=checkbox]")
    rows.first.check()
    assert every.evaluate("box => [box.checked, box.indeterminate]") == [False, True]
    rows.last.check()
    assert every.evaluate("box => [box.checked, box.indeterminate]") == [True, False]
    every.uncheck()
    assert page.locator("tbody input:checked").count() == 0
    every.check()
    page.get_by_role("button", name="Clear selection").click()
    page.wait_for_function("!document.querySelector('[data-ticks]').checked")
    assert not page.get_by_role("region", name="Actions for selected holds").is_visible()


def test_all_of_a_view_is_frozen_and_a_note_is_written_where_the_cursor_is(
    scenes: Scenes, open_page: Open
) -> None:
    some(scenes, 2)
    scenes.rejected()
    page = open_page(scenes.owner, "/?reason=outcome_unknown")
    late = some(scenes, 1)[0]
    page.get_by_role("button", name="Select all 2 that match").click()
    page.get_by_role("heading", name="Act on these 2").wait_for()
    page.locator("summary", has_text="Note").click()
    page.get_by_label("Note").fill("Asked their support.")
    page.get_by_role("button", name="Write 2 notes").dblclick()
    page.get_by_text("2 of 2 holds have their result").wait_for()
    assert page.get_by_text("Asked their support.").first.is_visible()
    assert BulkRun.objects.count() == 1
    assert not BulkRun.objects.get().items.filter(hold=late).exists()
    page.get_by_role("link", name="Act on the selection again").click()
    page.get_by_text("2 done").wait_for()


def test_a_verb_that_needs_a_reason_puts_the_cursor_there(scenes: Scenes, open_page: Open) -> None:
    some(scenes, 1)
    page = open_page(scenes.owner, "/")
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Note…").click()
    page.wait_for_url("**verb=note**")
    page.wait_for_function("document.activeElement.id === 'why-note'")
    page.keyboard.type("Asked their support.")
    page.get_by_role("button", name="Write 1 note").click()
    page.get_by_text("1 of 1 hold has its result").wait_for()


def test_an_open_run_follows_and_then_stops(scenes: Scenes, open_page: Open) -> None:
    by = by_person(scenes.owner)
    run = begun(selected(some(scenes, 2), by), Verb.TAKE, by)
    page = open_page(scenes.owner, f"/selections/runs/{public('run', run.pk)}/")
    page.get_by_text("0 of 2 holds have their result").wait_for()
    engine.run_once()
    page.get_by_text("2 of 2 holds have their result").wait_for(timeout=15_000)
    assert not page.locator("#run-progress").get_attribute("data-poll")


def test_everything_works_without_a_script(scenes: Scenes, open_page: Open) -> None:
    holds = some(scenes, 2)
    page = open_page(scenes.owner, "/", java_script_enabled=False)
    assert not page.get_by_label("Select all on this page").is_visible()
    page.locator(f'input[value^="{public("hold", holds[0].pk)}"]').check()
    page.get_by_role("button", name="All actions…").click()
    page.locator("summary", has_text="Take").click()
    page.get_by_role("button", name="Take: 1").click()
    assert page.get_by_text("1 of 1 hold has its result").is_visible()
    holds[0].refresh_from_db()
    assert holds[0].owner_id == scenes.owner.pk


LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}


@pytest.mark.parametrize("look", LOOKS)
def test_the_pages_are_accessible_and_never_wider_than_the_window(
    scenes: Scenes, open_page: Open, look: str, tmp_path: Path
) -> None:
    by = by_person(scenes.owner)
    holds = [*some(scenes, 3), scenes.hold(scenes.rejected())]
    made = selected(holds, by)
    settle_assign([holds[0].pk], scenes.owner.pk, by)
    run = begun(made, Verb.CHECK_NOW, by)
    engine.run_once()
    pages = {
        "inbox": "/",
        "selection": f"/selections/{public('sel', made.pk)}/?verb=note",
        "run": f"/selections/runs/{public('run', run.pk)}/",
        "runs": "/selections/",
    }
    for name, path in pages.items():
        page = open_page(scenes.owner, path, **LOOKS[look])
        if name == "inbox":
            page.locator("tbody input[type=checkbox]").first.check()
        page.screenshot(path=tmp_path / f"{name}-{look}.png", full_page=True)
        no_axe_faults(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name

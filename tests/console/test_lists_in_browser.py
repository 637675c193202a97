"""Lists and statements in a real browser: pasted or attached, read row by row, then settled or planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scenes import Scenes
from test_lists_pages import _reaches_the_sandbox, lost  # noqa: F401  the fixture
from test_selections_in_browser import no_axe_faults

from opsledger.console.forms import by_person
from opsledger.ledger.models import BulkRun, Hold, Replay
from opsledger.lib.ids import public
from tests.bulk import counts, selected

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


def selection_path(scenes: Scenes, holds: list[Hold]) -> str:
    return f"/selections/{public('sel', selected(holds, by_person(scenes.owner)).pk)}/"


def test_a_pasted_list_is_shown_then_settles_what_it_names(scenes: Scenes, open_page: Open) -> None:
    (first, one, reference), (second, two, other), (third, _, _) = lost(scenes, 3)
    page = open_page(scenes.owner, selection_path(scenes, [first, second, third]))

    page.get_by_text("It happened", exact=True).click()
    page.get_by_role("link", name="Give a list of references").click()
    page.get_by_label("Paste the list").fill(
        f"reference,identity,subject\n{reference},{one},Call Alder Works\n{other},{two},Something else\nT-9,ol_x,\n"
    )
    no_axe_faults(page)
    page.get_by_role("button", name="Show what it says").click()
    page.get_by_role("heading", name="Settle one hold").wait_for()
    assert page.get_by_text("the list has “Something else”").is_visible()
    no_axe_faults(page)
    page.get_by_label("Reason").fill("Their export of this morning.")
    page.get_by_role("button", name="It happened: 1").click()
    page.get_by_text("3 of 3 holds have their result").wait_for()

    assert counts(BulkRun.objects.get()) == {"done": 1, "left": 2}
    first.refresh_from_db()
    assert (first.answer, first.step.reference) == ("happened", reference)


def test_an_attached_list_that_cant_be_read_says_where(
    scenes: Scenes, open_page: Open, tmp_path: Any
) -> None:
    ((hold, identity, reference),) = lost(scenes)
    (tmp_path / "bad.csv").write_text(f'reference,identity\n"{reference},{identity}\n')
    (tmp_path / "good.csv").write_text(f"reference,identity\n{reference},{identity}\n")
    page = open_page(
        scenes.owner, f"{selection_path(scenes, [hold])}list/", viewport={"width": 390, "height": 800}
    )

    page.get_by_label("Or attach it").set_input_files(tmp_path / "bad.csv")
    page.get_by_role("button", name="Show what it says").click()
    page.get_by_text("From line 2 on the list can’t be read").wait_for()
    page.get_by_label("Or attach it").set_input_files(tmp_path / "good.csv")
    page.get_by_role("button", name="Show what it says").click()
    page.get_by_role("heading", name="Settle one hold").wait_for()

    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_statement_goes_on_as_a_plan_that_is_started(scenes: Scenes, open_page: Open) -> None:
    (first, one, _), (second, _, _) = lost(scenes, 2, acted=False)
    page = open_page(scenes.owner, selection_path(scenes, [first, second]))

    page.get_by_text("It did not happen", exact=True).click()
    page.get_by_role("link", name="Give the provider’s statement").click()
    page.get_by_label("What the provider said").fill("We have no record of these.")
    page.get_by_label("How it was asked").fill("By mail; their second line answered.")
    page.get_by_label("Which identities it covers").fill(one)
    no_axe_faults(page)
    page.get_by_role("button", name="Show what it covers").click()
    page.get_by_text("The statement’s list does not name it.").wait_for()
    no_axe_faults(page)
    page.get_by_role("link", name="Plan the replay").click()
    page.get_by_text("This plan rests on the provider’s statement").wait_for()
    no_axe_faults(page)
    page.get_by_label("Batch name").fill("by the statement")
    page.get_by_label("Reason").fill("They have nothing.")
    page.get_by_label("Begin 1 step at crm_classic").check()
    page.get_by_role("button", name="Start 1 step").click()
    page.wait_for_url("**/replays/rpl_**")

    assert Replay.objects.get().statement is not None

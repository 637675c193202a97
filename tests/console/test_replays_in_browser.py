"""A replay in a real browser: from ticked operations to the plan, the start, and a progress that follows and then stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from scenes import Scenes

from opsledger.accounts import actions
from opsledger.engine import replays
from opsledger.ledger.models import Replay
from opsledger.lib.ids import public
from tests.desk import step_identity

pytestmark = pytest.mark.browser
AXE = Path(settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
Open = Callable[..., Any]


def test_from_ticked_operations_to_a_replay_that_ends_before_the_readers_eyes(
    scenes: Scenes, open_page: Open
) -> None:
    first, second = scenes.rejected(), scenes.rejected()
    left_alone = scenes.rejected()
    page = open_page(scenes.owner, "/operations/?state=held")
    for opened in (first, second):
        page.locator(f'input[name=operation][value="{public("op", opened.id)}"]').check()
    page.get_by_role("button", name="Plan a replay").click()
    page.get_by_role("heading", name="Replay plan").wait_for()
    assert page.locator("tbody tr").count() == 2

    page.get_by_label("Batch name").fill("after the incident")
    page.get_by_role("button", name="Start 2 steps").click()
    page.get_by_text("Write the reason; it is kept").wait_for()
    assert page.get_by_label("Batch name").input_value() == "after the incident"
    page.get_by_label("Reason").fill("The queue was closed.")
    page.get_by_label("Begin 2 steps at crm_classic").check()
    page.get_by_label("The cause of the rejections was mended").check()
    page.get_by_label("Steps a second").fill("100")
    page.get_by_role("button", name="Start 2 steps").dblclick()
    page.get_by_text("0 of 2 steps are over").wait_for()

    replays.run_once()
    scenes.desk.send()
    replays.run_once()
    page.get_by_text("2 of 2 steps are over").wait_for(timeout=15_000)

    assert not page.locator("#replay-progress").get_attribute("data-poll")
    assert Replay.objects.count() == 1
    made = [
        len(scenes.desk.sandbox.effects(identity=step_identity(one.id, 1)))
        for one in (first, second, left_alone)
    ]
    assert made == [1, 1, 0]
    page.reload()
    assert page.get_by_text("Recovered").first.is_visible()


def test_a_reason_that_is_being_typed_survives_the_progress(scenes: Scenes, open_page: Open) -> None:
    made = _started(scenes)
    page = open_page(scenes.owner, made)
    page.get_by_text("Pause", exact=True).click()
    page.locator("#why-pause").fill("The provider asked us to wait.")
    replays.run_once()
    page.get_by_text("Under way").first.wait_for(timeout=15_000)
    assert page.locator("#why-pause").input_value() == "The provider asked us to wait."
    page.get_by_role("button", name="Pause the replay").click()
    page.get_by_text("Paused: nothing more is begun.").first.wait_for()
    assert Replay.objects.get().state == "paused"


def _started(scenes: Scenes) -> str:
    from people import client_of
    from test_replays import address, form_of

    client = client_of(scenes.owner)
    client.post("/replays/start", form_of(client, scenes.rejected(), scenes.rejected()))
    return address(Replay.objects.get())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_are_accessible_wide_and_narrow(scenes: Scenes, open_page: Open, theme: str) -> None:
    actions.choose_theme(scenes.owner, theme)
    operations = [scenes.rejected(), scenes.unknown(), scenes.disputed(), scenes.accepted()]
    plan = "/replays/plan/?" + "&".join(f"operation={public('op', one.id)}" for one in operations)
    replay = _started(scenes)
    page = open_page(scenes.owner, "/replays/", bypass_csp=True, reduced_motion="reduce")
    for path in ("/replays/", plan, replay):
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(path)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path
            page.evaluate(AXE.read_text())
            found = page.evaluate(
                "() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] })"
            )
            said = [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]]
            assert said == [], (path, theme, width)

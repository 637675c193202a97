"""The product's main job, in a real browser against a sandbox that really loses replies.

An owner opens an *outcome unknown*, looks at the other system, answers, and sees the next step go on; the
sandbox's own records show one effect of each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scenes import Scenes, path_of

from opsledger.engine.wire import installed_wire
from opsledger.ledger.actions.open import Opened
from tests.desk import step_identity

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def sandbox_may_be_read(settings: Any) -> Iterator[None]:
    """The sandbox is on this machine, which an installation has to allow."""
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    yield
    installed_wire.cache_clear()


def held(scenes: Scenes, behaviour: str) -> Opened:
    """A two-step operation whose first reply is lost. Recovery is not automatic here, so it waits for the owner."""
    desk = scenes.desk
    opened = desk.open("campaign_follow_up")
    desk.sandbox.script(behaviour, 1, method="POST", identity=step_identity(opened.id, 1))
    desk.send()
    assert desk.operation(opened).state == "held"
    return opened


def effects(scenes: Scenes, opened: Opened, step: int) -> list[dict[str, Any]]:
    return scenes.desk.sandbox.effects(identity=step_identity(opened.id, step))


def test_it_happened_confirms_with_the_sandboxs_reference_and_the_next_step_is_sent_once(
    scenes: Scenes, open_page: Any
) -> None:
    opened = held(scenes, "lose_reply_after_acting")
    reference = effects(scenes, opened, 1)[0]["reference"]
    page = open_page(scenes.owner, path_of(opened))

    page.get_by_role("radio", name="It happened").check()
    page.get_by_role("textbox", name="Destination reference").fill(reference)
    page.locator("#why").fill("The record is there, with our identity.")
    page.get_by_role("button", name="Record that it happened").click()
    page.locator("#decide section.decide").wait_for(state="detached")
    scenes.desk.send()
    page.reload()

    assert scenes.desk.step(opened).state == "confirmed"
    assert page.get_by_text(reference).first.is_visible()
    assert len(effects(scenes, opened, 1)) == 1
    assert len(effects(scenes, opened, 2)) == 1
    assert len(scenes.desk.sandbox.requests(identity=step_identity(opened.id, 1), method="POST")) == 1


def test_it_did_not_happen_sends_the_same_request_again_and_goes_on(scenes: Scenes, open_page: Any) -> None:
    opened = held(scenes, "lose_reply_before_acting")
    page = open_page(scenes.owner, path_of(opened))

    page.get_by_role("radio", name="It did not happen").check()
    page.get_by_label("How was it checked?").fill("Searched the CRM by our identity; there is nothing.")
    page.get_by_role("radio", name="Send again").check()
    page.locator("#why").fill("Their gateway was down at that time.")
    page.get_by_role("button", name="Record that it did not happen").click()
    page.locator("#decide section.decide").wait_for(state="detached")
    scenes.desk.send()

    assert scenes.desk.step(opened).state == "confirmed"
    assert len(effects(scenes, opened, 1)) == 1
    assert len(effects(scenes, opened, 2)) == 1

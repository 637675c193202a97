"""Proposing and accepting in a real browser: one form, one verb for each person."""

from __future__ import annotations

from typing import Any

import pytest
from scenes import Scenes, path_of

from opsledger.accounts.roles import Role
from opsledger.ledger.models import Proposal

pytestmark = pytest.mark.browser


def test_an_operator_proposes_in_the_form_and_an_owner_accepts(scenes: Scenes, open_page: Any) -> None:
    opened = scenes.expired()
    page = open_page(scenes.member("Omar", Role.OPERATOR), path_of(opened))
    page.locator("input[name=answer][value=close]").check()
    page.locator("#why").fill("Their log was deleted.")
    page.get_by_role("button", name="Propose: closed as never known").click()
    page.get_by_text("Somebody who may settle it decides.").wait_for()
    assert Proposal.objects.get().answer == "close_unknown"

    narrow = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    page = open_page(scenes.owner, path_of(opened), **narrow)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Accept").click()
    page.get_by_text("Recorded: closed as never known.").wait_for()
    assert Proposal.objects.get().ended_how == "accepted"

"""Notices, absences and channels in a real browser: marking read, entering an absence, narrow, dark, accessible."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from scenes import Scenes

from opsledger.accounts.models import Absence, Person
from opsledger.accounts.roles import Role
from opsledger.engine.notices import sealed_address
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.telling import add_channel, ask_for_test
from opsledger.ledger.models import Hold, Mailing, Notice
from opsledger.rules.notice_words import NoticeKind

pytestmark = pytest.mark.browser
AXE = Path(settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
SYSTEM = By("token:00000000-0000-0000-0000-000000000003", "flow")


@pytest.fixture
def told(scenes: Scenes) -> Scenes:
    """The owner is told of each kind of thing, and the team has a channel whose test failed."""
    for _ in range(2):
        scenes.unknown()
        settle_assign([Hold.objects.latest("id").pk], scenes.owner.pk, SYSTEM)
    now = timezone.now()
    for kind in NoticeKind:
        Notice.objects.create(
            team=scenes.desk.team, person=scenes.owner, kind=kind.value, made_at=now, count=12,
            facts='{"reasons": {"outcome_unknown": 9, "disputed": 3}, "destinations": {"crm": 12}}',
        )  # fmt: skip
    channel = add_channel(
        scenes.desk.team, "Alerts of the launch", scheme="json", host="hook.example", by=by(scenes.owner),
        sealed=sealed_address("json://hook.example/"), kinds=[kind.value for kind in NoticeKind], every_minutes=5,
    )  # fmt: skip
    ask_for_test(channel.pk, scenes.desk.team)
    failed = {"state": "failed", "try_at": None, "ended_at": now, "said": "The service refused it (404)."}
    Mailing.objects.update(**failed)
    return scenes


def by(person: Person) -> By:
    return By(f"person:{person.pk}", person.display_name, person.pk)


def test_marking_one_read_counts_down_the_bell(told: Scenes, open_page: Callable[..., Any]) -> None:
    page = open_page(told.owner, "/notices/")
    assert page.locator(".bell b").inner_text() == str(len(NoticeKind) + 2)
    page.get_by_role("button", name=re.compile("Mark read.*Assigned to you")).first.click()
    page.get_by_text("One notice is read.").wait_for()
    assert page.locator(".bell b").inner_text() == str(len(NoticeKind) + 1)
    page.get_by_role("button", name="Mark all read").click()
    page.get_by_text("All of them are read.").wait_for()
    assert page.locator(".bell b").count() == 0


def test_an_absence_is_entered_and_called_off(told: Scenes, open_page: Callable[..., Any]) -> None:
    told.member("Maria", Role.OWNER)
    page = open_page(told.owner, "/settings/away/")
    page.get_by_label("Who stands in").select_option("Maria")
    page.get_by_label("Until").fill("2090-01-01T09:00")
    page.get_by_role("button", name="Save absence").click()
    page.get_by_text("Choose an earlier end").wait_for()
    assert page.get_by_label("Until").input_value() == "2090-01-01T09:00"

    soon = timezone.now() + timedelta(days=3)
    page.get_by_label("Until").fill(f"{soon:%Y-%m-%d}T09:00")
    page.get_by_role("button", name="Save absence").click()
    page.get_by_role("button", name="Back now").click()
    page.get_by_text("no longer away").wait_for()
    assert Absence.objects.get().called_off_at is not None


@pytest.mark.parametrize("path", ["/notices/", "/settings/notifications/", "/settings/away/"])
@pytest.mark.parametrize("look", [("light", 1280), ("dark", 1280), ("light", 390)], ids=str)
def test_the_pages_are_accessible_and_fit(
    told: Scenes, open_page: Callable[..., Any], path: str, look: tuple[str, int], tmp_path: Path
) -> None:
    told.member("Maria", Role.OWNER)
    from opsledger.accounts import actions

    actions.grant_role(told.owner, told.desk.team, Role.ADMIN)
    scheme, width = look
    page = open_page(told.owner, path, color_scheme=scheme, viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []
    page.screenshot(path=tmp_path / "page.png", full_page=True)

"""Views, rules and permissions in a real browser: accessible, narrow and wide, light and dark; and without a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from people import client_of
from scenes import Scenes, path_of

from opsledger.accounts import actions
from opsledger.accounts.roles import Role
from opsledger.console import presence
from opsledger.console.presence import Presence
from opsledger.ledger.models import AssignmentRule, SavedView
from opsledger.lib.ids import public

pytestmark = pytest.mark.browser
AXE = Path(settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture
def full(scenes: Scenes) -> Scenes:
    """Saved views, one that asks for something gone, rules of every state, somebody reading along."""
    maria, ann = scenes.member("Maria Santos", Role.OPERATOR), scenes.member("Ann", Role.OPERATOR)
    client = client_of(scenes.owner)
    scenes.unknown()
    scenes.stopped("mail")
    for who, named in ((maria, {"destination": "crm_classic"}), (ann, {"reason": "disputed"}), (maria, {})):
        client.post("/settings/rules/add/", {"person": str(who.pk), **named})
    AssignmentRule.objects.filter(position=3).update(active=False)
    actions.deactivate_person(ann)
    for number in range(5):
        client.post(
            "/views/save/", {"name": f"Look here {number}", "query": "destination=mail", "whose": "me"}
        )
    client.post("/views/save/", {"name": "Ann’s", "query": f"owner={ann.pk}", "whose": "team"})
    return scenes


def addresses(scenes: Scenes) -> dict[str, str]:
    team_view = SavedView.objects.get(person=None)
    rule = AssignmentRule.objects.get(position=1)
    return {
        "inbox": "/",
        "a view": f"/?saved={public('view', team_view.pk)}",
        "views": "/views/",
        "rules": "/settings/rules/",
        "rule": f"/settings/rules/{public('rule', rule.pk)}/",
        "permissions": "/settings/permissions/",
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_page_is_accessible_and_fits_wide_and_narrow(full: Scenes, open_page: Any, theme: str) -> None:
    actions.choose_theme(full.owner, theme)
    for width in (1280, 390):
        page = open_page(full.owner, "/", viewport={"width": width, "height": 900})
        for name, path in addresses(full).items():
            page.goto(path)
            page.locator("main details").evaluate_all("all => all.forEach(one => { one.open = true })")
            page.evaluate(AXE.read_text())
            found = page.evaluate("(rules) => axe.run({ runOnly: rules })", RULES)
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == [], name
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, width)


def test_who_reads_along_is_accessible(
    full: Scenes, open_page: Any, broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = Presence(broker_url)
    monkeypatch.setattr(presence, "_installed", readers)
    path = path_of(full.unknown())
    first = open_page(full.member("Jon", Role.OPERATOR), path)
    first.wait_for_load_state("networkidle")
    page = open_page(full.owner, path, viewport={"width": 390, "height": 900})
    page.get_by_text("Jon is reading this too").wait_for()
    page.evaluate(AXE.read_text())
    found = page.evaluate("(rules) => axe.run({ runOnly: rules })", RULES)
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == []
    for context in (first, page):
        context.close()
    readers.close()


def test_views_and_rules_are_kept_without_a_script(full: Scenes, open_page: Any) -> None:
    page = open_page(full.owner, "/?destination=crm_classic", java_script_enabled=False)
    page.locator(".save-view summary").click()
    page.get_by_label("Name of the view").fill("By hand")
    page.get_by_role("main").get_by_role("button", name="Save view").click()
    assert "saved=view_" in page.url
    page.goto("/views/")
    row = page.get_by_role("row").filter(has_text="By hand")
    row.get_by_role("button", name="Up").click()
    row.locator("summary").click()
    row.get_by_label("New name").fill("By my hand")
    row.get_by_role("button", name="Rename").click()
    assert page.get_by_role("link", name="By my hand").count() == 1
    page.goto("/settings/rules/")
    page.get_by_label("Give it to").select_option(label="Test owner")
    page.get_by_role("button", name="Add rule").click()
    assert page.get_by_role("row").filter(has_text="Test owner").count() >= 1
    page.get_by_role("button", name="Apply to open unowned holds now").click()
    assert "given away" in page.get_by_role("status").first.inner_text()

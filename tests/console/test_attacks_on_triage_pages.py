"""Attacks on the pages of triage: views that meet selections, and forms that no page made."""

from __future__ import annotations

import pytest
from people import client_of
from scenes import Scenes
from test_selections import hidden

from opsledger.accounts.roles import Role
from opsledger.ledger.models import AssignmentRule, SavedView, Selection, SelectionItem
from opsledger.ledger.queries.inbox import View
from opsledger.lib.ids import public
from opsledger.rules.states import HoldReason

# Views that meet selections


@pytest.mark.parametrize("view", list(View))
@pytest.mark.parametrize("role", [Role.OPERATOR, Role.OWNER])
def test_every_view_is_shown_and_can_be_selected_from(scenes: Scenes, view: View, role: Role) -> None:
    scenes.unknown()
    scenes.unapproved()
    client = client_of(scenes.member("Olga", role))
    assert client.get(f"/?view={view.value}").status_code == 200
    form = {"view_query": f"view={view.value}", "seen": hidden(client.get("/").content.decode(), "seen")}
    assert client.post("/selections/view/", form).status_code == 303


def test_a_saved_view_of_what_awaits_ones_approval_freezes_that_and_nothing_else(scenes: Scenes) -> None:
    scenes.unknown()
    scenes.unapproved()
    olga = scenes.member("Olga", Role.OWNER)
    client = client_of(olga)
    client.post("/views/save/", {"name": "Mine to approve", "query": "view=awaiting", "whose": "me"})
    page = client.get(f"/?saved={public('view', SavedView.objects.get().pk)}").content.decode()
    form = {name: hidden(page, name) for name in ("view_query", "seen")}
    assert client.post("/selections/view/", form).status_code == 303
    reasons = SelectionItem.objects.filter(selection=Selection.objects.get()).values_list(
        "hold__reason", flat=True
    )
    assert list(reasons) == [HoldReason.APPROVAL_NEEDED.value]


# Texts that no database holds


@pytest.mark.parametrize("field", ["workflow", "destination", "reason", "person"])
@pytest.mark.parametrize("text", ["\0", "a\0b"])
def test_a_rule_that_names_what_cant_be_stored_is_refused(scenes: Scenes, field: str, text: str) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    client, form = client_of(olga), {"person": str(olga.pk), "workflow": "", "destination": "", "reason": ""}
    assert client.post("/settings/rules/add/", form | {field: text}).status_code == 422
    assert client.post("/settings/rules/add/", form).status_code == 303
    change = {**form, "version": "1", "active": "on", field: text}
    path = f"/settings/rules/{public('rule', AssignmentRule.objects.get().pk)}/"
    assert client.post(path, change).status_code == 422
    assert AssignmentRule.objects.get().version == 1

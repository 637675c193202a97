"""What waits for an approval, what exactly would be sent, who may decide, and that one decision is made once."""

from __future__ import annotations

import html as markup
from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connections
from people import client_of, person
from scenes import Scenes, hold_path, path_of

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.models import Approval, ApprovedRequest, ContentVersion, Hold
from opsledger.ledger.queries.approvals import waiting_count
from opsledger.lib.ids import public
from opsledger.rules.content import AuthorKind
from tests.desk import LETTER

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "approval"}
OTHER_TEXT = "Your order is on its way. A colleague will write once it has arrived."


@pytest.fixture
def olga(scenes: Scenes) -> Person:
    """A second owner."""
    return scenes.member("Olga", Role.OWNER)


def text_of(response: Any) -> str:
    return markup.unescape(response.content.decode())


def newest(scenes: Scenes) -> ContentVersion:
    return ContentVersion.objects.filter(team=scenes.desk.team).latest("number")


def address(version: ContentVersion, what: str = "") -> str:
    return f"/approvals/{public('cv', version.pk)}/{what}"


def form_of(client: Any, version: ContentVersion) -> dict[str, str]:
    """The hidden fields of the decision form, as a browser would send them."""
    import re

    page = client.get(address(version)).content.decode()
    return {
        name: re.search(rf'name="{name}" value="([^"]*)"', page)[1]  # type: ignore[index]
        for name in ("version", "covered_digest", "step", "after")
    }


def approve(client: Any, version: ContentVersion, **more: Any) -> Any:
    return client.post(address(version, "decide"), form_of(client, version) | {"answer": "approve", **more})


# The list


def test_the_list_tells_what_waits_for_me_what_for_others_and_what_was_decided(
    scenes: Scenes, olga: Person
) -> None:
    scenes.desk.letter()
    scenes.desk.letter()
    client = client_of(scenes.owner)
    page = text_of(client.get("/approvals/"))
    assert "Waiting for you" in page
    assert "Model draft-writer-2" in page
    assert "2 operations wait" in page
    assert approve(client, newest(scenes)).status_code == 303
    scenes.desk.propose(by_person(scenes.owner), author=scenes.owner.email, text=OTHER_TEXT)
    page = text_of(client.get("/approvals/"))
    assert "You wrote it" in page
    assert "Waiting for others" in page
    assert "Version 1 of spring-launch/letter" in page
    assert "Waiting for you" in text_of(client_of(olga).get("/approvals/"))

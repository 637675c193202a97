"""Texts that no database holds, in addresses and forms of approvals, replays and lists: a clear refusal, never a 500."""

from __future__ import annotations

import pytest
from people import client_of
from scenes import Scenes

from opsledger.accounts.roles import Role
from opsledger.ledger.models import ContentVersion
from opsledger.lib.ids import public


@pytest.mark.parametrize(
    "path",
    [
        "/?destination=%00",
        "/?workflow=a%00b",
        "/replays/plan/?from=inbox&destination=%00",
        "/replays/plan/?from=inbox&workflow=%00",
        "/audit/?kind=%00",
        "/audit/?actor=a%00",
    ],
)
def test_an_address_with_nul_is_refused(scenes: Scenes, path: str) -> None:
    scenes.unknown()

    response = client_of(scenes.owner).get(path)

    assert response.status_code == 400
    assert "can’t be read" in response.content.decode()


def test_a_proposal_whose_origin_holds_nul_is_refused_and_the_text_is_kept(scenes: Scenes) -> None:
    scenes.desk.letter()
    scenes.member("Olga", Role.OWNER)
    version = ContentVersion.objects.get()
    form = {"field.subject": "Thanks", "field.text": "A text that took an hour.", "origin": "a\x00b"}

    response = client_of(scenes.owner).post(f"/approvals/{public('cv', version.pk)}/propose/version", form)

    assert response.status_code == 422
    page = response.content.decode()
    assert "A text that took an hour." in page
    assert "without NUL" in page
    assert ContentVersion.objects.count() == 1

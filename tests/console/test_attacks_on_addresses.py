"""Texts that no database holds, in addresses and forms of approvals, replays and lists: a clear refusal, never a 500."""

from __future__ import annotations

import re

import pytest
from people import client_of
from scenes import Scenes, path_of

from opsledger.accounts.roles import Role
from opsledger.journal.models import Entry
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


@pytest.mark.parametrize(
    "place", ["nonsense", "~", "rpl_" + "0" * 25, "rpl_" + "u" * 26, "9" * 5_000, "\u0663"]
)
def test_a_link_to_another_part_of_a_list_that_can_not_be_read_says_so(scenes: Scenes, place: str) -> None:
    """The first page instead would pass for the one that was asked for."""
    scenes.desk.letter()
    version = public("cv", ContentVersion.objects.get().pk)
    lists = [
        ("/replays/", "before"),
        ("/selections/", "before"),
        ("/notices/", "before"),
        (f"/approvals/{version}/", "after"),
        (path_of(scenes.unknown()), "before"),
    ]
    client = client_of(scenes.owner, raise_request_exception=False)
    assert [client.get(path).status_code for path, _name in lists] == [200] * len(lists)
    answers = [client.get(path, {name: place}) for path, name in lists]
    assert [answer.status_code for answer in answers] == [400] * len(lists)
    assert all("Start again from the" in answer.content.decode() for answer in answers)


@pytest.mark.parametrize("verb", ["decide", "reveal"])
def test_nothing_is_done_about_a_part_of_a_list_that_can_not_be_read(scenes: Scenes, verb: str) -> None:
    """Which operations the page showed decides about the others; and what is shown is recorded first."""
    scenes.desk.letter()
    olga = client_of(scenes.member("Olga", Role.OWNER))
    version = ContentVersion.objects.get()
    path = f"/approvals/{public('cv', version.pk)}/"
    kept = dict(
        re.findall(r'name="(version|covered_digest|step)" value="([^"]*)"', olga.get(path).content.decode())
    )
    form = kept | {"answer": "reject", "reason": "It promises a date.", "others": "return"}
    before = Entry.objects.count()

    assert olga.post(f"{path}{verb}", form | {"after": "nonsense"}).status_code == 400
    assert Entry.objects.count() == before
    assert olga.post(f"{path}{verb}", form).status_code in {200, 303}
    assert Entry.objects.count() > before

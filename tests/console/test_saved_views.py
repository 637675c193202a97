"""Saved views: kept filters as tabs with counts, shared by their address within the team, and only there."""

from __future__ import annotations

import html as markup
import re
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from people import client_of, person
from scenes import UNKNOWN, Scenes

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.models import Hold, SavedView
from opsledger.ledger.queries import approvals, inbox
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from tests.desk import LETTER

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "inbox-news"}


def save(who: Person, query: str, name: str = "Mine to watch", whose: str = "me") -> Any:
    return client_of(who).post("/views/save/", {"name": name, "query": query, "whose": whose})


def view(name: str = "Mine to watch") -> SavedView:
    return SavedView.objects.get(name=name)


def link(row: SavedView) -> str:
    return f"/?saved={public('view', row.pk)}"


def ids_in(html: str) -> set[str]:
    return set(re.findall(r'<tr id="(hold_\w+)"', html))


def tab_of(html: str, row: SavedView) -> str:
    found = re.search(rf'<a id="tab-{public("view", row.pk)}".*?</a>', html)
    return markup.unescape(found.group(0)) if found else ""


def shown(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, response.content
    return markup.unescape(response.content.decode())


@pytest.fixture
def two(scenes: Scenes) -> tuple[Hold, Hold]:
    """One at crm_classic, one at mail."""
    return scenes.hold(scenes.unknown()), scenes.stopped("mail")


def test_a_saved_view_shows_its_filter_and_is_a_tab_with_its_count(
    scenes: Scenes, two: tuple[Hold, Hold]
) -> None:
    response = save(scenes.owner, "owner=none&after=&destination=crm_classic&view=all")
    row = view()
    assert (response.status_code, response["Location"]) == (303, link(row))
    assert row.query == "destination=crm_classic&owner=none"  # canonical
    html = shown(client_of(scenes.owner), link(row))
    assert ids_in(html) == {public("hold", two[0].pk)}
    assert 'aria-current="page"' in tab_of(html, row)
    assert re.search(r'<b class="n">1</b>', tab_of(html, row))
    assert "Save view" not in html


def test_its_count_is_live(scenes: Scenes) -> None:
    save(scenes.owner, "destination=crm_classic")
    client = client_of(scenes.owner)
    for count in (0, 1, 2):
        news = client.get(f"/inbox/news/?saved={public('view', view().pk)}", **HTMX).content.decode()
        assert f'<b class="n">{count}</b>' in tab_of(news, view())
        assert f'data-poll="/inbox/news/?saved={public("view", view().pk)}&amp;since=' in news
        scenes.unknown()
        scenes.stopped("mail") if not count else None


def test_pages_of_a_saved_view_stay_in_it(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    page_of = inbox.page_of
    monkeypatch.setattr(inbox, "page_of", lambda wanted, **more: page_of(wanted, **more, size=1))
    first, second = scenes.hold(scenes.unknown()), scenes.hold(scenes.unknown())
    scenes.stopped("mail")
    save(scenes.owner, "destination=crm_classic")
    client = client_of(scenes.owner)
    html = shown(client, link(view()))
    later = re.search(r'rel="next"[^>]* href="([^"]+)"', html)
    assert later and f"saved={public('view', view().pk)}" in later.group(1)
    following = shown(client, f"/{later.group(1)}")
    assert ids_in(html) | ids_in(following) == {public("hold", one.pk) for one in (first, second)}
    assert 'rel="next"' not in following


def test_a_colleague_opens_a_personal_view_by_its_link_marked_whose_it_is(
    scenes: Scenes, two: tuple[Hold, Hold]
) -> None:
    vera = scenes.member("Vera", Role.VIEWER)
    save(scenes.owner, "destination=mail")
    client = client_of(vera)
    html = shown(client, link(view()))
    assert "Test owner’s own view." in html
    assert ids_in(html) == {public("hold", two[1].pk)}
    assert "Mine to watch" not in shown(client, "/")  # no tab of theirs
    assert "Mine to watch" not in shown(client, "/views/")
    for what in ("rename", "move", "remove"):
        path = f"/views/{public('view', view().pk)}/{what}/"
        assert client.post(path, {"name": "x", "to": "up"}).status_code == 403
    assert view().position == 1


def test_mine_in_a_shared_view_means_whoever_looks(scenes: Scenes, two: tuple[Hold, Hold]) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    Hold.objects.filter(pk=two[0].pk).update(owner=scenes.owner)
    Hold.objects.filter(pk=two[1].pk).update(owner=omar)
    save(scenes.owner, "view=mine", whose="team")
    assert ids_in(shown(client_of(scenes.owner), link(view()))) == {public("hold", two[0].pk)}
    assert ids_in(shown(client_of(omar), link(view()))) == {public("hold", two[1].pk)}


def test_other_teams_find_nothing_of_it(scenes: Scenes) -> None:
    rita = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=rita, also=[Role.ADMIN])
    save(scenes.owner, "destination=mail", whose="team")
    save(scenes.owner, "destination=crm", name="My own")
    client = client_of(rita)
    for row in SavedView.objects.all():
        assert client.get(link(row)).status_code == 404
        assert client.get(f"/inbox/news{link(row)}", **HTMX).status_code == 404
        for what in ("rename", "move", "remove"):
            assert client.post(f"/views/{public('view', row.pk)}/{what}/", {"name": "x"}).status_code == 404
    for path in ("/", "/views/"):
        assert "Mine to watch" not in shown(client, path)
    assert SavedView.objects.count() == 2


@pytest.mark.parametrize("text", ["view_nonsense", "view_" + "0" * 26, "nonsense", "hold_" + "0" * 26])
def test_a_link_to_a_view_that_there_is_not_says_so(scenes: Scenes, text: str) -> None:
    response = client_of(scenes.owner).get(f"/?saved={text}")
    assert response.status_code == 404
    assert "There is no such saved view in this team" in markup.unescape(response.content.decode())


@pytest.mark.parametrize("role", Role)
def test_everybody_keeps_views_of_their_own_and_a_viewer_none_for_the_team(
    scenes: Scenes, role: Role
) -> None:
    who = scenes.member("Somebody", role)
    assert save(who, "view=mine", name="own").status_code == 303
    response = save(who, "view=mine", name="of the team", whose="team")
    page = shown(client_of(who), "/")
    if role is Role.VIEWER:
        assert response.status_code == 403
        assert "you need the role" in markup.unescape(response.content.decode())
        assert "The team</option>" not in page
    else:
        assert response.status_code == 303
        assert "The team</option>" in page
    assert SavedView.objects.filter(person=who).count() == 1
    assert SavedView.objects.filter(person=None).exists() is (role is not Role.VIEWER)


def test_a_team_view_is_changed_by_those_who_may_share_and_not_by_a_viewer(scenes: Scenes) -> None:
    save(scenes.owner, "destination=mail", whose="team")
    path = f"/views/{public('view', view().pk)}"
    vera = client_of(scenes.member("Vera", Role.VIEWER))
    omar = client_of(scenes.member("Omar", Role.OPERATOR))
    assert vera.post(f"{path}/rename/", {"name": "x"}).status_code == 403
    assert vera.post(f"{path}/remove/").status_code == 403
    assert "/rename/" not in shown(vera, "/views/")
    assert omar.post(f"{path}/rename/", {"name": "Post"}).status_code == 303
    assert omar.post(f"/views/{public('view', view('Post').pk)}/remove/").status_code == 303
    assert not SavedView.objects.exists()


# What can't be kept


def refused(response: Any, *texts: str) -> None:
    assert response.status_code == 422
    page = markup.unescape(response.content.decode())
    for text in texts:
        assert text in page


def test_what_cannot_be_kept_is_said_and_what_was_typed_stays(scenes: Scenes) -> None:
    save(scenes.owner, "destination=mail")
    refused(
        save(scenes.owner, "view=mine"), "There is a saved view “Mine to watch” already", 'value="view=mine"'
    )
    refused(save(scenes.owner, "view=mine", name="  "), "A name has 1 to 60 printable characters.")
    refused(save(scenes.owner, "view=mine", name="x" * 61), "A name has 1 to 60", 'value="' + "x" * 61)
    refused(save(scenes.owner, "view=nonsense", name="b"), "“nonsense” is not a view that this list knows.")
    long = "&".join(f"{name}={'é' * 300}" for name in ("workflow", "destination"))
    refused(save(scenes.owner, long, name="b"), "too long to be kept")
    assert SavedView.objects.count() == 1
    assert save(scenes.owner, "view=mine", whose="team").status_code == 303  # the team’s names are its own
    vera = scenes.member("Vera", Role.VIEWER)
    assert save(vera, "view=mine").status_code == 303  # and everybody’s theirs


def test_thirty_of_a_person_and_thirty_of_the_team_are_kept(scenes: Scenes) -> None:
    for number in range(30):
        assert save(scenes.owner, "view=mine", name=f"n{number}").status_code == 303
    refused(save(scenes.owner, "view=mine", name="one more"), "You have 30 saved views already.")
    assert save(scenes.owner, "view=mine", name="one more", whose="team").status_code == 303
    row = SavedView.objects.get(name="n3")
    client_of(scenes.owner).post(f"/views/{public('view', row.pk)}/remove/")
    assert save(scenes.owner, "view=mine", name="again").status_code == 303
    own = SavedView.objects.filter(person=scenes.owner).order_by("position")
    assert [one.position for one in own] == list(range(1, 31))
    assert [one.name for one in own][-2:] == ["n29", "again"]


def test_the_table_refuses_a_thirty_first_and_a_place_that_is_taken(scenes: Scenes) -> None:
    save(scenes.owner, "view=mine")
    save(scenes.owner, "view=mine", whose="team")
    for whose in (None, scenes.owner):
        for position, name in ((31, "thirty_views_are_kept_at_most"), (1, "view_has_a_place_of_its_own")):
            with pytest.raises(
                IntegrityError, match=name
            ):  # a place that is taken is refused at the end of it
                _write(scenes, whose, position)


@transaction.atomic
def _write(scenes: Scenes, whose: Person | None, position: int) -> None:
    team, author = scenes.desk.team, scenes.owner
    holder_id = (whose or team).pk
    SavedView.objects.create(
        team=team, person=whose, holder_id=holder_id, name="x", query="", position=position, author=author
    )


# Order and tabs


def test_views_move_up_and_down_among_their_own_kind(scenes: Scenes) -> None:
    for name in ("a", "b", "c"):
        save(scenes.owner, "view=mine", name=name)
    save(scenes.owner, "view=mine", name="t", whose="team")
    client = client_of(scenes.owner)

    def move(name: str, to: str) -> list[str]:
        client.post(f"/views/{public('view', view(name).pk)}/move/", {"to": to})
        rows = SavedView.objects.filter(person=scenes.owner).order_by("position")
        return [row.name for row in rows]

    assert move("c", "up") == ["a", "c", "b"]
    assert move("a", "up") == ["a", "c", "b"]
    assert move("b", "down") == ["a", "c", "b"]
    assert move("a", "down") == ["c", "a", "b"]
    labels = re.findall(r'id="tab-view_\w+"[^>]*>(\w) <b', shown(client, "/"))
    assert labels == ["c", "a", "b", "t"]
    assert view("t").position == 1


def test_twelve_are_tabs_and_the_rest_stands_behind_more_views(scenes: Scenes) -> None:
    for number in range(14):
        save(scenes.owner, "view=mine", name=f"n{number}")
    client = client_of(scenes.owner)
    html = shown(client, "/")
    assert len(re.findall(r'id="tab-view_', html)) == 12
    assert 'More views <b class="n">2</b>' in html
    hidden = view("n13")
    opened = shown(client, link(hidden))
    assert 'aria-current="page"' in tab_of(opened, hidden)  # the one that is open has a tab
    assert 'More views <b class="n">1</b>' in opened
    assert shown(client, "/views/").count("<tr data-row") == 14


def test_saved_views_cost_as_many_statements_whatever_their_number(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    save(scenes.owner, "view=mine", name="n")
    client.get("/")
    with CaptureQueriesContext(connection) as one:
        client.get("/")
    of_one = _but_the_clock(one)  # read at once: the next request empties the log
    for number in range(11):
        save(scenes.owner, "destination=mail", name=f"n{number}")
    with CaptureQueriesContext(connection) as twelve:
        client.get("/")
    assert len(_but_the_clock(twelve)) == len(of_one)


def _but_the_clock(captured: CaptureQueriesContext) -> list[str]:
    """The database’s clock is asked once a second, whatever is shown."""
    texts = (query["sql"] for query in captured.captured_queries)
    return [text for text in texts if text != "SELECT now()"]


# What is gone


def test_a_view_that_asks_for_something_gone_says_so_rather_than_showing_all(
    scenes: Scenes, two: tuple[Hold, Hold]
) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    save(scenes.owner, f"destination=mail&owner={maria.pk}")
    client = client_of(scenes.owner)
    assert "is gone" not in shown(client, link(view()))
    SavedView.objects.update(query=f"destination=fax&owner={maria.pk}")
    Person.objects.filter(pk=maria.pk).update(is_active=False)
    html = shown(client, link(view()))
    assert "“Mine to watch” asks for something that is gone." in html
    assert "It asks for the destination “fax”, which the team does not have any more." in html
    assert "It asks for an owner who is no longer active in the team." in html
    assert ids_in(html) == set()


def test_a_view_that_can_no_longer_be_read_shows_nothing_and_can_be_removed(
    scenes: Scenes, two: tuple[Hold, Hold]
) -> None:
    save(scenes.owner, "destination=mail")
    SavedView.objects.update(query="reason=a_reason_of_yesterday")
    client = client_of(scenes.owner)
    html = shown(client, link(view()))
    assert "It asks for something that this list does not know any more, so it shows nothing." in html
    assert ids_in(html) == set()
    assert '<b class="n">?</b>' in tab_of(html, view())
    assert "Asks for something that is gone" in shown(client, "/views/")
    assert ids_in(shown(client, "/")) == {public("hold", one.pk) for one in two}
    client.post(f"/views/{public('view', view().pk)}/remove/")
    assert not SavedView.objects.exists()


# Awaiting my approval


def test_awaiting_my_approval_shows_what_this_person_may_approve_and_counts_it(scenes: Scenes) -> None:
    maria, omar = scenes.member("Maria", Role.OWNER), scenes.member("Omar", Role.OPERATOR)
    jon = scenes.member("Jon", Role.OWNER)
    by_model = scenes.desk.letter()
    recorded = scenes.desk.letter(by=by_person(maria), content_id="another", fields=LETTER | {"subject": "x"})
    revised = scenes.unknown()
    scenes.settle(revised, Answer.ABSENT_REVISE, params={"subject": "Call them"}, checked_how="Searched.")
    own = open_operations([scenes.desk.wanted("classic_follow_up")._replace(actor=f"person:{maria.pk}")])[0]
    scenes.send(UNKNOWN)
    scenes.settle(own, Answer.ABSENT_REVISE, params={"subject": "Call them"}, checked_how="Searched.")
    scenes.unknown()
    opened = {"by a model": by_model, "recorded by Maria": recorded, "revised by the owner": revised,
              "recorded by Maria, revised by the owner": own}  # fmt: skip
    names = {public("hold", scenes.hold(one).pk): name for name, one in opened.items()}
    assert {scenes.hold(one).reason for one in opened.values()} == {"approval_needed"}

    def awaiting(who: Person) -> set[str]:
        html = shown(client_of(who), "/?view=awaiting")
        found = ids_in(html)
        assert f'Awaiting my approval <b class="n">{len(found)}</b>' in html
        return {names[one] for one in found}

    assert awaiting(scenes.owner) == {"by a model", "recorded by Maria"}
    assert awaiting(maria) == {"by a model", "revised by the owner"}
    assert awaiting(jon) == set(opened)
    scenes.desk.propose(by_person(maria), author=maria.email, subject="Another subject")
    names = {public("hold", scenes.hold(one).pk): name for name, one in opened.items()}
    assert awaiting(scenes.owner) == {"by a model", "recorded by Maria"}
    assert awaiting(maria) == {"revised by the owner"}
    for hold in Hold.objects.filter(
        closed_at=None, reason="approval_needed"
    ):  # the same as for the approval itself
        for who in (scenes.owner, maria):
            barred = approvals.unable_for([hold.step_id])[hold.step_id]
            assert (names[public("hold", hold.pk)] in awaiting(who)) is (who.pk not in barred)
    operators = shown(client_of(omar), "/?view=awaiting")
    assert ids_in(operators) == set()
    assert "Awaiting my approval" not in operators

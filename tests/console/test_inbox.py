"""The inbox: which holds a view shows, in which order, and what can be done with several at once."""

from __future__ import annotations

import re
import time
from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from people import client_of
from scenes import EVERY_STEP_QUESTION, Scenes, path_of

from opsledger.accounts.roles import Role
from opsledger.console.filters import InboxFilter
from opsledger.console.forms import by_person
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.models import Hold
from opsledger.ledger.queries import inbox
from opsledger.lib.ids import public

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "inbox-news"}


def tick(hold: Hold) -> str:
    """The value of a row's tick: the hold, and the version that the row shows."""
    return f"{public('hold', hold.pk)}~{hold.version}"


def ids_in(html: str) -> list[str]:
    return re.findall(r'<tr id="(hold_\w+)"', html)


def test_nothing_open_says_so_and_what_goes_on(scenes: Scenes) -> None:
    html = client_of(scenes.owner).get("/").content.decode()
    assert "Nothing is waiting for a decision" in html
    assert "No open holds." in html


def test_a_row_says_what_is_asked_known_protected_owned_and_due(scenes: Scenes) -> None:
    opened = scenes.unknown("spring-launch:req-8841")
    html = client_of(scenes.owner).get("/").content.decode()
    for text in (
        "Outcome unknown",
        "Follow up spring launch with Alder Works in CRM Classic",
        "spring-launch:req-8841",
        "crm_classic",
        "Sent once, without a clear answer.",
        "None: a resend may duplicate",
        "Unowned",
    ):
        assert text in html
    assert f"{path_of(opened)}?hold={public('hold', scenes.hold(opened).pk)}#decide" in html


def test_holds_at_destinations_and_events_are_in_the_same_list(scenes: Scenes) -> None:
    scenes.unknown()
    paused, conflict = scenes.stopped(), scenes.event_conflict()
    html = client_of(scenes.owner).get("/").content.decode()
    assert len(ids_in(html)) == 3
    assert f'href="/destinations/#d-{paused.destination_slug}"' in html
    assert f'href="/holds/{public("hold", conflict.pk)}/"' in html


SHOWN = {
    "view=mine": {"disputed"},
    "view=unowned": {"unknown", "rejected", "paused"},
    "view=unknown": {"unknown"},
    "view=disputed": {"disputed"},
    "view=destinations": {"paused"},
    "view=all": {"unknown", "disputed", "rejected", "paused"},
    "reason=rejected_by_destination": {"rejected"},
    "view=unknown&reason=disputed": set(),
    "destination=mail": {"paused"},
    "workflow=classic_follow_up&owner=none": {"unknown", "rejected"},
}


def test_a_view_shows_its_own_holds_and_counts_them(scenes: Scenes) -> None:
    two_hours_ago = timezone.now() - timedelta(hours=2)
    made = {
        "disputed": scenes.hold(scenes.disputed()).pk,
        "rejected": scenes.hold(scenes.rejected()).pk,
        "paused": scenes.stopped("mail").pk,
        "unknown": inbox.floor_id(two_hours_ago),
    }
    settle_assign([made["disputed"]], scenes.owner.pk, by_person(scenes.owner))
    young = scenes.hold(scenes.unknown())
    Hold.objects.filter(pk=young.pk).update(id=made["unknown"], opened_at=two_hours_ago)
    client = client_of(scenes.owner)
    for query, shown in SHOWN.items():
        html = client.get(f"/?{query}").content.decode()
        assert set(ids_in(html)) == {public("hold", made[name]) for name in shown}, query
        if query.startswith("view=") and "&" not in query:
            tab = rf'id="tab-{query.removeprefix("view=")}"[^>]*aria-current="page"[^>]*>[^<]*<b class="n">{len(shown)}</b>'
            assert re.search(tab, html), query


def test_pages_follow_due_time_and_id_both_ways_without_losing_one(scenes: Scenes) -> None:
    for _ in range(7):
        scenes.unknown()
    Hold.objects.update(due_at=timezone.now() + timedelta(hours=1))  # all at the same moment: the id decides
    wanted = InboxFilter.read({}, scenes.desk.team.pk, scenes.owner.pk).wanted
    everything = [line.id for line in inbox.page_of(wanted).lines]
    seen, after = [], None
    while True:
        page = inbox.page_of(wanted, after=after, size=3)
        seen += [line.id for line in page.lines]
        if not page.has_later:
            break
        after = page.lines[-1].place
    assert seen == everything == sorted(everything)
    back = inbox.page_of(wanted, before=after, size=3)
    assert [line.id for line in back.lines] == everything[2:5]
    assert back.has_earlier


def test_a_page_costs_a_fixed_number_of_statements(scenes: Scenes) -> None:
    for _ in range(6):
        scenes.unknown()
    client = client_of(scenes.owner)

    def cost() -> int:
        with CaptureQueriesContext(connection) as asked:
            client.get("/")
        return len(asked)

    # The least of some: what is kept for seconds (the clock, roles) may have to be asked for again in any of them.
    assert min(cost() for _ in range(4)) <= 8


def test_news_tell_counts_and_how_many_are_new_and_leave_the_rows_alone(scenes: Scenes) -> None:
    scenes.unknown()
    client = client_of(scenes.owner)
    page = client.get("/").content.decode()
    address = re.search(r'data-poll="([^"]+)"', page).group(1).replace("&amp;", "&")  # type: ignore[union-attr]
    before = client.get(address, **HTMX).content.decode()
    time.sleep(0.002)  # ids tell milliseconds apart
    scenes.rejected()
    scenes.unknown()
    after = client.get(address, **HTMX).content.decode()
    assert " new</b>" not in before
    assert "<b>2 new</b>" in after
    assert '<b class="n">3</b>' in after
    assert "<tr" not in after
    assert client.get(address).status_code == 303  # by itself it is no page


def test_an_address_that_cannot_be_read_says_so(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    for query in ("view=nonsense", "after=nonsense", "before=2026-01-01~hold_", "owner=nonsense", "reason=x"):
        response = client.get(f"/?{query}")
        assert response.status_code == 400, query
        html = response.content.decode()
        assert "to another page of the list can’t be read" in html or "that this list knows" in html, query


# Several at once


def test_ticked_holds_are_given_to_a_person_and_others_stay(scenes: Scenes) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    one, two, other = (scenes.hold(scenes.unknown()) for _ in range(3))
    data = {
        "hold": [tick(one), tick(two)],
        "owner": str(omar.pk),
        "next": "/?view=unowned",
    }
    response = client_of(scenes.owner).post("/inbox/assign/", data)
    assert (response.status_code, response["Location"]) == (303, "/?view=unowned")
    owners = dict(Hold.objects.values_list("pk", "owner_id"))
    assert owners == {one.pk: omar.pk, two.pk: omar.pk, other.pk: None}


def test_take_gives_one_hold_to_oneself_whatever_is_ticked(scenes: Scenes) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    one, other = scenes.hold(scenes.unknown()), scenes.hold(scenes.unknown())
    data = {"one": tick(one), "hold": [tick(other)], "owner": "none"}
    client_of(omar).post("/inbox/assign/", data)
    assert dict(Hold.objects.values_list("pk", "owner_id")) == {one.pk: omar.pk, other.pk: None}


def test_check_now_makes_the_lookups_due_and_says_how_many(scenes: Scenes) -> None:
    first, second = scenes.unknown(), scenes.rejected()
    data = {"hold": [tick(scenes.hold(one)) for one in (first, second)]}
    page = client_of(scenes.owner).post("/inbox/check/", data, follow=True).content.decode()
    assert "One lookup is due now." in page
    assert "1 refused." in page
    assert scenes.desk.step(first).look_at is not None
    assert scenes.desk.step(second).look_at is None


def test_nothing_ticked_is_said_and_does_nothing(scenes: Scenes) -> None:
    scenes.unknown()
    page = client_of(scenes.owner).post("/inbox/assign/", {"owner": "me"}, follow=True).content.decode()
    assert "Tick at least one hold first." in page
    assert not Hold.objects.filter(owner__isnull=False).exists()


def test_a_hold_of_another_team_is_neither_listed_counted_nor_assigned(scenes: Scenes) -> None:
    from people import make_cast

    hold = scenes.hold(scenes.unknown())
    rita = make_cast().rita
    client = client_of(rita)
    page = client.get("/").content.decode()
    assert ids_in(page) == []
    assert '<b class="n">0</b>' in page
    client.post("/inbox/assign/", {"hold": [tick(hold)], "owner": "me"})
    hold.refresh_from_db()
    assert hold.owner_id is None


def test_every_kind_of_question_has_its_row(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    for reason, make in EVERY_STEP_QUESTION.items():
        opened = make(scenes)
        html = client.get(f"/?reason={reason.value}").content.decode()
        assert ids_in(html) == [public("hold", scenes.hold(opened).pk)], reason

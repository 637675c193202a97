"""Incidents on pages: which cards are shown, what they say, and what an incident's own page does."""

from __future__ import annotations

import html as markup
import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from people import client_of, person
from scenes import Scenes

from opsledger.accounts.actions import add_team
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.console.incident_pages import bars_path, interval_words
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.incidents import record_act, record_incidents, settle_note_on_incident
from opsledger.ledger.models import BulkRun, Hold, Incident, IncidentAct, IncidentNote, Selection, Step
from opsledger.lib.ids import public
from tests.many_holds import an_incident, late


def address(incident: Incident, what: str = "") -> str:
    return f"/incidents/{public('inc', incident.pk)}/{what}"


def page_of(client: Client, path: str, status: int = 200) -> str:
    response = client.get(path)
    assert response.status_code == status, path
    return markup.unescape(response.content.decode())


def newest_of(incident: Incident) -> str:
    found = Hold.objects.filter(incident=incident, closed_at__isnull=True).order_by("-id").first()
    assert found is not None
    return public("hold", found.pk)


def holds_in(html: str) -> list[str]:
    return re.findall(r'<tr id="(hold_\w+)"', html)


# Cards


def test_three_open_holds_that_ask_the_same_are_a_card_and_two_are_not(scenes: Scenes) -> None:
    late(scenes.desk, 2)
    record_incidents()
    client = client_of(scenes.owner)
    assert "card inc" not in page_of(client, "/")
    late(scenes.desk, 1)
    record_incidents()
    html = page_of(client, "/")
    assert html.count("card inc") == 1
    assert '<b class="n">3</b> holds' in html
    assert f'href="{address(Incident.objects.get())}"' in html


def test_a_card_says_who_has_it_when_it_began_what_is_due_and_what_was_said(scenes: Scenes) -> None:
    began = timezone.now() - timedelta(hours=1)
    holds = late(scenes.desk, 5, at=began) + late(scenes.desk, 1, at=began + timedelta(minutes=9))
    record_incidents()
    incident = Incident.objects.get()
    by = by_person(scenes.owner)
    settle_assign([holds[0].pk], scenes.owner.pk, by)
    Hold.objects.filter(pk=holds[4].pk).update(closed_at=timezone.now(), closed_by="evidence")
    settle_note_on_incident(incident.pk, "They <b>know</b>.", by, holds[3].pk)

    raw = client_of(scenes.owner).get("/").content.decode()
    card = raw[raw.index("card inc") : raw.index("</article>")]

    for text in (
        "Too late",
        "crm_classic",
        '<b class="n">5</b> holds',
        "Test owner",
        "4 unowned",
        "1 new since you acted",
        "Settled: 1 by evidence.",
        "First due",
        "They &lt;b&gt;know&lt;/b&gt;.",
        'role="img" aria-label="Holds opened per minute',
        "at most 5",
    ):
        assert text in card, text


def test_nothing_is_called_new_to_somebody_who_has_not_acted(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    client = client_of(scenes.owner)
    assert "since you acted" not in page_of(client, "/") and "none new" not in page_of(client, "/")
    record_act(incident.pk, by_person(scenes.owner), Hold.objects.order_by("-id").first().pk)  # type: ignore[union-attr]
    assert "none new" in page_of(client, "/")


def test_six_cards_are_shown_and_the_others_are_one_click_away(scenes: Scenes) -> None:
    for number in range(8):
        late(scenes.desk, 3, at=timezone.now() - timedelta(hours=number))
    record_incidents()
    client = client_of(scenes.owner)
    html = page_of(client, "/")
    assert html.count("card inc") == 6
    assert '<a href="/incidents/">2 more incidents</a>' in html
    assert page_of(client, "/incidents/").count("card inc") == 8


@pytest.mark.parametrize("query", ["view=mine", "view=unowned", "reason=too_late", "owner=none"])
def test_a_narrowed_list_has_no_cards(scenes: Scenes, query: str) -> None:
    an_incident(scenes.desk, 3)
    assert "card inc" not in page_of(client_of(scenes.owner), f"/?{query}")


def test_the_inbox_can_be_narrowed_to_one_incident_and_says_so(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    late(scenes.desk, 2, workflow="campaign_follow_up")
    html = page_of(client_of(scenes.owner), f"/?incident={public('inc', incident.pk)}")
    assert len(holds_in(html)) == 3
    assert "Only the holds of one incident" in html
    assert f'name="incident" value="{public("inc", incident.pk)}"' in html, "another filter keeps it"


@pytest.mark.parametrize("text", ["inc_x", "hold_00000000000000000000000000", "'; DROP"])
def test_an_incident_that_can_not_be_one_is_an_error_that_says_so(scenes: Scenes, text: str) -> None:
    html = page_of(client_of(scenes.owner), f"/?incident={text}", 400)
    assert "is not an incident that this list knows" in html


def test_what_waits_for_approval_leads_there_and_not_to_answers(scenes: Scenes) -> None:
    for _ in range(3):
        scenes.unapproved()
    record_incidents()
    client = client_of(scenes.owner)
    incident = Incident.objects.get()
    review = f"/approvals/holds/{newest_of(incident)}/"
    for path in ("/", address(incident)):
        html = page_of(client, path)
        assert f'href="{review}"' in html, path
        for answers in ("check", "select"):
            assert f"{address(incident)}{answers}" not in html, path
    assert client.get(review).status_code in {200, 302, 303}


# The page


def test_the_page_shows_figures_holds_in_pages_and_who_settled_what(scenes: Scenes) -> None:
    holds = late(scenes.desk, 54)
    record_incidents()
    incident = Incident.objects.get()
    by = by_person(scenes.owner)
    Hold.objects.filter(pk__in=[h.pk for h in holds[:2]]).update(
        closed_at=timezone.now(), closed_by="evidence"
    )
    Hold.objects.filter(pk=holds[2].pk).update(
        closed_at=timezone.now(), closed_by=by.actor, answer="end_failed"
    )
    client = client_of(scenes.owner)

    first = page_of(client, address(incident))
    assert "51 of 54 holds open" in first
    assert len(holds_in(first)) == 50
    assert re.search(r"The ledger</th><td>settled by evidence</td><td class=\"n\">2<", first)
    assert re.search(r"Test owner</th><td>end as failed</td><td class=\"n\">1<", first)

    later = re.search(r'rel="next" href="([^"]+)"', first)
    assert later is not None
    second = page_of(client, address(incident) + later.group(1))
    open_ids = {public("hold", hold.pk) for hold in holds[3:]}
    assert set(holds_in(first)) | set(holds_in(second)) == open_ids
    assert len(holds_in(second)) == 1
    back = re.search(r'rel="prev" href="([^"]+)"', second)
    assert back is not None
    assert holds_in(page_of(client, address(incident) + back.group(1))) == holds_in(first)


def test_an_incident_of_which_nothing_is_open_still_tells_what_became_of_it(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    Hold.objects.update(closed_at=timezone.now(), closed_by="evidence")
    html = page_of(client_of(scenes.owner), address(incident))
    assert "Nothing of this incident is open" in html
    assert "settled by evidence" in html
    assert "card inc" not in page_of(client_of(scenes.owner), "/")


def test_a_page_costs_a_fixed_number_of_statements(scenes: Scenes, django_assert_max_num_queries) -> None:  # type: ignore[no-untyped-def]
    for hours in range(7):
        late(scenes.desk, 3, at=timezone.now() - timedelta(hours=hours))
    record_incidents()
    client = client_of(scenes.owner)
    client.get("/")
    with django_assert_max_num_queries(20):
        client.get("/")


# Notes


def test_a_note_about_the_group_is_kept_and_counts_as_an_act(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    client = client_of(scenes.owner)
    posted = {"text": "The provider looks into it.", "newest": newest_of(incident)}
    assert client.post(address(incident, "note"), posted).status_code == 303
    assert "The provider looks into it." in page_of(client, address(incident))
    assert IncidentAct.objects.get().person_id == scenes.owner.pk
    assert Hold.objects.filter(version=1).count() == 3


def test_an_empty_note_is_refused_and_what_was_typed_comes_back(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    client = client_of(scenes.owner)
    assert client.post(address(incident, "note"), {"text": " "}).status_code == 422
    long = client.post(address(incident, "note"), {"text": "x" * 4001})
    assert long.status_code == 422 and "x" * 4001 in long.content.decode()
    assert not IncidentNote.objects.exists()


def test_a_form_that_names_a_hold_of_elsewhere_does_nothing(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    other = an_incident(scenes.desk, 3, workflow="campaign_follow_up")
    before = Entry.objects.count()
    client = client_of(scenes.owner)
    for newest in (newest_of(other), "hold_x"):
        assert client.post(address(incident, "note"), {"text": "x", "newest": newest}).status_code == 400
    assert Entry.objects.count() == before


# The group's verbs


def unknown(scenes: Scenes, count: int) -> Incident:
    """An incident of steps of which nobody knows whether they happened."""
    for _ in range(count):
        scenes.unknown()
    record_incidents()
    return Incident.objects.get()


def form_of(incident: Incident, **more: str) -> dict[str, str]:
    return {"newest": newest_of(incident), "once": str(uuid4()), **more}


def test_taking_gives_the_unowned_to_the_taker_and_leaves_those_of_others(scenes: Scenes) -> None:
    incident = unknown(scenes, 4)
    omar = scenes.member("Omar", Role.OPERATOR)
    theirs, *unowned = Hold.objects.order_by("id")
    settle_assign([theirs.pk], scenes.owner.pk, by_person(scenes.owner))

    response = client_of(omar).post(address(incident, "take"), form_of(incident), follow=True)

    assert "3 are yours now." in response.content.decode()
    assert response.redirect_chain[-1] == (address(incident), 303)
    owners = dict(Hold.objects.values_list("pk", "owner"))
    assert owners == {theirs.pk: scenes.owner.pk, **{hold.pk: omar.pk for hold in unowned}}
    run = BulkRun.objects.get()
    assert (run.verb, run.item_count, run.done_count, run.state) == ("take", 3, 3, "finished")
    assert Entry.objects.filter(kind="bulk_begun").count() == 1
    assert Entry.objects.filter(kind="assigned", body__contains=str(run.pk)).count() == 3
    assert IncidentAct.objects.get().person_id == omar.pk


def test_what_opened_after_the_page_was_made_is_not_taken(scenes: Scenes) -> None:
    incident = unknown(scenes, 3)
    shown = form_of(incident)
    scenes.unknown()
    record_incidents()
    client_of(scenes.owner).post(address(incident, "take"), shown)
    assert Hold.objects.filter(owner=scenes.owner).count() == 3
    assert Hold.objects.filter(owner=None, incident=incident).count() == 1
    assert "1 new since you acted" in page_of(client_of(scenes.owner), "/")


def test_a_double_press_is_one_run(scenes: Scenes) -> None:
    incident = unknown(scenes, 3)
    client, form = client_of(scenes.owner), form_of(incident, next="/")
    first = client.post(address(incident, "take"), form)
    again = client.post(address(incident, "take"), form)
    assert (first.status_code, first["Location"]) == (again.status_code, again["Location"]) == (303, "/")
    assert (BulkRun.objects.count(), Selection.objects.count()) == (1, 1)
    assert "Nothing is left to take" in page_of(client, "/")


def test_checking_all_makes_every_lookup_due_and_sends_nothing(scenes: Scenes) -> None:
    incident = unknown(scenes, 3)
    sent = len(scenes.desk.sandbox.requests())
    Step.objects.filter(state="unknown").update(act_at=timezone.now() + timedelta(hours=1))

    response = client_of(scenes.owner).post(address(incident, "check"), form_of(incident), follow=True)

    assert "3 lookups are due now." in response.content.decode()
    due = Step.objects.filter(state="unknown", act="look", act_at__lte=timezone.now())
    assert due.count() == 3
    assert len(scenes.desk.sandbox.requests()) == sent
    assert Hold.objects.filter(closed_at=None).count() == 3


def test_acting_on_these_freezes_what_was_shown_and_leads_to_its_selection(scenes: Scenes) -> None:
    incident = unknown(scenes, 3)
    form = form_of(incident)
    scenes.unknown()
    record_incidents()
    client = client_of(scenes.owner)

    response = client.post(address(incident, "select"), form)

    made = Selection.objects.get()
    assert response["Location"] == f"/selections/{public('sel', made.pk)}/"
    assert made.item_count == 3
    html = page_of(client, response["Location"])
    assert "Act on these 3" in html
    assert f'href="/?incident={public("inc", incident.pk)}"' in html, "the way back"


def test_a_group_of_which_nothing_is_open_any_more_is_no_selection_of_everything(scenes: Scenes) -> None:
    incident = unknown(scenes, 3)
    late(scenes.desk, 3)
    form = form_of(incident)
    Hold.objects.filter(incident=incident).update(closed_at=timezone.now(), closed_by="evidence")
    client = client_of(scenes.owner)
    for verb in ("select", "check", "take"):
        assert client.post(address(incident, verb), form).status_code == 303, verb
    assert not Selection.objects.exists() and not BulkRun.objects.exists()
    assert "Nothing is left to take" in page_of(client, address(incident))


@pytest.mark.parametrize("newest", ["", "hold_x"])
@pytest.mark.parametrize("verb", ["take", "check", "select"])
def test_a_form_that_does_not_say_what_it_showed_does_nothing(scenes: Scenes, verb: str, newest: str) -> None:
    incident = unknown(scenes, 3)
    response = client_of(scenes.owner).post(address(incident, verb), {"newest": newest})
    assert response.status_code == 400
    assert not Selection.objects.exists()


def test_what_can_not_be_looked_up_is_not_offered_to_be(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    html = page_of(client_of(scenes.owner), address(incident))
    assert f"{address(incident)}take" in html
    assert f"{address(incident)}check" not in html


# Who may


def test_another_teams_incident_does_not_exist(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    outsider = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=outsider, also=[Role.ADMIN])
    client = client_of(outsider)
    assert client.get(address(incident)).status_code == 404
    for what in ("note", "take", "check", "select"):
        assert client.post(address(incident, what), form_of(incident, text="x")).status_code == 404, what
    for path in ("/", "/incidents/", f"/?incident={public('inc', incident.pk)}"):
        html = page_of(client, path)
        assert "crm_classic" not in html and not holds_in(html), path


def test_a_viewer_sees_the_group_and_is_told_why_nothing_is_offered(scenes: Scenes) -> None:
    incident = an_incident(scenes.desk, 3)
    client = client_of(scenes.member("Vera", Role.VIEWER))
    html = page_of(client, address(incident))
    main = html[html.index("<main") : html.index("</main>")]
    assert "<form" not in main
    assert "To assign holds, you need the role" in main
    for what in ("note", "take", "check", "select"):
        assert client.post(address(incident, what), form_of(incident, text="x")).status_code == 403, what


# Drawing


def test_the_bars_are_numbers_only_and_the_tallest_fills_the_height() -> None:
    assert bars_path([2, 0, 1]) == "M1 1h4v26h-4zM13 14h4v13h-4z"
    assert bars_path([]) == "" == bars_path([0, 0])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (60, "minute"),
        (300, "5 minutes"),
        (3600, "hour"),
        (7200, "2 hours"),
        (86_400, "day"),
        (345_600, "4 days"),
    ],
)
def test_an_interval_has_words(seconds: int, words: str) -> None:
    assert interval_words(seconds) == words

"""Destinations: what each documents, and how sending to it is stopped and goes on."""

from __future__ import annotations

import html as markup
import re

import psycopg
import pytest
from django.db import connection
from people import client_of
from scenes import Scenes

from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.actions.destinations import record_reachability, settle_resume
from opsledger.ledger.actions.stops import CLAIM
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Definition, Destination, EarlyReport, Recovery
from opsledger.ledger.queries.early_reports import SHOWN_MAX
from opsledger.lib.ids import public
from opsledger.local.postgres import Urls
from opsledger.rules.states import HoldReason


def page_of(scenes: Scenes) -> str:
    response = client_of(scenes.owner).get("/destinations/")
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def card(page: str, slug: str) -> str:
    found = re.search(rf'<article class="card stack" id="d-{slug}".*?</article>', page, re.DOTALL)
    assert found
    return found[0]


def test_a_card_says_what_is_documented_per_action(scenes: Scenes) -> None:
    page = page_of(scenes)
    crm, classic, mail = (card(page, slug) for slug in ("crm", "crm_classic", "mail"))
    assert "Idempotency key, 1\u00a0d window" in crm
    assert "Both; found and not found are proof" in crm
    assert "https://opsledger.example/docs/sandbox#crm" in crm
    assert "None: a resend may duplicate" in classic
    assert "Positive only; an empty answer proves nothing" in classic
    assert "Proven by lookup within 2\u00a0m" in mail
    assert "at most 20 sends a second, 8 at once" in crm


def test_recovery_without_a_drill_is_called_so(scenes: Scenes) -> None:
    assert "On, not drilled" not in page_of(scenes)  # the scenes turn it off
    Recovery.objects.filter(destination__slug="crm").update(enabled=True)
    assert "On, not drilled" in card(page_of(scenes), "crm")
    assert "On, not drilled" not in card(page_of(scenes), "mail")


def test_open_steps_are_counted_by_state(scenes: Scenes) -> None:
    scenes.unknown()
    scenes.open()
    classic = card(page_of(scenes), "crm_classic")
    counts = dict(re.findall(r'data-state="([\w-]+)">.{0,120}?</span></span></dt><dd>(\d+)</dd>', classic))
    assert (counts["ready"], counts["unknown"]) == ("1", "1")


def test_pausing_needs_a_reason_stops_sending_and_opens_one_hold(scenes: Scenes) -> None:
    crm = Definition.objects.get(team=scenes.desk.team, kind="destination", slug="crm")
    client, path = client_of(scenes.owner), f"/destinations/{public('dst', crm.pk)}/pause"
    version = form_version(page_of(scenes), path)
    refused = client.post(path, {"version": version, "reason": "  "})
    assert refused.status_code == 422
    assert "Write the reason" in refused.content.decode()
    data = {"version": version, "reason": "Their upgrade runs until four."}
    assert client.post(path, data).status_code == 303
    page = page_of(scenes)
    assert Destination.objects.get(pk=crm.pk).paused_at is not None
    assert "Paused" in card(page, "crm")
    assert "1 stopped." in page
    client.post(path, {"version": "2", "reason": "Again."})
    assert Entry.objects.filter(subject_id=crm.pk, kind="sending_stopped").count() == 1


def form_version(page: str, path: str) -> str:
    """The version that the pause form of this destination carries."""
    found = re.search(rf'action="{path}".*?name="version" value="(\d+)"', page, re.DOTALL)
    assert found
    return found[1]


def test_a_pause_says_that_a_claim_from_before_is_still_under_way(
    scenes: Scenes, database_urls: Urls
) -> None:
    client, row = client_of(scenes.owner), Destination.objects.get(slug="crm")
    path = f"/destinations/{public('dst', row.pk)}/pause"
    with psycopg.connect(database_urls.app) as worker, connection.cursor() as cursor:
        worker.execute(CLAIM)
        cursor.execute("SET lock_timeout = '200ms'")
        try:
            response = client.post(
                path, {"reason": "they are migrating", "version": row.version}, follow=True
            )
        finally:
            cursor.execute("RESET lock_timeout")
    page = markup.unescape(response.content.decode())
    alerts = page[page.index('id="alerts"') : page.index('id="toasts"')]
    assert "Sending to crm is paused. A worker is still at a claim that it began before" in alerts
    assert Destination.objects.get(pk=row.pk).paused_at is not None


def test_a_pause_without_the_version_it_was_decided_on_changes_nothing(scenes: Scenes) -> None:
    crm = Definition.objects.get(team=scenes.desk.team, kind="destination", slug="crm")
    path = f"/destinations/{public('dst', crm.pk)}/pause"
    refused = client_of(scenes.owner).post(path, {"reason": "Their upgrade."})
    assert refused.status_code == 422
    assert "lacks the version" in refused.content.decode()
    assert Destination.objects.get(pk=crm.pk).paused_at is None


@pytest.mark.parametrize("meanwhile", ["stopped", "stopped and mended"])
def test_a_pause_on_a_stale_page_changes_nothing_and_shows_the_new_state(
    scenes: Scenes, meanwhile: str
) -> None:
    crm = Definition.objects.get(team=scenes.desk.team, kind="destination", slug="crm")
    path = f"/destinations/{public('dst', crm.pk)}/pause"
    version = form_version(page_of(scenes), path)
    hold = scenes.stopped("crm", HoldReason.ACCESS_REFUSED)
    if meanwhile == "stopped and mended":
        settle_resume(hold.pk, hold.version, 5.0, "a new key", by_person(scenes.owner))

    answer = client_of(scenes.owner).post(path, {"version": version, "reason": "Their upgrade."})

    html = answer.content.decode()
    assert answer.status_code == 409
    assert "This destination changed while you were reading." in html
    assert "Their upgrade." in html
    assert ("Access refused" in card(html, "crm")) == (meanwhile == "stopped")
    assert Destination.objects.get(pk=crm.pk).paused_at is None
    assert form_version(html, path) == {"stopped": "2", "stopped and mended": "3"}[meanwhile]


def test_a_good_reply_that_ends_nothing_makes_no_page_stale(scenes: Scenes) -> None:
    crm = Destination.objects.get(team=scenes.desk.team, slug="crm")
    record_reachability(set(), {crm.pk: 3})
    record_reachability({crm.pk}, {})
    row = Destination.objects.get(pk=crm.pk)
    assert (row.failures_in_a_row, row.version) == (0, crm.version)


def test_mended_goes_on_at_a_rate(scenes: Scenes) -> None:
    hold = scenes.stopped("crm_classic", HoldReason.ACCESS_REFUSED)
    for _ in range(3):
        scenes.open()
    client = client_of(scenes.owner)
    path = f"/destinations/holds/{public('hold', hold.pk)}/resume"
    data = {"version": str(hold.version), "rate": "a few", "reason": "A new key is in place."}
    refused = client.post(path, data)
    assert refused.status_code == 422
    assert "Write how many sends a second" in refused.content.decode()
    assert "A new key is in place." in refused.content.decode()
    done = client.post(path, data | {"rate": "0,5"}, follow=True)
    assert "3 waiting steps leave at this rate." in done.content.decode()
    assert Destination.objects.get(slug="crm_classic").access_refused_at is None
    assert "Access refused" not in card(page_of(scenes), "crm_classic")


def test_reports_of_records_that_are_nobodys_stand_at_their_destination(scenes: Scenes) -> None:
    event = scenes.event_conflict().event
    assert event is not None
    mail = Definition.objects.get(team=scenes.desk.team, kind="destination", slug="mail")
    assert "name no record of ours" not in page_of(scenes)
    for number in range(SHOWN_MAX + 1):
        EarlyReport.objects.create(
            team=event.team, event=event, destination=mail, action=f"send_{number}", reference=f"M-{number}",
            reference_key=b"7" * 32, says="delivered" if number else "not_delivered", told_at=database_now(),
        )  # fmt: skip

    page = page_of(scenes)

    assert "name no record of ours" not in card(page, "crm")
    told = re.findall(r'<li><span class="id">(M-\d)</span>', card(page, "mail"))
    assert told == [f"M-{number}" for number in range(SHOWN_MAX, 0, -1)]  # the newest first
    assert f"The newest {SHOWN_MAX} are shown" in card(page, "mail")
    assert "by event <span" in card(page, "mail") and "evt-77" in card(page, "mail")

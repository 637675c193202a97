"""Incidents in the database: who groups, what stays untouched, what is counted, and what another team never sees."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from opsledger.accounts.actions import add_person, add_team
from opsledger.accounts.models import Person
from opsledger.engine.loading import read_files
from opsledger.journal.models import Entry
from opsledger.ledger.actions import incidents as actions
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.bulk import freeze_view
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.destinations import record_access_refused
from opsledger.ledger.actions.incidents import record_act, record_incidents, settle_note_on_incident
from opsledger.ledger.models import Hold, Incident, IncidentNote, Step
from opsledger.ledger.queries import inbox, incidents
from opsledger.local.postgres import Urls
from tests.desk import DEFINITIONS, Desk
from tests.many_holds import an_incident, late
from tests.replaying import by_owner

HALF_AN_HOUR = timedelta(minutes=30)


def owner() -> Person:
    return Person.objects.get(email="owner@test.example")


def seen(desk: Desk, incident: Incident) -> incidents.IncidentLine:
    line = incidents.incident_of(incident.pk, [desk.team.pk], owner().pk)
    assert line is not None
    return line


# Grouping


def test_the_sweep_gives_open_holds_to_incidents_and_leaves_everything_else_as_it_was(desk: Desk) -> None:
    holds = late(desk, 3)
    other = late(desk, 2, workflow="campaign_follow_up")
    before = list(Hold.objects.order_by("id").values("id", "version", "owner_id", "due_at", "facts"))
    entries = Entry.objects.count()

    assert desk.sweep().grouped == 5

    assert list(Hold.objects.order_by("id").values("id", "version", "owner_id", "due_at", "facts")) == before
    assert Entry.objects.count() == entries
    first, second = Incident.objects.order_by("id")
    assert {first.hold_count, second.hold_count} == {3, 2}
    assert len(set(Hold.objects.filter(pk__in=[h.pk for h in holds]).values_list("incident", flat=True))) == 1
    assert len(set(Hold.objects.filter(pk__in=[h.pk for h in other]).values_list("incident", flat=True))) == 1
    assert first.started_at <= first.last_at


def test_a_second_sweep_finds_nothing_to_do(desk: Desk) -> None:
    incident = an_incident(desk, 3)
    assert record_incidents() == 0
    incident.refresh_from_db()
    assert (Incident.objects.count(), incident.hold_count) == (1, 3)


@pytest.mark.parametrize(
    ("after", "count"),
    [(HALF_AN_HOUR, 1), (HALF_AN_HOUR + timedelta(seconds=1), 2), (-HALF_AN_HOUR, 1)],
    ids=["half an hour later", "longer", "seen late"],
)
def test_a_later_sweep_goes_on_with_the_incident_that_is_near(
    desk: Desk, after: timedelta, count: int
) -> None:
    started = timezone.now() - timedelta(hours=5)
    incident = an_incident(desk, 3, at=started)
    joined = late(desk, 1, at=started + after)[0]

    record_incidents()

    joined.refresh_from_db()
    incident.refresh_from_db()
    assert Incident.objects.count() == count
    assert (joined.incident_id == incident.pk) is (count == 1)
    assert incident.hold_count == (4 if count == 1 else 3)


def test_batches_group_as_one_sweep_would_have(desk: Desk) -> None:
    started = timezone.now() - timedelta(hours=5)
    for number in range(7):
        late(desk, 1, at=started + number * HALF_AN_HOUR)
    assert record_incidents(2, rounds=10) == 7
    assert Incident.objects.get().hold_count == 7


def test_two_sweeps_at_once_make_one_incident(desk: Desk) -> None:
    late(desk, 40)
    barrier, given = threading.Barrier(2), []

    def sweep() -> None:
        try:
            barrier.wait()
            given.append(record_incidents(10, rounds=20))
        finally:
            connection.close()

    threads = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record_incidents()  # whoever met the other's lock had left the rest to the next sweep

    incident = Incident.objects.get()
    assert (incident.hold_count, Hold.objects.filter(incident=incident).count()) == (40, 40)


def test_while_another_one_groups_a_sweep_does_nothing_and_waits_for_nothing(
    desk: Desk, database_urls: Urls
) -> None:
    late(desk, 3)
    with psycopg.connect(database_urls.app) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [actions.GROUPING_LOCK])
        assert record_incidents() == 0
    assert Incident.objects.count() == 0
    assert record_incidents() == 3


def test_a_sweep_that_is_killed_leaves_nothing_half_grouped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(desk, 3)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(actions, "_row", killed)
        with pytest.raises(KeyboardInterrupt):
            record_incidents()
    assert not Hold.objects.filter(incident__isnull=False).exists()
    assert record_incidents() == 3


def test_a_hold_that_is_being_changed_is_left_for_the_next_sweep(desk: Desk, database_urls: Urls) -> None:
    busy, *_others = late(desk, 3)
    with psycopg.connect(database_urls.app) as other:
        other.execute("UPDATE ledger_hold SET version = version + 1 WHERE id = %s", [busy.pk])
        assert record_incidents() == 2
    busy.refresh_from_db()
    assert busy.incident_id is None
    assert record_incidents() == 1
    assert Incident.objects.get().hold_count == 3


def test_a_hold_that_ended_before_the_sweep_belongs_to_no_incident(desk: Desk) -> None:
    ended, *_others = late(desk, 3)
    Hold.objects.filter(pk=ended.pk).update(closed_at=timezone.now(), closed_by="evidence")
    assert record_incidents() == 2
    ended.refresh_from_db()
    assert ended.incident_id is None


def test_holds_about_a_destination_belong_to_no_incident(desk: Desk) -> None:
    record_access_refused(desk.step(desk.open("classic_follow_up")).destination_id)
    record_incidents()
    stop = Hold.objects.get(reason="access_refused")
    assert stop.incident_id is None
    incident = an_incident(desk)
    with pytest.raises(DatabaseError, match="hold_of_incident_is_about_a_step"), transaction.atomic():
        Hold.objects.filter(pk=stop.pk).update(incident=incident)


# Cards


def test_a_card_begins_with_three_open_holds_and_the_largest_comes_first(desk: Desk) -> None:
    hours_ago = timezone.now() - timedelta(hours=9)
    an_incident(desk, 2, at=hours_ago)
    small = an_incident(desk, 3, at=hours_ago + timedelta(hours=2))
    large = an_incident(desk, 5, at=hours_ago + timedelta(hours=4))

    cards = incidents.cards(desk.team.pk, owner().pk)

    assert [line.id for line in cards.lines] == [large.pk, small.pk]
    assert [line.open_count for line in cards.lines] == [5, 3]
    first_only = incidents.cards(desk.team.pk, owner().pk, most=1)
    assert (len(first_only.lines), first_only.more_count) == (1, 1)


def test_a_card_tells_what_is_open_owned_due_and_how_the_rest_ended(desk: Desk) -> None:
    started = timezone.now() - timedelta(hours=3)
    holds = late(desk, 9, at=started)
    Hold.objects.filter(pk=holds[0].pk).update(opened_at=started + timedelta(minutes=6))
    record_incidents()
    settle_assign([holds[1].pk, holds[2].pk], owner().pk, by_owner(desk))
    soonest = timezone.now() - timedelta(minutes=2)
    Hold.objects.filter(pk=holds[3].pk).update(due_at=soonest)
    for hold, by in zip(holds[6:], ("evidence", f"person:{owner().pk}", "superseded"), strict=True):
        Hold.objects.filter(pk=hold.pk).update(closed_at=timezone.now(), closed_by=by)
    incident = Incident.objects.get()

    line = seen(desk, incident)

    assert (line.hold_count, line.open_count, line.unowned_count) == (9, 6, 4)
    assert line.owners == (("Test owner", 2),)
    assert line.first_due_at == soonest
    assert line.newest_hold == holds[5].pk
    assert line.ended == incidents.Ended(1, 1, 1)
    assert (line.interval, line.bars, line.drawn_in_part) == (60, (8, 0, 0, 0, 0, 0, 1), False)
    assert line.started_at == started


def test_what_ended_is_counted_no_further_than_a_limit_and_the_card_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = an_incident(desk, 5)
    monkeypatch.setattr(incidents, "_BARS", incidents._BARS.replace(str(incidents.COUNT_MAX), "3"))
    line = seen(desk, incident)
    assert (line.open_count, line.drawn_count, line.drawn_in_part) == (5, 3, True)


def test_the_next_planned_look_of_an_incident_is_named(desk: Desk) -> None:
    incident = an_incident(desk, 3)
    assert seen(desk, incident).next_look_at is None
    soon = timezone.now() + timedelta(minutes=7)
    held = Hold.objects.filter(incident=incident).first()
    assert held is not None
    Step.objects.filter(pk=held.step_id).update(act="look", act_at=soon)
    Step.objects.filter(pk=desk.step(desk.open("classic_follow_up")).pk).update(
        act="look", act_at=soon - timedelta(minutes=5)
    )
    assert seen(desk, incident).next_look_at == soon


# New since you acted


def test_new_is_what_opened_after_the_readers_own_last_act(desk: Desk) -> None:
    incident = an_incident(desk, 3)
    other = add_person(email="other@test.example", display_name="Other", password="correct horse battery")
    assert (seen(desk, incident).acted_at, seen(desk, incident).new_count) == (None, 0)

    record_act(incident.pk, by_owner(desk), seen(desk, incident).newest_hold)
    newer = late(desk, 2)
    record_incidents()

    assert seen(desk, incident).new_count == 2
    theirs = incidents.incident_of(incident.pk, [desk.team.pk], other.pk)
    assert theirs is not None and (theirs.acted_at, theirs.new_count) == (None, 0)
    settle_note_on_incident(incident.pk, "The provider knows.", by_owner(desk), newer[0].pk)
    assert seen(desk, incident).new_count == 1


def test_an_act_on_an_older_page_takes_nothing_back(desk: Desk) -> None:
    incident = an_incident(desk, 3)
    oldest, *_, newest = Hold.objects.order_by("id").values_list("pk", flat=True)
    record_act(incident.pk, by_owner(desk), newest)
    record_act(incident.pk, by_owner(desk), oldest)
    assert seen(desk, incident).new_count == 0


# Notes


def test_a_note_is_kept_once_in_the_teams_journal_and_its_text_apart(desk: Desk) -> None:
    incident = an_incident(desk, 3)
    settle_note_on_incident(incident.pk, "Ann at the provider looks into it.", by_owner(desk))

    (note,) = incidents.notes_of(incident.pk)
    assert note.text == "Ann at the provider looks into it."
    entry = Entry.objects.get(kind="noted")
    assert (entry.subject_kind, entry.subject_id, entry.actor) == ("team", desk.team.pk, note.actor)
    assert str(incident.pk) in entry.body and "provider" not in entry.body
    assert "provider" not in IncidentNote.objects.get().note
    assert seen(desk, incident).note == note
    call_command("verify_ledger", verbosity=0)


@pytest.mark.parametrize("text", ["", " \n", "x" * 4001], ids=["empty", "blank", "too long"])
def test_a_note_without_words_or_with_too_many_is_refused(desk: Desk, text: str) -> None:
    incident = an_incident(desk, 3)
    with pytest.raises(Refused):
        settle_note_on_incident(incident.pk, text, by_owner(desk))
    assert not IncidentNote.objects.exists()
    assert not Entry.objects.filter(kind="noted").exists()


# Other teams, pages


def test_another_teams_holds_are_another_incident_and_are_not_seen(desk: Desk) -> None:
    mine = an_incident(desk, 3)
    stranger = add_person(email="far@test.example", display_name="Far", password="correct horse battery")
    far = Desk(add_team(slug="far", name="Far", fallback_owner=stranger), desk.sandbox)
    load(far.team.pk, read_files([DEFINITIONS]), actor="command:test")
    theirs = an_incident(far, 4)

    assert theirs.pk != mine.pk
    assert [line.id for line in incidents.cards(desk.team.pk, owner().pk).lines] == [mine.pk]
    assert incidents.incident_of(theirs.pk, [desk.team.pk], owner().pk) is None
    assert incidents.name_of(theirs.pk, [desk.team.pk]) is None
    assert inbox.page_of(inbox.Wanted(desk.team.pk, owner().pk, incident=theirs.pk)).lines == []


def test_the_holds_of_an_incident_come_in_pages_by_due_time_without_losing_one(desk: Desk) -> None:
    incident = an_incident(desk, 7)
    late(desk, 2, workflow="campaign_follow_up")
    Hold.objects.update(due_at=timezone.now() + timedelta(hours=1))
    record_incidents()
    wanted = inbox.Wanted(desk.team.pk, owner().pk, incident=incident.pk)
    found, after = [], None
    while True:
        page = inbox.page_of(wanted, after=after, size=3)
        found += [line.id for line in page.lines]
        if not page.has_later:
            break
        after = page.lines[-1].place
    assert found == sorted(Hold.objects.filter(incident=incident).values_list("pk", flat=True))


def test_what_is_selected_of_a_group_ends_with_the_newest_hold_that_was_shown(desk: Desk) -> None:
    incident = an_incident(desk, 4)
    first, second, third, _fourth = Hold.objects.order_by("id")
    settle_assign([second.pk], owner().pk, by_owner(desk))
    late(desk, 1, workflow="campaign_follow_up")
    everything = inbox.Wanted(desk.team.pk, owner().pk, incident=incident.pk)

    whole = freeze_view(everything, words="the group", up_to=third.pk)
    unowned = freeze_view(replace(everything, unowned=True), words="the unowned", up_to=third.pk)

    assert dict(whole.items.values_list("hold", "version")) == {first.pk: 1, second.pk: 2, third.pk: 1}
    assert set(unowned.items.values_list("hold", flat=True)) == {first.pk, third.pk}
    assert incidents.is_of(first.pk, incident.pk)
    assert not incidents.is_of(uuid.uuid4(), incident.pk)

"""Holds that nobody acts on: told, reminded of, escalated, passed on when their owner is gone. Once each, journaled."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from threading import Thread
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from opsledger.accounts import actions
from opsledger.accounts.absences import add_absence
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.engine import sweep
from opsledger.journal.models import Entry
from opsledger.ledger.actions import escalate
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.destinations import settle_pause
from opsledger.ledger.actions.escalate import record_owners_gone, record_reminders
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Destination, Hold, Notice
from opsledger.rules.answers import Answer
from tests.console.scenes import Scenes, desk, sandbox, scenes
from tests.lock_waits import until_waiting

__all__ = ["desk", "sandbox", "scenes"]
SYSTEM = By("token:00000000-0000-0000-0000-000000000003", "flow")


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


def held(scenes: Scenes, owner: Person | None = None) -> Hold:
    scenes.unknown()
    hold = Hold.objects.latest("id")
    Hold.objects.filter(pk=hold.pk).update(owner=owner)
    return Hold.objects.get(pk=hold.pk)


def let_pass(hold: Hold, **span: Any) -> Hold:
    """Lets time go by for one hold: all its times move into the past."""
    gone = timedelta(**span)
    for name in ("due_at", "reminded_at", "escalate_at"):
        if getattr(hold, name) is not None:
            setattr(hold, name, getattr(hold, name) - gone)
    Hold.objects.filter(pk=hold.pk).update(
        due_at=hold.due_at, reminded_at=hold.reminded_at, escalate_at=hold.escalate_at
    )
    return hold


def now_of(hold: Hold) -> Hold:
    return Hold.objects.get(pk=hold.pk)


def told(who: Person) -> list[str]:
    return list(Notice.objects.filter(person=who).order_by("id").values_list("kind", flat=True))


def lines(hold: Hold, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    found = Entry.objects.filter(subject_id=hold.operation_id, kind__in=kinds).order_by("seq")
    return [(line.kind, json.loads(line.body)) for line in found]


def test_the_owner_is_reminded_when_it_is_due_and_the_fallback_gets_it_an_hour_later(
    scenes: Scenes, maria: Person
) -> None:
    hold, neighbour = held(scenes, maria), held(scenes, maria)
    let_pass(hold, hours=100)
    sweep.run_once()

    reminded = now_of(hold)
    assert (reminded.owner, reminded.version, reminded.reminded_at is not None) == (maria, hold.version, True)
    assert told(maria) == ["assigned", "reminder"]
    assert now_of(neighbour).reminded_at is None

    let_pass(reminded, hours=1)
    sweep.run_once()

    escalated = now_of(hold)
    assert (escalated.owner, escalated.version) == (scenes.owner, hold.version + 1)
    assert told(scenes.owner) == ["escalated"]
    assert lines(hold, "reminded", "escalated") == [
        ("reminded", {"hold": str(hold.pk), "to": str(maria.pk), "people": 1}),
        ("escalated", {"hold": str(hold.pk), "from": str(maria.pk), "to": str(scenes.owner.pk), "cause": "overdue"}),
    ]  # fmt: skip
    assert (now_of(neighbour).owner, now_of(neighbour).version) == (maria, neighbour.version)


def test_nothing_is_told_twice(scenes: Scenes, maria: Person) -> None:
    let_pass(held(scenes, maria), hours=100)
    sweep.run_once()
    sweep.run_once()
    assert told(maria) == ["assigned", "reminder"]


def test_an_unowned_hold_is_every_owners_then_the_fallbacks(scenes: Scenes, maria: Person) -> None:
    hold = let_pass(held(scenes), hours=100)
    sweep.run_once()
    assert told(maria) == told(scenes.owner) == ["reminder"]

    let_pass(now_of(hold), hours=1)
    sweep.run_once()
    assert now_of(hold).owner == scenes.owner
    assert told(maria) == ["reminder"]


def test_while_the_owner_is_away_their_deputy_is_reminded(scenes: Scenes, maria: Person) -> None:
    jon, now = scenes.member("Jon", Role.OWNER), timezone.now()
    add_absence(maria, scenes.desk.team, jon, begins_at=now, ends_at=now + timedelta(days=1))
    let_pass(held(scenes, maria), hours=100)
    sweep.run_once()
    assert told(jon) == ["assigned", "reminder"]
    assert told(maria) == []


def test_still_unknown_begins_anew(scenes: Scenes, maria: Person) -> None:
    hold = let_pass(held(scenes, maria), hours=100)
    sweep.run_once()
    later = timezone.now() + timedelta(days=1)
    settle_hold(
        hold.pk, Decision(Answer.STILL_UNKNOWN, "Asked them.", hold.version, next_check_at=later), SYSTEM
    )
    again = now_of(hold)
    assert (again.due_at, again.reminded_at, again.escalate_at) == (later, None, None)


def test_what_an_owner_leaves_goes_at_once_to_the_workflows_owner_else_the_fallback(
    scenes: Scenes, maria: Person
) -> None:
    hold, neighbour = held(scenes, maria), held(scenes, scenes.owner)
    actions.deactivate_person(maria)
    sweep.run_once()

    passed = now_of(hold)
    assert (passed.owner, passed.version, passed.escalated_at) == (scenes.owner, hold.version + 1, None)
    assert "owner_gone" in told(scenes.owner)
    assert lines(hold, "escalated")[0][1]["cause"] == "owner_gone"
    assert now_of(neighbour).version == neighbour.version


def test_what_somebody_leaves_who_was_away_goes_to_their_deputy(scenes: Scenes, maria: Person) -> None:
    jon, now = scenes.member("Jon", Role.OWNER), timezone.now()
    add_absence(maria, scenes.desk.team, jon, begins_at=now, ends_at=now + timedelta(days=1))
    hold = held(scenes, maria)
    actions.deactivate_person(maria)
    sweep.run_once()
    assert now_of(hold).owner == jon


def test_who_left_the_team_owns_nothing_there(scenes: Scenes, maria: Person) -> None:
    hold = held(scenes, maria)
    actions.set_roles(maria, scenes.desk.team, [])
    assert record_owners_gone(10) == 1
    assert now_of(hold).owner == scenes.owner
    assert record_owners_gone(10) == 0


def test_the_hold_of_a_stopped_destination_reminds_and_escalates_too(scenes: Scenes, maria: Person) -> None:
    row = Destination.objects.filter(team=scenes.desk.team).earliest("definition_id")
    settle_pause(row.pk, row.version, "Maintenance.", SYSTEM)
    hold = Hold.objects.get(destination=row.pk)
    sweep.run_once()
    assert told(maria) == ["destination_stopped"]
    let_pass(hold, hours=100)
    sweep.run_once()
    let_pass(now_of(hold), hours=1)
    sweep.run_once()
    assert now_of(hold).owner == scenes.owner


def test_many_holds_at_once_are_one_notice_with_their_number(scenes: Scenes, maria: Person) -> None:
    for hold in [held(scenes, maria) for _ in range(3)]:
        let_pass(hold, hours=100)
    record_reminders(200)
    notice = Notice.objects.get(person=maria, kind="reminder")
    assert (notice.count, notice.hold) == (3, None)
    assert json.loads(notice.facts)["reasons"] == {"outcome_unknown": 3}


@pytest.mark.parametrize("by_oneself", [True, False], ids=["taken", "given"])
def test_only_what_others_give_is_told(scenes: Scenes, maria: Person, by_oneself: bool) -> None:
    hold = held(scenes)
    by = By(f"person:{maria.pk}", "Maria", maria.pk) if by_oneself else SYSTEM
    settle_assign([hold.pk], maria.pk, by)
    sweep.run_once()
    assert told(maria) == ([] if by_oneself else ["assigned"])


def test_two_sweeps_that_found_the_same_hold_remind_of_it_once(scenes: Scenes, maria: Person) -> None:
    """Both wait at its row until this test lets go of it; the second finds that it was done."""
    row = Destination.objects.filter(team=scenes.desk.team).earliest("definition_id")
    settle_pause(row.pk, row.version, "Maintenance.", SYSTEM)
    hold = let_pass(Hold.objects.get(destination=row.pk), hours=100)

    def remind() -> None:
        escalate._advance([hold.pk])
        connection.close()

    threads = [Thread(target=remind) for _ in range(2)]
    with transaction.atomic():
        Hold.objects.select_for_update(of=("self",)).get(pk=hold.pk)
        for thread in threads:
            thread.start()
        until_waiting(2, threads)
    for thread in threads:
        thread.join()
    assert Notice.objects.filter(kind="reminder", person=maria).count() == 1
    assert Entry.objects.filter(subject_id=row.pk, kind="reminded").count() == 1


def test_the_journal_still_proves_the_rows_afterwards(scenes: Scenes, maria: Person) -> None:
    hold = let_pass(held(scenes, maria), hours=100)
    sweep.run_once()
    let_pass(now_of(hold), hours=1)
    sweep.run_once()
    out = StringIO()
    call_command("verify_ledger", stdout=out)
    assert "escalated" in [line.kind for line in Entry.objects.filter(subject_id=hold.operation_id)]


@pytest.mark.parametrize(
    ("query", "parameters", "index"),
    [
        (escalate._TO_REMIND, [200], "hold_to_remind"),
        (escalate._TO_ESCALATE, [200], "hold_to_escalate"),
        (escalate._TO_TELL, [200], "hold_to_tell"),
    ],
    ids=["remind", "escalate", "tell"],
)
@pytest.mark.django_db
def test_what_is_due_is_found_by_an_index_of_its_own(query: str, parameters: list[int], index: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        # Sorting no rows costs nothing: without it the index has to bring the order, whatever is known of the table.
        cursor.execute("SET LOCAL enable_sort = off; SET LOCAL enable_incremental_sort = off")
        cursor.execute(f"EXPLAIN {query}", parameters)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert index in plan, plan
    assert "Seq Scan on ledger_hold" not in plan

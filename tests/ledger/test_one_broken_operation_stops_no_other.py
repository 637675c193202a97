"""An operation that can't be read stays where it is; contents are moved and the sweep goes on for all others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from opsledger.engine import sweep
from opsledger.ledger.actions import content
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.models import Attempt, Content, Destination, Hold, Operation, Step
from opsledger.ledger.queries.readiness import figures
from tests.desk import LETTER, Desk
from tests.replaying import effects, rejected

ANOTHER = {"fields": LETTER | {"subject": "Another subject"}}


def make_unreadable(opened: Opened, *, again: bool = False) -> None:
    with connection.cursor() as cursor:
        kept = "[]" if again else "5"
        cursor.execute("UPDATE ledger_step SET not_ours = %s WHERE operation_id = %s", [kept, opened.id])


def shown(opened: Opened) -> int | None:
    return Step.objects.values_list("content_number", flat=True).get(operation_id=opened.id, number=1)


@pytest.fixture
def broken(desk: Desk) -> Opened:
    opened = desk.letter("broken")
    make_unreadable(opened)
    return opened


def test_the_others_are_moved_to_the_new_version(
    desk: Desk, broken: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    others = [desk.letter(f"other-{number}") for number in range(3)]

    newest = desk.letter("newest", **ANOTHER)  # recorded, and answered so

    assert Operation.objects.filter(operation_id="newest").exists()
    assert [shown(one) for one in (broken, *others, newest)] == [1, 2, 2, 2, 2]
    named = [one for one in caplog.records if str(broken.id) in one.getMessage()]
    assert [one.levelno for one in named] == [logging.ERROR]


def test_the_sweep_tries_it_again_and_does_all_else(desk: Desk, broken: Opened) -> None:
    desk.letter("newest", **ANOTHER)
    assert Content.objects.get().moving
    held = rejected(desk)  # not yet in an incident
    assert Hold.objects.get(operation_id=held.id).incident_id is None

    assert desk.sweep().moves == 0

    assert Hold.objects.get(operation_id=held.id).incident_id is not None
    make_unreadable(broken, again=True)
    assert desk.sweep().moves == 1
    assert (shown(broken), Content.objects.get().moving) == (2, False)
    assert desk.sweep().moves == 0


def test_a_part_of_the_sweep_that_breaks_stops_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(limit: int) -> int:
        raise RuntimeError("a fault of ours")

    held = rejected(desk)
    monkeypatch.setattr(sweep, "record_moves", breaks)

    with pytest.raises(RuntimeError, match="a fault of ours"):
        desk.sweep()

    assert Hold.objects.get(operation_id=held.id).incident_id is not None


def test_a_version_that_comes_meanwhile_begins_from_the_beginning(desk: Desk, broken: Opened) -> None:
    other = desk.letter("other")
    desk.letter("newest", **ANOTHER)
    desk.letter("newer", fields=LETTER | {"subject": "Yet another"})
    make_unreadable(broken, again=True)

    assert content.record_moves(10) == 1

    assert [shown(one) for one in (broken, other)] == [3, 3]
    assert not Content.objects.get().moving


# What is claimed all the same: a claim reads no record


@pytest.fixture
def sent_once(desk: Desk) -> Opened:
    """Sent, and its reply can't be recorded."""
    opened = desk.open("classic_follow_up")
    make_unreadable(opened)
    desk.send()
    assert (desk.step(opened).state, effects(desk, opened)) == ("in_flight", 1)
    return opened


@contextmanager
def lease_ended() -> Iterator[None]:
    """As if the time had passed. The attempt's own lease is in the journal, and is put back."""
    attempt = Attempt.objects.get(step__state="in_flight")
    past = attempt.opened_at + timedelta(microseconds=1)
    Step.objects.filter(pk=attempt.step_id).update(act_at=past)
    Attempt.objects.filter(pk=attempt.pk).update(lease_ends_at=past)
    yield
    Attempt.objects.filter(pk=attempt.pk).update(lease_ends_at=attempt.lease_ends_at)


def test_it_takes_the_room_of_others_until_its_lease_ends_and_no_longer(
    desk: Desk, sent_once: Opened
) -> None:
    Destination.objects.update(in_flight_max=1)
    other = desk.open("classic_follow_up")

    Destination.objects.update(send_tokens=5.0)  # no waiting for the destination's rate
    desk.send()
    assert (desk.step(other).state, effects(desk, other)) == ("ready", 0)
    with lease_ended():
        Destination.objects.update(send_tokens=5.0)
        desk.send()

    assert (desk.step(other).state, effects(desk, other)) == ("confirmed", 1)
    assert (desk.step(sent_once).state, effects(desk, sent_once)) == ("in_flight", 1)


def test_it_is_named_and_shows_in_the_figures_until_it_can_be_read(
    desk: Desk, sent_once: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    with lease_ended():
        desk.sweep()

    assert [one.levelno for one in caplog.records if str(sent_once.id) in one.getMessage()] == [logging.ERROR]
    assert figures().due_steps["lease"] == 1
    said = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", stdout=StringIO(), stderr=said)
    assert str(sent_once.id) in said.getvalue()

    make_unreadable(sent_once, again=True)
    with lease_ended():
        desk.sweep()

    assert (desk.step(sent_once).state, effects(desk, sent_once)) == ("unknown", 1)
    assert "lease" not in figures().due_steps
    call_command("verify_ledger", stdout=StringIO(), stderr=StringIO())

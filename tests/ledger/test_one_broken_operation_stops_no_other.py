"""An operation that can't be read stays where it is; contents are moved and the sweep goes on for all others."""

from __future__ import annotations

import logging

import pytest
from django.db import connection

from opsledger.engine import sweep
from opsledger.ledger.actions import content
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.models import Content, Hold, Operation, Step
from tests.desk import LETTER, Desk
from tests.replaying import rejected

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

"""Absences: a deputy who may do as much, no circles, in one's own team only; they end by themselves."""

from __future__ import annotations

import json
from datetime import timedelta
from threading import Barrier, Thread

import pytest
from django.db import connection
from django.utils import timezone
from people import Cast, make_cast, person

from opsledger.accounts import actions
from opsledger.accounts.absences import (
    absences_of,
    add_absence,
    call_off_absence,
    possible_deputies,
    stand_in_for,
)
from opsledger.accounts.actions import Refused
from opsledger.accounts.models import Absence, Person
from opsledger.accounts.permissions import Role
from opsledger.journal.models import Entry


def owner(cast: Cast, name: str) -> Person:
    made = person(name)
    actions.grant_role(made, cast.launch, Role.OWNER)
    return made


def away(cast: Cast, who: Person, deputy: Person, days: int = 3) -> Absence:
    now = timezone.now()
    return add_absence(who, cast.launch, deputy, begins_at=now, ends_at=now + timedelta(days=days))


def test_the_deputy_stands_in_until_the_absence_ends(cast: Cast) -> None:
    maria = owner(cast, "Maria")
    row, now = away(cast, cast.olga, maria), timezone.now()

    assert stand_in_for(cast.olga.pk, cast.launch.pk, now) == maria.pk
    assert stand_in_for(cast.omar.pk, cast.launch.pk, now) == cast.omar.pk
    assert stand_in_for(cast.olga.pk, cast.launch.pk, row.ends_at) == cast.olga.pk
    assert absences_of(cast.launch, row.ends_at) == []


def test_an_absence_called_off_is_over_and_both_are_in_the_teams_journal(cast: Cast) -> None:
    row = away(cast, cast.olga, owner(cast, "Maria"))

    assert call_off_absence(row.pk, cast.returns) is False
    assert call_off_absence(row.pk, cast.launch) is True
    assert call_off_absence(row.pk, cast.launch) is False
    assert stand_in_for(cast.olga.pk, cast.launch.pk, timezone.now()) == cast.olga.pk
    lines = Entry.objects.filter(subject_id=cast.launch.pk, kind__startswith="absence_").order_by("seq")
    assert [line.kind for line in lines] == ["absence_added", "absence_called_off"]
    assert json.loads(lines[0].body)["person"] == str(cast.olga.pk)


def test_a_deputy_who_was_deactivated_stands_in_for_nobody(cast: Cast) -> None:
    maria = owner(cast, "Maria")
    away(cast, cast.olga, maria)
    actions.deactivate_person(maria)

    assert stand_in_for(cast.olga.pk, cast.launch.pk, timezone.now()) is None


@pytest.mark.parametrize("who", ["vera", "omar", "adam", "rita", "olga"])
def test_a_deputy_may_do_what_the_person_may(cast: Cast, who: str) -> None:
    """Viewer, operator, admin and outsider don't settle; and nobody stands in for themselves."""
    with pytest.raises(Refused) as why:
        away(cast, cast.olga, getattr(cast, who))

    assert why.value.field == "deputy"
    assert not Absence.objects.exists()


def test_an_owner_may_stand_in_for_an_operator_but_not_the_other_way(cast: Cast) -> None:
    assert possible_deputies(cast.omar, cast.launch) == [cast.olga]
    assert possible_deputies(cast.olga, cast.launch) == []


@pytest.mark.parametrize(
    ("begins_days", "ends_days"),
    [(2, 1), (1, 1), (-3, -1), (0, 400), (4_000, 4_003)],
    ids=["turned", "empty", "over", "long", "far off"],
)
def test_a_span_that_makes_no_sense_is_refused(cast: Cast, begins_days: int, ends_days: int) -> None:
    now = timezone.now()
    with pytest.raises(Refused) as why:
        add_absence(
            cast.olga,
            cast.launch,
            owner(cast, "Maria"),
            begins_at=now + timedelta(days=begins_days),
            ends_at=now + timedelta(days=ends_days),
        )
    assert why.value.field == "ends_at"


@pytest.mark.django_db(transaction=True)
def test_two_absences_at_once_never_make_a_circle() -> None:
    cast = make_cast()
    maria = owner(cast, "Maria")
    barrier, refused = Barrier(2), []

    def leave(who: Person, deputy: Person) -> None:
        barrier.wait()
        try:
            away(cast, who, deputy)
        except Refused as why:
            refused.append(why.message)
        finally:
            connection.close()

    threads = [Thread(target=leave, args=pair) for pair in ((cast.olga, maria), (maria, cast.olga))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == 1
    assert Absence.objects.count() == 1

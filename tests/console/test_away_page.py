"""Absences on their page; and before somebody is deactivated, what becomes of their holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.utils import timezone
from people import Cast, client_of, make_cast, person
from scenes import Scenes

from opsledger.accounts import actions
from opsledger.accounts.absences import ABSENCE_AHEAD_DAYS_MAX, add_absence
from opsledger.accounts.models import Absence, Person
from opsledger.accounts.roles import Role
from opsledger.ledger.models import Hold

ADD = "/settings/away/add/"


@pytest.fixture
def maria(cast: Cast) -> Person:
    made = person("Maria")
    actions.grant_role(made, cast.launch, Role.OWNER)
    return made


def form(deputy: Person, **more: str) -> dict[str, str]:
    return {"deputy": str(deputy.pk), "begins_at": "", "ends_at": "2090-07-01T09:00"} | more


def test_times_are_in_the_zone_of_who_enters_them(cast: Cast, maria: Person) -> None:
    Person.objects.filter(pk=cast.olga.pk).update(time_zone="Asia/Tokyo")
    start = timezone.now() + timedelta(days=1)
    typed = form(
        maria, begins_at=f"{start:%Y-%m-%d}T09:00", ends_at=f"{start + timedelta(days=1):%Y-%m-%d}T09:00"
    )
    answer = client_of(Person.objects.get(pk=cast.olga.pk)).post(ADD, typed)
    assert answer.status_code == 303
    row = Absence.objects.get()
    assert row.begins_at == datetime(start.year, start.month, start.day, 0, 0, tzinfo=UTC)
    assert (row.person, row.deputy) == (cast.olga, maria)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"ends_at": ""}, "ends_error"),
        ({"ends_at": "tomorrow"}, "ends_error"),
        ({"ends_at": "2026-02-31T09:00"}, "ends_error"),
        ({"ends_at": "2001-01-01T09:00"}, "ends_error"),
        ({"ends_at": "9999-12-31T23:59:59-12:00"}, "ends_error"),
        ({"begins_at": "9999-12-30T23:00", "ends_at": "9999-12-31T23:00"}, "ends_error"),
        ({"begins_at": "9999-12-01T00:00:00-12:00", "ends_at": "9999-12-31T23:59:59-12:00"}, "ends_error"),
        ({"begins_at": "0001-01-01T00:00:00+14:00"}, "begins_error"),
        ({"deputy": ""}, "deputy_error"),
        ({"deputy": "nonsense"}, "deputy_error"),
    ],
)
def test_what_can_not_be_is_said_at_its_field(
    cast: Cast, maria: Person, more: dict[str, str], field: str
) -> None:
    answer = client_of(cast.olga).post(ADD, form(maria) | more)
    assert answer.status_code == 422
    assert f'id="{field}"' in answer.content.decode()
    assert not Absence.objects.exists()


def test_the_farthest_absence_is_shown_to_everybody(cast: Cast, maria: Person) -> None:
    """In the zones at both ends of the day, and with an offset that no zone has."""
    end = timezone.now() + timedelta(days=ABSENCE_AHEAD_DAYS_MAX - 2)
    begin = end - timedelta(days=3)
    typed = form(maria, begins_at=f"{begin:%Y-%m-%dT%H:%M}+23:59", ends_at=f"{end:%Y-%m-%dT%H:%M}-23:59")
    assert client_of(cast.olga).post(ADD, typed).status_code == 303
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        Person.objects.filter(pk=cast.vera.pk).update(time_zone=zone)
        page = client_of(Person.objects.get(pk=cast.vera.pk)).get("/settings/away/")
        assert page.status_code == 200
        assert "Olga" in page.content.decode()


def test_only_an_admin_enters_somebody_elses_absence(cast: Cast, maria: Person) -> None:
    soon = f"{timezone.now() + timedelta(days=2):%Y-%m-%d}T09:00"
    typed = form(maria, person=str(cast.olga.pk), ends_at=soon)
    assert client_of(cast.omar).post(ADD, typed).status_code == 403
    assert client_of(cast.adam).post(ADD, typed).status_code == 303
    assert Absence.objects.get().person == cast.olga


def test_back_early(cast: Cast, maria: Person) -> None:
    now = timezone.now()
    row = add_absence(cast.olga, cast.launch, maria, begins_at=now, ends_at=now + timedelta(days=2))
    path = f"/settings/away/{row.pk}/end/"
    assert client_of(cast.omar).post(path).status_code == 403
    assert client_of(cast.rita).post(path).status_code == 404
    assert Absence.objects.get().called_off_at is None

    page = client_of(cast.vera).get("/settings/away/").content.decode()
    assert "Olga" in page
    assert "Back now" not in page
    client_of(cast.olga).post(path)
    assert Absence.objects.get().called_off_at is not None


def test_another_team_sees_nothing_of_it(cast: Cast, maria: Person) -> None:
    now = timezone.now()
    add_absence(cast.olga, cast.launch, maria, begins_at=now, ends_at=now + timedelta(days=2))
    assert "Olga" not in client_of(cast.rita).get("/settings/away/").content.decode()


def test_who_has_nobody_to_stand_in_is_told_what_to_do(cast: Cast) -> None:
    assert "nobody can stand in" in client_of(cast.olga).get("/settings/away/").content.decode()


def test_before_a_person_is_deactivated_the_page_says_where_their_holds_go(scenes: Scenes) -> None:
    maria, adam = scenes.member("Maria", Role.OWNER), scenes.member("Adam", Role.ADMIN)
    for owner in (maria, maria, scenes.owner):
        scenes.unknown()
        Hold.objects.filter(pk=Hold.objects.latest("id").pk).update(owner=owner)
    page = " ".join(unescape(client_of(adam).get(f"/settings/people/{maria.pk}/").content.decode()).split())
    assert "Maria owns 2 open holds." in page
    assert "within seconds 2 go to Test owner." in page
    assert "open hold" not in client_of(adam).get(f"/settings/people/{adam.pk}/").content.decode()


def test_a_stranger_finds_no_person_page(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OWNER)
    assert client_of(make_cast().rita).get(f"/settings/people/{maria.pk}/").status_code == 404

"""What may be changed about people, teams and roles, and what is refused."""

import threading
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from people import PASSWORD, Cast, make_cast

from opsledger.accounts import actions
from opsledger.accounts.models import ApiToken, Membership, Person, Team
from opsledger.accounts.roles import (
    Permission,
    Role,
    may_administer_everywhere,
    members_of,
    people_who_may,
    roles_of,
    teams_of,
)


def test_a_fallback_owner_is_not_deactivated_without_a_successor(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="fallback owner of Spring launch"):
        actions.deactivate_person(cast.olga)
    assert Person.objects.get(pk=cast.olga.pk).is_active

    actions.grant_role(cast.omar, cast.launch, Role.OWNER)
    actions.change_team(cast.launch, name="Spring launch", fallback_owner=cast.omar)
    actions.deactivate_person(cast.olga)

    assert not Person.objects.get(pk=cast.olga.pk).is_active
    assert Person.objects.get(pk=cast.omar.pk).is_active


@pytest.mark.django_db(transaction=True)
def test_naming_and_deactivating_a_fallback_owner_do_not_cross() -> None:
    cast = make_cast()
    actions.grant_role(cast.omar, cast.launch, Role.OWNER)
    barrier, refused = threading.Barrier(2, timeout=10), []

    def run(action: object, *args: object, **kwargs: object) -> None:
        barrier.wait()
        try:
            action(*args, **kwargs)  # type: ignore[operator]
        except actions.Refused as why:
            refused.append(why)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=run, args=(actions.deactivate_person, cast.omar)),
        threading.Thread(
            target=run,
            args=(actions.change_team, cast.launch),
            kwargs={"name": "L", "fallback_owner": cast.omar},
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == 1
    assert Team.objects.get(pk=cast.launch.pk).fallback_owner.is_active


def test_a_successor_must_be_an_owner_of_the_team(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="does not have the role owner"):
        actions.change_team(cast.launch, name="Renamed", fallback_owner=cast.omar)
    unchanged = Team.objects.get(pk=cast.launch.pk)
    assert (unchanged.name, unchanged.fallback_owner) == ("Spring launch", cast.olga)


def test_a_fallback_owner_stays_an_owner(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="stays an owner"):
        actions.set_roles(cast.olga, cast.launch, [Role.VIEWER])
    assert roles_of(cast.olga, cast.launch) == {Role.OWNER}


def test_the_last_admin_stays(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="last admin"):
        actions.set_roles(cast.adam, cast.launch, [])
    with pytest.raises(actions.Refused, match="last admin"):
        actions.deactivate_person(cast.adam)
    actions.grant_role(cast.omar, cast.launch, Role.ADMIN)
    actions.set_roles(cast.adam, cast.launch, [])
    assert roles_of(cast.adam, cast.launch) == frozenset()


def test_setting_roles_leaves_other_people_and_teams_alone(cast: Cast) -> None:
    actions.grant_role(cast.omar, cast.returns, Role.VIEWER)
    actions.set_roles(cast.omar, cast.launch, [Role.VIEWER, Role.OWNER])
    assert roles_of(cast.omar, cast.launch) == {Role.VIEWER, Role.OWNER}
    assert roles_of(cast.omar, cast.returns) == {Role.VIEWER}
    assert roles_of(cast.vera, cast.launch) == {Role.VIEWER}


def test_deactivating_ends_the_persons_tokens_and_no_others(cast: Cast) -> None:
    later = timezone.now() + timedelta(days=30)
    own = actions.create_token(
        team=cast.launch, name="o", scopes=["read"], person=cast.omar, expires_at=later
    ).token
    other = actions.create_token(team=cast.launch, name="flow", scopes=["read"]).token
    actions.deactivate_person(cast.omar)
    assert ApiToken.objects.get(pk=own.pk).revoked_at is not None
    assert ApiToken.objects.get(pk=other.pk).revoked_at is None


def test_a_deactivated_person_has_no_teams_and_no_roles(cast: Cast) -> None:
    actions.deactivate_person(cast.omar)
    assert teams_of(cast.omar) == []
    assert roles_of(cast.omar, cast.launch) == frozenset()
    assert cast.omar not in people_who_may(Permission.NOTE, cast.launch)
    with pytest.raises(actions.Refused, match="deactivated"):
        actions.grant_role(cast.omar, cast.launch, Role.OWNER)


def test_teams_come_by_name_and_only_ones_own(cast: Cast) -> None:
    actions.grant_role(cast.omar, cast.returns, Role.VIEWER)
    assert teams_of(cast.omar) == [cast.returns, cast.launch]
    assert teams_of(cast.vera) == [cast.launch]


def test_granting_a_role_twice_changes_nothing(cast: Cast) -> None:
    actions.grant_role(cast.vera, cast.launch, Role.VIEWER)
    assert Membership.objects.filter(person=cast.vera).count() == 1


def test_what_touches_sign_in_takes_an_admin_of_every_team(cast: Cast) -> None:
    assert may_administer_everywhere(cast.adam, cast.omar)
    actions.grant_role(cast.omar, cast.returns, Role.VIEWER)
    assert not may_administer_everywhere(cast.adam, cast.omar)
    assert not may_administer_everywhere(cast.omar, cast.omar)


def test_members_are_listed_with_all_their_roles(cast: Cast) -> None:
    actions.grant_role(cast.omar, cast.launch, Role.VIEWER)
    members = {member.person: member for member in members_of(cast.launch)}
    assert members[cast.omar].roles == {Role.VIEWER, Role.OPERATOR}
    assert members[cast.olga].is_fallback
    assert cast.rita not in members


def test_an_address_is_one_person_whatever_its_case(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="already a person"):
        actions.add_person(email="VERA@Example.test", display_name="Vera")
    assert Person.objects.get_by_natural_key(" Vera@EXAMPLE.test ") == cast.vera


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"email": "not an address"}, "email"),
        ({"email": f"{'a' * 250}@example.test"}, "email"),
        ({"display_name": "   "}, "display_name"),
        ({"display_name": "x" * 81}, "display_name"),
        ({"display_name": "a\u202eb"}, "display_name"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"time_zone": "../etc/passwd"}, "time_zone"),
        ({"password": "short"}, "password"),
        ({"password": "wilhelmina.k"}, "password"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_person_that_makes_no_sense_is_refused_by_field(
    db: None, wrong: dict[str, str], field: str
) -> None:
    right = {"email": "wilhelmina.k@example.test", "display_name": "Wilhelmina K", "password": PASSWORD}
    with pytest.raises(actions.Refused) as refused:
        actions.add_person(**(right | wrong))
    assert refused.value.field == field
    assert not Person.objects.exists()


def test_a_temporary_password_has_to_be_changed(cast: Cast) -> None:
    text = actions.set_temporary_password(cast.vera)
    vera = Person.objects.get(pk=cast.vera.pk)
    assert vera.check_password(text)
    assert vera.must_change_password
    actions.set_own_password(vera, PASSWORD)
    assert not Person.objects.get(pk=vera.pk).must_change_password


def test_a_member_is_added_whole_or_not_at_all(cast: Cast) -> None:
    with pytest.raises(actions.Refused, match="name"):
        actions.add_member(email="new@example.test", display_name=" ", team=cast.launch, roles=[Role.VIEWER])
    with pytest.raises(actions.Refused, match="at least one role"):
        actions.add_member(email="new@example.test", display_name="New", team=cast.launch, roles=[])
    assert not Person.objects.filter(email="new@example.test").exists()


def test_somebody_of_another_team_keeps_name_and_password(cast: Cast) -> None:
    before = cast.rita.password
    member, text = actions.add_member(
        email="Rita@example.test", display_name="Somebody else", team=cast.launch, roles=[Role.VIEWER]
    )
    assert (member, text, member.display_name, member.password) == (cast.rita, None, "Rita", before)


def test_a_zone_that_this_machine_lost_reads_as_utc() -> None:
    assert Person(time_zone="Atlantis/Main").zone.key == "UTC"


@pytest.mark.parametrize(
    ("name", "initials"), [("Launch owner", "LO"), ("Ada", "AD"), ("Åsa van Öst", "ÅÖ"), ("", ""), ("x", "X")]
)
def test_initials_are_two_letters(name: str, initials: str) -> None:
    assert Person(display_name=name).initials == initials


BROKEN_ROWS = {
    "person_email_is_lower_case": lambda cast: Person.objects.filter(pk=cast.vera.pk).update(
        email="VERA@x.test"
    ),
    "person_has_a_name": lambda cast: Person.objects.filter(pk=cast.vera.pk).update(display_name=""),
    "person_theme_is_known": lambda cast: Person.objects.filter(pk=cast.vera.pk).update(theme="neon"),
    "team_has_a_name": lambda cast: Team.objects.filter(pk=cast.launch.pk).update(name=""),
    "membership_role_is_known": lambda cast: Membership.objects.update(role="king"),
    "person_has_each_role_once_in_a_team": lambda cast: Membership.objects.create(
        person=cast.vera, team=cast.launch, role="viewer"
    ),
}


@pytest.mark.parametrize("constraint", BROKEN_ROWS)
def test_the_database_refuses(cast: Cast, constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        BROKEN_ROWS[constraint](cast)

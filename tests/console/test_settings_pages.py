"""Settings: oneself for everybody; people, teams and tokens by admins only."""

import re
from typing import Any

import pytest
from django.test import Client
from people import Cast, client_of

from opsledger.accounts import actions, tokens
from opsledger.accounts.models import ApiToken, Person, Team
from opsledger.accounts.roles import Role, roles_of

PEOPLE, TOKENS = "/settings/people/", "/settings/tokens/"


@pytest.fixture
def admin(cast: Cast) -> Client:
    return client_of(cast.adam)


def _writes(cast: Cast, token: ApiToken) -> dict[str, dict[str, Any]]:
    member = f"{PEOPLE}{cast.omar.pk}/"
    return {
        f"{PEOPLE}add/": {"email": "new@example.test", "display_name": "New", "roles": ["owner"]},
        member: {"roles": ["owner"]},
        f"{member}deactivate/": {},
        f"{member}reactivate/": {},
        f"{member}password/": {},
        "/settings/teams/change/": {"name": "Other", "fallback_owner": str(cast.olga.pk)},
        "/settings/teams/add/": {"name": "Third", "slug": "third"},
        f"{TOKENS}add/": {"kind": "automation", "name": "flow", "scopes": ["read"], "days": "30"},
        f"{TOKENS}{token.pk}/revoke/": {},
    }


def _everything() -> list[list[Any]]:
    from opsledger.accounts.models import Membership

    rows = (Person, Team, Membership, ApiToken)
    return [list(model.objects.order_by("pk").values()) for model in rows]


@pytest.mark.parametrize("who", ["vera", "omar", "olga"])
def test_only_an_admin_writes(cast: Cast, who: str) -> None:
    token = actions.create_token(team=cast.launch, name="flow one", scopes=["read"]).token
    client, before = client_of(getattr(cast, who)), _everything()
    for path, form in _writes(cast, token).items():
        assert client.post(path, form).status_code in {403, 404}, path
    assert [*map(len, _everything())] == [*map(len, before)]
    assert _without_sign_in(_everything()) == _without_sign_in(before)


@pytest.mark.parametrize("index", range(9))
def test_an_admin_of_another_team_finds_nothing(cast: Cast, index: int) -> None:
    token = actions.create_token(team=cast.launch, name="flow one", scopes=["read"]).token
    path = list(_writes(cast, token))[index]
    if str(cast.omar.pk) in path or str(token.pk) in path:
        assert client_of(cast.rita).post(path).status_code == 404
    else:
        form = _writes(cast, token)[path] | {"fallback_owner": str(cast.olga.pk), "slug": "", "name": ""}
        assert client_of(cast.rita).post(path, form | {"roles": []}).status_code in {404, 422}
    assert Team.objects.get(pk=cast.launch.pk).name == "Spring launch"
    assert roles_of(cast.omar, cast.launch) == {Role.OPERATOR}


def _without_sign_in(rows: list[list[Any]]) -> list[list[Any]]:
    return [[{k: v for k, v in row.items() if k != "last_login"} for row in model] for model in rows]


def test_every_write_works_for_an_admin(cast: Cast, admin: Client) -> None:
    token = actions.create_token(team=cast.launch, name="flow one", scopes=["read"]).token
    answers = {path: admin.post(path, form).status_code for path, form in _writes(cast, token).items()}
    assert set(answers.values()) <= {201, 303}
    assert roles_of(Person.objects.get(email="new@example.test"), cast.launch) == {Role.OWNER}
    assert Team.objects.get(pk=cast.launch.pk).name == "Other"
    assert Team.objects.filter(slug="third", fallback_owner=cast.adam).exists()


def test_a_new_person_gets_a_password_that_is_shown_once(cast: Cast, admin: Client) -> None:
    form = {"email": "New@example.test", "display_name": "New", "roles": ["viewer", "operator"]}
    shown = admin.post(f"{PEOPLE}add/", form)
    text = re.search(r'data-copy="([^"]+)"', shown.content.decode()).group(1)  # type: ignore[union-attr]
    new = Person.objects.get(email="new@example.test")
    assert shown.status_code == 201
    assert new.check_password(text)
    assert new.must_change_password
    assert text not in admin.get(PEOPLE).content.decode()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"email": "nonsense"}, "is not an e-mail address"),
        ({"display_name": ""}, "A name has 1 to 80"),
        ({"roles": []}, "Choose at least one role."),
        ({"roles": ["king"]}, "Choose roles from the list."),
        ({"roles": ["owner", "king"]}, "Choose roles from the list."),
    ],
)
def test_a_form_with_a_mistake_comes_back_filled_in(
    cast: Cast, admin: Client, wrong: dict[str, Any], said: str
) -> None:
    form = {"email": "new@example.test", "display_name": "Newcomer", "roles": ["owner"]} | wrong
    response = admin.post(f"{PEOPLE}add/", form)
    assert response.status_code == 422
    assert said in response.content.decode()
    assert (form["display_name"] or form["email"]) in response.content.decode()
    assert not Person.objects.filter(email="new@example.test").exists()


def test_a_role_that_there_is_not_changes_no_role(cast: Cast, admin: Client) -> None:
    before = roles_of(cast.olga, cast.launch)
    response = admin.post(f"{PEOPLE}{cast.olga.pk}/", {"roles": ["viewer", "ownr"]})
    assert response.status_code == 422
    assert "Choose roles from the list." in response.content.decode()
    assert roles_of(cast.olga, cast.launch) == before


def test_the_same_form_twice_has_one_effect(cast: Cast, admin: Client) -> None:
    form = {"kind": "automation", "name": "flow", "scopes": ["read"], "days": ""}
    assert admin.post(f"{TOKENS}add/", form).status_code == 201
    second = admin.post(f"{TOKENS}add/", form)
    assert second.status_code == 422
    assert "already has a live token named “flow”" in second.content.decode()
    assert ApiToken.objects.count() == 1


def test_a_token_is_shown_once(cast: Cast, admin: Client) -> None:
    form = {"kind": "automation", "name": "flow", "scopes": ["read", "record"], "days": "7"}
    shown = admin.post(f"{TOKENS}add/", form)
    text = re.search(r"opl_[\w-]{43}", shown.content.decode()).group()  # type: ignore[union-attr]
    assert shown["Cache-Control"] == "no-store, private"
    assert tokens.find(text) is not None
    assert "opl_" not in admin.get(TOKENS).content.decode()


def test_a_personal_token_is_made_by_its_person_only(cast: Cast) -> None:
    omar = client_of(cast.omar)
    form = {"kind": "personal", "name": "mine", "scopes": ["read", "operate"], "days": "30"}
    assert omar.post(f"{TOKENS}add/", form | {"person": str(cast.olga.pk)}).status_code == 201
    assert ApiToken.objects.get().person == cast.omar
    assert omar.post(f"{TOKENS}add/", form | {"name": "endless", "days": ""}).status_code == 422
    assert omar.post(f"{TOKENS}add/", form | {"name": "endless", "days": "99999"}).status_code == 422


@pytest.mark.parametrize("days", ["31", "0", "-7", "07", "7.0", "never", "\u0663\u0660"])
def test_a_token_expires_when_one_of_the_offered_days_is_over_or_is_not_made(
    admin: Client, days: str
) -> None:
    """Nothing but the choice of *never* makes a token that never expires."""
    form = {"kind": "automation", "name": "flow", "scopes": ["read"], "days": days}
    response = admin.post(f"{TOKENS}add/", form)
    assert response.status_code == 422
    assert "Choose when it expires" in response.content.decode()
    assert 'value="flow"' in response.content.decode()
    assert not ApiToken.objects.exists()
    assert admin.post(f"{TOKENS}add/", form | {"days": ""}).status_code == 201
    assert ApiToken.objects.get().expires_at is None


def test_one_sees_and_revokes_ones_own_tokens_and_an_admin_all(cast: Cast, admin: Client) -> None:
    form = {"kind": "personal", "name": "omars own", "scopes": ["read"], "days": "30"}
    omar, olga = client_of(cast.omar), client_of(cast.olga)
    omar.post(f"{TOKENS}add/", form)
    token = ApiToken.objects.get()
    assert "omars own" in omar.get(TOKENS).content.decode()
    assert "omars own" not in olga.get(TOKENS).content.decode()
    assert "omars own" in admin.get(TOKENS).content.decode()
    assert olga.post(f"{TOKENS}{token.pk}/revoke/").status_code == 404
    assert omar.post(f"{TOKENS}{token.pk}/revoke/").status_code == 303
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_an_admin_does_not_reach_the_sign_in_of_other_teams(cast: Cast, admin: Client) -> None:
    actions.grant_role(cast.omar, cast.returns, Role.OWNER)
    before = Person.objects.get(pk=cast.omar.pk).password
    for what in ("password", "deactivate"):
        response = admin.post(f"{PEOPLE}{cast.omar.pk}/{what}/")
        assert response.status_code == 403
        assert "is in other teams, too" in response.content.decode()
    omar = Person.objects.get(pk=cast.omar.pk)
    assert omar.is_active
    assert omar.password == before


def test_a_fallback_owner_is_not_deactivated_from_the_page(cast: Cast, admin: Client) -> None:
    response = admin.post(f"{PEOPLE}{cast.olga.pk}/deactivate/")
    assert response.status_code == 422
    assert "Name a successor there first" in response.content.decode()


def test_the_profile_is_saved_whole_or_not_at_all(cast: Cast) -> None:
    vera = client_of(cast.vera)
    form = {"display_name": "Vera V", "time_zone": "Europe/Paris", "theme": "dark", "shortcuts_on": "on"}
    refused = vera.post("/settings/profile/", form | {"time_zone": "Nowhere"})
    assert refused.status_code == 422
    assert 'value="Vera V"' in refused.content.decode()
    assert Person.objects.get(pk=cast.vera.pk).display_name == "Vera"
    assert vera.post("/settings/profile/", form).status_code == 303
    del form["shortcuts_on"]
    vera.post("/settings/profile/", form)
    saved = Person.objects.get(pk=cast.vera.pk)
    assert (saved.display_name, saved.time_zone, saved.theme) == ("Vera V", "Europe/Paris", "dark")
    assert not saved.shortcuts_on


def test_the_theme_is_chosen_with_and_without_script(cast: Cast) -> None:
    vera = client_of(cast.vera)
    plain = vera.post("/settings/theme/", {"theme": "dark", "next": "/states/"})
    assert (plain.status_code, plain["Location"]) == (303, "/states/")
    assert 'data-theme="dark"' in vera.get("/states/").content.decode()
    assert vera.post("/settings/theme/", {"theme": "light"}, HTTP_HX_REQUEST="true").status_code == 204
    away = vera.post("/settings/theme/", {"theme": "light", "next": "https://evil.example/"})
    assert away["Location"] == "/settings/profile/"


def test_my_permissions_says_what_i_may_and_who_can_do_the_rest(cast: Cast) -> None:
    page = client_of(cast.omar).get("/settings/permissions/").content.decode()
    rows = {
        re.sub(r"<[^>]+>", "", row).strip(): row for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    }
    settle = next(row for text, row in rows.items() if "settle a hold" in text)
    assert "may not" in settle
    assert "Olga" in settle
    note = next(row for text, row in rows.items() if "add notes" in text)
    assert "may not" not in note


def test_states_show_every_row(cast: Cast) -> None:
    from opsledger.console.vocabulary import TABLE

    page = client_of(cast.vera).get("/states/").content.decode()
    for row in TABLE.values():
        assert row.paragraph in page

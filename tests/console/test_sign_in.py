"""Signing in and out, and what happens to an open page when the session ends."""

from typing import Any

import pytest
from axes.models import AccessAttempt
from django.test import Client
from django.utils import timezone
from people import PASSWORD, Cast, client_of

from opsledger.accounts import actions

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "rows"}
OWN_PAGE = {"HTTP_SEC_FETCH_SITE": "same-origin", "HTTP_REFERER": "http://testserver/sheet/?text=a"}
LOGIN = "/accounts/login/"


@pytest.fixture
def vera(cast: Cast, settings: Any) -> Cast:
    """The cast, with a real password for Vera."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    actions.set_own_password(cast.vera, PASSWORD)
    return cast


def sign_in(client: Client, name: str = "vera@example.test", password: str = PASSWORD, **more: Any) -> Any:
    return client.post(LOGIN, {"username": name, "password": password} | more)


def test_a_person_signs_in_and_comes_back_to_the_page(vera: Cast, client: Client) -> None:
    away = client.get("/settings/people/?a=1")
    assert (away.status_code, away["Location"]) == (302, f"{LOGIN}?next=/settings/people/%3Fa%3D1")
    assert client.get(away["Location"]).status_code == 200
    back = sign_in(client, "  VERA@example.test ", next="/settings/people/?a=1")
    assert (back.status_code, back["Location"]) == (302, "/settings/people/?a=1")
    assert client.get(back["Location"]).status_code == 200


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_next_never_leads_to_another_host(vera: Cast, client: Client, elsewhere: str) -> None:
    assert sign_in(client, next=elsewhere)["Location"] == "/"


@pytest.mark.parametrize(
    ("name", "password"),
    [("vera@example.test", "wrong"), ("ghost@example.test", PASSWORD), ("a\x00b", PASSWORD), ("", "")],
)
def test_a_wrong_pair_does_not_say_which_half_is_wrong(
    vera: Cast, client: Client, name: str, password: str
) -> None:
    response = sign_in(client, name, password)
    assert response.status_code == 422
    assert "deactivated" not in response.content.decode()
    assert "_auth_user_id" not in client.session


def test_a_deactivated_person_is_signed_out_and_stays_out(vera: Cast, client: Client) -> None:
    sign_in(client)
    assert client.get("/settings/profile/").status_code == 200
    actions.deactivate_person(vera.vera)
    assert client.get("/settings/profile/").status_code == 302
    assert sign_in(client).status_code == 422


def test_ten_wrong_passwords_close_sign_in_for_a_while_and_say_how_long(vera: Cast, client: Client) -> None:
    for spelling in ("vera@example.test", "Vera@example.test") * 5:
        sign_in(client, spelling, "wrong")
    closed = sign_in(client)
    assert closed.status_code == 429
    assert 0 < int(closed["Retry-After"]) <= 900
    assert "in 15 minutes, at " in closed.content.decode()
    assert "_auth_user_id" not in client.session

    AccessAttempt.objects.update(attempt_time=timezone.now() - timezone.timedelta(minutes=16))
    assert sign_in(client).status_code == 302


def test_the_wait_is_not_prolonged_by_trying_and_not_shared_with_others(vera: Cast, client: Client) -> None:
    actions.set_own_password(vera.omar, PASSWORD)
    for _ in range(10):
        sign_in(client, password="wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timezone.timedelta(minutes=14))
    again = sign_in(client)
    assert again.status_code == 429
    assert int(again["Retry-After"]) <= 60
    assert sign_in(client, "omar@example.test").status_code == 302


def test_signing_out_is_a_post(vera: Cast, client: Client) -> None:
    sign_in(client)
    assert client.get("/accounts/logout/").status_code == 405
    assert client.get("/settings/profile/").status_code == 200
    assert client.post("/accounts/logout/").status_code == 302
    assert client.get("/settings/profile/").status_code == 302


def test_a_temporary_password_opens_only_the_page_that_changes_it(vera: Cast, client: Client) -> None:
    text = actions.set_temporary_password(vera.vera)
    sign_in(client, password=text)
    for path in ("/settings/people/", "/settings/permissions/"):
        response = client.get(path)
        assert (response.status_code, response["Location"]) == (303, "/settings/password/")
    new = {"current": text, "new": "another long pass phrase", "again": "another long pass phrase"}
    assert client.post("/settings/password/", new | {"again": "x"}).status_code == 422
    assert client.post("/settings/password/", new | {"current": "x"}).status_code == 422
    assert client.post("/settings/password/", new | {"new": "short", "again": "short"}).status_code == 422
    assert client.post("/settings/password/", new).status_code == 303
    assert client.get("/settings/people/").status_code == 200


def test_sessions_end_after_eight_hours(vera: Cast, client: Client) -> None:
    sign_in(client)
    assert client.cookies["sessionid"]["max-age"] == 8 * 3600
    assert client.cookies["sessionid"]["httponly"]


# A session that ended


def test_an_htmx_request_without_a_session_is_401_and_does_nothing(
    cast: Cast, pages: list[dict[str, Any]], client: Client
) -> None:
    for method in (client.get, client.post):
        response = method("/write/", HTTP_HX_CURRENT_URL="http://testserver/sheet/?text=a", **HTMX)
        assert response.status_code == 401
        assert response["HX-Retarget"] == "#alerts"
        assert response["X-Ops-Sign-In"] == f"{LOGIN}?next=%2Fsheet%2F%3Ftext%3Da"
        assert 'target="_blank"' in response.content.decode()
        assert b"<!doctype html>" not in response.content
    assert pages == []


def test_a_restored_page_without_a_session_goes_to_the_full_sign_in(
    cast: Cast, pages: list[dict[str, Any]], client: Client
) -> None:
    response = client.get("/sheet/", HTTP_HX_HISTORY_RESTORE_REQUEST="true", **HTMX)
    assert (response.status_code, response["Location"]) == (302, f"{LOGIN}?next=/sheet/")


def test_a_form_sent_without_a_session_shows_what_was_typed_and_no_secret(
    cast: Cast, pages: list[dict[str, Any]], client: Client
) -> None:
    typed = {"reason": "I asked crm <b>twice</b>", "new_password": "a secret phrase", "version": "7"}
    response = client.post("/write/", typed, **OWN_PAGE)
    said = response.content.decode()
    assert response.status_code == 401
    assert "I asked crm &lt;b&gt;twice&lt;/b&gt;" in said
    assert "a secret phrase" not in said
    assert "next=%2Fsheet%2F%3Ftext%3Da" in said
    assert pages == []


def test_what_another_site_sent_is_not_shown_as_typed(
    cast: Cast, pages: list[dict[str, Any]], client: Client
) -> None:
    typed = {"reason": "buy cheap things here"}
    for origin in ({"HTTP_SEC_FETCH_SITE": "cross-site"}, {"HTTP_ORIGIN": "https://evil.example"}, {}):
        response = client.post("/write/", typed, **origin)
        assert "buy cheap" not in response.content.decode()


@pytest.mark.parametrize(
    "behind", ["https://evil.example/x", "//evil.example", "", "http://testserver.evil.example/"]
)
def test_the_way_back_stays_on_this_host(cast: Cast, client: Client, behind: str) -> None:
    response = client.post("/settings/theme/", HTTP_HX_CURRENT_URL=behind, **HTMX)
    assert response["X-Ops-Sign-In"] == f"{LOGIN}?next=%2F"


# A form that is older than the session


def _strict(who: Any) -> tuple[Client, str]:
    """A client that checks forms, and the token of a page opened before the session was renewed."""
    client = client_of(who, enforce_csrf_checks=True)
    client.get("/sheet/")
    old = client.cookies["csrftoken"].value
    client.cookies["csrftoken"] = "x" * 32
    return client, old


def test_a_stale_form_does_nothing_and_htmx_gets_a_fresh_token(
    cast: Cast, pages: list[dict[str, Any]]
) -> None:
    client, old = _strict(cast.olga)
    typed = {"reason": "three hundred words", "csrfmiddlewaretoken": old, "how": "write"}
    response = client.post("/write/", typed, **HTMX, **OWN_PAGE)
    assert response.status_code == 403
    assert "This form is from before you signed in; nothing was done" in response.content.decode()
    assert "You are now Olga." in response.content.decode()
    assert pages == []

    typed["csrfmiddlewaretoken"] = response["X-Ops-Token"]
    assert client.post("/write/", typed, **HTMX, **OWN_PAGE).status_code == 303
    assert len(pages) == 1


def test_a_stale_form_without_script_shows_what_was_typed(cast: Cast, pages: list[dict[str, Any]]) -> None:
    client, old = _strict(cast.olga)
    typed = {"reason": "three hundred words", "csrfmiddlewaretoken": old}
    response = client.post("/write/", typed, **OWN_PAGE)
    assert response.status_code == 403
    assert "three hundred words" in response.content.decode()
    assert old not in response.content.decode()
    assert "X-Ops-Token" not in response
    assert pages == []


def test_another_site_gets_no_token(cast: Cast, pages: list[dict[str, Any]]) -> None:
    client, _ = _strict(cast.olga)
    response = client.post("/write/", {"reason": "from elsewhere"}, HTTP_SEC_FETCH_SITE="cross-site", **HTMX)
    assert response.status_code == 403
    assert "X-Ops-Token" not in response
    assert "from elsewhere" not in response.content.decode()


def test_an_open_page_learns_who_is_signed_in_now(cast: Cast, client: Client) -> None:
    assert client.get("/accounts/session/").json() == {"signed_in": False}
    state = client_of(cast.olga).get("/accounts/session/")
    assert state.json()["person"] == str(cast.olga.pk)
    assert state.json()["token"]
    assert state["Cache-Control"] == "no-store, private"

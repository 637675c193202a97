"""Page or fragment, and every refusal: visible, in its place, saying what to do."""

import json
from typing import Any

import pytest
from django.test import Client, RequestFactory
from people import Cast, client_of

from opsledger.lib.client_address import client_address

HTMX = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "rows"}
pytestmark = pytest.mark.usefixtures("pages")


@pytest.fixture
def olga(cast: Cast) -> Client:
    return client_of(cast.olga)


@pytest.mark.parametrize(
    ("headers", "whole"),
    [
        ({}, True),
        (HTMX, False),
        (HTMX | {"HTTP_HX_HISTORY_RESTORE_REQUEST": "true"}, True),
        (HTMX | {"HTTP_HX_BOOSTED": "true"}, True),
        ({"HTTP_HX_TARGET": "rows"}, True),
    ],
    ids=["plain", "htmx", "history restore", "boosted", "a header alone"],
)
def test_htmx_gets_the_fragment_and_everything_else_the_page(
    olga: Client, headers: dict[str, str], whole: bool
) -> None:
    response = olga.get("/sheet/", **headers)
    assert (b"<!doctype html>" in response.content) is whole
    assert b'id="rows"' in response.content
    for name in ("HX-Request", "HX-History-Restore-Request"):
        assert name in response["Vary"]
    assert response["Cache-Control"] == "no-store, private"


@pytest.mark.parametrize("target", ["", "main", "count ", "../base.html", "rows#count"])
def test_a_target_outside_the_fixed_set_gets_no_page(olga: Client, target: str) -> None:
    response = olga.get("/sheet/", HTTP_HX_REQUEST="true", HTTP_HX_TARGET=target)
    assert response.status_code == 400
    assert b"<!doctype html>" not in response.content
    assert response["HX-Retarget"] == "#alerts"


def test_another_target_of_the_set_gets_its_own_fragment(olga: Client) -> None:
    response = olga.get("/sheet/", HTTP_HX_REQUEST="true", HTTP_HX_TARGET="count")
    assert response.content.decode().strip() == '<b id="count">3</b>'


def test_a_post_that_worked_answers_303_and_its_message_reaches_the_fragment(
    olga: Client, pages: list[dict[str, Any]]
) -> None:
    answer = olga.post("/write/", {"how": "write"}, **HTMX)
    assert (answer.status_code, answer["Location"]) == (303, "/sheet/?text=written")
    fragment = olga.get(answer["Location"], **HTMX)
    assert json.loads(fragment["HX-Trigger"]) == {"ops:announce": {"texts": ["It is written."]}}
    assert len(pages) == 1


@pytest.mark.parametrize(("how", "status"), [("conflict", 409), ("unprocessable", 422)])
def test_a_refused_form_comes_back_in_its_own_place_with_the_typed_text(
    olga: Client, how: str, status: int
) -> None:
    response = olga.post("/write/", {"how": how, "reason": "I asked crm"}, **HTMX)
    assert response.status_code == status
    assert response["X-Ops-Fragment"] == "1"
    assert "HX-Retarget" not in response
    assert b"I asked crm" in response.content


REFUSALS = [
    ("denied", 403, "You need the role owner."),
    ("missing", 404, "No such hold."),
    ("changed", 409, "Olga answered at 16:12."),
    ("busy", 429, "in 2 minutes"),
    ("broken", 500, "Something went wrong here"),
    ("away", 503, "can’t reach its database"),
]


@pytest.mark.parametrize(("how", "status", "said"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_a_refusal_is_a_note_for_htmx_and_a_page_otherwise(
    cast: Cast, how: str, status: int, said: str
) -> None:
    olga = client_of(cast.olga, raise_request_exception=False)
    note = olga.post("/write/", {"how": how}, **HTMX)
    page = olga.post("/write/", {"how": how})
    for response in (note, page):
        assert response.status_code == status
        assert said in response.content.decode()
        assert response["Cache-Control"] == "no-store, private"
        assert "secret detail" not in response.content.decode()
    assert note["HX-Retarget"] == "#alerts"
    assert note["X-Ops-Fragment"] == "1"
    assert b"<!doctype html>" not in note.content
    assert b"<!doctype html>" in page.content
    assert (b'class="shell"' in page.content) is (status < 500)


def test_429_and_503_say_when_to_come_back(cast: Cast) -> None:
    olga = client_of(cast.olga, raise_request_exception=False)
    assert olga.post("/write/", {"how": "busy"})["Retry-After"] == "61"
    assert olga.post("/write/", {"how": "away"})["Retry-After"] == "30"


def test_after_a_post_an_error_does_not_claim_that_nothing_happened(cast: Cast) -> None:
    olga = client_of(cast.olga, raise_request_exception=False)
    said = olga.post("/write/", {"how": "broken"}, **HTMX).content.decode()
    assert "it is not known here whether your change was recorded" in said
    assert "Nothing was done" not in said


def test_an_error_page_needs_no_database(cast: Cast, django_assert_num_queries: Any) -> None:
    from opsledger.console.errors import server_error

    with django_assert_num_queries(0):
        response = server_error(RequestFactory().get("/"))
    assert response.status_code == 500


def test_programs_get_problems_and_not_pages(client: Client, db: None) -> None:
    response = client.get("/api/v0/nothing-here")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == 404


@pytest.mark.parametrize(("who", "status"), [("olga", 200), ("omar", 403), ("adam", 403), ("vera", 403)])
def test_a_view_that_needs_a_permission_says_which_role_and_whom_to_ask(
    cast: Cast, who: str, status: int
) -> None:
    response = client_of(getattr(cast, who)).get("/owners/")
    assert response.status_code == status
    if status == 403:
        assert "To settle a hold, you need the role owner in Spring launch" in response.content.decode()
        assert "Olga can." in response.content.decode()


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "203.0.113.9", "198.51.100.7"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "spoofed, 203.0.113.9", "203.0.113.9"),
        (2, "198.18.0.1, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (2, "203.0.113.9", "198.51.100.7"),
        (1, "not an address", "198.51.100.7"),
        (1, "", "198.51.100.7"),
    ],
)
def test_only_trusted_proxies_are_believed_about_an_address(
    settings: Any, proxies: int, forwarded: str, address: str
) -> None:
    settings.TRUSTED_PROXY_COUNT = proxies
    request = RequestFactory().get("/", REMOTE_ADDR="198.51.100.7", HTTP_X_FORWARDED_FOR=forwarded)
    assert client_address(request) == address


MANY = "?" + "&".join(f"a{number}=1" for number in range(1_500))  # more than Django takes


@pytest.mark.parametrize("path", ["/", "/audit/", "/accounts/login/", "/settings/profile/"])
@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "fragment"])
def test_an_address_with_more_parameters_than_are_taken_is_told_so(
    cast: Cast, path: str, headers: dict[str, str]
) -> None:
    for who in (client_of(cast.olga, raise_request_exception=False), Client(raise_request_exception=False)):
        response = who.get(path + MANY, **headers)
        assert response.status_code == 400
        assert "Nothing was done." in response.content.decode()


@pytest.mark.parametrize("address", ["http://[", "http://[::1", "http://[x]/", "//[/"])
@pytest.mark.parametrize("header", ["HTTP_HX_CURRENT_URL", "HTTP_REFERER"])
def test_a_page_behind_that_can_not_be_read_is_the_inbox(address: str, header: str, db: None) -> None:
    """Who has no session is asked to sign in, whatever the browser says of the page that sent the request."""
    stranger = Client(raise_request_exception=False)
    for response in (
        stranger.get("/sheet/", **{**HTMX, header: address}),
        stranger.post("/write/", {"how": "write"}, **{header: address}),
    ):
        assert response.status_code == 401
        assert response["X-Ops-Sign-In"] == "/accounts/login/?next=%2F"

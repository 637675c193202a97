"""What every page has around it, and what stays out of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import get_resolver
from people import Cast, client_of, person

from opsledger.accounts import actions
from opsledger.accounts.roles import Role

ALWAYS_OPEN = {"/accounts/login/", "/accounts/session/", "/healthz"}


def _paths() -> list[str]:
    """Every address of this package's own console that takes no argument."""
    from opsledger.console import urls

    return [f"/{pattern.pattern}" for pattern in urls.urlpatterns if "<" not in str(pattern.pattern)]


def test_every_page_needs_signing_in_unless_it_says_so(client: Client, db: None) -> None:
    for path in _paths():
        response = client.get(path)
        if path in ALWAYS_OPEN:
            assert response.status_code == 200, path
        else:
            assert response.status_code in {302, 405}, path
            assert response.get("Location", "/accounts/login/").startswith("/accounts/login/"), path


def test_health_asks_nothing_of_the_database(
    client: Client, django_assert_num_queries: Any, db: None
) -> None:
    with django_assert_num_queries(0):
        assert client.get("/healthz").content == b"ok\n"


def test_a_page_has_the_shell_and_no_inline_script_or_style(cast: Cast) -> None:
    response = client_of(cast.olga).get("/settings/profile/")
    page = response.content.decode()
    assert 'href="#main"' in page
    assert '<main id="main" tabindex="-1">' in page
    assert '<form class="search" role="search" action="/operations/" method="get">' in page
    assert "Spring launch" in page
    assert "style=" not in page
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\bon\w+=|hx-on|js:", page)
    csp = response["Content-Security-Policy"]
    assert "default-src 'none'" in csp
    assert "unsafe" not in csp


def test_htmx_keeps_nothing_and_evaluates_nothing(cast: Cast) -> None:
    page = client_of(cast.olga).get("/settings/profile/").content.decode()
    config = json.loads(re.search(r"htmx-config\" content='([^']+)'", page).group(1))  # type: ignore[union-attr]
    assert config["historyCacheSize"] == 0
    assert config["refreshOnHistoryMiss"] is True
    for name in ("allowEval", "allowScriptTags", "includeIndicatorStyles", "historyRestoreAsHxRequest"):
        assert config[name] is False
    assert config["selfRequestsOnly"] is True


def test_the_current_page_is_marked_in_the_navigation(cast: Cast) -> None:
    page = client_of(cast.olga).get("/settings/tokens/").content.decode()
    assert re.findall(r'href="([^"]+)" aria-current="page"', page) == ["/settings/", "/settings/tokens/"]


@pytest.mark.parametrize("path", ["/", "/incidents/", "/selections/", "/views/"])
def test_what_is_reached_from_the_inbox_is_a_part_of_it(cast: Cast, path: str) -> None:
    page = client_of(cast.olga).get(path).content.decode()
    assert re.findall(r'<a href="([^"]+)" aria-current="page">', page)[0] == "/"


def test_who_opens_the_address_of_a_form_gets_a_page(cast: Cast, client: Client) -> None:
    response = client_of(cast.olga).get("/settings/rules/add/")
    assert (response.status_code, response["Allow"]) == (405, "POST")
    page = response.content.decode()
    assert "This is not a page" in page
    assert "Nothing was done." in page
    assert 'href="/">Inbox</a>' in page
    assert client.get("/settings/rules/add/").status_code == 302
    assert client.post("/healthz").content == b""


def test_a_link_that_cannot_be_read_leads_to_the_page_itself(cast: Cast) -> None:
    page = client_of(cast.olga).get("/?reason=nonsense").content.decode()
    assert '<a class="btn" href="/">The page from its beginning</a>' in page


def test_names_are_text_and_never_markup(cast: Cast) -> None:
    name = '<b hx-post="/settings/theme/" hx-trigger="load">'
    actions.change_profile(cast.vera, display_name=name, time_zone="UTC", theme="dark", shortcuts_on=False)
    olga = client_of(cast.olga)
    for path in ("/settings/people/", "/settings/teams/", "/settings/permissions/"):
        page = olga.get(path).content.decode()
        assert "<b hx-post" not in page
    page = client_of(cast.vera).get("/settings/profile/").content.decode()
    assert "<b hx-post" not in page
    assert 'data-theme="dark" data-shortcuts="off"' in page


def test_times_are_in_the_viewers_zone(cast: Cast) -> None:
    actions.change_profile(
        cast.vera, display_name="Vera", time_zone="Asia/Kathmandu", theme="system", shortcuts_on=True
    )
    assert "+0545" in client_of(cast.vera).get("/settings/profile/").content.decode()
    assert "UTC" in client_of(cast.olga).get("/settings/profile/").content.decode()


def test_the_time_zone_does_not_outlive_the_request(cast: Cast, client: Client) -> None:
    from django.utils import timezone

    actions.change_profile(
        cast.vera, display_name="Vera", time_zone="Asia/Kathmandu", theme="system", shortcuts_on=True
    )
    client_of(cast.vera).get("/settings/profile/")
    assert timezone.get_current_timezone_name() == "UTC"


def test_a_person_without_a_team_gets_a_calm_page(db: None) -> None:
    nobody = client_of(person("Nora"))
    response = nobody.get("/settings/people/")
    assert response.status_code == 403
    assert "You are in no team yet" in response.content.decode()
    assert nobody.get("/settings/profile/").status_code == 200
    assert nobody.get("/states/").status_code == 200


def test_a_person_works_in_the_team_chosen_and_only_in_ones_own(cast: Cast) -> None:
    actions.grant_role(cast.olga, cast.returns, Role.VIEWER)
    actions.grant_role(cast.olga, cast.launch, Role.OPERATOR)
    olga = client_of(cast.olga)
    assert olga.get("/settings/people/").wsgi_request.team == cast.launch
    answer = olga.post("/settings/team/", {"team": cast.returns.pk, "next": "/settings/people/"})
    assert (answer.status_code, answer["Location"]) == (303, "/settings/people/")
    request = olga.get("/settings/people/").wsgi_request
    assert (request.team, request.roles) == (cast.returns, {Role.VIEWER})
    assert set(request.team_ids) == {cast.launch.pk, cast.returns.pk}

    actions.set_roles(cast.olga, cast.returns, [])
    assert olga.get("/settings/people/").wsgi_request.team == cast.launch


@pytest.mark.parametrize("team", ["", "no-uuid", "00000000-0000-0000-0000-000000000000"])
def test_a_team_that_is_not_ones_own_does_not_exist(cast: Cast, team: str) -> None:
    olga = client_of(cast.olga)
    assert olga.post("/settings/team/", {"team": team}).status_code == 404
    assert olga.post("/settings/team/", {"team": cast.returns.pk}).status_code == 404
    assert olga.get("/settings/people/").wsgi_request.team == cast.launch


def test_the_shell_costs_three_queries_and_a_fragment_no_more(
    cast: Cast, pages: list[Any], django_assert_num_queries: Any
) -> None:
    olga = client_of(cast.olga)
    olga.get("/sheet/")
    with django_assert_num_queries(3):  # session, person, memberships with teams
        olga.get("/sheet/", HTTP_HX_REQUEST="true", HTTP_HX_TARGET="rows")


def test_a_get_changes_nothing(cast: Cast, django_assert_num_queries: Any) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    olga = client_of(cast.olga)
    for path in _paths():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            olga.get(path)
        verbs = {query["sql"].split()[0] for query in queries}
        assert verbs <= {"SELECT"}, path


# Of htmx 2, without those that evaluate text.
HX = {
    "boost",
    "confirm",
    "delete",
    "disable",
    "disabled-elt",
    "get",
    "headers",
    "include",
    "indicator",
    "params",
}
HX |= {
    "patch",
    "post",
    "preserve",
    "push-url",
    "put",
    "replace-url",
    "select",
    "select-oob",
    "swap",
    "swap-oob",
}
HX |= {
    "sync",
    "target",
    "trigger",
    "validate",
    "vals",
    "history",
    "history-elt",
    "ext",
    "disinherit",
    "encoding",
}


@pytest.mark.parametrize(
    "template", sorted((settings.BASE_DIR / "templates").rglob("*.html")), ids=lambda p: p.name
)
def test_a_template_uses_htmx_attributes_that_exist_and_nothing_inline(template: Path) -> None:
    text = template.read_text()
    assert set(re.findall(r"\shx-([\w:-]+)", text)) <= HX
    assert not re.search(r"""\son[a-z]+=|\sstyle=|<style|javascript:|["']js:|\|safe\b""", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_every_handler_is_our_own() -> None:
    resolver = get_resolver()
    for status in (400, 403, 404, 500):
        assert resolver.resolve_error_handler(status).__module__ == "opsledger.console.errors"

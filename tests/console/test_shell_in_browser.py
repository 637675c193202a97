"""What only a browser can show: announcements, typed text, focus, keys, polling."""

import tomllib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from people import Cast, make_cast

from opsledger.accounts import actions
from opsledger.accounts.models import Person

ROOT = Path(settings.BASE_DIR)
WORDS = "I asked crm at 14:00, and they said that search is late. " * 6
pytestmark = pytest.mark.browser
Open = Callable[..., Any]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    return make_cast()


@pytest.fixture
def sheet(open_page: Open, cast: Cast, pages: list[Any]) -> Any:
    return open_page(cast.olga, "/sheet/")


@pytest.mark.parametrize(
    ("button", "said"),
    [
        ("denied", "You need the role owner."),
        ("missing", "No such hold."),
        ("busy", "Try again in 2 minutes"),
        ("broken", "it is not known here whether your change was recorded"),
        ("proxy", "The answer was not from OpsLedger (502)"),
    ],
)
def test_a_refusal_is_announced_and_the_text_and_the_button_stay(sheet: Any, button: str, said: str) -> None:
    sheet.fill("#reason", WORDS)
    sheet.click(f"#{button}")
    sheet.get_by_role("alert").get_by_text(said).wait_for()
    assert sheet.input_value("#reason") == WORDS
    assert sheet.inner_text("#said") == "nothing yet"
    assert "Bad gateway" not in sheet.inner_text("body")
    sheet.click("#write")
    sheet.get_by_text("written", exact=True).wait_for()
    assert sheet.locator("#alerts").inner_text() == ""


@pytest.mark.parametrize("button", ["conflict", "unprocessable"])
def test_a_refused_form_is_swapped_in_its_own_place(sheet: Any, button: str) -> None:
    sheet.fill("#reason", "I asked crm")
    sheet.click(f"#{button}")
    sheet.locator("#said", has_text="I asked crm").wait_for()
    assert sheet.locator("#rows").count() == 1


def test_a_lost_network_is_announced_and_the_next_press_works(sheet: Any, pages: list[Any]) -> None:
    sheet.fill("#reason", WORDS)
    sheet.context.set_offline(True)
    sheet.click("#write")
    sheet.get_by_role("alert").get_by_text("No answer came").wait_for()
    assert sheet.input_value("#reason") == WORDS
    sheet.context.set_offline(False)
    sheet.click("#write")
    sheet.get_by_text("written", exact=True).wait_for()
    assert len(pages) == 1


def test_what_was_done_is_said_in_the_status_region(sheet: Any) -> None:
    sheet.click("#write")
    sheet.get_by_role("status").get_by_text("It is written.").wait_for()


@pytest.mark.parametrize(("button", "effects"), [("write", 1), ("denied", 0)])
def test_three_presses_send_once(sheet: Any, pages: list[Any], button: str, effects: int) -> None:
    sent: list[str] = []
    sheet.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    sheet.evaluate(
        "(id) => { const b = document.getElementById(id); b.click(); b.click(); b.click(); }", button
    )
    sheet.get_by_text("written" if effects else "You need the role owner.", exact=True).wait_for()
    sheet.wait_for_load_state("networkidle")
    assert len(sent) == 1
    assert len(pages) == effects


# A session that ended


def test_typed_text_survives_the_end_of_a_session_and_nothing_is_sent_by_itself(
    sheet: Any, open_page: Any, cast: Cast, pages: list[Any]
) -> None:
    sheet.fill("#reason", WORDS)
    Session.objects.all().delete()
    sheet.click("#write")
    sheet.get_by_role("alert").get_by_text("Your session ended; nothing was done").wait_for()
    link = sheet.get_by_role("link", name="Sign in in a new tab")
    assert link.get_attribute("href").endswith("/accounts/login/?next=%2Fsheet%2F")
    assert link.get_attribute("target") == "_blank"

    open_page.sign_in(sheet.context, cast.olga)
    sheet.evaluate("() => dispatchEvent(new Event('focus'))")
    sheet.get_by_role("alert").get_by_text("You are signed in again").wait_for()
    assert sheet.input_value("#reason") == WORDS
    assert pages == []
    sheet.click("#write")
    sheet.get_by_text("written", exact=True).wait_for()
    assert [done["reason"].strip() for done in pages] == [WORDS.strip()]


def test_somebody_elses_session_is_not_taken_for_ones_own(
    sheet: Any, open_page: Any, cast: Cast, pages: list[Any]
) -> None:
    sheet.fill("#reason", WORDS)
    Session.objects.all().delete()
    sheet.click("#write")
    sheet.get_by_role("alert").get_by_text("Your session ended").wait_for()
    open_page.sign_in(sheet.context, cast.omar)
    sheet.evaluate("() => dispatchEvent(new Event('focus'))")
    sheet.get_by_role("alert").get_by_text("Somebody else is signed in now").wait_for()
    assert sheet.input_value("#reason") == WORDS
    assert pages == []


def test_with_nothing_typed_the_full_sign_in_page_opens_with_a_way_back(sheet: Any) -> None:
    Session.objects.all().delete()
    sheet.click("#write")
    sheet.wait_for_url("**/accounts/login/?next=%2Fsheet%2F")
    assert sheet.get_by_role("heading", name="Sign in").is_visible()


def test_a_stale_form_keeps_its_text_gets_a_fresh_token_and_works_at_the_next_press(
    sheet: Any, pages: list[Any]
) -> None:
    sheet.fill("#reason", WORDS)
    sheet.context.add_cookies(
        [{"name": "csrftoken", "value": "a" * 32, "url": sheet.url.removesuffix("/sheet/")}]
    )
    sheet.click("#write")
    sheet.get_by_role("alert").get_by_text("This form is from before you signed in").wait_for()
    assert sheet.input_value("#reason") == WORDS
    assert pages == []
    sheet.click("#write")
    sheet.get_by_text("written", exact=True).wait_for()
    assert len(pages) == 1


def test_back_always_shows_a_complete_page(sheet: Any) -> None:
    for number in range(12):
        sheet.goto(f"/sheet/?text=visit{number}")
    for number in range(10, -1, -1):
        sheet.go_back()
        sheet.get_by_text(f"visit{number}", exact=True).wait_for()
        assert sheet.locator(".top .search").count() == 1


def test_nothing_is_visible_after_signing_out_and_going_back(sheet: Any) -> None:
    sheet.goto("/sheet/?text=payload")
    sheet.click(".user")
    sheet.click("text=Sign out")
    sheet.wait_for_url("**/accounts/login/")
    sheet.go_back()
    sheet.get_by_role("heading", name="Sign in").wait_for()
    assert "payload" not in sheet.inner_text("body")
    for store in ("localStorage", "sessionStorage"):
        assert "payload" not in sheet.evaluate(f"() => JSON.stringify({store})")


def test_markup_in_what_is_shown_sends_nothing(open_page: Open, cast: Cast, pages: list[Any]) -> None:
    live = (
        '<b hx-post="/settings/theme/" hx-trigger="load" hx-vals="{&quot;theme&quot;:&quot;dark&quot;}">x</b>'
    )
    Person.objects.filter(pk=cast.olga.pk).update(display_name=live[:80])
    tab = open_page(cast.olga, "/states/")
    sent: list[str] = []
    tab.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    tab.goto(f"/sheet/?text={live}")
    tab.click("#denied")
    tab.get_by_role("alert").get_by_text("You need").wait_for()
    tab.wait_for_load_state("networkidle")
    assert [url.rpartition("8")[2] for url in sent if "theme" in url] == []
    assert "<b hx-post" in tab.inner_text("#said")


# Polling


def _polled(tab: Any, text: str) -> None:
    """Gives the part an address to poll, whose answers are made here."""
    tab.evaluate(
        """(text) => {
            const rows = document.querySelector('#rows');
            rows.dataset.poll = '/sheet/?text=' + text;
            rows.dataset.pollSeconds = '0.05';
            document.dispatchEvent(new CustomEvent('htmx:afterSettle', { detail: {} }));
        }""",
        text,
    )


def test_polling_brings_news_and_stops_on_a_final_part(sheet: Any) -> None:
    asked: list[str] = []
    sheet.on("request", lambda request: asked.append(request.url))
    _polled(sheet, "news")
    sheet.get_by_text("news", exact=True).wait_for()
    assert sheet.locator("#rows[data-poll]").count() == 0
    before = len(asked)
    sheet.wait_for_function("() => new Promise((done) => setTimeout(() => done(true), 400))")
    assert len(asked) == before


def test_polling_never_touches_what_somebody_types_in(sheet: Any) -> None:
    sheet.locator("#reason").press_sequentially("I am")
    _polled(sheet, "news")
    sheet.locator("#reason").press_sequentially(" still typing", delay=40)
    assert sheet.input_value("#reason") == "I am still typing"
    assert sheet.inner_text("#said") == "nothing yet"
    assert sheet.evaluate("() => document.activeElement.id") == "reason"
    assert sheet.evaluate("() => document.activeElement.selectionStart") == len("I am still typing")


def test_polling_that_fails_says_so_once_and_goes_on(sheet: Any) -> None:
    answers = iter([500, 500, 500, 500, 200])
    asked = []

    def answer(route: Any) -> None:
        status = next(answers, 200)
        asked.append(status)
        if status == 200:
            route.continue_()
        else:
            route.fulfill(status=status, body="")

    sheet.route("**/sheet/?text=news", answer)
    _polled(sheet, "news")
    sheet.get_by_text("Updates do not get through").wait_for()
    sheet.get_by_text("news", exact=True).wait_for()
    assert asked == [500, 500, 500, 500, 200]


def test_polling_a_part_after_the_session_ended_opens_sign_in(sheet: Any) -> None:
    Session.objects.all().delete()
    _polled(sheet, "news")
    sheet.wait_for_url("**/accounts/login/?next=%2Fsheet%2F")


# Keyboard


def test_single_keys_move_tick_and_open_rows(sheet: Any) -> None:
    sheet.keyboard.press("j")
    sheet.keyboard.press("j")
    assert sheet.inner_text(".cursor") == "Row 2"
    sheet.keyboard.press("x")
    assert sheet.is_checked(".cursor input")
    sheet.keyboard.press("k")
    assert sheet.inner_text(".cursor") == "Row 1"
    sheet.keyboard.press("Enter")
    sheet.wait_for_url("**text=row1")


def test_slash_finds_the_search_and_keys_are_text_while_typing(sheet: Any) -> None:
    sheet.keyboard.press("/")
    assert sheet.evaluate("() => document.activeElement.id") == "q"
    sheet.keyboard.type("jx?/")
    assert sheet.input_value("#q") == "jx?/"
    assert sheet.locator(".cursor").count() == 0
    sheet.keyboard.press("Escape")
    sheet.keyboard.press("?")
    assert sheet.get_by_role("dialog", name="Keyboard").is_visible()


def test_keys_can_be_switched_off(open_page: Open, cast: Cast, pages: list[Any]) -> None:
    actions.change_profile(
        cast.olga, display_name="Olga", time_zone="UTC", theme="system", shortcuts_on=False
    )
    tab = open_page(cast.olga, "/sheet/")
    for key in ("j", "/", "?"):
        tab.keyboard.press(key)
    assert tab.locator(".cursor").count() == 0
    assert tab.evaluate("() => document.activeElement.tagName") == "BODY"


def test_an_id_is_copied_exactly(open_page: Open, cast: Cast, pages: list[Any]) -> None:
    tab = open_page(cast.olga, "/sheet/", permissions=["clipboard-read", "clipboard-write"])
    tab.click("[data-copy]")
    tab.get_by_role("status").get_by_text("Copied.").wait_for()
    assert tab.evaluate("() => navigator.clipboard.readText()") == "op_x"


def test_the_theme_is_kept_by_a_press(open_page: Open, cast: Cast) -> None:
    tab = open_page(cast.olga, "/states/")
    tab.click(".user")
    with tab.expect_response("**/settings/theme/") as answer:
        tab.check("input[name=theme][value=dark]")
    assert answer.value.status == 204
    assert tab.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "dark"
    tab.reload()
    assert tab.get_attribute("html", "data-theme") == "dark"


def test_everything_works_without_script(open_page: Open, cast: Cast, pages: list[Any]) -> None:
    tab = open_page(cast.olga, "/sheet/", java_script_enabled=False)
    assert not tab.locator("[data-copy]").is_visible()
    tab.fill("#reason", "without script")
    tab.click("#write")
    tab.wait_for_url("**text=written")
    assert tab.get_by_text("It is written.").is_visible()
    tab.click(".user")
    tab.check("input[name=theme][value=dark]")
    tab.click("text=Use theme")
    assert tab.get_attribute("html", "data-theme") == "dark"


# Everybody


AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
PAGES = (
    "/states/",
    "/nothing/",
    *(f"/settings/{name}/" for name in ("profile", "people", "teams", "tokens")),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_narrow_screen(open_page: Open, cast: Cast, theme: str) -> None:
    actions.choose_theme(cast.adam, theme)
    tab = open_page(cast.adam, "/states/", bypass_csp=True, reduced_motion="reduce")
    for path in (
        *PAGES,
        "/settings/password/",
        "/settings/permissions/",
        f"/settings/people/{cast.omar.pk}/",
    ):
        tab.set_viewport_size({"width": 390, "height": 800})
        tab.goto(path)
        assert tab.evaluate("() => document.documentElement.scrollWidth") <= 390, path
        _is_accessible(tab, path)
        tab.set_viewport_size({"width": 1440, "height": 900})
        if path in {"/states/", "/settings/tokens/"}:
            _is_accessible(tab, path)


def _is_accessible(tab: Any, path: str) -> None:
    tab.evaluate(AXE.read_text())
    found = tab.evaluate(
        "() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] })"
    )
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in found["violations"]] == [], path


def test_sign_in_is_accessible_with_an_error_in_it(open_page: Open, cast: Cast) -> None:
    tab = open_page(None, "/accounts/login/", bypass_csp=True)
    tab.fill("#id_username", "ghost@example.test")
    tab.fill("#id_password", "wrong")
    tab.click("button")
    tab.get_by_role("alert").wait_for()
    _is_accessible(tab, "/accounts/login/")


def test_files_of_others_are_what_the_manifest_says() -> None:
    manifest = tomllib.loads((ROOT / "static" / "vendor.toml").read_text())["file"]
    listed = {entry["path"]: entry["sha256"] for entry in manifest}
    assert {path: sha256((ROOT / path).read_bytes()).hexdigest() for path in listed} == listed
    assert all((ROOT / entry["licence_path"]).is_file() for entry in manifest)
    fonts = {str(path.relative_to(ROOT)) for path in (ROOT / "static" / "fonts").glob("*.woff2")}
    assert fonts <= set(listed)

"""The work pages in a real browser: keys, stale pages, double presses, lost sessions, payloads, Back, narrow and dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from scenes import EVERY_STEP_QUESTION, UNKNOWN, Scenes, hold_path, path_of

from opsledger.accounts import actions
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.notes import settle_note_on_operation
from opsledger.ledger.models import Evidence, Hold
from opsledger.lib.ids import public
from opsledger.rules.states import HoldReason

pytestmark = pytest.mark.browser
AXE = Path(settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
WORDS = "I asked crm at 14:00, and they said that their search is late. " * 6
Open = Callable[..., Any]


@pytest.fixture
def tab(scenes: Scenes, open_page: Open, live_server: Any) -> Iterator[Callable[..., Any]]:
    """`tab(path)`: a signed-in owner’s tab that may ask nobody but the server under test."""
    elsewhere: list[str] = []

    def open_(path: str, who: Any = None, **options: Any) -> Any:
        opened = open_page(who or scenes.owner, path, **options)
        opened.on("request", lambda request: _note(request.url))
        opened.reload()
        return opened

    def _note(url: str) -> None:
        if urlsplit(url).netloc != urlsplit(live_server.url).netloc:
            elsewhere.append(url)

    yield open_
    assert elsewhere == []


def answered(opened: Any) -> int:
    return Entry.objects.filter(subject_id=opened.id, kind="answered").count()


# The inbox by keyboard


def test_keys_move_tick_take_check_and_open(scenes: Scenes, tab: Any) -> None:
    first, second = scenes.unknown(), scenes.unknown()
    Hold.objects.filter(operation_id=second.id).update(due_at="2030-01-01T00:00:00Z")
    page = tab("/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    row = page.locator("tr.cursor")
    assert row.get_attribute("id") == public("hold", scenes.hold(second).pk)
    page.keyboard.press("k")
    assert row.get_attribute("id") == public("hold", scenes.hold(first).pk)
    page.keyboard.press("x")
    assert row.locator("input[type=checkbox]").is_checked()
    assert page.get_by_role("region", name="Actions for selected holds").is_visible()
    page.keyboard.press("x")
    page.keyboard.press("c")
    page.get_by_role("status").get_by_text("One lookup is due now.").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("a")
    page.get_by_role("status").get_by_text("One hold is Test owner’s now.").wait_for()
    assert Hold.objects.get(operation_id=first.id).owner_id == scenes.owner.pk
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{path_of(first)}**")
    page.keyboard.press("j")
    page.wait_for_url(f"**{path_of(second)}**")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keyboard").is_visible()


def test_several_ticked_holds_are_given_away_at_once(scenes: Scenes, tab: Any) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    for _ in range(2):
        scenes.unknown()
    page = tab("/")
    for box in page.locator("tbody input[type=checkbox]").all():
        box.check()
    page.get_by_label("Assign to").select_option(label="Omar")
    page.get_by_role("button", name="Assign", exact=False).last.click()
    page.get_by_role("status").get_by_text("2 holds are Omar’s now.").wait_for()
    assert set(Hold.objects.values_list("owner_id", flat=True)) == {omar.pk}


def test_news_are_counted_while_the_rows_stay_under_the_reader(scenes: Scenes, tab: Any) -> None:
    scenes.unknown()
    page = tab("/")
    page.keyboard.press("j")
    before = page.locator("tr.cursor").get_attribute("id")
    scenes.unknown()
    page.get_by_text("1 new").wait_for(timeout=15_000)
    assert page.locator("#tab-all b").inner_text() == "2"
    assert page.locator("table.holds tbody tr").count() == 1
    assert page.locator("tr.cursor").get_attribute("id") == before
    page.get_by_role("link", name="Show it").click()
    page.wait_for_load_state()
    assert page.locator("table.holds tbody tr").count() == 2


# Deciding


def test_only_the_fields_of_the_chosen_answer_show(scenes: Scenes, tab: Any) -> None:
    page = tab(path_of(scenes.unknown()))
    assert page.get_by_label("Next check").is_visible()
    assert not page.locator("#ref").is_visible()
    page.get_by_role("radio", name="It happened").check()
    assert page.locator("#ref").is_visible()
    assert page.get_by_role("button", name="Record that it happened").is_visible()
    assert not page.get_by_role("button", name="Keep as unknown").is_visible()
    page.get_by_role("radio", name="It did not happen").check()
    assert page.get_by_text("None: a resend may duplicate.", exact=False).last.is_visible()


def test_enter_in_a_field_decides_nothing(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened))
    page.get_by_label("Whom you asked").fill("Ann, #77")
    page.get_by_label("Whom you asked").press("Enter")
    page.get_by_role("radio", name="It happened").check()
    page.locator("#ref").fill("T-1")
    page.locator("#ref").press("Enter")
    page.wait_for_load_state("networkidle")
    assert answered(opened) == 0
    assert page.locator("#ref").input_value() == "T-1"


def test_an_answer_is_recorded_and_the_whole_page_shows_it(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened))
    page.get_by_role("radio", name="It did not happen").check()
    page.get_by_label("How was it checked?").fill("Searched there by our identity.")
    page.locator("#why").fill("Nothing is there.")
    page.get_by_role("button", name="Record that it did not happen").click()
    page.get_by_role("status").get_by_text("Recorded: it did not happen").wait_for()
    page.get_by_text("The operation has failed").first.wait_for()
    assert page.locator("#decide").inner_text().strip() == ""
    assert page.get_by_text("Nothing is there.").first.is_visible()
    assert answered(opened) == 1


def test_a_wrong_form_says_so_beside_the_field_which_gets_the_focus(scenes: Scenes, tab: Any) -> None:
    page = tab(path_of(scenes.unknown()))
    page.get_by_role("radio", name="It did not happen").check()
    page.locator("#why").fill(WORDS)
    page.get_by_role("button", name="Record that it did not happen").click()
    page.get_by_text("Say how it was checked.").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "how"
    assert page.locator("#why").input_value() == WORDS
    assert page.get_by_role("radio", name="It did not happen").is_checked()


def test_three_presses_settle_once(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened))
    page.locator("#why").fill("Their search lags.")
    button = page.get_by_role("button", name="Keep as unknown")
    button.evaluate("(b) => { b.click(); b.click(); b.click(); }")
    page.get_by_role("status").get_by_text("Recorded: still unknown.").wait_for()
    assert answered(opened) == 1


def test_without_script_a_double_press_settles_once(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened), java_script_enabled=False)
    page.locator("#why").fill("Their search lags.")
    page.get_by_role("button", name="Keep as unknown").dblclick(no_wait_after=True)
    page.get_by_text(re.compile("Recorded: still unknown|Your answer was recorded already")).wait_for()
    assert answered(opened) == 1


def test_two_contexts_the_second_is_told_and_its_text_survives(scenes: Scenes, tab: Any) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    opened = scenes.unknown()
    mine, hers = tab(path_of(opened)), tab(path_of(opened), olga)
    hers.get_by_role("radio", name="It did not happen").check()
    hers.get_by_label("How was it checked?").fill("Searched.")
    hers.locator("#why").fill(WORDS)
    mine.get_by_role("radio", name="It happened").check()
    mine.get_by_label("Or why there is none").fill("crm shows no number.")
    mine.locator("#why").fill("I saw it there.")
    mine.get_by_role("button", name="Record that it happened").click()
    mine.get_by_role("status").get_by_text("Recorded: it happened.").wait_for()
    hers.get_by_role("button", name="Record that it did not happen").click()
    hers.get_by_text("Test owner answered “it happened”").wait_for()
    assert hers.get_by_label("Your reason").input_value() == WORDS
    assert answered(opened) == 1
    assert scenes.desk.step(opened).state == "confirmed"


def test_while_somebody_types_a_change_is_announced_and_the_text_stays(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened))
    page.locator("#why").fill(WORDS)
    page.locator("#why").focus()
    settle_assign([scenes.hold(opened).pk], scenes.owner.pk, by_person(scenes.owner))
    page.get_by_text("This hold changed while you were reading.").wait_for(timeout=15_000)
    assert page.locator("#why").input_value() == WORDS
    assert page.evaluate("() => document.activeElement.id") == "why"
    page.get_by_role("button", name="Show it as it is now").click()
    page.get_by_text(f"version {scenes.hold(opened).version} of this hold").wait_for()
    assert page.locator("#why").input_value() == WORDS
    assert answered(opened) == 0


def test_the_session_ends_while_typing_and_nothing_is_lost_or_done(
    scenes: Scenes, tab: Any, open_page: Any
) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened))
    page.locator("#why").fill(WORDS)
    Session.objects.all().delete()
    page.get_by_role("button", name="Keep as unknown").click()
    page.get_by_role("alert").get_by_text("Your session ended; nothing was done").wait_for()
    assert page.locator("#why").input_value() == WORDS
    assert answered(opened) == 0
    open_page.sign_in(page.context, scenes.owner)
    page.evaluate("() => dispatchEvent(new Event('focus'))")
    page.get_by_role("alert").get_by_text("You are signed in again").wait_for()
    page.get_by_role("button", name="Keep as unknown").click()
    page.get_by_role("status").get_by_text("Recorded: still unknown.").wait_for()
    assert answered(opened) == 1


def test_the_timeline_follows_without_a_reload(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab(path_of(opened))
    settle_note_on_operation(opened.id, "Their search was late today.", by_person(scenes.owner))
    page.locator("#strip").get_by_text("Their search was late today.").wait_for(timeout=15_000)


# Payloads and what stays behind


def _sent(request: Any) -> bool:
    """Whether somebody pressed something: an open page tells by itself that it is being read."""
    return request.method == "POST" and "/presence/" not in request.url


def test_a_payload_is_shown_as_text_and_fires_no_request(scenes: Scenes, tab: Any) -> None:
    live = '<b hx-post="/inbox/assign/" hx-trigger="load">x</b>'
    opened = scenes.open(f"id:{live}", company=live, subject=live)
    scenes.send(UNKNOWN, sentence=f"The reply said {live}.", content=live.encode())
    settle_note_on_operation(opened.id, live, by_person(scenes.owner))
    evidence = Evidence.objects.get(operation_id=opened.id)
    page = tab("/")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if _sent(request) else None)
    paths = (
        "/",
        path_of(opened),
        "/operations/",
        "/audit/",
        f"{path_of(opened)}evidence/{public('ev', evidence.pk)}/",
    )
    for path in paths:
        page.goto(path)
        page.get_by_text("hx-post=").first.wait_for()
        page.wait_for_load_state("networkidle")
        assert page.locator("b[hx-post]").count() == 0, path
    assert posts == []


def test_back_after_signing_out_shows_nothing(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown("spring-launch:req-8841")
    page = tab(path_of(opened))
    page.goto("/")
    page.get_by_role("button", name="Test owner").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/accounts/login/**")
    page.go_back()
    page.wait_for_load_state()
    assert "8841" not in page.content()
    assert page.evaluate("() => localStorage.length + sessionStorage.length") == 0


def test_back_after_settling_shows_the_new_state(scenes: Scenes, tab: Any) -> None:
    opened = scenes.unknown()
    page = tab("/")
    page.goto(path_of(opened))
    page.goto("/operations/")
    scenes.settle(opened, _absent(), checked_how="Searched.")
    page.go_back()
    page.get_by_text("Failed").first.wait_for()


def _absent() -> Any:
    from opsledger.rules.answers import Answer

    return Answer.ABSENT_END


# Everybody can use it


def _is_accessible(page: Any, what: str) -> None:
    page.evaluate(AXE.read_text())
    found = page.evaluate(
        "() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] })"
    )
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]] == [], what


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_accessible_wide_and_narrow(scenes: Scenes, open_page: Open, theme: str) -> None:
    actions.choose_theme(scenes.owner, theme)
    made = {reason: make(scenes) for reason, make in EVERY_STEP_QUESTION.items()}
    settle_note_on_operation(made[HoldReason.DISPUTED].id, "A note.", by_person(scenes.owner))
    evidence = Evidence.objects.filter(operation_id=made[HoldReason.DISPUTED].id).first()
    assert evidence is not None
    scenes.stopped("mail")
    event = scenes.event_conflict()
    paths = {
        "inbox": "/",
        "narrowed": "/?view=disputed&reason=disputed",
        "operations": "/operations/",
        "no match": "/operations/?q=nothing-here",
        "destinations": "/destinations/",
        "audit": "/audit/",
        "event": hold_path(event, ""),
        "evidence": f"{path_of(made[HoldReason.DISPUTED])}evidence/{public('ev', evidence.pk)}/",
        **{reason.value: path_of(opened) for reason, opened in made.items()},
    }
    page = open_page(scenes.owner, "/", bypass_csp=True, reduced_motion="reduce")
    if theme == "dark":  # only colours differ
        some = ("inbox", "operations", "destinations", "audit", "disputed", "record_differs")
        paths = {name: paths[name] for name in some}
    for name, path in paths.items():
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(path)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, name
        _is_accessible(page, f"{name}, {theme}, narrow")
        if name in {"inbox", "operations", "destinations", "outcome_unknown", "duplicate_found"}:
            page.set_viewport_size({"width": 1440, "height": 900})
            _is_accessible(page, f"{name}, {theme}, wide")
    page.goto(path_of(made[HoldReason.OUTCOME_UNKNOWN]))
    for answer in ("happened", "absent", "close"):
        page.locator(f"input[name=answer][value={answer}]").check()
        _is_accessible(page, f"{answer}, {theme}")


def test_the_empty_inbox_is_accessible(scenes: Scenes, open_page: Open) -> None:
    page = open_page(scenes.owner, "/", bypass_csp=True)
    assert page.get_by_role("heading", name="Nothing is waiting for a decision").is_visible()
    _is_accessible(page, "empty")

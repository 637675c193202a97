"""The list of keys is true and complete: what pages offer by key is listed, and what is listed is offered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from people import client_of
from scenes import Scenes, path_of

from opsledger.accounts.actions import change_profile
from opsledger.accounts.roles import Role
from opsledger.journal.models import Entry
from opsledger.ledger.models import Hold
from opsledger.ledger.queries import inbox
from opsledger.rules.answers import Answer

EVERYWHERE = {"/", "?", "Esc", "j", "k", "Enter", "x"}


def offered(html: str) -> set[str]:
    """By the page itself; what the list and the shell bring is left out."""
    return set(re.findall(r'aria-keyshortcuts="([^"]+)"', html)) - {"/", "?"}


def listed(html: str, of: str = "") -> set[str]:
    """The keys of a part of the list, a span of digits spelt out."""
    start = rf'<section[^>]*data-keys="{of}"' if of else r'<section aria-label="Everywhere"'
    part = re.search(rf"{start}.*?</section>", html, re.DOTALL).group(0)  # type: ignore[union-attr]
    keys = set(re.findall(r"<kbd>([^<]+)</kbd>", part))
    return keys | {str(one) for one in range(1, 10)} if {"1", "9"} <= keys else keys


def test_the_inbox_offers_what_the_list_says(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    page_of = inbox.page_of
    monkeypatch.setattr(inbox, "page_of", lambda wanted, **more: page_of(wanted, **more, size=1))
    for _ in range(3):
        scenes.unknown()
    client = client_of(scenes.owner)
    for number in range(4):
        client.post("/views/save/", {"name": f"n{number}", "query": "view=mine", "whose": "me"})
    first = client.get("/").content.decode()
    later = re.search(r'rel="next"[^>]*href="([^"]+)"', first).group(1).replace("&amp;", "&")  # type: ignore[union-attr]
    second = client.get(f"/{later}").content.decode()
    news = re.search(r'data-poll="([^"]+)"', first).group(1).replace("&amp;", "&")  # type: ignore[union-attr]
    scenes.unknown()
    polled = client.get(news, HTTP_HX_REQUEST="true", HTTP_HX_TARGET="inbox-news").content.decode()
    assert offered(first) | offered(second) | offered(polled) == listed(first, "inbox")
    assert listed(first) == EVERYWHERE


def test_the_operation_page_offers_what_the_list_says(scenes: Scenes) -> None:
    held, answered, proposed = scenes.unknown(), scenes.unknown(), scenes.proposed()
    scenes.settle(answered, Answer.HAPPENED, reference="T-1")
    client = client_of(scenes.owner)
    pages = [client.get(path_of(one)).content.decode() for one in (held, answered, proposed)]
    middle = client.get(f"{path_of(proposed)}?view=all").content.decode()
    keys = set().union(*(offered(page) for page in (*pages, middle)))
    wanted = listed(pages[0], "operation")
    assert keys - wanted == set()
    answers = max(len(re.findall(r'name="answer"', page)) for page in pages)
    assert wanted - keys <= {str(one) for one in range(answers + 1, 10)} | {"j", "k"}
    assert {"r", "a", "c", "n", "t", "p", "z", "e", "1", "2", "3"} <= keys


@pytest.mark.browser
def test_a_key_chooses_an_answer_and_brings_the_cursor_to_its_reason_and_gives_none(
    scenes: Scenes, open_page: Any
) -> None:
    opened = scenes.unknown()
    page = open_page(scenes.owner, path_of(opened))
    before = Entry.objects.count()
    values = page.locator("[name=answer]").evaluate_all("all => all.map(one => one.value)")
    for number, value in enumerate(values, start=1):
        page.keyboard.press(str(number))
        assert page.locator("[name=answer]:checked").get_attribute("value") == value
        assert page.evaluate("document.activeElement.id") == "why"
        page.keyboard.press("Escape")
    page.keyboard.press("e")
    assert page.evaluate("document.activeElement.id") == "cancel-why"
    page.keyboard.type("e1")  # typed, not pressed
    assert page.locator("#cancel-why").input_value() == "e1"
    page.keyboard.press("Escape")
    for key, name in (("r", "why"), ("n", "nt"), ("t", "show"), ("a", "assign-to")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == name, key
        page.evaluate("document.activeElement.blur()")
    assert Entry.objects.count() == before
    assert Hold.objects.get(pk=scenes.hold(opened).pk).version == 1


@pytest.mark.browser
def test_taking_an_answer_back_by_key_asks_for_the_reason_first(scenes: Scenes, open_page: Any) -> None:
    opened = scenes.unknown()
    scenes.settle(opened, Answer.HAPPENED, reference="T-1")
    page = open_page(scenes.owner, path_of(opened))
    before = Entry.objects.count()
    page.keyboard.press("z")
    assert page.evaluate("document.activeElement.name") == "reason"
    assert Entry.objects.count() == before


@pytest.mark.browser
def test_keys_of_the_inbox_open_views_filter_and_saving(scenes: Scenes, open_page: Any) -> None:
    scenes.unknown()
    page = open_page(scenes.owner, "/")
    page.keyboard.press("2")
    page.wait_for_url("**/?view=unowned")
    page.keyboard.press("f")
    assert page.evaluate("document.activeElement.id") == "f-reason"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("s")
    page.keyboard.type("Free ones")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?saved=view_*")
    page.get_by_role("link", name="Free ones 1").wait_for()
    page.keyboard.press("v")
    page.wait_for_url("**/views/")


@pytest.mark.browser
def test_single_keys_that_are_switched_off_do_nothing(scenes: Scenes, open_page: Any) -> None:
    omar = scenes.member("Omar", Role.OPERATOR)
    change_profile(omar, display_name="Omar", time_zone="UTC", theme="system", shortcuts_on=False)
    opened = scenes.unknown()
    page = open_page(omar, path_of(opened))
    for key in ("1", "r", "n", "t", "?", "a"):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement === document.body"), key
    assert not page.locator("#keys").is_visible()

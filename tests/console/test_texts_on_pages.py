"""Texts that no page holds, in every form that a page shows and in what was recorded: pages stay whole, never a 500.

The forms are read off the pages, so one that is added is tried too. A browser's form can bring NUL; half of a surrogate pair
comes by the API and by webhooks only, in values of operations and content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.test import Client
from django.urls import Resolver404, resolve
from people import client_of
from scenes import Scenes

from opsledger.accounts.models import Membership
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.console.urls import urlpatterns
from opsledger.ledger.actions.notes import settle_note_on_operation

HALF, NUL = "a\ud800b", "a\x00b"
NOT_SENT = {"csrfmiddlewaretoken"}
NOT_OPENED = {"logout"}
QUERY = ("q", "view", "cursor", "state", "owner", "workflow", "destination", "kind", "actor", "next", "list")
SEEN_OF_ONE_VIEW_MAX = 3


@dataclass
class Form:
    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Page(HTMLParser):
    """The links and forms of a page, as a browser would send them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[Form] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get").lower()))
        elif self.forms and given.get("name") and tag in {"input", "textarea", "select", "button"}:
            self.forms[-1].fields.setdefault(given["name"], given.get("value", ""))


@pytest.fixture
def planted(scenes: Scenes) -> Scenes:
    """What a team may have on its desk, with such texts in each value that keeps them."""
    Membership.objects.get_or_create(person=scenes.owner, team=scenes.desk.team, role=Role.ADMIN.value)
    for text in (HALF, NUL):
        scenes.unknown(subject=text, account=text, company=text, queue=text)
    scenes.duplicate()
    scenes.disputed()
    scenes.desk.letter(fields={"subject": HALF, "text": NUL, "sender": HALF + NUL})
    scenes.event_conflict()
    scenes.replay()
    settle_note_on_operation(scenes.unknown().id, "asked them", by_person(scenes.owner))
    scenes.stopped()
    return scenes


def whole(response: Any) -> str:
    """The answer's text: UTF-8 without NUL, headers that a server can send."""
    assert response.status_code < 500, response
    for value in response.headers.values():
        value.encode("latin-1")
        assert not set("\x00\r\n") & set(value)
    text: str = b"".join(response).decode("utf-8") if response.streaming else response.content.decode("utf-8")
    assert "\x00" not in text
    return text


def view_of(path: str) -> str:
    try:
        return resolve(urlsplit(path).path).url_name or path
    except Resolver404:
        return ""


def pages_of(client: Client, *first: str) -> Iterator[tuple[str, Page]]:
    """Every view that can be reached by links, a few pages of each."""
    waiting = list(first)
    seen: dict[str, set[str]] = {}
    while waiting:
        path = waiting.pop(0)
        name = view_of(path)
        known = seen.setdefault(name, set())
        if not name or name in NOT_OPENED or path in known or len(known) == SEEN_OF_ONE_VIEW_MAX:
            continue
        known.add(path)
        response = client.get(path)
        text = whole(response)
        if not response["Content-Type"].startswith("text/html"):
            continue
        page = Page(text)
        yield path, page
        waiting += [urljoin(path, link).partition("#")[0] for link in page.links if not urlsplit(link).netloc]


def test_every_page_shows_what_was_recorded_and_stays_whole(planted: Scenes) -> None:
    views = {
        view_of(path) for path, _ in pages_of(client_of(planted.owner), "/", "/operations/", "/approvals/")
    }
    assert {"inbox", "operations", "operation", "approval", "replay", "evidence"} <= views


def test_every_form_answers_to_nul_in_each_of_its_fields(planted: Scenes) -> None:
    client = client_of(planted.owner)
    client.raise_request_exception = False
    tried, wrong = set(), []
    for path, page in list(pages_of(client, "/", "/settings/")):
        for form in page.forms:
            action = urljoin(path, form.action)
            names = frozenset(form.fields) - NOT_SENT
            key = (view_of(action), form.method, names)
            if key in tried or key[0] in NOT_OPENED:
                continue
            tried.add(key)
            for name in sorted(names):
                for text in (NUL, f"/{NUL}é"):
                    sent = {one: value for one, value in form.fields.items() if one not in NOT_SENT} | {
                        name: text
                    }
                    response = getattr(client, form.method)(action, sent)
                    try:
                        whole(response)
                    except AssertionError as why:
                        wrong.append((form.method, action, name, str(why)[:60]))
    assert len(tried) > 20
    assert not wrong


NO_TEXT = ["a%00b", "%ED%A0%BD%FF%F0%9F%98%80"]


@pytest.mark.parametrize("raw", NO_TEXT)
def test_every_address_answers_to_bytes_that_are_no_text(planted: Scenes, raw: str) -> None:
    client = client_of(planted.owner)
    for one in urlpatterns:
        path = "/" + re.sub(r"<str:\w+>", raw, str(one.pattern)).replace("<int:step>", "1")
        path = re.sub(r"<uuid:\w+>", str(planted.owner.pk), path)
        if one.name in NOT_OPENED:
            continue
        whole(client.get(path))
        whole(client.get(f"{path}?{raw}=1&" + "&".join(f"{name}={raw}" for name in QUERY)))
        whole(client.post(path))


def test_an_address_with_nul_is_refused_before_anything_is_asked(planted: Scenes) -> None:
    client = client_of(planted.owner)
    assert client.get("/operations/a%00b/").status_code == 404
    answer = client.get("/operations/?q=a%00b")
    assert answer.status_code == 400
    assert "holds NUL" in whole(answer)
    assert Client().get("/accounts/login/?next=%00").status_code == 400

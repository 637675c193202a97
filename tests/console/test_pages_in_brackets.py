"""Each page in a language that is only brackets: what stands outside of them is data, and nothing else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.utils import timezone, translation
from people import client_of
from scenes import EVERY_STEP_QUESTION, Scenes

from opsledger.accounts.actions import create_token
from opsledger.accounts.roles import Role
from opsledger.engine.messages import compose
from opsledger.ledger.models import Selection
from opsledger.ledger.queries.notices import NoticeLine
from opsledger.lib.ids import new_id, public
from opsledger.rules.notice_words import NoticeKind

READ_ATTRIBUTES = {"alt", "aria-description", "aria-label", "data-label", "placeholder", "title"}
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "use", "wbr"}
# Elements and classes whose text is not the interface's own: code, identifiers, names, what was written or sent.
CODE = {"code", "kbd", "pre", "script", "style"}
DATA = {"id", "dest", "ava"}
NAMES = {"OpsLedger", "openapi.json"}


class Outside(HTMLParser):
    """Words outside of brackets. A sentence in brackets may hold elements; what an attribute says is by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._depth = 0
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        data = tag in CODE or bool(DATA & set(given.get("class", "").split()))
        if tag not in VOID:
            self._open.append((tag, data))
        if not data and tag != "time":
            for name in READ_ATTRIBUTES & given.keys():
                self._look(outside(given[name], 0)[0])

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        words, self._depth = outside(data, self._depth)
        if not any(silent for _tag, silent in self._open):
            self._look(words)

    def _look(self, words: list[str]) -> None:
        said = (" ".join(text.split()) for text in words)
        self.found += [text for text in said if re.search(r"[^\W\d_]{2}", text)]


def outside(text: str, depth: int) -> tuple[list[str], int]:
    """The parts of a text that are in no bracket, and how deep it ends."""
    parts = [""]
    for char in text:
        if char == "⟦":
            depth += 1
            parts.append("")
        elif char == "⟧":
            depth -= 1
            assert depth >= 0, f"a bracket too many: {text}"
        elif depth == 0:
            parts[-1] += char
    return parts, depth


def words_outside(page: str) -> list[str]:
    reader = Outside()
    reader.feed(page)
    reader.close()
    assert reader._depth == 0, "a bracket is open at the end of the page"
    return reader.found


# The pages from which all others are reached by links.
PAGES = [
    "/",
    "/views/",
    "/approvals/",
    "/replays/",
    "/operations/",
    "/destinations/",
    "/audit/",
    "/notices/",
    "/states/",
    "/settings/profile/",
    "/settings/permissions/",
    "/settings/people/",
    "/settings/teams/",
    "/settings/tokens/",
    "/settings/rules/",
    "/settings/notifications/",
    "/settings/password/",
    "/settings/away/",
]
LANGUAGE = {"Accept-Language": "ia"}

# What is on file, or was written by somebody else: names, identifiers, and values of what was sent.
ON_FILE = re.compile(
    r"(Desk|Test owner|owner@test\.example|Local|UTC|\d{4}, .*UTC|root)[.:,]?|test|"
    r"(test:[\w-]+|(ol|rpl|token:|evt-)[\w-]+|T-\d+)|(crm|crm_classic|mail|shop)|\w+_follow_up|campaign_letter|"
    r"(create|put)_task|send_(letter|message)|draft-writer-2|written by draft-writer-2|launch-care( desk)?|"
    r"(spring|summer)[ -]launch(:letter)?|Alder Works|Thank you.*|(Data|Metadata) › \w+|POST http.*|"
    r"Content-Type|application/json.*|after the incident|The queue was closed\.|I looked at the destination\.|"
    r"It was the neighbour’s record\.|(administer|decide|operate|propose|read)|(all|paused|unowned|awaiting|disputed)"
)
# The words of definitions and of what a destination is asked for.
DEFINED = re.compile(
    r"Account( number)?|Campaign|Company|Due date|due date|External id|Queue|Subject|Task (due|queue|subject)|Text|To|From|"
    r"Sender|E-mail address|Message (subject|text)|(Call|Write to|Follow up) .*|(Create|Write|Send) (a|the) .*|Harbour .*|"
    r"The customer is .*|The letter is not sent; .*"
)
# Sentences of the rules and of the ledger: kept in the database, or English as the API has them.
KEPT = re.compile(
    r"(The|No) (reply|record|key|bytes|destination) .*\.|\d records carry .*|(Taken over|Done)\.|Sending to \w+ is stopped|"
    r"shop sent one event id with two bodies|What was taken first stands; .*|Nothing is sent to this destination until .*|"
    r"A person is asked about it: .*|It (follows|is part of|was never sent) .*|Its outcome is unknown; .*|"
    r"Nothing took effect, and .*|\d chosen operations?|The scope is empty: .*|holds of the inbox: \w+"
)


def unmarked(page: str) -> set[str]:
    """Words of a page outside of brackets that are neither names nor data nor kept sentences."""
    words = {re.sub(r" ?· OpsLedger$", "", text) for text in words_outside(page)}
    return {
        text
        for text in words
        if text and text not in NAMES and not any(of.fullmatch(text) for of in (ON_FILE, DEFINED, KEPT))
    }


def links(page: str, path: str) -> list[str]:
    found = [unescape(link) for link in re.findall(r'href="(/[^"#]*|\?[^"#]*)', page)]
    whole = [path.partition("?")[0] + link if link.startswith("?") else link for link in found]
    return [link for link in whole if not link.startswith(("/static/", "/api/"))]


def shape(path: str) -> str:
    """A path without its identifiers; some pages of each shape are read."""
    return re.sub(r"[0-9a-z]{26}|[0-9a-f-]{36}", "…", path)


def pages_of(client: Client, each: int) -> Iterator[tuple[str, str]]:
    todo, seen = list(PAGES), set(PAGES)
    shapes: Counter[str] = Counter()
    while todo:
        path = todo.pop(0)
        reply = client.get(path, headers=LANGUAGE)
        if reply.status_code != 200 or not reply["Content-Type"].startswith("text/html"):
            continue
        page = reply.content.decode()
        yield path, page
        for link in links(page, path):
            if link not in seen and shapes[shape(link)] < each:
                seen.add(link)
                shapes[shape(link)] += 1
                todo.append(link)


@pytest.mark.usefixtures("bracketed")
def test_whatever_a_page_says_by_itself_is_looked_up(scenes: Scenes) -> None:
    for bring in EVERY_STEP_QUESTION.values():
        bring(scenes)
    scenes.replay()
    scenes.event_conflict()
    scenes.stopped()
    read = dict(pages_of(client_of(scenes.owner), each=12))
    found = {path: unmarked(page) for path, page in read.items()}
    assert {path: texts for path, texts in found.items() if texts} == {}
    assert len(read) > 60
    assert set(PAGES) <= read.keys()


@pytest.mark.usefixtures("bracketed")
@pytest.mark.parametrize("path", ["/nothing/", "/?view=none", "/?after=none", "/operations/op_none/"])
def test_an_error_is_told_in_the_language_of_the_page(scenes: Scenes, path: str) -> None:
    reply = client_of(scenes.owner).get(path, headers=LANGUAGE)
    assert reply.status_code in {400, 404}
    assert unmarked(reply.content.decode()) <= {"none", "view"}


@pytest.mark.usefixtures("bracketed")
def test_a_form_answers_in_the_language_of_its_page(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    typed = {"display_name": "", "time_zone": "UTC", "theme": "light"}
    refused = client.post("/settings/profile/", typed, headers=LANGUAGE)
    assert refused.status_code == 422
    assert "⟦A name has 1 to 80 printable characters.⟧" in refused.content.decode()
    done = client.post(
        "/settings/profile/", typed | {"display_name": "Test owner"}, headers=LANGUAGE, follow=True
    )
    assert "⟦Your profile is saved.⟧" in done.content.decode()
    assert unmarked(refused.content.decode()) | unmarked(done.content.decode()) == set()


@pytest.mark.usefixtures("bracketed")
def test_somebody_who_may_not_is_told_so_in_the_language_of_the_page(scenes: Scenes) -> None:
    viewer = scenes.member("Vera", Role.VIEWER)
    reply = client_of(viewer).post("/settings/people/add/", {}, headers=LANGUAGE)
    said = reply.content.decode()
    assert reply.status_code == 403
    assert (
        "⟦To ⟧⟦manage people, teams, tokens, sources and destinations⟧⟦, you need the role ⟧⟦admin⟧" in said
    )
    assert unmarked(said) <= {"Vera"}


# What does not change with the language


@pytest.mark.usefixtures("bracketed")
def test_what_is_kept_is_english_in_every_language(scenes: Scenes) -> None:
    hold = scenes.hold(scenes.unknown())
    ticked = {"hold": f"{public('hold', hold.pk)}~{hold.version}"}
    client = client_of(scenes.owner)
    client.post("/selections/ticked/", ticked, headers=LANGUAGE)
    assert [one.words for one in Selection.objects.all()] == ["One ticked hold"]
    planned = client.get(f"/replays/plan/?from=inbox&destination={hold.destination_slug}", headers=LANGUAGE)
    assert planned.context["plan"].scope == f"holds of the inbox: all, destination {hold.destination_slug}"


@pytest.mark.usefixtures("bracketed")
def test_programs_are_answered_in_english(scenes: Scenes) -> None:
    hold = public("hold", scenes.hold(scenes.unknown()).pk)
    made = create_token(team=scenes.desk.team, name="reader", scopes=["read"], person=None)
    authorised = {"Authorization": f"Bearer {made.text}"}
    for path in (f"/api/v1/holds/{hold}", "/api/v1/holds?limit=none", "/api/v1/nothing"):
        told = [Client().get(path, headers=authorised | more) for more in ({}, LANGUAGE)]
        assert told[0].content == told[1].content
        assert told[1]["Content-Language"] == "en"


@pytest.mark.usefixtures("bracketed")
def test_a_message_is_looked_up_and_what_it_names_is_not() -> None:
    line = NoticeLine(
        new_id(),
        NoticeKind.REMINDER,
        3,
        timezone.now(),
        False,
        "/",
        "",
        True,
        {"disputed": 3},
        {"crm": 2, "mail": 1},
    )
    with translation.override("ia"):
        told = compose([line], "Desk", to_person=True, repeated=True)
    said = [words for text in (told.subject, told.text) for words in outside(text, 0)[0]]
    assert sorted({word for text in said for word in re.findall(r"[a-zA-Z]{2,}", re.sub(r"http\S+", "", text))}) == [
        "Desk", "crm", "mail",
    ]  # fmt: skip

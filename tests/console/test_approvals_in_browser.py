"""Approvals in a real browser, against a sandbox that really gets the letter.

An owner proposes words and may not approve them; a second owner does; exactly one request leaves, with the bytes that were
approved. A model writes anew, and the approval is void.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from django.conf import settings
from scenes import Scenes, path_of

from opsledger.accounts import actions
from opsledger.accounts.models import Person
from opsledger.accounts.permissions import Scope
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine.wire import installed_wire
from opsledger.journal.models import Entry
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.models import Approval, ApprovedRequest, ContentVersion, StepRequest
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from tests.desk import AUTOMATION, LETTER, step_identity

pytestmark = pytest.mark.browser
AXE = Path(settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
OTHER_TEXT = "Your order is on its way. A colleague will write once it has arrived."
WORDS = "I read it from top to end, and compared it with the offer. " * 5
Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def sandbox_may_be_read(settings: Any) -> Iterator[None]:
    """The sandbox is on this machine, which an installation has to allow."""
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    yield
    installed_wire.cache_clear()


@pytest.fixture
def olga(scenes: Scenes) -> Person:
    """A second owner."""
    return scenes.member("Olga", Role.OWNER)


def sent(scenes: Scenes, opened: Opened) -> list[dict[str, Any]]:
    """Every request of the step that reached the sandbox."""
    return scenes.desk.sandbox.requests(identity=step_identity(opened.id, 1), method="POST")


def tick_twice(scenes: Scenes) -> None:
    """Every scheduler, twice."""
    for _ in range(2):
        scenes.desk.hurry()
        scenes.desk.send()
        scenes.desk.look()
        scenes.desk.sweep()


def newest(scenes: Scenes) -> ContentVersion:
    return ContentVersion.objects.filter(team=scenes.desk.team).latest("number")


def address(version: ContentVersion) -> str:
    return f"/approvals/{public('cv', version.pk)}/"


@pytest.fixture
def regenerate(scenes: Scenes, live_server: Any) -> Callable[[], None]:
    """A model’s new version, brought to the API by an automation with its token."""

    def bring() -> None:
        token = actions.create_token(team=scenes.desk.team, name="letters", scopes=[Scope.PROPOSE]).text
        fields = LETTER | {"text": "Written anew by the model."}
        version = {"workflow": "campaign_letter", "fields": fields}
        version["author"] = {"kind": "model", "name": "draft-writer-2"}
        request = Request(
            f"{live_server.url}/api/v1/content/spring-launch:letter/versions",
            json.dumps(version).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with build_opener(ProxyHandler({})).open(request, timeout=10) as reply:
            assert reply.status == 201

    return bring


def test_another_owners_words_are_sent_once_exactly_as_approved(
    scenes: Scenes, open_page: Open, olga: Person
) -> None:
    opened = scenes.desk.letter("letter:1")
    tick_twice(scenes)
    assert sent(scenes, opened) == []

    mine = open_page(scenes.owner, path_of(opened))
    mine.get_by_role("link", name="Propose new content").click()
    mine.get_by_label("Subject").fill("Thank you for joining the spring launch")
    mine.get_by_label("Text").fill(OTHER_TEXT)
    mine.get_by_role("button", name="Propose version 2").click()
    mine.get_by_role("status").get_by_text("Version 2 is proposed.").wait_for()
    assert (
        mine.get_by_text("You asked for it, so somebody else has to approve it.")
        .or_(mine.get_by_text("You wrote it, so somebody else has to approve it."))
        .is_visible()
    )
    assert mine.get_by_role("button", name="Approve version 2").count() == 0
    tick_twice(scenes)
    assert sent(scenes, opened) == []

    hers = open_page(olga, "/approvals/")
    hers.get_by_role("link", name="Content version 2").click()
    hers.get_by_role("button", name="Show masked values").click()
    hers.get_by_text(OTHER_TEXT).first.wait_for()
    hers.get_by_role("button", name="Approve version 2").click()
    hers.get_by_role("status").get_by_text("Approved: one request may be sent.").wait_for()
    tick_twice(scenes)

    frozen = StepRequest.objects.get(step__operation_id=opened.id)
    assert OTHER_TEXT in bytes(frozen.body).decode()
    assert [one["body_sha256"] for one in sent(scenes, opened)] == [
        hashlib.sha256(bytes(frozen.body)).hexdigest()
    ]
    assert ApprovedRequest.objects.get(voided_at=None).request_digest == frozen.content_digest
    hers.goto(path_of(opened))
    assert hers.get_by_text("content version 2, approved by Olga").is_visible()


def test_its_author_cannot_approve_it_also_when_the_form_is_sent_all_the_same(
    scenes: Scenes, open_page: Open, olga: Person
) -> None:
    """The button is put back into the page by hand; the server refuses, and what was typed stays."""
    scenes.desk.letter()
    scenes.desk.propose(by_person(scenes.owner), author=scenes.owner.email, text=OTHER_TEXT)
    page = open_page(scenes.owner, address(newest(scenes)))
    page.locator("#why").fill(WORDS)
    page.locator("input[name=answer]").evaluate(
        "(radio) => { radio.value = 'approve'; radio.checked = true; }"
    )
    page.locator("#decision").evaluate("(form) => form.requestSubmit()")
    page.get_by_role("alert").get_by_text("You wrote it, so somebody else has to approve it.").wait_for()
    assert page.locator("#why").input_value() == WORDS
    assert not Approval.objects.exists()


def test_text_written_anew_makes_the_approval_void(
    scenes: Scenes, open_page: Open, olga: Person, regenerate: Callable[[], None]
) -> None:
    opened = scenes.desk.letter("letter:1")
    page = open_page(olga, address(newest(scenes)))
    page.get_by_role("button", name="Approve version 1").click()
    page.get_by_role("status").get_by_text("Approved: one request may be sent.").wait_for()
    regenerate()
    tick_twice(scenes)

    assert sent(scenes, opened) == []
    page.goto(path_of(opened))
    assert page.get_by_text("content version 2, not approved").is_visible()
    assert page.get_by_text("It shows content version 2 now").is_visible()
    assert ApprovedRequest.objects.get().voided_at is not None
    page.get_by_role("link", name="See what would be sent, and decide").click()
    page.get_by_role("heading", name="Content version 2").wait_for()
    page.get_by_role("button", name="Approve version 2").click()
    page.get_by_role("status").get_by_text("Approved: one request may be sent.").wait_for()
    tick_twice(scenes)
    assert len(sent(scenes, opened)) == 1


def test_three_presses_approve_once(scenes: Scenes, open_page: Open, olga: Person) -> None:
    scenes.desk.letter()
    page = open_page(olga, address(newest(scenes)))
    button = page.get_by_role("button", name="Approve version 1")
    button.evaluate("(b) => { b.click(); b.click(); b.click(); }")
    page.get_by_role("status").get_by_text("Approved: one request may be sent.").wait_for()
    assert Approval.objects.count() == 1


def test_the_second_of_two_owners_sees_who_decided_and_keeps_the_typed_text(
    scenes: Scenes, open_page: Open, olga: Person
) -> None:
    scenes.desk.letter()
    path = address(newest(scenes))
    mine, hers = open_page(scenes.owner, path), open_page(olga, path)
    hers.get_by_role("radio", name="Reject version 1").check()
    hers.locator("#why").fill(WORDS)
    mine.get_by_role("button", name="Approve version 1").click()
    mine.get_by_role("status").get_by_text("Approved: one request may be sent.").wait_for()
    hers.get_by_role("button", name="Reject version 1").click()
    hers.get_by_text("Test owner approved this version at").wait_for()
    assert hers.get_by_label("Your reason").input_value() == WORDS
    assert newest(scenes).state == "approved"


def test_a_rejection_without_a_reason_says_so_and_puts_the_cursor_there(
    scenes: Scenes, open_page: Open, olga: Person
) -> None:
    opened = scenes.desk.letter()
    page = open_page(olga, address(newest(scenes)))
    page.get_by_role("radio", name="Reject version 1").check()
    page.get_by_role("button", name="Reject version 1").click()
    page.get_by_text("Write the reason; it is kept").wait_for()
    assert page.evaluate("() => document.activeElement.id") == "why"
    page.locator("#why").fill("It promises too much.")
    page.get_by_role("button", name="Reject version 1").click()
    page.get_by_role("status").get_by_text("Rejected. One is cancelled.").wait_for()
    assert scenes.desk.operation(opened).state == "cancelled"


def test_everything_works_without_script(scenes: Scenes, open_page: Open, olga: Person) -> None:
    opened = scenes.desk.letter()
    page = open_page(scenes.owner, path_of(opened), java_script_enabled=False)
    page.get_by_role("link", name="Propose new content").click()
    page.get_by_label("Text").fill(OTHER_TEXT)
    page.get_by_role("button", name="Propose version 2").click()
    page.get_by_text("Version 2 is proposed.").wait_for()
    other = open_page(olga, address(newest(scenes)), java_script_enabled=False)
    other.get_by_role("button", name="Show masked values").click()
    other.get_by_text(OTHER_TEXT).first.wait_for()
    other.goto(address(newest(scenes)))
    other.get_by_role("button", name="Approve version 2").dblclick(no_wait_after=True)
    other.get_by_text("What comes to wait for it later").wait_for()
    assert Approval.objects.count() == 1
    scenes.desk.send()
    assert len(sent(scenes, opened)) == 1


def test_a_changed_request_waits_for_a_second_owner_and_is_sent_once(
    scenes: Scenes, open_page: Open, olga: Person
) -> None:
    opened = scenes.desk.open("campaign_follow_up")
    identity = step_identity(opened.id, 1)
    scenes.desk.sandbox.script(
        "invalid", 1, method="POST", identity=identity, field="queue", message="is closed"
    )
    scenes.desk.send()
    page = open_page(scenes.owner, path_of(opened))
    page.get_by_role("radio", name="Change the request").check()
    page.get_by_label("Task queue").fill("launch-desk")
    page.locator("#why").fill("The queue was renamed.")
    page.get_by_role("button", name="Propose the changed request").click()
    page.get_by_role("status").get_by_text("Recorded: the request is changed.").wait_for()
    tick_twice(scenes)
    assert len(sent(scenes, opened)) == 1

    hers = open_page(olga, "/approvals/")
    hers.get_by_role("link", name="Follow up").click()
    hers.locator("ins", has_text="desk").wait_for()
    hers.get_by_role("button", name="Approve revision 2").click()
    hers.get_by_role("status").get_by_text("Approved: one request may be sent.").wait_for()
    tick_twice(scenes)
    requests = sent(scenes, opened)
    assert len(requests) == 2
    assert len({one["key"] for one in requests}) == 2
    assert scenes.desk.step(opened).state == "confirmed"


def test_a_payload_in_content_is_shown_as_text_and_fires_no_request(
    scenes: Scenes, open_page: Open, olga: Person
) -> None:
    live = '<b hx-post="/inbox/assign/" hx-trigger="load">x</b>'
    scenes.desk.letter()
    scenes.desk.propose(AUTOMATION, kind=AuthorKind.MODEL, author=live, subject=live, text=live)
    page = open_page(olga, "/approvals/")
    posts: list[str] = []

    def note(request: Any) -> None:
        if request.method == "POST" and "/presence/" not in request.url:  # an open page tells that it is read
            posts.append(request.url)

    page.on("request", note)
    for path in ("/approvals/", address(newest(scenes)), f"{address(newest(scenes))}propose/", "/audit/"):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        assert page.locator("b[hx-post]").count() == 0, path
    assert posts == []


def _is_accessible(page: Any, what: str) -> None:
    page.evaluate(AXE.read_text())
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    found = page.evaluate("(rules) => axe.run({ runOnly: rules })", rules)
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]] == [], what


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_of_approvals_is_accessible_wide_and_narrow(
    scenes: Scenes, open_page: Open, olga: Person, theme: str, regenerate: Callable[[], None]
) -> None:
    actions.choose_theme(olga, theme)
    opened = scenes.desk.letter()
    approver = open_page(scenes.owner, address(newest(scenes)))
    approver.get_by_role("button", name="Approve version 1").click()
    approver.get_by_role("status").get_by_text("Approved").wait_for()
    approved = newest(scenes)
    scenes.desk.letter()
    regenerate()
    changed = scenes.rejected()
    scenes.settle(changed, Answer.REVISE, params={"queue": "launch-desk"})
    rejected = scenes.rejected()
    request = f"/approvals/requests/{public('stp', scenes.desk.step(changed).pk)}/"
    paths = {"list": "/approvals/", "version": address(newest(scenes)), "approved": address(approved), "request": request,
             "propose": f"{address(newest(scenes))}propose/", "operation": path_of(opened)}  # fmt: skip
    page = open_page(olga, "/", bypass_csp=True, reduced_motion="reduce")
    for name, path in paths.items():
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(path)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, name
        _is_accessible(page, f"{name}, {theme}, narrow")
        page.set_viewport_size({"width": 1440, "height": 900})
        _is_accessible(page, f"{name}, {theme}, wide")
    page.goto(path_of(rejected))
    page.locator("input[name=answer][value=revise]").check()
    _is_accessible(page, f"revise, {theme}")
    assert Entry.objects.filter(kind="content_approved").count() == 1

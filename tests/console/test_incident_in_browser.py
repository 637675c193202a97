"""An incident of three hundred holds in a real browser: taken, checked, settled from the destination's list.

The sandbox really loses the replies; what it did with the requests stands in its own records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.utils import timezone
from scenes import Scenes

from opsledger.accounts import actions
from opsledger.console.forms import by_person
from opsledger.engine import bulk as engine
from opsledger.engine.wire import installed_wire
from opsledger.journal.models import Entry
from opsledger.ledger.actions.incidents import record_act, record_incidents, settle_note_on_incident
from opsledger.ledger.actions.open import Opened, open_operations
from opsledger.ledger.models import BulkRun, Destination, Hold, Incident, Operation, Step
from opsledger.lib.ids import public
from tests.desk import Desk, step_identity
from tests.many_holds import late

pytestmark = pytest.mark.browser
AXE = Path(django_settings.BASE_DIR) / "tests" / "vendor" / "axe-core" / "axe.min.js"
Open = Callable[..., Any]

HOLDS = 300
NEVER_ARRIVED = 2  # of them: lost on their way, so that no list can name them
ACTIONS_MAX = 40


@pytest.fixture(autouse=True)
def sandbox_may_be_read(settings: Any) -> Iterator[None]:
    """The sandbox is on this machine, which an installation has to allow."""
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    yield
    installed_wire.cache_clear()


class Hand:
    """A person's hand: every click and every filled field is counted."""

    def __init__(self, page: Any) -> None:
        self.page, self.action_count = page, 0

    def click(self, what: Any) -> None:
        self.action_count += 1
        what.click()

    def button(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("button", name=name).first)

    def link(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("link", name=name).first)

    def check(self, name: str) -> None:
        self.action_count += 1
        self.page.get_by_role("radio", name=name).check()

    def fill(self, what: Any, text: str) -> None:
        self.action_count += 1
        what.fill(text)


def lose_replies(desk: Desk) -> list[Opened]:
    """Three hundred operations whose replies are lost, some of them before the destination acted."""
    opened = open_operations([desk.wanted("classic_follow_up", f"launch:{n}") for n in range(HOLDS)])
    for one in opened[:NEVER_ARRIVED]:
        identity = step_identity(one.id, 1)
        desk.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=identity)
    desk.sandbox.script("lose_reply_after_acting", None, method="POST")
    go_on(desk.send, lambda: Step.objects.exclude(attempt_count=0).count() == HOLDS)
    assert Hold.objects.filter(reason="outcome_unknown", closed_at=None).count() == HOLDS
    return opened


def go_on(turn: Callable[[], Any], over: Callable[[], bool], turns: int = 200) -> None:
    """Turns of an engine, without the waiting that a destination's rate asks for."""
    for _ in range(turns):
        Destination.objects.update(send_tokens=100)
        turn()
        if over():
            return
    raise AssertionError("it does not come to its end")


def the_destinations_list(desk: Desk) -> str:
    """What the destination exports: the tasks that it made, and one of somebody else."""
    rows = [f"{one['reference']},{one['identity']}" for one in desk.sandbox.effects()]
    return "\n".join(["id,external_id", *rows, "T-900001,somebody-elses-task"])


@pytest.mark.timeout(480)
def test_three_hundred_holds_are_settled_from_a_list_in_few_actions(scenes: Scenes, open_page: Open) -> None:
    desk = scenes.desk
    opened = lose_replies(desk)
    assert desk.sweep().grouped == HOLDS
    incident = Incident.objects.get()
    sent = len(desk.sandbox.requests(method="POST"))
    page = open_page(scenes.owner, "/")
    hand = Hand(page)

    # whose they are, and what the destination says by itself
    hand.button(f"Take {HOLDS}")
    page.get_by_text(f"{HOLDS} are yours now.").wait_for()
    hand.button("Check all now")
    page.get_by_text(f"{HOLDS} lookups are due now.").wait_for()
    go_on(desk.look, lambda: not Step.objects.filter(state="unknown", looks=0).exists())
    hand.link("Open group")
    hand.fill(page.get_by_label("Add a note"), "Their gateway lost the replies; the list is asked for.")
    hand.button("Add note")
    page.get_by_text("Their gateway lost the replies").wait_for()

    # what the destination has, by its own list
    hand.button(f"Act on these {HOLDS}")
    hand.click(page.get_by_text("It happened", exact=True).first)
    hand.link("Give a list of references")
    hand.fill(page.get_by_label("Paste the list"), the_destinations_list(desk))
    hand.button("Show what it says")
    settled = HOLDS - NEVER_ARRIVED
    page.get_by_role("heading", name=f"Settle {settled} holds").wait_for()
    hand.fill(page.get_by_label("Reason"), "The export of their tasks, made at three.")
    hand.button(f"It happened: {settled}")
    page.wait_for_url("**/selections/runs/**")
    go_on(engine.run_once, lambda: not BulkRun.objects.filter(state="running").exists())
    page.reload()
    page.get_by_text(f"{HOLDS} of {HOLDS} holds have their result").wait_for()

    # what it does not have, one by one
    for left in range(NEVER_ARRIVED, 0, -1):
        hand.link("Inbox")
        hand.click(page.locator("table.holds tbody th a").first)
        hand.check("It did not happen")
        hand.fill(page.get_by_label("How was it checked?"), "It is not in their export, nor in their search.")
        hand.check("End as failed")
        hand.fill(page.locator("#why"), "The customer was called by hand.")
        hand.button("Record that it did not happen")
        page.get_by_text("Recorded:").first.wait_for()
        assert Hold.objects.filter(closed_at=None).count() == left - 1

    assert hand.action_count <= ACTIONS_MAX
    states = Counter(Step.objects.values_list("state", flat=True))
    assert states == {"confirmed": settled, "failed": NEVER_ARRIVED}
    assert Step.objects.exclude(reference=None).values("reference").distinct().count() == settled
    assert len(desk.sandbox.requests(method="POST")) == sent == HOLDS, "nothing was sent again"
    assert {Step.objects.get(operation_id=one.id).state for one in opened[:NEVER_ARRIVED]} == {"failed"}
    assert_journaled(HOLDS, settled)
    page.goto(f"/incidents/{public('inc', incident.pk)}/")
    page.get_by_role("heading", name="Nothing of this incident is open").wait_for()
    call_command("verify_ledger", verbosity=0)


def assert_journaled(count: int, settled: int) -> None:
    """One line for each run, and one ordinary line for each item that it did."""
    runs = {run.verb: run for run in BulkRun.objects.all()}
    assert {verb: run.done_count for verb, run in runs.items()} == {
        "take": count,
        "check_now": count,
        "happened": settled,
    }
    begun = Entry.objects.filter(kind="bulk_begun", subject_kind="team")
    kinds = {"take": "assigned", "check_now": "check_requested", "happened": "answered"}
    for verb, run in runs.items():
        assert begun.filter(body__contains=str(run.pk)).count() == 1, verb
        of_items = Entry.objects.filter(body__contains=f'"bulk":"{run.pk}"', subject_kind="operation")
        assert Counter(of_items.values_list("kind", flat=True)) == {kinds[verb]: run.done_count}
        assert of_items.values("subject_id").distinct().count() == run.done_count, verb
    assert Operation.objects.count() == count


def test_a_card_leads_to_its_group_by_keyboard_alone(scenes: Scenes, open_page: Open) -> None:
    late(scenes.desk, 4)
    record_incidents()
    page = open_page(scenes.owner, "/")
    group = page.get_by_role("link", name=re.compile("^Open group.*crm_classic · Too late"))
    group.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Take 4")
    page.keyboard.press("Enter")
    page.get_by_text("4 are yours now.").wait_for()
    group.focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="4 holds open").wait_for()
    page.get_by_role("button", name=re.compile("^Act on these 4")).focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Act on these 4").wait_for()


def test_a_group_works_without_script(scenes: Scenes, open_page: Open) -> None:
    late(scenes.desk, 3)
    record_incidents()
    page = open_page(scenes.owner, "/", java_script_enabled=False)
    page.get_by_role("button", name=re.compile("^Take 3")).click()
    page.get_by_text("3 are yours now.").wait_for()
    page.get_by_role("link", name=re.compile("^Open group")).click()
    page.get_by_label("Add a note").fill("They know.")
    page.get_by_role("button", name="Add note").click()
    page.locator("#notes").get_by_text("They know.").wait_for()
    assert Hold.objects.filter(owner=scenes.owner).count() == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_incidents_are_accessible_wide_and_narrow(scenes: Scenes, open_page: Open, theme: str) -> None:
    actions.choose_theme(scenes.owner, theme)
    began = timezone.now() - timedelta(hours=2)
    for minute in range(0, 20, 3):
        late(scenes.desk, 1 + minute % 4, at=began + timedelta(minutes=minute))
    for _ in range(3):
        scenes.unapproved()
        scenes.unknown()
    record_incidents()
    by, incident = by_person(scenes.owner), Incident.objects.order_by("-hold_count")[0]
    newest = Hold.objects.filter(incident=incident).order_by("id")[2]
    settle_note_on_incident(incident.pk, "The provider looks into it.", by, newest.pk)
    record_act(incident.pk, by, newest.pk)
    one = f"/incidents/{public('inc', incident.pk)}/"
    page = open_page(scenes.owner, "/", bypass_csp=True, reduced_motion="reduce")
    for path in ("/", "/incidents/", one, f"/?incident={public('inc', incident.pk)}"):
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(path)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path
            page.evaluate(AXE.read_text())
            found = page.evaluate(
                "() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] })"
            )
            said = [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]]
            assert said == [], (path, theme, width)

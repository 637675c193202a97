"""What pages say about an open question is exact: no error passes for an answer, nothing is said twice or left in code."""

from __future__ import annotations

import html as markup
import re
from datetime import UTC, datetime

import pytest
from django.test import Client
from people import client_of
from scenes import Scenes, fields_of, hold_path, path_of

from opsledger.console.forms import by_person
from opsledger.console.story.items import Item, folded
from opsledger.console.templatetags import ops
from opsledger.ledger.actions.evidence import Says, Statement, add_evidence
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import Looked, record_looks
from opsledger.ledger.models import Attempt
from opsledger.rules.answers import Answer
from opsledger.rules.facts import LookupFact, LookupStatus
from opsledger.rules.record import KnownBy
from tests.desk import params, step_identity


@pytest.fixture
def client(scenes: Scenes) -> Client:
    return client_of(scenes.owner)


def page_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return markup.unescape(response.content.decode())


def knows(page: str) -> str:
    """The facts above the answers, as text."""
    found = re.search(r'<ul class="know".*?</ul>', page, re.DOTALL)
    assert found
    return " ".join(re.sub(r"<[^>]+>", " ", found.group()).split())


def look_in_vain(scenes: Scenes, opened: Opened, status: LookupStatus = LookupStatus.NO_ANSWER) -> None:
    """A lookup that finds nothing: it failed, or its answer is empty."""
    step = scenes.desk.step(opened)
    evidence = scenes.evidence(1, step.destination_slug, "", "", b"{}", kind="lookup")
    told = fields_of(params("classic_follow_up"))
    identity = step_identity(opened.id, 1)
    record_looks(
        [
            Looked(
                opened.id,
                1,
                step.destination_id,
                identity,
                told,
                LookupFact(status, searched=True),
                evidence,
                f"destination:{evidence.origin}",
                KnownBy.LOOKUP,
            )
        ]
    )


@pytest.mark.parametrize(
    ("failed", "empty", "said"),
    [
        (1, 0, "One lookup failed: nothing is known from it."),
        (3, 0, "3 lookups failed; none answered."),
        (2, 1, "One lookup, no record. 2 more failed."),
    ],
    ids=["one failed", "all failed", "some failed"],
)
def test_lookups_that_failed_are_never_told_as_no_record(
    scenes: Scenes, client: Client, failed: int, empty: int, said: str
) -> None:
    opened = scenes.unknown()
    for _ in range(empty):
        look_in_vain(scenes, opened, LookupStatus.RECORDS)
    for _ in range(failed):
        look_in_vain(scenes, opened)

    inbox, operation = page_of(client, "/"), knows(page_of(client, path_of(opened)))

    assert said in inbox
    assert f"{said} " in operation and "Last at " in operation
    if not empty:
        assert "no record" not in inbox and "no record" not in operation


def test_lookups_in_a_row_that_say_the_same_are_folded_and_none_is_left_out(
    scenes: Scenes, client: Client
) -> None:
    opened = scenes.unknown()
    for _ in range(4):
        look_in_vain(scenes, opened)

    strip = page_of(client, f"{path_of(opened)}?show=lookups").partition('<ol class="strip"')[2]
    strip = strip.partition("</ol>")[0]

    assert strip.count("<h3>Lookup failed</h3>") == 1
    assert "3 more before it, all the same" in strip
    assert len(re.findall(r'href="[^"]*/evidence/ev_', strip)) == 4


@pytest.mark.parametrize(("looks", "items"), [(1, 1), (2, 2), (3, 1), (7, 1)])
def test_what_is_folded_stays_in_its_order(looks: int, items: int) -> None:
    rows = [
        Item(datetime(2026, 4, 14, 16, 30 - at, tzinfo=UTC), "search", "Lookup failed", key=str(at))
        for at in range(looks)
    ]
    other = Item(datetime(2026, 4, 14, tzinfo=UTC), "user", "Somebody answered", key="other")
    shown = folded([*rows, other])
    assert len(shown) == items + 1
    assert [one.key for top in shown for one in (top, *top.more)] == [*map(str, range(looks)), "other"]


def test_a_span_in_the_timeline_holds_no_marked_character(scenes: Scenes, client: Client) -> None:
    opened = scenes.unknown()
    Attempt.objects.filter(step__operation_id=opened.id).update(elapsed_seconds=0.02)
    page = page_of(client, path_of(opened))
    assert "less than 0.1 s" in page
    assert "U+00A0" not in page and "<mark>" not in page


def test_a_refusal_is_told_once(scenes: Scenes, client: Client) -> None:
    told = knows(page_of(client, path_of(scenes.rejected())))
    assert told.count("The reply was 422: queue does not exist.") == 1


@pytest.mark.parametrize("question", ["differs", "duplicate"])
def test_what_a_lookup_found_is_told_once_and_in_words(scenes: Scenes, client: Client, question: str) -> None:
    told = knows(page_of(client, path_of(getattr(scenes, question)())))
    assert "due_date" not in told
    assert "Lookup, " not in told


def test_what_was_never_sent_is_not_to_be_searched_for(scenes: Scenes, client: Client) -> None:
    opened = scenes.open(workflow="campaign_follow_up")
    assert "Search at" not in page_of(client, path_of(opened))


def test_what_was_taken_over_and_bounced_is_not_told_as_without_effect(
    scenes: Scenes, client: Client
) -> None:
    opened = scenes.accepted()
    bounced = Statement(Says.NOT_DELIVERED, "Their delivery report says so.")
    message = scenes.desk.step(opened, 2).name
    add_evidence(scenes.desk.team.pk, opened.id, message, bounced, by_person(scenes.owner))

    operation, inbox = page_of(client, path_of(opened)), page_of(client, "/")

    assert "Failed (not delivered)" in operation
    assert "Protection: Taken over, not delivered: never sent again" in knows(operation)
    for page in (operation, inbox):
        assert "No attempt took effect" not in page and "Failed (no change)" not in page


def test_what_was_closed_as_never_known_is_not_told_as_without_effect(scenes: Scenes, client: Client) -> None:
    opened = scenes.unknown()
    scenes.settle(opened, Answer.CLOSE_UNKNOWN)
    page = page_of(client, path_of(opened))
    assert "“Create the follow-up task” may have taken effect, or not." in page
    assert "Nothing is known to have taken effect" not in page


@pytest.mark.parametrize(
    ("answer", "lacking"),
    [
        (
            {"answer": "happened", "happened_as": "confirmed"},
            {"ref": "or say why there is none", "why": "Write the reason"},
        ),
        ({"answer": "absent", "then": "end"}, {"how": "Say how it was checked", "why": "Write the reason"}),
        ({"answer": "close"}, {"why": "Write the reason"}),
    ],
    ids=["happened", "absent", "close"],
)
def test_all_that_an_answer_lacks_is_said_at_once(
    scenes: Scenes, client: Client, answer: dict[str, str], lacking: dict[str, str]
) -> None:
    opened = scenes.unknown()
    hold = scenes.hold(opened)
    response = client.post(hold_path(hold, "settle"), {"version": str(hold.version)} | answer)
    page = markup.unescape(response.content.decode())
    assert response.status_code == 422
    for field, said in lacking.items():
        assert re.search(rf'id="{field}"[^>]* aria-invalid="true"', page), field
        assert said in page


def test_an_empty_answer_on_a_stale_page_is_told_that_the_hold_changed(
    scenes: Scenes, client: Client
) -> None:
    opened = scenes.unknown()
    hold = scenes.hold(opened)
    response = client.post(hold_path(hold, "settle"), {"version": str(hold.version + 1), "answer": "absent"})
    assert response.status_code == 409
    assert "This hold changed while you were reading it." in response.content.decode()


# No machine word reaches a person


def test_the_audit_says_in_words_what_lookups_and_attempts_brought(scenes: Scenes, client: Client) -> None:
    opened = scenes.unknown()
    look_in_vain(scenes, opened)
    page = page_of(client, "/audit/")
    assert "Lookup failed" in page and "operation: held" in page
    assert "lookup failed" not in page and "lookup_failed" not in page
    assert re.search(r"Destination <span class=\"dest\">crm_classic</span>", page)
    assert "A destination" not in page
    assert re.search(r"<td><time[^>]*>\d\d:\d\d:\d\d</time></td>", page)  # to the second


def test_evidence_is_named_in_words_and_masks_are_offered_where_there_are_any(
    scenes: Scenes, client: Client
) -> None:
    opened = scenes.unknown()
    look_in_vain(scenes, opened)
    operation = page_of(client, path_of(opened))
    addresses = set(re.findall(r'href="(/operations/[^"]+/evidence/ev_[^"]+)"', operation))
    pages = [page_of(client, address) for address in addresses]
    assert any("<dd>Lookup failed</dd>" in page for page in pages)
    assert any("<dd>What a send brought</dd>" in page for page in pages)
    for page in pages:
        assert "lookup_failed" not in page and "no_answer" not in page
        assert "Show masked values" not in page


@pytest.mark.parametrize(
    ("query", "said"),
    [("reason=too_late", "Too late"), ("owner=none", "Unowned"), ("destination=crm", "crm")],
    ids=["reason", "owner", "destination"],
)
def test_what_the_inbox_is_narrowed_to_is_said_in_words(
    scenes: Scenes, client: Client, query: str, said: str
) -> None:
    scenes.settle(scenes.unknown(), Answer.HAPPENED, reference="T-1")
    scenes.too_late()
    page = page_of(client, f"/?{query}")
    assert f'<span class="dest">{said}</span>' in page


def test_an_empty_filter_says_how_many_holds_wait_outside_of_it(scenes: Scenes, client: Client) -> None:
    scenes.unknown()
    page = page_of(client, "/?reason=too_late")
    assert "No open hold matches the filter" in page
    assert "1 hold of the team waits outside of it." in page


def test_a_question_that_sends_nothing_has_its_protection_said(scenes: Scenes, client: Client) -> None:
    scenes.event_conflict()
    scenes.stopped()
    page = page_of(client, "/")
    assert "Nothing was sent for it" in page
    assert "Nothing is sent there now" in page


def test_times_of_another_day_carry_their_day() -> None:
    moment = datetime(2026, 4, 13, 9, 5, 7, tzinfo=UTC)
    now = datetime(2026, 4, 14, 9, 5, 7, tzinfo=UTC)
    assert ">13\u00a0Apr, 09:05:07<" in str(ops.local_time(moment, "moment", now))
    assert ">09:05:07<" in str(ops.local_time(now, "moment", now))

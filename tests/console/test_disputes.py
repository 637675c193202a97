"""A dispute on the page: both statements with source, time and what was known; what was sent since; what is stopped."""

from __future__ import annotations

import html as markup
import re
from typing import Any

from people import client_of
from scenes import Scenes, path_of

from opsledger.console.forms import by_person
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.interventions import settle_withdraw
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.ledger.models import Destination, Evidence, Hold
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import Outcome


def sides_of(scenes: Scenes, opened: Any) -> list[str]:
    """The text of each statement and list of the panel."""
    hold = Hold.objects.get(operation_id=opened.id, reason="disputed", closed_at=None)
    path = f"{path_of(opened)}?hold={public('hold', hold.pk)}"
    page = markup.unescape(client_of(scenes.owner).get(path).content.decode())
    found = re.findall(r'<section class="said".*?</section>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", one).split()) for one in found]


def hear_late(scenes: Scenes, opened: Any, reference: str, sentence: str) -> Evidence:
    attempt_id = scenes.desk.step(opened).attempts.order_by("number").first().pk  # type: ignore[union-attr]
    evidence = scenes.evidence(1, "crm", "found", sentence, attempt_id=attempt_id)
    finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=reference)
    record_sends([Sent(opened.id, 1, attempt_id, finding, evidence, f"destination:{evidence.origin}")])
    return Evidence.objects.get(pk=evidence.id)


def test_what_a_person_said_stands_beside_what_was_heard_later(scenes: Scenes) -> None:
    opened = scenes.expired()
    scenes.settle(opened, Answer.ABSENT_END, checked_how="Searched.", reason="Their search shows none.")
    heard = hear_late(scenes, opened, "T-9", "The reply came after all.")

    first, later, since, stopped = sides_of(scenes, opened)

    assert first.startswith("Said first It did not happen. Test owner,")
    assert "Their search shows none." in first
    assert "Known then: No reply came within 5.0 s." in first
    assert later.startswith("Heard later It happened as T-9. crm,")
    assert "The reply came after all." in later
    page = client_of(scenes.owner).get(path_of(opened)).content.decode()
    assert f"evidence/{public('ev', heard.pk)}/" in page
    assert since == "Sent since Nothing that is on file."
    assert stopped.startswith("Stopped until it is settled Step 1, Create the follow-up task, itself")


def test_the_reference_that_was_heard_is_foreseen_and_no_duplicate(scenes: Scenes) -> None:
    opened = scenes.expired()
    scenes.settle(opened, Answer.ABSENT_END, checked_how="Searched.")
    hear_late(scenes, opened, "T-9", "The reply came after all.")

    page = client_of(scenes.owner).get(path_of(opened)).content.decode()

    (happened,) = re.findall(r'id="c-happened">([^<]+)', page)
    assert "confirmed with your reference" in happened
    assert "Duplicate found" not in happened


def test_the_same_word_again_is_no_further_side_and_another_is(scenes: Scenes) -> None:
    opened = scenes.expired()
    scenes.settle(opened, Answer.ABSENT_END, checked_how="Searched.")
    for reference in ("T-9", "T-9", "T-11"):
        hear_late(scenes, opened, reference, f"It names {reference}.")

    sides = sides_of(scenes, opened)

    assert [one.split(" It ")[0] for one in sides[:3]] == ["Said first", "Heard later", "And later"]
    assert len(sides) == 5


def test_an_answer_that_was_taken_back_says_by_whom_and_why(scenes: Scenes) -> None:
    sides = sides_of(scenes, scenes.disputed())

    assert sides[0].startswith("Said first It happened as T-58500. Test owner,")
    assert sides[1].startswith("Taken back The answer is taken back. Test owner,")
    assert "It was the neighbour’s record." in sides[1]


def test_what_was_sent_since_is_named_and_nothing_is_sent_while_it_is_open(scenes: Scenes) -> None:
    opened = scenes.expired()
    scenes.settle(opened, Answer.HAPPENED, reference="T-1")
    scenes.send(Finding(Outcome.UNKNOWN, KnownBy.REPLY))  # the later step
    neighbour = scenes.expired()
    scenes.settle(neighbour, Answer.HAPPENED, reference="T-2")
    version = scenes.desk.operation(opened).version
    settle_withdraw(opened.id, 1, "Wrong record.", by_person(scenes.owner), version=version)

    sides = sides_of(scenes, opened)
    Destination.objects.update(send_tokens=100)
    claimed = claim_sends(10, worker="test:1")

    assert sides[2] == "Sent since Step 2, Send the message: attempt 1"
    assert [one.operation_id for one in claimed] == [neighbour.id]

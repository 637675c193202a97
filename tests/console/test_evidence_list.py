"""The list of evidence: what lookups brought again and again is told once, with a count."""

from __future__ import annotations

import html as markup
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from people import client_of
from scenes import Scenes, path_of

from opsledger.console.evidence_words import sentence_of
from opsledger.console.wording.answers import label
from opsledger.ledger.queries.timeline import EvidenceLine
from opsledger.rules.answers import Answer


def answers_given(scenes: Scenes) -> dict[str, str]:
    """One operation for each of some answers, and its words."""
    at = timezone.now() + timedelta(hours=3)
    given: list[tuple[Answer, Any, dict[str, Any], str]] = [
        (Answer.HAPPENED, Scenes.unknown, {"reference": "T-1"}, "It happened"),
        (
            Answer.ABSENT_END,
            Scenes.unknown,
            {"checked_how": "I searched."},
            "It did not happen: end as failed",
        ),
        (Answer.STILL_UNKNOWN, Scenes.unknown, {"next_check_at": at}, "Still unknown"),
        (Answer.CLOSE_UNKNOWN, Scenes.unknown, {}, "Close as never known"),
        (Answer.OURS, Scenes.differs, {"reference": "T-58300"}, "It is ours, with the difference"),
        (Answer.END_FAILED, Scenes.rejected, {}, "End as failed"),
        (Answer.SAME_AGAIN, Scenes.rejected, {}, "Send the same request again"),
    ]
    found = {}
    for answer, scene, more, words in given:
        opened = scene(scenes)
        scenes.settle(opened, answer, **more)
        found[path_of(opened)] = words
    return found


def test_an_answer_is_told_in_the_words_it_was_chosen_by(scenes: Scenes) -> None:
    client = client_of(scenes.owner)
    for path, words in answers_given(scenes).items():
        page = markup.unescape(client.get(path).content.decode())
        part = page[page.index('aria-labelledby="ev"') :].split("</section>")[0]
        assert f">Test owner: {words}</a>" in part
        one = re.search(rf'href="([^"]+)">Test owner: {re.escape(words)}<', part)
        assert one is not None
        assert f"<h1>Test owner: {words}</h1>" in markup.unescape(client.get(one[1]).content.decode())


def kept(kind: str, says: str, sentence: str) -> EvidenceLine:
    at = timezone.now()
    return EvidenceLine(uuid4(), 1, None, kind, "person:1", at, None, says, sentence, False, 0, "", {})


@pytest.mark.parametrize("answer", Answer, ids=lambda answer: answer.value)
def test_every_answer_has_its_words_and_what_was_said_else_stays(answer: Answer) -> None:
    raw = answer.value.replace("_", " ")
    assert sentence_of(kept("statement", answer.value, f"Ann: end: {raw}")) == f"Ann: end: {label(answer)}"
    for kind, says, sentence in (
        ("reply", answer.value, f"It said: {raw}"),
        ("statement", answer.value, "Replay rpl_1: The queue was mended."),
        ("statement", "send_protected", "Replay rpl_1: send protected"),
    ):
        assert sentence_of(kept(kind, says, sentence)) == sentence
    assert sentence_of(kept("report", "not_delivered", "")) == "not delivered"


def test_equal_lookups_are_one_line_with_a_count_and_others_stay_apart(scenes: Scenes) -> None:
    opened = scenes.unknown()
    for _ in range(3):
        scenes.look(opened)
    scenes.look(opened, scenes.record(opened, "T-58300", due_date="2027-01-31"))

    page = markup.unescape(client_of(scenes.owner).get(path_of(opened)).content.decode())

    part = page[page.index('aria-labelledby="ev"') :].split("</section>")[0]
    assert re.findall(r"<b>(\d+×)</b>", part) == ["3×"]
    assert part.count("<li>") == 3  # the attempt’s, the three, and the one that found something
    assert "Evidence <small>5</small>" in part
    assert "differs in due date" in part

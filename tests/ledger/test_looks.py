"""Lookups that failed are not lookups that found nothing (rules.md, table 5)."""

from __future__ import annotations

from typing import Any

import pytest

from opsledger.ledger.actions.open import Opened
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold, Recovery, Step
from opsledger.ledger.queries.hold_lines import HoldLine, line_of
from opsledger.ledger.queries.looks import Looks
from opsledger.ledger.queries.record import record_of
from opsledger.rules.matching import FOUND_NOTHING, GAVE_NO_ANSWER
from tests.desk import Desk, step_identity

ENDS: dict[str, tuple[str | None, dict[str, Any], int, int]] = {
    "an error": ("error_before_acting", {"status": 503}, 0, 1),
    "access refused": ("unauthorised", {}, 0, 1),
    "forbidden": ("forbidden", {}, 0, 1),
    "no JSON": ("not_json", {}, 0, 1),
    "a lost reply": ("lose_reply_before_acting", {}, 0, 1),
    "nothing there": (None, {}, 1, 0),
}


def unknown(desk: Desk) -> Opened:
    opened = desk.open("classic_follow_up")
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=identity)
    desk.send()
    return opened


def look(desk: Desk, times: int) -> None:
    for _ in range(times):
        desk.hurry()
        assert desk.look()


def looks_of(desk: Desk, opened: Opened) -> Looks:
    record = record_of(desk.team.pk, opened.id)
    assert record is not None
    return record.steps[0].looks


def line(desk: Desk, opened: Opened) -> HoldLine:
    hold = Hold.objects.get(operation_id=opened.id, closed_at=None)
    found = line_of(hold.pk, [desk.team.pk])
    assert found is not None
    return found


@pytest.mark.parametrize(("behaviour", "options", "nothing", "failed"), ENDS.values(), ids=ENDS.keys())
def test_each_look_is_counted_by_how_it_ended(
    desk: Desk, behaviour: str | None, options: dict[str, Any], nothing: int, failed: int
) -> None:
    opened = unknown(desk)
    if behaviour:
        identity = step_identity(opened.id, 1)
        desk.sandbox.script(behaviour, None, method="GET", identity=identity, **options)
    look(desk, 2)
    assert looks_of(desk, opened) == Looks(made=2, found_nothing=2 * nothing, failed=2 * failed)


def test_a_step_of_which_all_looks_failed_says_so_in_the_inbox(desk: Desk) -> None:
    Recovery.objects.update(enabled=False)  # a person is asked at once, and lookups go on beside the question
    opened, neighbour = unknown(desk), unknown(desk)
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("error_before_acting", None, method="GET", identity=identity, status=503)
    look(desk, 3)
    mine, theirs = line(desk, opened), line(desk, neighbour)
    assert (mine.looks, mine.looks_found_nothing, mine.looks_failed) == (3, 0, 3)
    assert (theirs.looks, theirs.looks_found_nothing, theirs.looks_failed) == (3, 3, 0)


def test_failed_and_empty_looks_are_told_apart_in_one_step(desk: Desk) -> None:
    opened = unknown(desk)
    desk.sandbox.script(
        "error_before_acting", 1, method="GET", identity=step_identity(opened.id, 1), status=503
    )
    look(desk, 3)
    assert looks_of(desk, opened) == Looks(made=3, found_nothing=2, failed=1)


def test_looks_of_an_earlier_question_count_no_longer(desk: Desk) -> None:
    opened = unknown(desk)
    look(desk, 2)
    Step.objects.filter(operation_id=opened.id, number=1).update(unknown_at=database_now())
    assert looks_of(desk, opened) == Looks()


def test_before_any_look_there_is_nothing_to_tell(desk: Desk) -> None:
    assert looks_of(desk, unknown(desk)) == Looks()


def test_no_word_is_both() -> None:
    assert not FOUND_NOTHING & GAVE_NO_ANSWER

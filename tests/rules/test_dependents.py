"""Whether a request names a record, and which later requests follow the record that is kept."""

from __future__ import annotations

import pytest

from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.dependents import names_reference
from opsledger.rules.next_step import Rendered
from opsledger.rules.record import Operation, Step
from opsledger.rules.states import HoldReason, StepState
from tests.rules.builders import DEFERRED, UNCLEAR, World, confirmed, policy, reasons

NAMED = {
    "a value of the body": ("T-41", "/tasks", b'{"task": {"id": "T-41"}}', True),
    "a number of the body": ("41", "/tasks", b'{"task": 41}', True),
    "a word within a text": ("T-41", "/mail", b'{"text": "See T-41."}', True),
    "a segment of the address": ("T-41", "/tasks/T-41/notes", b"", True),
    "a value of the query": ("T 41", "/tasks?task=T%2041", b"", True),
    "an escaped value": ("T\u00e941", "/tasks", b'{"task": "T\\u00e941"}', True),
    "a longer reference": ("T-41", "/tasks", b'{"task": "T-415"}', False),
    "a short one within a text": ("41", "/mail", b'{"text": "41 apples"}', False),
    "the name of a field": ("task", "/tasks", b'{"task": 1}', False),
    "nothing": ("", "/tasks/", b'{"task": ""}', False),
}


@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_a_request_names_a_reference_as_a_value_or_as_a_word(case: tuple[str, str, bytes, bool]) -> None:
    reference, url, body, named = case
    assert names_reference(reference, url, body) is named


# Which later requests follow


def naming_step_1(operation: Operation, step: Step) -> Rendered:
    """What is sent names the record of step 1."""
    named = operation.step(1).reference if step.number > 1 else ""
    return Rendered(f"bytes {named}/{step.revision}", f"shown {named}")


def two_records(world: World) -> Operation:
    """Step 1 was confirmed as T-2, step 2 made ready to name it; then the first attempt turns out to be T-1."""
    operation = world.opened()
    operation = world.lose(world.claim(operation))
    operation = give(operation, world, Answer.ABSENT_SEND_AGAIN)
    operation = world.sent(operation, confirmed("T-2"))
    assert (operation.step(2).state, operation.step(2).request_digest) == (StepState.READY, "bytes T-2/1")
    return operation


def give(operation: Operation, world: World, answer: Answer, **more: object) -> Operation:
    return answered(operation, operation.holds[0].id, Given(answer, **more), world.moment)  # type: ignore[arg-type]


def world() -> World:
    return World(policy(render=naming_step_1), policy(render=naming_step_1))


def test_a_later_request_that_was_not_sent_is_made_anew_with_the_record_that_is_kept() -> None:
    w = world()
    operation = w.hear(two_records(w), confirmed("T-1"), attempt=1)
    assert reasons(operation) == [HoldReason.DUPLICATE_FOUND]
    assert operation.step(2).state is StepState.WAITING

    other = give(operation, w, Answer.KEEP_ONE, reference="T-1")
    same = give(operation, w, Answer.KEEP_ONE, reference="T-2")

    later = other.step(2)
    assert (later.revision, later.request_digest, later.approval_needed) == (2, None, True)
    assert reasons(other) == [
        HoldReason.APPROVAL_NEEDED
    ]  # its bytes name T-1 now, and nobody has approved them
    kept = same.step(2)
    assert (kept.revision, kept.request_digest, kept.state) == (1, "bytes T-2/1", StepState.READY)


def test_a_later_request_that_was_put_off_follows_too_and_one_that_may_have_had_an_effect_keeps_its_bytes() -> (
    None
):
    w = world()
    put_off = w.hear(w.sent(two_records(w), DEFERRED, 2), confirmed("T-1"), attempt=1)
    unclear = w.hear(w.sent(two_records(w), UNCLEAR, 2), confirmed("T-1"), attempt=1)

    assert give(put_off, w, Answer.KEEP_ONE, reference="T-1").step(2).revision == 2
    hold = next(one for one in unclear.holds if one.step == 1)
    after = answered(unclear, hold.id, Given(Answer.KEEP_ONE, reference="T-1"), w.moment)
    assert (after.step(2).revision, after.step(2).request_digest) == (1, "bytes T-2/1")

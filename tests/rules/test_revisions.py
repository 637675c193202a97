"""Law 7 in the rules: what is approved is one revision of one request, and every change begins another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.next_step import Rendered, decide
from opsledger.rules.profile import Retries
from opsledger.rules.record import Act, Operation, Performer, Step
from opsledger.rules.revisions import Approval, approved, begin_revision, may_be_revised, moved_to_content
from opsledger.rules.settling import NotNow
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState
from tests.rules.builders import (
    DEFERRED,
    KEYED,
    NOT_SENT,
    REJECTED,
    UNCLEAR,
    World,
    accepted,
    at,
    confirmed,
    message,
    policy,
    profile,
    reasons,
    states,
)

S, R, A = StepState, HoldReason, Answer


def by_content(operation: Operation, step: Step) -> Rendered:
    """What is sent depends on the content; the key on the revision."""
    return Rendered(f"bytes {step.content_number}/{step.revision}", f"shown {step.content_number}")


def world(shape: object = None, **words: object) -> World:
    first = policy(shape or profile(), render=by_content, **words)  # type: ignore[arg-type]
    return World(first, policy(render=by_content))


def waiting(w: World, **fields: object) -> Operation:
    return w.opened(**{"approval_needed": True, "content_number": 1, **fields})


def approve(
    w: World, operation: Operation, number: int = 1, *, shown: str = "", until: float = 50
) -> Operation:
    step = operation.step(number)
    approval = Approval(shown or f"shown {step.content_number}", at(until))
    return approved(operation, {number: approval}, w.moment)


def going(w: World, **fields: object) -> Operation:
    """An operation whose first step is approved and ready."""
    return approve(w, waiting(w, **fields))


# Approving


def test_an_approved_request_is_frozen_and_sent() -> None:
    w = world()
    operation = waiting(w)
    assert (operation.state, reasons(operation)) == (OperationState.AWAITING_APPROVAL, [R.APPROVAL_NEEDED])
    assert operation.step(1).request_digest is None

    after = approve(w, operation)

    step = after.step(1)
    assert (step.state, step.act, step.request_digest) == (S.READY, Act.SEND, "bytes 1/1")
    assert (step.send_until, reasons(after)) == (at(50), [])
    assert after.step(2).approved_digest is None


def test_an_approval_of_another_request_is_none() -> None:
    w = world()

    after = approve(w, waiting(w), shown="shown 7")

    assert (states(after)[0], reasons(after)) == (S.WAITING, [R.APPROVAL_NEEDED])
    assert after.step(1).request_digest is None


def test_what_does_not_wait_for_an_approval_gets_none() -> None:
    w = world()
    operation = going(w)

    with pytest.raises(NotNow, match="does not wait"):
        approve(w, operation)


@pytest.mark.parametrize("performer", Performer, ids=lambda one: one.value)
def test_an_approval_is_good_for_a_first_send_until_its_end(performer: Performer) -> None:
    w = world()
    operation = approve(w, waiting(w, performer=performer), until=1)
    w.now = at(1)

    late = transitions.time_passed(operation, w.moment)

    assert (states(late)[0], reasons(late)) == (S.WAITING, [R.APPROVAL_NEEDED])
    with pytest.raises(NotNow):
        w.claim(late)
    again = approve(w, late, until=9)
    assert (states(again)[0], again.step(1).approved_until) == (S.READY, at(9))
    assert again.step(1).request_digest == "bytes 1/1"  # the same bytes under the same key


def test_the_attempts_of_a_revision_share_its_approval() -> None:
    w = world(profile(retries=Retries(tries_max=3, delays_seconds=(50,))))
    operation = w.sent(approve(w, waiting(w), until=1), DEFERRED)
    w.now = at(5)

    operation = transitions.time_passed(operation, w.moment)

    assert (states(operation)[0], operation.step(1).act) == (S.READY, Act.SEND)


def test_a_try_that_never_left_is_no_first_send() -> None:
    w = world()
    operation = w.sent(approve(w, waiting(w), until=1), NOT_SENT)
    w.now = at(1)

    operation = transitions.time_passed(operation, w.moment)

    assert (states(operation)[0], reasons(operation)) == (S.WAITING, [R.APPROVAL_NEEDED])


def test_the_earlier_of_two_ends_counts() -> None:
    w = world()
    operation = w.opened(approval_needed=True, content_number=1, not_after=at(3))

    assert approve(w, operation, until=9).step(1).send_until == at(3)
    assert approve(w, operation, until=2).step(1).send_until == at(2)


# Another content version


def test_another_version_voids_what_was_approved() -> None:
    w = world()

    after = moved_to_content(going(w), 2, w.moment)

    step = after.step(1)
    assert (step.revision, step.content_number, step.state) == (2, 2, S.WAITING)
    assert (step.request_digest, step.approved_digest, step.approved_until) == (None, None, None)
    assert reasons(after) == [R.APPROVAL_NEEDED]


def test_changing_back_restores_nothing() -> None:
    w = world()
    there = moved_to_content(going(w), 2, w.moment)

    back = moved_to_content(there, 1, w.moment)

    step = back.step(1)
    assert (step.revision, step.content_number, step.approved_digest) == (3, 1, None)
    assert (states(back)[0], reasons(back)) == (S.WAITING, [R.APPROVAL_NEEDED])


def test_a_version_needs_approval_also_where_the_first_request_did_not() -> None:
    w = world()
    operation = w.opened(content_number=1)
    assert operation.step(1).act is Act.SEND

    after = moved_to_content(operation, 2, w.moment)

    assert (after.step(1).approval_needed, reasons(after)) == (True, [R.APPROVAL_NEEDED])


UNMOVED: dict[str, Callable[[World], Operation]] = {
    "in flight": lambda w: w.claim(going(w)),
    "unknown": lambda w: w.lose(w.claim(going(w))),
    "unknown by a reply": lambda w: w.sent(going(w), UNCLEAR),
    "confirmed": lambda w: w.sent(going(w), confirmed()),
    "accepted": lambda w: w.sent(going(w), accepted()),
    "cancelled": lambda w: transitions.cancel_requested(going(w), w.moment),
    "an integrity alarm": lambda w: w.sent(going(w), replace(NOT_SENT, integrity_alarm=True)),
    "at that version already": lambda w: going(w, content_number=2),
    "without content": lambda w: going(w, content_number=None),
}


@pytest.mark.parametrize("make", UNMOVED.values(), ids=UNMOVED.keys())
def test_what_may_have_had_an_effect_keeps_its_request(make: Callable[[World], Operation]) -> None:
    w = world()
    operation = make(w)

    after = moved_to_content(operation, 2, w.moment)

    assert after.step(1) == operation.step(1)


MOVED: dict[str, Callable[[World], Operation]] = {
    "put off": lambda w: w.sent(going(w), DEFERRED),
    "never left": lambda w: w.sent(going(w), NOT_SENT),
    "refused": lambda w: w.sent(going(w), REJECTED),
    "its tries used up": lambda w: w.sent(w.sent(going(w), DEFERRED), DEFERRED),
    "proven absent": lambda w: answered(
        held := w.lose(w.claim(going(w))), held.holds[0].id, Given(A.ABSENT_SEND_AGAIN), w.moment
    ),
}


@pytest.mark.parametrize("make", MOVED.values(), ids=MOVED.keys())
def test_what_had_no_effect_can_still_change(make: Callable[[World], Operation]) -> None:
    w = world(profile(retries=Retries(tries_max=2, delays_seconds=(0,))), recovers=False)
    operation = make(w)

    after = moved_to_content(operation, 2, w.moment)

    assert (states(after)[0], after.step(1).content_number) == (S.WAITING, 2)
    assert reasons(after) == [R.APPROVAL_NEEDED]  # what was asked of the earlier request is asked no more


# A revision by a person


def test_a_refused_request_goes_on_as_a_revision() -> None:
    """P4: edit, 422, edit, 201."""
    w = world()
    operation = w.sent(going(w), REJECTED)
    for revision in (2, 3):
        operation = answered(operation, operation.holds[0].id, Given(A.REVISE), w.moment)
        assert (operation.step(1).revision, reasons(operation)) == (revision, [R.APPROVAL_NEEDED])
        operation = w.sent(approve(w, operation), REJECTED if revision == 2 else confirmed())

    step = operation.step(1)
    assert (step.state, step.revision, step.reference) == (S.CONFIRMED, 3, "T-1")
    assert [attempt.revision for attempt in step.attempts] == [1, 2, 3]
    assert len({(a.revision, a.no_change) for a in step.attempts}) == 3


def test_a_revision_has_tries_of_its_own() -> None:
    w = world(profile(retries=Retries(tries_max=1, delays_seconds=(1,))))
    operation = w.sent(going(w), DEFERRED)
    assert reasons(operation) == [R.ATTEMPTS_EXHAUSTED]

    operation = approve(w, answered(operation, operation.holds[0].id, Given(A.REVISE), w.moment))

    assert (operation.step(1).tries_used, operation.step(1).act) == (0, Act.SEND)


def test_a_revision_may_show_another_version() -> None:
    w = world()
    operation = w.sent(going(w), REJECTED)

    given = Given(A.REVISE, content_number=4, content_steps=frozenset({2}))
    after = answered(operation, operation.holds[0].id, given, w.moment)

    assert [step.content_number for step in after.steps] == [4, 4]
    assert [step.revision for step in after.steps] == [2, 2]


def test_a_revision_is_refused_while_something_may_have_had_an_effect() -> None:
    w = world()
    operation = w.lose(w.claim(going(w)))

    assert not may_be_revised(operation, operation.step(1))
    with pytest.raises(NotNow, match="may have had an effect"):
        begin_revision(operation.copy(), operation.step(1), content_number=1)
    with pytest.raises(NotNow, match="not an answer"):
        answered(operation, operation.holds[0].id, Given(A.REVISE), w.moment)


def test_late_truth_about_the_earlier_revision_stops_the_new_one() -> None:
    w = world(profile(protection=KEYED))
    operation = w.sent(going(w), REJECTED)
    operation = approve(w, answered(operation, operation.holds[0].id, Given(A.REVISE), w.moment))

    operation = w.hear(operation, confirmed("T-9"), attempt=1)

    assert (states(operation)[0], reasons(operation)) == (S.UNKNOWN, [R.DISPUTED])
    assert operation.step(1).act is Act.NONE


def test_the_revised_request_is_no_repeat_of_the_one_in_question() -> None:
    """Protection is of a key; the earlier attempt was under another one."""
    w = world(profile(protection=KEYED))
    operation = w.sent(going(w), REJECTED)
    operation = approve(w, answered(operation, operation.holds[0].id, Given(A.REVISE), w.moment))
    operation.step(1).attempts[0].outcome, operation.step(1).attempts[0].no_change = Outcome.UNKNOWN, None
    operation.step(1).state, operation.step(1).unknown_at = S.UNKNOWN, w.now

    plan = decide(operation, operation.step(1), w.policies, w.now)

    assert (plan.row, plan.act, plan.hold) == (21, Act.NONE, R.OUTCOME_UNKNOWN)


def test_a_restored_backup_sends_nothing_that_was_not_approved() -> None:
    w = world(profile(protection=KEYED))
    operation = transitions.restored(waiting(w), at(1), w.moment)
    operation.step(1).request_digest = "forgotten"

    plan = decide(operation, operation.step(1), w.policies, w.now)

    assert plan.act is not Act.SEND


def test_a_bounce_is_not_mended_by_a_revision() -> None:
    w = world(message())
    operation = w.sent(going(w), accepted())

    assert not may_be_revised(operation, operation.step(1))


def test_an_answer_that_revises_is_not_offered_under_an_alarm() -> None:
    w = world()
    operation = w.sent(going(w), REJECTED)
    operation = w.hear(operation, replace(REJECTED, integrity_alarm=True))

    with pytest.raises(NotNow, match="not an answer"):
        answered(operation, operation.holds[0].id, Given(A.REVISE), w.moment)


def test_the_absent_attempt_is_kept_as_absent() -> None:
    w = world(recovers=False)
    operation = w.lose(w.claim(going(w)))

    after = answered(operation, operation.holds[0].id, Given(A.ABSENT_REVISE), w.moment)

    assert after.step(1).attempts[0].no_change is NoChange.ABSENT
    assert (states(after)[0], after.step(1).revision) == (S.WAITING, 2)

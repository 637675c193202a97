"""What a restored backup has forgotten: each step that could have been sent since is unknown, and no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from opsledger.rules import fold, transitions
from opsledger.rules.answers import Answer
from opsledger.rules.next_step import protection_of
from opsledger.rules.profile import Protection, ProtectionKind, Retries
from opsledger.rules.record import Act, Operation, Performer
from opsledger.rules.replays import Reason, verdict_of
from opsledger.rules.states import HoldReason, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    DEFERRED,
    KEYED,
    LOOKUP,
    NOT_SENT,
    REJECTED,
    SOURCE,
    UNCLEAR,
    World,
    accepted,
    at,
    confirmed,
    policy,
    profile,
    reasons,
    say,
    states,
)

S, R, A = StepState, HoldReason, Answer
RECOVERS = profile(protection=KEYED, lookup=LOOKUP, retries=Retries(tries_max=2, delays_seconds=(0,)))
UNTIL = at(5)
Make = Callable[[World], Operation]
Goes = Callable[[World, Operation], Operation]


def two() -> World:
    return World(policy(RECOVERS), policy(RECOVERS))


# Backups


def ready(world: World) -> Operation:
    return world.opened()


def waiting(world: World) -> Operation:
    return world.opened()


def rejected(world: World) -> Operation:
    return world.sent(world.opened(), REJECTED)


def exhausted(world: World) -> Operation:
    return world.sent(world.sent(world.opened(), NOT_SENT), NOT_SENT)


def too_late(world: World) -> Operation:
    operation = world.opened(not_after=at(1))
    return transitions.time_passed(operation, world.at(1))


def unclaimed(world: World) -> Operation:
    operation = world.opened(performer=Performer.AUTOMATION)
    return transitions.time_passed(operation, world.at(3))


def in_flight(world: World) -> Operation:
    return world.claim(world.opened())


def unknown(world: World) -> Operation:
    return world.lose(in_flight(world))


def ended_as_absent(world: World) -> Operation:
    world.policies = {1: policy(), 2: policy()}  # nothing but a person can tell
    return say(world, unknown(world), A.ABSENT_END)


def ended_as_rejected(world: World) -> Operation:
    return say(world, rejected(world), A.END_FAILED)


# How each can be sent again without the backup knowing of it


def claims(world: World, operation: Operation) -> Operation:
    return world.claim(operation)


def second_claims(world: World, operation: Operation) -> Operation:
    return world.claim(world.sent(operation, confirmed()), 2)


def mended(world: World, operation: Operation) -> Operation:
    return world.claim(say(world, operation, A.SAME_AGAIN))


def more_tries(world: World, operation: Operation) -> Operation:
    return world.claim(say(world, operation, A.MORE_TRIES, tries=1))


def deferred(world: World, operation: Operation) -> Operation:
    return world.claim(world.hear(operation, DEFERRED))


def absent(world: World, operation: Operation) -> Operation:
    world.policies = {number: policy() for number in world.policies}
    operation = transitions.time_passed(operation, world.moment)
    return world.claim(say(world, operation, A.ABSENT_SEND_AGAIN))


def withdrawn(world: World, operation: Operation) -> Operation:
    operation = transitions.withdrawn(operation, 1, world.moment, by="person:x")
    return world.claim(say(world, operation, A.ABSENT_SEND_AGAIN))


def late_reply(world: World, operation: Operation) -> Operation:
    operation = world.hear(operation, confirmed(), attempt=1)
    assert reasons(operation) == [R.DISPUTED]
    return world.claim(say(world, operation, A.ABSENT_SEND_AGAIN))


def brought_back(world: World, operation: Operation) -> Operation:
    operation = transitions.withdrawn(operation, 1, world.moment, by="person:x")
    operation = say(world, operation, A.HAPPENED, keep_later=frozenset({2}))
    return world.claim(operation, 2)


SENDABLE = [
    pytest.param(1, ready, claims, False, id="ready"),
    pytest.param(2, waiting, second_claims, False, id="waiting"),
    pytest.param(1, rejected, mended, True, id="rejected"),
    pytest.param(1, exhausted, more_tries, True, id="attempts exhausted"),
    pytest.param(1, too_late, more_tries, True, id="too late"),
    pytest.param(1, unclaimed, more_tries, True, id="nobody claimed"),
    pytest.param(1, in_flight, deferred, False, id="in flight"),
    pytest.param(1, unknown, absent, False, id="unknown"),
    pytest.param(1, ended_as_absent, withdrawn, True, id="failed, by a person's word"),
    pytest.param(1, ended_as_rejected, late_reply, True, id="failed, by a reply"),
    pytest.param(2, ended_as_absent, brought_back, True, id="cancelled behind a failed one"),
]


@pytest.mark.parametrize(("number", "make", "goes", "asks"), SENDABLE)
def test_what_could_have_been_sent_since_is_unknown(number: int, make: Make, goes: Goes, asks: bool) -> None:
    world = two()
    backup = make(world)
    policies, now = world.policies, world.now
    sent = goes(world, backup).step(number)
    assert sent.state is S.IN_FLIGHT, "the way by which it can have been sent"
    world.policies, world.now = policies, now

    restored = transitions.restored(backup, UNTIL, world.moment)

    step = restored.step(number)
    assert step.state is (S.IN_FLIGHT if make is in_flight else S.UNKNOWN)
    assert len(step.attempts) == len(backup.step(number).attempts) + 1
    forgotten = step.attempts[-1]
    assert (forgotten.outcome, forgotten.lease_ends_at) == (Outcome.UNKNOWN, UNTIL)
    hold = restored.hold_on(number)
    assert (hold is not None and hold.reason is R.DISPUTED) == asks


@pytest.mark.parametrize(("number", "make", "goes", "asks"), [one for one in SENDABLE if one.values[3]])
def test_proof_of_absence_alone_sends_nothing_that_people_had_stopped(
    number: int, make: Make, goes: Goes, asks: bool
) -> None:
    world = two()
    backup = make(world)
    restored = transitions.restored(backup, UNTIL, world.moment)
    world.policies = {1: policy(RECOVERS), 2: policy(RECOVERS)}

    looked = transitions.looked(restored, number, Look("absent", counted=True), world.at(9))

    step, hold = looked.step(number), looked.hold_on(number)
    assert (step.state, hold and hold.reason) == (S.UNKNOWN, R.DISPUTED)
    assert step.act not in {Act.SEND, Act.OFFER}


@pytest.mark.parametrize(("number", "make", "goes", "asks"), SENDABLE)
def test_told_again_it_adds_nothing(number: int, make: Make, goes: Goes, asks: bool) -> None:
    world = two()
    restored = transitions.restored(make(world), UNTIL, world.at(6))

    assert not fold.difference(restored, transitions.restored(restored, UNTIL, world.at(7)))
    later = transitions.restored(restored, at(8), world.at(9))
    assert len(later.step(number).attempts) == len(restored.step(number).attempts) + 1


def closed(world: World) -> Operation:
    world.policies = {1: policy()}
    return say(world, unknown(world), A.CLOSE_UNKNOWN)


def never_sent_and_ended(world: World) -> Operation:
    return say(world, too_late(world), A.END_FAILED)


def cancelled(make: Make) -> Make:
    return lambda world: transitions.cancel_requested(make(world), world.moment)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda w: w.sent(w.opened(), confirmed()), id="confirmed"),
        pytest.param(lambda w: w.sent(w.opened(), accepted()), id="accepted"),
        pytest.param(closed, id="closed as never known"),
        pytest.param(never_sent_and_ended, id="failed without an attempt"),
        pytest.param(cancelled(ready), id="its operation was cancelled"),
        pytest.param(cancelled(in_flight), id="under way, and its operation was cancelled"),
        pytest.param(cancelled(unknown), id="unknown, and its operation was cancelled"),
    ],
)
def test_what_could_not_be_sent_stays_and_so_does_what_says_that_it_happened(make: Make) -> None:
    world = World(policy(RECOVERS))
    backup = make(world)

    assert not fold.difference(backup, transitions.restored(backup, UNTIL, world.moment))


def test_a_lease_that_lasts_longer_than_the_backup_lacks_hides_no_second_attempt() -> None:
    """Its lost attempt was settled soon, it was sent again, and what settled it is told once more after the restore."""
    world = World(policy(RECOVERS))
    operation = ready(world)
    world.now += timedelta(seconds=1)
    backup = world.sent(operation, UNCLEAR)
    until = backup.step(1).attempts[0].lease_ends_at - timedelta(seconds=1)

    restored = world.hear(transitions.restored(backup, until, world.moment), DEFERRED, attempt=1)

    assert states(restored) == [S.UNKNOWN]


def test_people_end_it_as_it_was() -> None:
    world = two()
    backup = ended_as_absent(world)
    restored = transitions.restored(backup, UNTIL, world.moment)

    for number in (1, 2):
        restored = say(world, restored, A.ABSENT_END, number)

    assert (states(restored), restored.holds) == ([S.FAILED, S.FAILED], [])
    assert restored.state is backup.state


# The latest moment of what was perhaps never sent


def found_absent(world: World, operation: Operation) -> Operation:
    """After the restored backup, lookups prove that it is not there."""
    after = transitions.restored(operation, UNTIL, world.at(5))
    assert states(after)[0] is S.UNKNOWN
    return transitions.looked(after, 1, Look("absent", counted=True), world.at(7))


def test_what_is_proven_absent_after_a_backup_is_not_sent_past_its_latest_moment() -> None:
    world = two()

    after = found_absent(world, world.opened(not_after=at(6)))

    assert (states(after)[0], after.step(1).act) == (S.READY, Act.NONE)
    assert reasons(after) == [R.TOO_LATE]


def test_before_its_latest_moment_it_is_sent_and_not_after() -> None:
    world = two()

    after = found_absent(world, world.opened(not_after=at(9)))

    assert (after.step(1).act, after.step(1).send_until) == (Act.SEND, at(9))
    late = transitions.time_passed(after, world.at(9))
    assert reasons(late) == [R.TOO_LATE]


def test_its_approval_ends_as_that_of_a_first_send_does() -> None:
    world = two()
    operation = world.opened()
    operation.step(1).approval_needed, operation.step(1).approved_digest = True, "content"
    operation.step(1).approved_until = at(6)

    after = found_absent(world, operation)

    assert reasons(after) == [R.APPROVAL_NEEDED]


def test_a_remembered_attempt_that_was_in_time_is_sent_again_all_the_same() -> None:
    world = two()
    operation = world.opened(not_after=at(6))
    world.now = at(1)
    operation = world.lose(world.claim(operation))

    after = transitions.looked(operation, 1, Look("absent", counted=True), world.at(7))

    assert (states(after)[0], after.step(1).act, reasons(after)) == (S.READY, Act.SEND, [])


def test_a_person_may_send_it_past_its_latest_moment() -> None:
    world = two()
    world.policies = {number: policy() for number in world.policies}
    operation = transitions.restored(world.opened(not_after=at(6)), UNTIL, world.at(7))
    operation = transitions.time_passed(operation, world.moment)

    after = say(world, operation, A.ABSENT_SEND_AGAIN)

    assert (after.step(1).act, after.hold_on(1)) == (Act.SEND, None)


# Protection is of the request that was sent; what is forgotten may have been another one

CLIENT_ID = Protection(ProtectionKind.CLIENT_ID, key_in="body:id", source=SOURCE)
UPSERT = Protection(ProtectionKind.UPSERT, side_effects_again="none", source=SOURCE)
CONDITIONAL = Protection(ProtectionKind.CONDITIONAL, source=SOURCE)


@pytest.mark.parametrize(
    "known", [False, True], ids=["nothing is known of it", "beside an attempt that is known"]
)
@pytest.mark.parametrize(
    "protection", [KEYED, CLIENT_ID, UPSERT, CONDITIONAL], ids=lambda one: str(one.kind.value)
)
def test_nothing_protects_a_repeat_of_what_is_forgotten(protection: Protection, known: bool) -> None:
    retries = Retries(tries_max=9, delays_seconds=(0,))
    world = World(policy(profile(protection=protection, retries=retries)))
    backup = world.opened(record_changed=False)
    remembered = world.lose(world.claim(backup))
    assert remembered.step(1).act is Act.SEND, "what is remembered goes again"
    backup = remembered if known else backup

    restored = transitions.restored(backup, UNTIL, world.at(1))

    step = restored.step(1)
    assert (step.act, reasons(restored)) == (Act.NONE, [R.OUTCOME_UNKNOWN])
    protected = protection_of(restored, step, world.policies[1], world.now)
    assert (protected.protected, protected.until, protected.why) == (False, None, "forgotten")
    assert verdict_of(restored, step, world.policies, world.now).reason is Reason.NEEDS_DECISION
    asked = restored.copy()
    asked.holds, asked.step(1).resend_asked = [], True
    assert transitions.time_passed(asked, world.moment).step(1).act is Act.NONE


def test_a_request_that_was_revised_since_is_not_sent_beside_its_revision() -> None:
    world = World(policy(profile(protection=KEYED, retries=Retries(tries_max=2, delays_seconds=(0,)))))
    backup = ready(world)
    sent = say(world, world.sent(backup, REJECTED), A.REVISE)
    assert sent.step(1).revision == 2, "the key that the backup does not know"

    restored = transitions.restored(backup, UNTIL, world.moment)

    assert (restored.step(1).revision, restored.step(1).act) == (1, Act.NONE)


def test_what_is_forgotten_is_looked_for_and_then_asked_about() -> None:
    world = World(policy(RECOVERS))
    restored = transitions.restored(ready(world), at(0), world.moment)
    assert restored.step(1).act is Act.LOOK

    for _ in range(9):
        act_at = restored.step(1).act_at
        if restored.step(1).act is not Act.LOOK or act_at is None:
            break
        world.now = max(world.now, act_at)
        restored = transitions.looked(restored, 1, Look("no_answer"), world.moment)

    assert (restored.step(1).act, reasons(restored)) == (Act.NONE, [R.OUTCOME_UNKNOWN])


def test_a_success_under_a_known_key_leaves_what_is_forgotten_unknown() -> None:
    world = World(policy(profile(protection=KEYED)))
    restored = transitions.restored(in_flight(world), UNTIL, world.moment)

    after = world.hear(restored, confirmed(settles_earlier=True), attempt=1)

    assert [one.outcome for one in after.step(1).attempts] == [Outcome.CONFIRMED, Outcome.UNKNOWN]
    assert states(after) == [S.UNKNOWN]


def test_what_was_forgotten_and_is_absent_bars_no_protection_of_the_next_send() -> None:
    world = two()
    operation = found_absent(world, world.opened())

    after = world.sent(operation, UNCLEAR)

    protected = protection_of(after, after.step(1), world.policies[1], world.now)
    assert protected.why != "forgotten"

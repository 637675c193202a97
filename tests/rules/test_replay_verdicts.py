"""Table 7, row by row, and what a start makes of each verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.learning import HAPPENED
from opsledger.rules.next_step import Rendered
from opsledger.rules.profile import Retries
from opsledger.rules.record import Act, Attempt, KnownBy, Operation, Performer, Step
from opsledger.rules.replays import (
    RUNS,
    Beside,
    Reason,
    Stated,
    Verdict,
    VerdictKind,
    begun,
    mark_of,
    verdict_of,
)
from opsledger.rules.settling import NotNow, open_hold
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    BOUNCED,
    DEFERRED,
    KEYED,
    LOOKUP,
    NOT_SENT,
    REJECTED,
    T0,
    UNCLEAR,
    World,
    accepted,
    at,
    confirmed,
    message,
    policy,
    profile,
    reasons,
)

K, R = VerdictKind, Reason
PLAIN = (policy(recovers=False),)
KEY = (policy(profile(protection=KEYED), recovers=False),)
ASKABLE = (policy(profile(lookup=LOOKUP), recovers=False),)
BOTH = (policy(profile(lookup=LOOKUP, protection=KEYED), recovers=False),)


def used_up(world: World) -> Operation:
    operation = world.opened()
    for _ in range(2):
        world.at(0)
        operation = world.sent(operation, NOT_SENT)
    return operation


def unknown(world: World) -> Operation:
    return world.sent(world.opened(), UNCLEAR)


def expired(world: World) -> Operation:
    operation = unknown(world)
    return transitions.time_passed(operation, world.at(20))


def held_for(reason: HoldReason) -> Callable[[World], Operation]:
    def make(world: World) -> Operation:
        operation = unknown(world)
        operation.holds.clear()
        open_hold(operation, operation.step(1), reason, world.moment, {})
        return operation

    return make


def ended(world: World) -> Operation:
    operation = world.sent(world.opened(), REJECTED)
    return answered(operation, operation.holds[0].id, Given(Answer.END_FAILED), world.moment)


def given_up(world: World) -> Operation:
    operation = unknown(world)
    return answered(operation, operation.holds[0].id, Given(Answer.CLOSE_UNKNOWN), world.moment)


def skipped(world: World) -> Operation:
    operation = world.opened()
    operation.step(1).state, operation.step(1).act, operation.step(1).act_at = (
        StepState.SKIPPED,
        Act.NONE,
        None,
    )
    return operation


def cancelled(world: World) -> Operation:
    return transitions.cancel_requested(world.opened(), world.moment)


def cancelled_step(world: World) -> Operation:
    operation = cancelled(world)
    operation.cancelled = False
    return operation


def unclaimed(world: World) -> Operation:
    operation = world.opened(performer=Performer.AUTOMATION)
    return transitions.time_passed(operation, world.at(3))


def late(world: World) -> Operation:
    operation = world.opened(not_after=at(1))
    return transitions.time_passed(operation, world.at(2))


def unrenderable(world: World) -> Operation:
    operation = world.opened()
    operation.holds.clear()
    operation.step(1).request_digest = None
    return operation


NOT_RENDERED = (policy(recovers=False, render=lambda operation, step: Rendered(missing=("due_date",))),)
ROWS: list[tuple[str, tuple, Callable[[World], Operation], VerdictKind, Reason, Beside]] = [
    ("confirmed", PLAIN, lambda w: w.sent(w.opened(), confirmed()), K.KEEP, R.CONFIRMED, Beside()),
    ("accepted", (policy(message()),), lambda w: w.sent(w.opened(), accepted()), K.KEEP, R.ACCEPTED, Beside()),
    ("skipped", PLAIN, skipped, K.KEEP, R.SKIPPED, Beside()),
    ("never sent", PLAIN, lambda w: w.opened(), K.SEND, R.NEVER_SENT, Beside()),
    ("not sent, tries left", PLAIN, lambda w: w.sent(w.opened(), NOT_SENT), K.SEND, R.NO_CHANGE, Beside()),
    ("deferred, tries left", PLAIN, lambda w: w.sent(w.opened(), DEFERRED), K.SEND, R.NO_CHANGE, Beside()),
    ("tries used up", PLAIN, used_up, K.SEND, R.TRIES_USED_UP, Beside()),
    ("rejected", PLAIN, lambda w: w.sent(w.opened(), REJECTED), K.SEND, R.REJECTED, Beside()),
    ("nobody claimed", PLAIN, unclaimed, K.SEND, R.NOBODY_CLAIMED, Beside()),
    ("too late", PLAIN, late, K.SEND, R.TOO_LATE, Beside()),
    ("failed by a person", PLAIN, ended, K.REFUSE, R.ENDED_BY_PERSON, Beside()),
    ("not delivered", (policy(message()),), lambda w: bounced(w), K.REFUSE, R.NOT_DELIVERED, Beside()),
    ("unknown, protected now", KEY, unknown, K.SEND_PROTECTED, R.PROTECTED, Beside()),
    ("unknown, protected and askable", BOTH, unknown, K.SEND_PROTECTED, R.PROTECTED, Beside()),
    ("unknown, protection expired, askable", BOTH, expired, K.LOOK_FIRST, R.CAN_BE_ASKED, Beside()),
    ("unknown, askable", ASKABLE, unknown, K.LOOK_FIRST, R.CAN_BE_ASKED, Beside()),
    ("unknown, neither", PLAIN, unknown, K.REFUSE, R.NEEDS_DECISION, Beside()),
    ("unknown, protection expired", KEY, expired, K.REFUSE, R.NEEDS_DECISION, Beside()),
    ("in flight", PLAIN, lambda w: w.claim(w.opened()), K.REFUSE, R.IN_FLIGHT, Beside()),
    ("disputed", BOTH, held_for(HoldReason.DISPUTED), K.REFUSE, R.HELD, Beside()),
    ("differs", BOTH, held_for(HoldReason.RECORD_DIFFERS), K.REFUSE, R.HELD, Beside()),
    ("duplicate", BOTH, held_for(HoldReason.DUPLICATE_FOUND), K.REFUSE, R.HELD, Beside()),
    ("integrity alarm", BOTH, lambda w: alarmed(w), K.REFUSE, R.HELD, Beside()),
    ("approval needed", PLAIN, lambda w: w.opened(approval_needed=True), K.REFUSE, R.HELD, Beside()),
    ("data missing", NOT_RENDERED, lambda w: w.opened(), K.REFUSE, R.HELD, Beside()),
    ("not to be rendered", NOT_RENDERED, unrenderable, K.REFUSE, R.DATA_MISSING, Beside()),
    ("other replay", PLAIN, used_up, K.REFUSE, R.OTHER_REPLAY, Beside(other_replays={1: "rpl_1"})),
    ("replaced", PLAIN, used_up, K.REFUSE, R.REPLACED, Beside(replaced_by="order:2")),
    ("closed as never known", BOTH, given_up, K.REFUSE, R.NEVER_KNOWN, Beside()),
    ("operation cancelled", PLAIN, cancelled, K.REFUSE, R.OPERATION_CANCELLED, Beside()),
    ("cancelled", PLAIN, cancelled_step, K.REFUSE, R.CANCELLED, Beside()),
]  # fmt: skip


def bounced(world: World) -> Operation:
    operation = world.sent(world.opened(), accepted())
    return transitions.reported(operation, 1, BOUNCED, final=True, moment=world.moment)


def alarmed(world: World) -> Operation:
    return world.sent(world.opened(), replace(UNCLEAR, integrity_alarm=True))


@pytest.mark.parametrize(
    ("row", "policies", "make", "kind", "reason", "beside"), ROWS, ids=[r[0] for r in ROWS]
)
def test_each_step_gets_its_verdict(
    row: str,
    policies: tuple,
    make: Callable[[World], Operation],
    kind: VerdictKind,
    reason: Reason,
    beside: Beside,
) -> None:
    world = World(*policies)
    operation = make(world)
    before = operation.copy()

    verdict = verdict_of(operation, operation.step(1), world.policies, world.now, beside)

    assert (verdict.kind, verdict.reason) == (kind, reason)
    assert "{" not in verdict.sentence
    assert operation == before, "a verdict reads, it changes nothing"


def verdicts(world: World, operation: Operation) -> list[tuple[VerdictKind, Reason, str]]:
    found = [verdict_of(operation, step, world.policies, world.now) for step in operation.steps]
    return [(one.kind, one.reason, one.detail) for one in found]


def test_a_step_waits_behind_one_that_runs_and_behind_one_that_stands() -> None:
    world = World(policy(recovers=False), policy(recovers=False), policy(recovers=False))
    runs = world.sent(world.opened(), REJECTED)
    stands = world.sent(world.opened(), UNCLEAR)

    assert verdicts(world, runs) == [
        (K.SEND, R.REJECTED, ""),
        (K.BEHIND, R.AFTER_A_STEP_THAT_RUNS, "1"),
        (K.BEHIND, R.AFTER_A_STEP_THAT_RUNS, "1"),
    ]
    assert verdicts(world, stands) == [
        (K.REFUSE, R.NEEDS_DECISION, ""),
        (K.BEHIND, R.AFTER_A_STEP_THAT_STANDS, "1"),
        (K.BEHIND, R.AFTER_A_STEP_THAT_STANDS, "1"),
    ]


def test_an_unknown_step_waits_behind_one_that_is_in_doubt_again() -> None:
    world = World(policy(recovers=False), *KEY)
    operation = world.sent(world.opened(), UNCLEAR)
    happened = Given(Answer.HAPPENED, reference="T-1")
    operation = answered(operation, operation.holds[0].id, happened, world.moment)
    operation = world.sent(operation, UNCLEAR, 2)
    operation = transitions.withdrawn(operation, 1, world.moment, by="person:olga")

    assert verdicts(world, operation)[1] == (K.BEHIND, R.AFTER_A_STEP_THAT_STANDS, "1")


def test_protection_says_until_when() -> None:
    world = World(*KEY)
    operation = unknown(world)

    verdict = verdict_of(operation, operation.step(1), world.policies, world.now)

    assert verdict.until == T0 + timedelta(seconds=500 - 30 - 30)  # window, total deadline, margin


# Starts


def started(world: World, operation: Operation, number: int = 1) -> Operation:
    verdict = verdict_of(operation, operation.step(number), world.policies, world.now)
    return begun(operation, number, verdict, world.moment)


@pytest.mark.parametrize(
    ("make", "policies"),
    [(used_up, PLAIN), (lambda w: w.sent(w.opened(), REJECTED), PLAIN), (late, PLAIN)],
    ids=["tries used up", "rejected", "too late"],
)
def test_a_start_answers_the_hold_and_grants_one_try(
    make: Callable[[World], Operation], policies: tuple
) -> None:
    world = World(*policies)
    operation = make(world)

    after = started(world, operation)

    assert after.holds == []
    assert after.step(1).act is Act.SEND
    tried = world.sent(after, NOT_SENT)
    left = 2 - operation.step(1).tries_used
    assert reasons(tried) == ([] if left > 1 else [HoldReason.ATTEMPTS_EXHAUSTED])


def test_a_start_changes_nothing_where_the_engine_sends_by_itself() -> None:
    world = World(*PLAIN)
    operation = world.opened()

    assert started(world, operation) == operation


def test_the_same_request_goes_again_under_protection_although_recovery_is_off() -> None:
    many_tries = Retries(tries_max=9, delays_seconds=(50,))
    world = World(policy(profile(protection=KEYED, retries=many_tries), recovers=False))
    operation = unknown(world)
    assert reasons(operation) == [HoldReason.OUTCOME_UNKNOWN]

    after = started(world, operation)

    assert after.holds == []
    assert (after.step(1).act, after.step(1).send_until) == (Act.SEND, at(4.4))
    again = world.sent(after, UNCLEAR)
    assert reasons(again) == [HoldReason.OUTCOME_UNKNOWN], "what was asked for was for one attempt"
    assert not again.step(1).resend_asked


def test_a_resend_that_was_asked_for_ends_with_its_protection() -> None:
    world = World(*KEY)
    after = started(world, unknown(world))

    later = transitions.time_passed(after, world.at(4.4))

    assert reasons(later) == [HoldReason.PROTECTION_EXPIRED]
    assert later.step(1).act is Act.NONE
    assert not later.step(1).resend_asked


def test_one_try_is_granted_for_a_protected_resend() -> None:
    world = World(policy(profile(protection=KEYED), recovers=False))
    operation = started(world, unknown(world))
    operation = world.sent(operation, UNCLEAR)
    assert operation.step(1).tries_used == 2

    after = started(world, operation)

    assert after.step(1).act is Act.SEND
    assert after.step(1).tries_extra == 1


LOOKED = {
    "found": (Look("confirmed", reference="T-1", applies=True), StepState.CONFIRMED, []),
    "absent": (Look("absent", counted=True, applies=True), StepState.READY, []),
}


@pytest.mark.parametrize("word", LOOKED)
def test_the_answer_of_a_lookup_that_a_start_asked_for_is_applied(word: str) -> None:
    world = World(*ASKABLE)
    look, state, holds = LOOKED[word]
    after = started(world, unknown(world))
    assert (after.step(1).act, after.step(1).look_applies) == (Act.LOOK, True)
    assert reasons(after) == [HoldReason.OUTCOME_UNKNOWN], "its question stays open until it is answered"

    settled = transitions.looked(after, 1, look, world.moment)

    assert (settled.step(1).state, reasons(settled)) == (state, holds)
    assert not settled.step(1).look_applies


def test_lookups_without_an_answer_leave_the_step_held_as_it_was() -> None:
    world = World(*ASKABLE)
    operation = started(world, unknown(world))
    question = operation.holds[0]

    for tick in range(1, 30):
        step = operation.step(1)
        if step.act is not Act.LOOK:
            break
        if step.act_at is not None and step.act_at <= world.at(tick).now:
            operation = transitions.looked(operation, 1, Look("no_answer"), world.moment)

    assert operation.step(1).act is Act.NONE
    assert operation.holds == [question]
    assert not operation.step(1).look_applies, "what a later look finds is proposed again"


def test_lookups_begin_anew_where_they_are_used_up() -> None:
    world = World(*ASKABLE)
    operation = unknown(world)
    while operation.step(1).act is Act.LOOK:
        world.now = operation.step(1).act_at or world.now
        operation = transitions.looked(operation, 1, Look("none"), world.moment)

    after = started(world, operation)

    assert (after.step(1).act, after.step(1).act_at) == (Act.LOOK, world.now)
    assert after.step(1).looks_none == 0


def test_a_look_that_somebody_wants_later_does_not_stand_for_those_that_prove() -> None:
    world = World(*ASKABLE)
    operation = unknown(world)
    while operation.step(1).act is Act.LOOK:
        world.now = operation.step(1).act_at or world.now
        operation = transitions.looked(operation, 1, Look("none"), world.moment)
    later = world.now + timedelta(hours=1)
    operation = transitions.look_requested(operation, 1, later, world.moment)

    after = started(world, operation)

    assert after.step(1).act_at == world.now
    first = transitions.looked(after, 1, Look("none", counted=True), world.moment)
    assert first.step(1).act is Act.LOOK, "one empty answer proves nothing; a second look is planned"
    assert (first.step(1).act_at or later) < later


@pytest.mark.parametrize("verdict", [K.KEEP, K.REFUSE, K.BEHIND], ids=str)
def test_what_does_not_run_can_not_be_begun(verdict: VerdictKind) -> None:
    world = World(*PLAIN)
    with pytest.raises(NotNow):
        begun(world.opened(), 1, Verdict(verdict, R.CONFIRMED), world.moment)


# A provider's statement


def covered(operation: Operation, **changed: object) -> Beside:
    """What a statement about the step's question says of it."""
    step, hold = operation.step(1), operation.hold_on(1)
    stated = Stated("stm_1", hold.id if hold else "", len(step.attempts))
    return Beside(stated_absent={1: replace(stated, **changed)})


@pytest.mark.parametrize(
    ("policies", "make"),
    [(PLAIN, unknown), (KEY, expired), (KEY, unknown), (ASKABLE, unknown), (BOTH, expired)],
    ids=["neither", "protection expired", "protected", "askable", "expired and askable"],
)
def test_what_the_provider_states_not_to_have_happened_is_sent_again(
    policies: tuple, make: Callable[[World], Operation]
) -> None:
    world = World(*policies)
    operation = make(world)

    verdict = verdict_of(operation, operation.step(1), world.policies, world.now, covered(operation))
    after = begun(operation, 1, verdict, world.moment)

    assert (verdict.kind, verdict.reason, verdict.answer) == (
        K.SEND,
        R.STATED_ABSENT,
        Answer.ABSENT_SEND_AGAIN,
    )
    assert "stm_1" in verdict.sentence
    assert after.holds == []
    assert [(one.no_change, one.known_by) for one in after.step(1).attempts] == [
        (NoChange.ABSENT, KnownBy.PERSON)
    ]
    assert after.step(1).act is Act.SEND


def confirmed_beside_unknown(world: World) -> Operation:
    operation = expired(world)
    step = operation.step(1)
    step.attempts.append(Attempt("a2", 2, 1, T0, at(1), Outcome.CONFIRMED, reference="T-9"))
    return operation


@pytest.mark.parametrize(
    ("make", "changed", "reason"),
    [
        (unknown, {"hold_id": "an earlier question"}, R.NEEDS_DECISION),
        (unknown, {"attempt_count": 0}, R.NEEDS_DECISION),
        (held_for(HoldReason.DISPUTED), {}, R.HELD),
        (held_for(HoldReason.RECORD_DIFFERS), {}, R.HELD),
        (held_for(HoldReason.DUPLICATE_FOUND), {}, R.HELD),
        (lambda w: alarmed(w), {}, R.HELD),
        (lambda w: w.sent(w.opened(), confirmed()), {}, R.CONFIRMED),
        (lambda w: w.claim(w.opened()), {}, R.IN_FLIGHT),
        (cancelled, {}, R.OPERATION_CANCELLED),
        (given_up, {}, R.NEVER_KNOWN),
        (lambda w: w.sent(w.opened(), REJECTED), {}, R.REJECTED),
        (confirmed_beside_unknown, {}, R.NEEDS_DECISION),
    ],
    ids=[
        "another question",
        "an attempt since",
        "disputed",
        "differs",
        "duplicate",
        "integrity alarm",
        "confirmed meanwhile",
        "in flight",
        "operation cancelled",
        "closed as never known",
        "rejected",
        "another attempt is proven",
    ],
)
def test_a_statement_sends_nothing_else(
    make: Callable[[World], Operation], changed: dict[str, object], reason: Reason
) -> None:
    world = World(*PLAIN)
    operation = make(world)

    verdict = verdict_of(
        operation, operation.step(1), world.policies, world.now, covered(operation, **changed)
    )

    assert verdict.reason is reason


def test_a_statement_covers_only_the_steps_that_it_names() -> None:
    world = World(*PLAIN, *PLAIN)
    operation = unknown(world)
    beside = Beside(stated_absent={2: Stated("stm_1", operation.holds[0].id, 1)})

    verdict = verdict_of(operation, operation.step(1), world.policies, world.now, beside)

    assert (verdict.kind, verdict.reason) == (K.REFUSE, R.NEEDS_DECISION)


def test_a_reply_that_contradicts_a_statement_is_disputed_and_stops_the_resend() -> None:
    world = World(*PLAIN)
    operation = unknown(world)
    verdict = verdict_of(operation, operation.step(1), world.policies, world.now, covered(operation))
    sent_again = begun(operation, 1, verdict, world.moment)

    late = world.hear(sent_again, confirmed("T-1"))

    assert reasons(late) == [HoldReason.DISPUTED]
    assert late.step(1).act is Act.NONE


# Marks


def test_a_mark_moves_with_what_a_reader_relies_on() -> None:
    world = World(*KEY)
    operation = unknown(world)
    step, verdict = operation.step(1), verdict_of(operation, operation.step(1), world.policies, world.now)
    mark = mark_of(step, verdict, "v1")

    looked = operation.copy().step(1)
    looked.looks += 1
    assert mark_of(looked, verdict, "v1") == mark
    tried = operation.copy().step(1)
    tried.attempts.append(Attempt("x", 2, 1, T0, at(1), Outcome.NO_CHANGE, NoChange.NOT_SENT))
    others = [
        mark_of(tried, verdict, "v1"),
        mark_of(step, verdict, "v2"),
        mark_of(step, replace(verdict, until=at(9)), "v1"),
        mark_of(step, replace(verdict, kind=K.LOOK_FIRST), "v1"),
        mark_of(replace(step, revision=2), verdict, "v1"),
        mark_of(replace(step, request_digest="other"), verdict, "v1"),
    ]
    assert len({mark, *others}) == 7


# Law 8

attempts_drawn = st.lists(
    st.tuples(
        st.sampled_from([None, *Outcome]), st.sampled_from(list(NoChange)), st.sampled_from(list(KnownBy))
    ),
    max_size=3,
)


@given(
    attempts=attempts_drawn,
    state=st.sampled_from(list(StepState)),
    reason=st.none() | st.sampled_from(list(HoldReason)),
    keyed=st.booleans(),
    askable=st.booleans(),
    ticks=st.integers(0, 20),
    cancelled_too=st.booleans(),
)
def test_no_verdict_sends_what_happened(
    attempts: list[tuple[Outcome | None, NoChange, KnownBy]],
    state: StepState,
    reason: HoldReason | None,
    keyed: bool,
    askable: bool,
    ticks: int,
    cancelled_too: bool,
) -> None:
    """Law 8, of any record, also of those that no path leads to."""
    shape = profile(**({"protection": KEYED} if keyed else {}), **({"lookup": LOOKUP} if askable else {}))
    world = World(policy(shape, recovers=False))
    made = [
        Attempt(f"a{n}", n, 1, T0, at(1), outcome, kind if outcome is Outcome.NO_CHANGE else None, None, by)
        for n, (outcome, kind, by) in enumerate(attempts, 1)
    ]
    step = Step(1, "one", "crm", "create_task", state=state, request_digest="d", attempts=made)
    operation = Operation("op", T0 - timedelta(seconds=1), [step], cancelled=cancelled_too)
    if reason is not None:
        open_hold(operation, step, reason, world.moment)

    verdict = verdict_of(operation, step, world.policies, at(ticks))

    if state in {StepState.CONFIRMED, StepState.ACCEPTED}:
        assert verdict.kind is K.KEEP
    if verdict.kind is K.SEND_PROTECTED:
        assert not {attempt.outcome for attempt in made} & HAPPENED
    if cancelled_too or state in {StepState.IN_FLIGHT, StepState.CANCELLED, StepState.FAILED}:
        assert verdict.kind not in RUNS

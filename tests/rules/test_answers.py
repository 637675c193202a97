"""What a person may answer: rules.md, table 8. Every hold with each of its answers, and what the answer brings about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import ANSWERS, REVISES, SENDS_AGAIN, Answer, Given, answered, answers_for
from opsledger.rules.next_step import Rendered
from opsledger.rules.profile import Retries
from opsledger.rules.record import Act, KnownBy, Operation, Performer, Step
from opsledger.rules.settling import NotNow
from opsledger.rules.states import (
    DESTINATION_REASONS,
    HoldReason,
    NoChange,
    OperationState,
    Outcome,
    StepState,
)
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    BOUNCED,
    DEFERRED,
    KEYED,
    LOOKUP,
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

S, R, A, O = StepState, HoldReason, Answer, OperationState  # noqa: E741


@dataclass(frozen=True)
class Asked:
    """A hold on the first of two steps, and how it came about."""

    world: Callable[[], World]
    make: Callable[[World], Operation]

    def __call__(self) -> tuple[World, Operation]:
        world = self.world()
        return world, self.make(world)


def lost(world: World) -> Operation:
    return world.lose(world.claim(world.opened()))


def looked(look: Look) -> Callable[[World], Operation]:
    return lambda world: transitions.looked(lost(world), 1, look, world.moment)


def two(first: object = None, **words: object) -> Callable[[], World]:
    shape = first or profile()
    return lambda: World(policy(shape, **words), policy())  # type: ignore[arg-type]


def disputed(world: World) -> Operation:
    operation = lost(world)
    operation = answered(operation, operation.holds[0].id, Given(A.ABSENT_SEND_AGAIN), world.moment)
    return world.hear(operation, confirmed())


def bounced(world: World) -> Operation:
    operation = world.sent(world.opened(), accepted())
    return transitions.reported(operation, 1, BOUNCED, final=True, moment=world.moment)


def late(ticks: float, make: Callable[[World], Operation]) -> Callable[[World], Operation]:
    def made(world: World) -> Operation:
        operation = make(world)
        return transitions.time_passed(operation, world.at(ticks))

    return made


def lacks_until_revised(operation: Operation, step: Step) -> Rendered:
    return Rendered("sent", "shown") if step.revision > 1 else Rendered(missing=("params.x",))


ONE_TRY = profile(retries=Retries(tries_max=1, delays_seconds=(1,)))
FACTS_TWO = {"references": ["T-1", "T-2"]}
HOLDS = {
    R.OUTCOME_UNKNOWN: Asked(two(), lost),
    R.PROTECTION_EXPIRED: Asked(two(profile(protection=KEYED)), late(9, lost)),
    R.INTEGRITY_ALARM: Asked(two(), lambda w: w.sent(w.opened(), replace(UNCLEAR, integrity_alarm=True))),
    R.RECORD_DIFFERS: Asked(
        two(profile(lookup=LOOKUP)), looked(Look("differs", reference="T-1", facts={"reference": "T-1"}))
    ),
    R.DUPLICATE_FOUND: Asked(two(profile(lookup=LOOKUP)), looked(Look("duplicate", facts=FACTS_TWO))),
    R.DISPUTED: Asked(two(), disputed),
    R.REJECTED: Asked(two(), lambda w: w.sent(w.opened(), REJECTED)),
    R.ATTEMPTS_EXHAUSTED: Asked(two(ONE_TRY), lambda w: w.sent(w.opened(), DEFERRED)),
    R.NOBODY_CLAIMED: Asked(two(), late(2, lambda w: w.opened(performer=Performer.AUTOMATION))),
    R.TOO_LATE: Asked(two(), late(2, lambda w: w.opened(not_after=at(1)))),
    R.DELIVERY_NOT_PROVEN: Asked(two(message()), late(3, lambda w: w.sent(w.opened(), accepted()))),
    R.DELIVERY_FAILED: Asked(two(message()), bounced),
    R.DATA_MISSING: Asked(two(render=lacks_until_revised), lambda w: w.opened()),
    R.APPROVAL_NEEDED: Asked(two(), lambda w: w.opened(approval_needed=True)),
}

# What each answer makes of: both steps, the operation, the open question.
Made = tuple[list[StepState], OperationState, list[HoldReason]]
ENDED: Made = ([S.FAILED, S.CANCELLED], O.FAILED, [])
SENT_AGAIN: Made = ([S.READY, S.WAITING], O.RUNNING, [])
HAPPENED: Made = ([S.CONFIRMED, S.READY], O.RUNNING, [])
NEVER_KNOWN: Made = ([S.UNKNOWN, S.CANCELLED], O.CLOSED_UNKNOWN, [])
REVISED: Made = ([S.WAITING, S.WAITING], O.AWAITING_APPROVAL, [R.APPROVAL_NEEDED])
NEVER_SENT: Made = ([S.CANCELLED, S.CANCELLED], O.CANCELLED, [])


def still(reason: HoldReason, state: StepState = S.UNKNOWN) -> Made:
    return ([state, S.WAITING], O.HELD, [reason])


def unknown_answers(reason: HoldReason) -> dict[Answer, Made]:
    return {
        A.HAPPENED: HAPPENED,
        A.HAPPENED_ACCEPTED: ([S.ACCEPTED, S.WAITING], O.HELD, [R.DELIVERY_NOT_PROVEN]),
        A.ABSENT_SEND_AGAIN: SENT_AGAIN,
        A.ABSENT_END: ENDED,
        A.ABSENT_REVISE: REVISED,
        A.STILL_UNKNOWN: still(reason),
        A.CLOSE_UNKNOWN: NEVER_KNOWN,
    }


TRIES: dict[Answer, Made] = {A.MORE_TRIES: SENT_AGAIN, A.END_FAILED: ENDED}
TABLE_8: dict[HoldReason, dict[Answer, Made]] = {
    R.OUTCOME_UNKNOWN: unknown_answers(R.OUTCOME_UNKNOWN),
    R.PROTECTION_EXPIRED: unknown_answers(R.PROTECTION_EXPIRED),
    R.INTEGRITY_ALARM: unknown_answers(R.INTEGRITY_ALARM),
    R.DISPUTED: unknown_answers(R.DISPUTED),
    R.RECORD_DIFFERS: {
        A.OURS: HAPPENED,
        A.NOT_OURS: ([S.UNKNOWN, S.WAITING], O.RECONCILING, []),
        A.STILL_UNKNOWN: still(R.RECORD_DIFFERS),
    },
    R.DUPLICATE_FOUND: {A.KEEP_ONE: HAPPENED, A.STILL_UNKNOWN: still(R.DUPLICATE_FOUND)},
    R.REJECTED: {A.SAME_AGAIN: SENT_AGAIN, A.REVISE: REVISED, A.END_FAILED: ENDED},
    R.ATTEMPTS_EXHAUSTED: TRIES | {A.REVISE: REVISED},
    R.NOBODY_CLAIMED: TRIES,
    R.TOO_LATE: TRIES,
    R.DELIVERY_NOT_PROVEN: {
        A.DELIVERED: HAPPENED,
        A.NOT_DELIVERED: ENDED,
        A.LEAVE_ACCEPTED: ([S.ACCEPTED, S.CANCELLED], O.CANCELLED, []),
        A.STILL_UNKNOWN: still(R.DELIVERY_NOT_PROVEN, S.ACCEPTED),
    },
    R.DELIVERY_FAILED: {A.REPLACED: ENDED, A.END: ENDED},
    R.DATA_MISSING: {A.REVISE: REVISED, A.END_FAILED: NEVER_SENT},
    R.APPROVAL_NEEDED: {A.END_FAILED: NEVER_SENT},
}
PAIRS = [(reason, answer) for reason, answers in TABLE_8.items() for answer in answers]
IDS = [f"{reason.value}: {answer.value}" for reason, answer in PAIRS]


def give(operation: Operation, world: World, answer: Answer, **given: object) -> Operation:
    if answer in {A.HAPPENED, A.HAPPENED_ACCEPTED, A.OURS, A.KEEP_ONE}:
        given.setdefault("reference", "T-1")
    if answer is A.STILL_UNKNOWN:
        given.setdefault("next_check_at", at(20))
    return answered(operation, operation.holds[0].id, Given(answer, **given), world.moment)  # type: ignore[arg-type]


def test_every_hold_about_a_step_has_its_answers() -> None:
    about_steps = set(HoldReason) - DESTINATION_REASONS - {R.EVENT_CONFLICT}

    assert about_steps == set(ANSWERS) == set(TABLE_8) == set(HOLDS)
    assert {reason: set(answers) for reason, answers in ANSWERS.items()} == {
        reason: set(answers) for reason, answers in TABLE_8.items()
    }


@pytest.mark.parametrize(("reason", "answer"), PAIRS, ids=IDS)
def test_what_an_answer_makes(reason: HoldReason, answer: Answer) -> None:
    world, operation = HOLDS[reason]()
    assert reasons(operation) == [reason]

    after = give(operation, world, answer)

    assert (states(after), after.state, reasons(after)) == TABLE_8[reason][answer]
    sends = after.steps[0].act in {Act.SEND, Act.OFFER}
    assert sends == (answer in SENDS_AGAIN)


@pytest.mark.parametrize(
    ("reason", "answer"),
    [pair for pair in product(TABLE_8, Answer) if pair[1] not in TABLE_8[pair[0]]],
    ids=lambda value: value.value,
)
def test_an_answer_of_another_question_is_refused(reason: HoldReason, answer: Answer) -> None:
    world, operation = HOLDS[reason]()

    with pytest.raises(NotNow, match="not an answer"):
        give(operation, world, answer)


@pytest.mark.parametrize("reason", TABLE_8, ids=lambda reason: reason.value)
def test_a_cancelled_operation_is_never_sent_again(reason: HoldReason) -> None:
    world, operation = HOLDS[reason]()

    cancelled = transitions.cancel_requested(operation, world.moment)

    for hold in cancelled.holds:
        assert not set(answers_for(cancelled, hold)) & (SENDS_AGAIN | REVISES)
        for answer in (SENDS_AGAIN | REVISES) & set(ANSWERS[reason]):
            with pytest.raises(NotNow):
                give(cancelled, world, answer)
        for answer in answers_for(cancelled, hold):
            assert give(cancelled, world, answer).steps[0].act not in {Act.SEND, Act.OFFER}


def test_a_question_that_was_settled_is_not_settled_again() -> None:
    world, operation = HOLDS[R.OUTCOME_UNKNOWN]()
    after = give(operation, world, A.HAPPENED)

    with pytest.raises(NotNow, match="settled already"):
        answered(after, operation.holds[0].id, Given(A.ABSENT_END), world.moment)


def test_a_reference_of_another_operation_is_refused_and_named() -> None:
    world, operation = HOLDS[R.OUTCOME_UNKNOWN]()

    with pytest.raises(NotNow, match="op-7"):
        give(operation, world, A.HAPPENED, taken_by="op-7")


# What an answer keeps


@pytest.mark.parametrize(
    ("answer", "outcome", "kind", "reference"),
    [
        (A.HAPPENED, Outcome.CONFIRMED, None, "T-1"),
        (A.HAPPENED_ACCEPTED, Outcome.ACCEPTED, None, "T-1"),
        (A.ABSENT_SEND_AGAIN, Outcome.NO_CHANGE, NoChange.ABSENT, None),
        (A.ABSENT_END, Outcome.NO_CHANGE, NoChange.ABSENT, None),
    ],
    ids=lambda value: getattr(value, "value", str(value)),
)
def test_an_answer_is_the_persons(
    answer: Answer, outcome: Outcome, kind: NoChange | None, reference: str | None
) -> None:
    world, operation = HOLDS[R.OUTCOME_UNKNOWN]()

    attempt = give(operation, world, answer).steps[0].attempts[0]

    assert attempt.known_by is KnownBy.PERSON
    assert (attempt.outcome, attempt.no_change, attempt.reference) == (outcome, kind, reference)


def test_never_known_leaves_the_attempt_unknown() -> None:
    world, operation = HOLDS[R.OUTCOME_UNKNOWN]()

    after = give(operation, world, A.CLOSE_UNKNOWN)

    assert after.steps[0].attempts == operation.steps[0].attempts
    assert after.steps[0].never_known


def test_a_question_about_one_step_is_no_answer_about_another() -> None:
    world = World(policy(), policy(continues_after_failure=True))
    operation = world.sent(world.opened(), REJECTED)
    operation = give(operation, world, A.END_FAILED)
    operation = world.lose(world.claim(operation, 2), 2)
    before = operation.steps[0]

    after = give(operation, world, A.HAPPENED)

    assert after.steps[0] == before
    assert states(after) == [S.FAILED, S.CONFIRMED]


# Later steps, by a tick


@pytest.mark.parametrize(
    ("reason", "answer", "second"),
    [
        (R.OUTCOME_UNKNOWN, A.CLOSE_UNKNOWN, S.READY),
        (R.DELIVERY_NOT_PROVEN, A.LEAVE_ACCEPTED, S.READY),
    ],
    ids=lambda value: value.value,
)
def test_a_tick_keeps_later_steps(reason: HoldReason, answer: Answer, second: StepState) -> None:
    world, operation = HOLDS[reason]()

    after = give(operation, world, answer, keep_later=frozenset({2}))

    assert states(after)[1] is second
    done = world.sent(after, confirmed("N-1"), 2)
    expected = O.CLOSED_UNKNOWN if answer is A.CLOSE_UNKNOWN else O.COMPLETED
    assert done.state is expected


@pytest.mark.parametrize(
    ("answer", "second"),
    [(A.HAPPENED, S.READY), (A.ABSENT_SEND_AGAIN, S.WAITING)],
    ids=lambda value: value.value,
)
def test_steps_that_an_overturned_answer_had_cancelled_return_by_a_tick(
    answer: Answer, second: StepState
) -> None:
    world, operation = HOLDS[R.OUTCOME_UNKNOWN]()
    operation = world.hear(give(operation, world, A.ABSENT_END), confirmed())
    assert states(operation) == [S.UNKNOWN, S.CANCELLED]

    without = give(operation, world, answer)
    after = give(operation, world, answer, keep_later=frozenset({2}))

    assert (states(without)[1], states(after)[1]) == (S.CANCELLED, second)


def test_what_was_left_as_accepted_where_that_is_enough_changes_nothing_for_later_steps() -> None:
    world = World(policy(message(), accepted_is_enough=True), policy())
    operation = world.sent(world.opened(), accepted())
    operation = transitions.time_passed(operation, world.at(3))

    after = give(operation, world, A.LEAVE_ACCEPTED)

    assert states(after) == [S.ACCEPTED, S.READY]


# Records


def test_a_record_that_is_not_ours_is_remembered() -> None:
    world, operation = HOLDS[R.RECORD_DIFFERS]()

    after = give(operation, world, A.NOT_OURS)

    assert after.steps[0].not_ours == ("T-1",)
    assert (after.steps[0].act, after.steps[0].looks) == (Act.LOOK, 1)  # it is looked for further


def test_the_records_that_are_not_kept_are_no_longer_this_steps() -> None:
    world, operation = HOLDS[R.DUPLICATE_FOUND]()

    after = give(operation, world, A.KEEP_ONE, reference="T-2")

    assert (after.steps[0].reference, after.steps[0].not_ours) == ("T-2", ("T-1",))


def test_keeping_one_settles_every_attempt() -> None:
    world = World()
    operation = disputed(world)
    operation = give(operation, world, A.ABSENT_SEND_AGAIN)
    operation = world.sent(operation, confirmed("T-2"))
    operation = world.hear(operation, confirmed("T-1"), attempt=1)
    assert reasons(operation) == [R.DUPLICATE_FOUND]

    after = give(operation, world, A.KEEP_ONE, reference="T-1")

    assert [attempt.reference for attempt in after.steps[0].attempts] == ["T-1", "T-1"]
    assert (after.steps[0].reference, after.state, reasons(after)) == ("T-1", O.COMPLETED, [])
    assert after.steps[0].not_ours == ("T-2",)


# Tries


@pytest.mark.parametrize("tries", [1, 3])
def test_a_person_grants_tries_by_number(tries: int) -> None:
    world, operation = HOLDS[R.ATTEMPTS_EXHAUSTED]()

    operation = give(operation, world, A.MORE_TRIES, tries=tries)
    for _ in range(tries):
        assert not operation.holds
        operation = world.sent(operation, DEFERRED)

    assert reasons(operation) == [R.ATTEMPTS_EXHAUSTED]


def test_the_same_again_is_for_one_try() -> None:
    world, operation = HOLDS[R.REJECTED]()

    operation = world.sent(give(operation, world, A.SAME_AGAIN), REJECTED)

    assert reasons(operation) == [R.REJECTED]


def test_more_tries_waive_the_latest_moment() -> None:
    world, operation = HOLDS[R.TOO_LATE]()

    after = give(operation, world, A.MORE_TRIES)

    assert (after.steps[0].act, after.steps[0].send_until) == (Act.SEND, None)
    assert states(world.claim(after)) == [S.IN_FLIGHT, S.WAITING]


def test_an_alarm_ends_with_its_answer() -> None:
    world, operation = HOLDS[R.INTEGRITY_ALARM]()

    after = give(operation, world, A.ABSENT_SEND_AGAIN)

    assert not after.steps[0].integrity_alarm
    assert states(world.claim(after)) == [S.IN_FLIGHT, S.WAITING]


# Still unknown


def test_still_unknown_looks_again_when_the_person_says() -> None:
    world, operation = HOLDS[R.RECORD_DIFFERS]()

    after = give(operation, world, A.STILL_UNKNOWN, next_check_at=at(7))
    looks = []
    while after.steps[0].act is Act.LOOK and len(looks) < 9:  # row 3: the planned ones go on
        world.now = after.steps[0].act_at or world.now
        looks.append(world.now)
        after = transitions.looked(after, 1, Look("no_answer"), world.moment)

    assert looks[-1] == at(7)
    assert [at(1.6)] == looks[:1]
    assert looks == sorted(set(looks))


def test_still_unknown_where_nobody_can_look_waits_for_the_person() -> None:
    world, operation = HOLDS[R.OUTCOME_UNKNOWN]()

    after = give(operation, world, A.STILL_UNKNOWN, next_check_at=at(7))

    assert after == operation


# What is offered depends on the step as it stands


def test_what_nothing_is_unknown_about_is_not_said_to_have_happened() -> None:
    world = World()
    operation = world.opened()
    operation.steps[0].integrity_alarm = True
    operation = transitions.time_passed(operation, world.moment)

    assert answers_for(operation, operation.holds[0]) == (
        A.ABSENT_SEND_AGAIN,
        A.ABSENT_END,
        A.ABSENT_REVISE,
        A.STILL_UNKNOWN,
    )


def test_what_is_proven_is_neither_denied_nor_sent_again() -> None:
    _, operation = HOLDS[R.DISPUTED]()
    step = operation.steps[0]
    step.attempts[0].outcome, step.attempts[0].reference, step.state = Outcome.CONFIRMED, "T-1", S.CONFIRMED

    offered = answers_for(operation, operation.holds[0])

    assert offered == (A.HAPPENED, A.HAPPENED_ACCEPTED, A.STILL_UNKNOWN)

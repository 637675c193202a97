"""From attempts to the step (rules.md 2), what people request, and paths on which a law was broken once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from opsledger.rules import fold, transitions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.learning import Finding
from opsledger.rules.profile import ReplayMeaning, Retries
from opsledger.rules.record import Act, KnownBy, Operation, Performer
from opsledger.rules.settling import NotNow
from opsledger.rules.states import HoldReason, NoChange, OperationState, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    BOUNCED,
    DEFERRED,
    DELIVERED,
    KEYED,
    LOOKUP,
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
    say,
    states,
)

S, R = StepState, HoldReason
KEYED_WORLD = profile(protection=KEYED, retries=Retries(tries_max=4))


def unknown(world: World) -> Operation:
    return world.lose(world.claim(world.opened()))


def outcomes(operation: Operation) -> list[Outcome | None]:
    return [attempt.outcome for attempt in operation.steps[0].attempts]


# From attempts to the step


@pytest.mark.parametrize(
    "finding", [DEFERRED, NOT_SENT, REJECTED], ids=["429", "refused connection", "400 or 412"]
)
def test_a_later_no_change_speaks_for_itself_alone(finding: Finding) -> None:
    world = World(policy(KEYED_WORLD))
    operation = world.claim(unknown(world))

    operation = world.hear(operation, finding)

    assert outcomes(operation) == [Outcome.UNKNOWN, Outcome.NO_CHANGE]
    assert states(operation) == [S.UNKNOWN]


def test_a_success_under_the_same_key_settles_the_earlier_attempt() -> None:
    world = World(policy(KEYED_WORLD))
    operation = world.claim(unknown(world))

    operation = world.hear(operation, confirmed(settles_earlier=True))

    assert outcomes(operation) == [Outcome.CONFIRMED, Outcome.CONFIRMED]
    assert (states(operation), operation.steps[0].reference) == ([S.CONFIRMED], "T-1")


@pytest.mark.parametrize(
    ("finding", "revision"),
    [
        pytest.param(confirmed(), 1, id="a success that is not documented to"),
        pytest.param(confirmed(settles_earlier=True), 2, id="a success of another revision"),
    ],
)
def test_a_step_is_unknown_while_any_of_its_attempts_is(finding: Finding, revision: int) -> None:
    world = World(policy(KEYED_WORLD))
    operation = world.claim(unknown(world))
    operation.steps[0].attempts[1].revision = revision

    operation = world.hear(operation, finding)

    assert outcomes(operation) == [Outcome.UNKNOWN, Outcome.CONFIRMED]
    assert states(operation) == [S.UNKNOWN]
    assert operation.steps[0].act is not Act.SEND  # one is proven; nothing is sent again


def test_a_lookup_settles_all_that_is_unknown() -> None:
    world = World(policy(KEYED_WORLD))
    operation = world.lose(world.claim(unknown(world)))
    world.policies = {1: policy(replace(KEYED_WORLD, lookup=LOOKUP))}

    operation = transitions.looked(operation, 1, Look("confirmed", reference="T-1"), world.moment)

    assert outcomes(operation) == [Outcome.CONFIRMED, Outcome.CONFIRMED]
    assert states(operation) == [S.CONFIRMED]


def test_a_server_error_may_end_protection() -> None:
    world = World(policy(profile(protection=replace(KEYED, replay=ReplayMeaning.FIRST_SUCCESS_ONLY))))
    operation = world.claim(world.opened())

    lost = world.lose(operation)
    answered_with_error = world.hear(operation, replace(UNCLEAR, answered_with_error=True))

    assert lost.steps[0].act is Act.SEND
    assert reasons(answered_with_error) == [R.OUTCOME_UNKNOWN]


def test_a_lookups_answer_is_proposed_where_recovery_is_not_automatic() -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=False))
    operation = unknown(world)
    facts = {"looked": "confirmed", "reference": "T-1"}

    look = Look("confirmed", reference="T-1", applies=False, facts=facts)
    operation = transitions.looked(operation, 1, look, world.moment)

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.OUTCOME_UNKNOWN])
    assert operation.holds[0].facts["reference"] == "T-1"


@pytest.mark.parametrize(
    ("look", "state", "left"),
    [
        pytest.param(Look("confirmed", reference="T-1"), S.CONFIRMED, [], id="one record, equal"),
        pytest.param(
            Look("differs", reference="T-1"), S.UNKNOWN, [R.RECORD_DIFFERS], id="one record differs"
        ),
        pytest.param(Look("duplicate"), S.UNKNOWN, [R.DUPLICATE_FOUND], id="several records"),
        pytest.param(Look("candidates"), S.UNKNOWN, [], id="only alike"),
        pytest.param(Look("running"), S.UNKNOWN, [], id="running"),
        pytest.param(Look("failed"), S.READY, [], id="failed, documented as no change"),
        pytest.param(Look("absent", counted=True), S.READY, [], id="proof of absence"),
        pytest.param(Look("none", counted=True), S.UNKNOWN, [], id="none, once"),
        pytest.param(Look("none"), S.UNKNOWN, [], id="none, too early"),
        pytest.param(Look("no_answer"), S.UNKNOWN, [], id="error"),
        pytest.param(Look("access_refused"), S.UNKNOWN, [], id="access refused"),
    ],
)
def test_table_5_on_an_unknown_step(look: Look, state: StepState, left: list[HoldReason]) -> None:
    world = World(policy(profile(lookup=LOOKUP)))

    operation = transitions.looked(unknown(world), 1, look, world.moment)

    assert (states(operation), reasons(operation)) == ([state], left)
    assert operation.steps[0].looks_none == look.counted or state is S.READY


@pytest.mark.parametrize(
    ("answer", "state", "left"),
    [("accepted", S.ACCEPTED, []), ("bounced", S.FAILED, [R.DELIVERY_FAILED])],
)
def test_a_lookup_tells_what_was_taken_over(answer: str, state: StepState, left: list[HoldReason]) -> None:
    world = World(policy(message(lookup=LOOKUP)))

    operation = transitions.looked(unknown(world), 1, Look(answer, reference="T-1"), world.moment)

    assert (states(operation), reasons(operation)) == ([state], left)


# Cancelling


def test_cancelling_says_what_took_effect() -> None:
    world = World(policy(), policy(), policy())
    operation = world.claim(world.sent(world.opened(), confirmed()), 2)

    operation = transitions.cancel_requested(operation, world.moment)
    assert (states(operation), operation.state) == (
        [S.CONFIRMED, S.IN_FLIGHT, S.CANCELLED],
        OperationState.RUNNING,
    )

    operation = world.lose(operation, 2)
    assert (operation.state, reasons(operation)) == (OperationState.HELD, [R.OUTCOME_UNKNOWN])
    operation = world.hear(operation, confirmed("N-1"), 2)
    assert (states(operation), operation.state) == (
        [S.CONFIRMED, S.CONFIRMED, S.CANCELLED],
        OperationState.CANCELLED,
    )


def test_proven_absence_cancels_a_step_of_a_cancelled_operation() -> None:
    world = World(policy(profile(protection=KEYED, lookup=LOOKUP)))
    operation = transitions.cancel_requested(unknown(world), world.moment)

    operation = transitions.looked(operation, 1, Look("absent"), world.moment)

    assert (states(operation), operation.state) == ([S.CANCELLED], OperationState.CANCELLED)


@pytest.mark.parametrize(
    "answer", [Answer.HAPPENED, Answer.ABSENT_END, Answer.CLOSE_UNKNOWN], ids=lambda a: a.value
)
def test_what_has_ended_can_not_be_cancelled(answer: Answer) -> None:
    world = World()
    operation = say(world, unknown(world), answer)

    with pytest.raises(NotNow, match="has ended"):
        transitions.cancel_requested(operation, world.moment)


def test_cancelling_twice_is_cancelling_once() -> None:
    world = World()
    operation = transitions.cancel_requested(world.claim(world.opened()), world.moment)

    assert not fold.difference(operation, transitions.cancel_requested(operation, world.moment))


# Leases


def test_a_heartbeat_never_shortens_a_lease_and_comes_in_time() -> None:
    world = World()
    operation = world.claim(world.opened(performer=Performer.AUTOMATION))
    attempt_id = operation.steps[0].attempts[0].id

    longer = transitions.lease_extended(operation, 1, attempt_id, at(3), world.moment)
    shorter = transitions.lease_extended(longer, 1, attempt_id, at(2), world.moment)

    assert longer.steps[0].act_at == at(3)
    assert shorter == longer
    lost = world.lose(longer)
    with pytest.raises(NotNow, match="has ended"):
        transitions.lease_extended(lost, 1, attempt_id, at(9), world.moment)


# A restored backup


@pytest.mark.parametrize(
    ("make", "asks"),
    [
        pytest.param(lambda w: w.opened(), R.OUTCOME_UNKNOWN, id="ready"),
        pytest.param(lambda w: w.opened(approval_needed=True), R.DISPUTED, id="waiting for approval"),
        pytest.param(lambda w: w.sent(w.opened(), REJECTED), R.DISPUTED, id="rejected"),
        pytest.param(lambda w: unknown(w), R.OUTCOME_UNKNOWN, id="unknown"),
    ],
)
def test_what_could_have_been_sent_since_a_backup_is_unknown(make: object, asks: HoldReason) -> None:
    world = World()
    operation = make(world)  # type: ignore[operator]

    restored = transitions.restored(operation, at(5), world.moment)

    step = restored.steps[0]
    assert (step.state, step.latest_possible_at) == (S.UNKNOWN, at(5))
    assert step.act is not Act.SEND
    assert reasons(restored) == [asks]
    assert not fold.difference(restored, transitions.restored(restored, at(5), world.moment))


def test_an_attempt_that_is_under_way_is_not_forgotten_for_another() -> None:
    world = World()
    operation = world.claim(world.opened())

    operation = transitions.restored(operation, at(5), world.moment)

    assert (states(operation), outcomes(operation)) == ([S.IN_FLIGHT], [None, Outcome.UNKNOWN])
    operation = world.hear(operation, confirmed(), attempt=1)
    assert states(operation) == [S.UNKNOWN]  # it may have been sent once more


@pytest.mark.parametrize("finding", [confirmed(), accepted()], ids=["confirmed", "accepted"])
def test_a_backup_does_not_undo_what_is_done(finding: Finding) -> None:
    world = World()
    operation = world.sent(world.opened(), finding)

    assert not fold.difference(operation, transitions.restored(operation, at(5), world.moment))


def test_bytes_that_nobody_knows_are_not_sent_again() -> None:
    world = World(policy(), policy(KEYED_WORLD))
    operation = transitions.restored(world.opened(), at(5), world.moment)
    operation = answered(operation, operation.holds[0].id, Given(Answer.HAPPENED), world.moment)

    second = operation.steps[1]
    assert (second.state, second.request_digest, second.act) == (S.UNKNOWN, None, Act.NONE)
    hold = operation.hold_on(2)
    assert hold is not None
    operation = answered(operation, hold.id, Given(Answer.ABSENT_SEND_AGAIN), world.moment)
    second = operation.steps[1]
    assert (second.act, second.request_digest) == (Act.SEND, "rendered")  # frozen before it is sent


# Paths on which a law was broken once. Each was found by tests/rules/explorer.py, most of them as its shortest path.

LOST, TICK, SWEEP = "lost", "tick", "sweep"
Happening = str | Answer | Finding | Look | tuple[object, ...]


class Path:
    """Plays what happens to step 1, one after the other."""

    def __init__(self, world: World, operation: Operation | None = None) -> None:
        self.world, self.operation = world, operation or world.opened()

    def play(self, happenings: Sequence[Happening]) -> Operation:
        for happening in happenings:
            self.operation = self._after(happening)
        return self.operation

    def _after(self, happening: Happening) -> Operation:
        world, operation = self.world, self.operation
        if happening == "send":
            return world.claim(operation)
        if happening == LOST:
            return world.lose(operation)
        if happening == TICK:
            world.now += timedelta(seconds=100)
            return operation
        if happening == SWEEP:
            return transitions.time_passed(operation, world.moment)
        if happening == "withdraw":
            return transitions.withdrawn(operation, 1, world.moment, by="person:olga")
        if isinstance(happening, Answer):
            return say(world, operation, happening, reference="R1", keep_later=frozenset({2}))
        if isinstance(happening, Look):
            return transitions.looked(operation, 1, happening, world.moment)
        if isinstance(happening, Finding):
            return transitions.reported(operation, 1, happening, final=True, moment=world.moment)
        assert isinstance(happening, tuple)
        number, finding = happening
        assert isinstance(number, int)
        assert isinstance(finding, Finding)
        return world.hear(operation, finding, attempt=number)


R1, R2 = confirmed("R1"), confirmed("R2")
REPORTED = replace(DELIVERED, reference="R1")
A = Answer


@pytest.mark.parametrize(
    ("world", "path", "state", "left"),
    [
        pytest.param(
            World(policy(), policy()),
            ["send", LOST, A.HAPPENED_ACCEPTED],
            [S.ACCEPTED, S.WAITING],
            [R.DELIVERY_NOT_PROVEN],
            id="accepted, and nobody was asked whether that is enough for the next step",
        ),
        pytest.param(
            World(),
            ["send", LOST, A.ABSENT_SEND_AGAIN, (1, R1), (1, R1)],
            [S.UNKNOWN],
            [R.DISPUTED],
            id="the same reply twice settled its own dispute",
        ),
        pytest.param(
            World(),
            ["send", LOST, A.ABSENT_SEND_AGAIN, "send", LOST, (1, R1), A.HAPPENED, (2, NOT_SENT)],
            [S.CONFIRMED],
            [],
            id="an attempt that never left disputed what another had done",
        ),
        pytest.param(
            World(),
            ["send", LOST, A.ABSENT_SEND_AGAIN, "send", LOST, A.HAPPENED_ACCEPTED, (1, R1), (2, NOT_SENT)],
            [S.CONFIRMED],
            [],
            id="the record was proven, and the step went back to accepted",
        ),
        pytest.param(
            World(policy(message())),
            [
                "send",
                LOST,
                A.ABSENT_SEND_AGAIN,
                "send",
                REPORTED,
                (1, accepted("R1")),
                (2, NOT_SENT),
            ],
            [S.CONFIRMED],
            [],
            id="delivered, and the step went back to accepted",
        ),
        pytest.param(
            World(policy(profile(lookup=LOOKUP), recovers=False)),
            ["send", LOST, A.ABSENT_SEND_AGAIN, "send", (1, R1), (2, R2), A.CLOSE_UNKNOWN, Look("absent")],
            [S.UNKNOWN],
            [R.DISPUTED],
            id="never known, although the last open question was settled",
        ),
        pytest.param(
            World(),
            [
                "send",
                LOST,
                A.ABSENT_SEND_AGAIN,
                "send",
                (1, R1),
                A.HAPPENED,
                LOST,
                A.CLOSE_UNKNOWN,
                (2, NOT_SENT),
            ],
            [S.UNKNOWN],
            [R.DISPUTED],
            id="never known beside an attempt that happened",
        ),
        pytest.param(
            World(policy(message(protection=KEYED))),
            ["send", LOST, "send", LOST, BOUNCED, A.CLOSE_UNKNOWN, BOUNCED],
            [S.UNKNOWN],
            [R.DISPUTED],
            id="never known, although a bounce settled the last attempt",
        ),
        pytest.param(
            World(policy(message(lookup=LOOKUP))),
            ["send", LOST, Look("differs", reference="R1"), (1, accepted("R1")), BOUNCED, A.END],
            [S.FAILED],
            [],
            id="a bounce was hidden behind a weaker question, whose answer sent it again",
        ),
        pytest.param(
            World(policy(message())),
            ["send", BOUNCED],
            [S.FAILED],
            [R.DELIVERY_FAILED],
            id="a bounce before the reply had no move",
        ),
        pytest.param(
            World(policy(), policy()),
            ["send", LOST, A.ABSENT_END, (1, R1), A.HAPPENED],
            [S.CONFIRMED, S.READY],
            [],
            id="a step that came back by a tick had no move",
        ),
        pytest.param(
            World(policy(profile(retries=Retries(tries_max=5, delays_seconds=(1,))))),
            ["send", (1, REJECTED), A.SAME_AGAIN, "send", (2, REJECTED)],
            [S.READY],
            [R.REJECTED],
            id="the same again was for one try, and went on until the tries were used up",
        ),
        pytest.param(
            World(),
            ["send", (1, NOT_SENT), "send", (2, R1), (1, NOT_SENT)],
            [S.CONFIRMED],
            [],
            id="a late word about an attempt that is settled already",
        ),
    ],
)
def test_a_path_that_once_broke_a_law(
    world: World, path: Sequence[Happening], state: list[StepState], left: list[HoldReason]
) -> None:
    operation = Path(world).play(path)

    assert (states(operation), reasons(operation)) == (state, left)
    assert operation.steps[0].act is not Act.SEND


def test_a_late_acceptance_keeps_the_question_that_is_open() -> None:
    world = World(policy(message(), recovers=False))
    operation = Path(world).play(["send", LOST, A.HAPPENED_ACCEPTED, TICK, TICK, TICK, SWEEP])
    assert reasons(operation) == [R.DELIVERY_NOT_PROVEN]

    again = world.hear(operation, accepted("R1"))

    assert again.holds == operation.holds  # its owner and its age stay


def test_a_claim_that_was_lost_is_not_sent_again_under_a_hold() -> None:
    world = World(policy(KEYED_WORLD))
    operation = world.claim(unknown(world))
    operation = world.hear(operation, confirmed("R1", taken_by="op-7"), attempt=1)

    operation = world.lose(operation)

    assert reasons(operation) == [R.OUTCOME_UNKNOWN]
    assert operation.steps[0].act is Act.NONE


def test_a_person_in_flight_can_not_close_what_is_under_way() -> None:
    world = World()
    operation = Path(world).play(["send", LOST, A.ABSENT_SEND_AGAIN, "send", (1, R1)])
    assert states(operation) == [S.IN_FLIGHT]

    for answer in (A.ABSENT_END, A.ABSENT_SEND_AGAIN, A.CLOSE_UNKNOWN):
        with pytest.raises(NotNow):
            say(world, operation, answer)
    operation = say(world, operation, A.HAPPENED, reference="R1")
    assert states(operation) == [S.IN_FLIGHT]
    assert states(world.lose(operation)) == [S.UNKNOWN]


def test_a_dispute_does_not_send_again_what_another_attempt_has_done() -> None:
    world = World()
    operation = Path(world).play(["send", LOST, A.ABSENT_SEND_AGAIN, "send", (2, R2), "withdraw"])
    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])

    with pytest.raises(NotNow):
        say(world, operation, A.ABSENT_SEND_AGAIN)
    assert states(say(world, operation, A.ABSENT_END)) == [S.CONFIRMED]


def test_a_cancelled_step_that_did_happen_is_unknown_again() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = transitions.cancel_requested(unknown(world), world.moment)
    operation = transitions.looked(operation, 1, Look("absent"), world.moment)
    assert states(operation) == [S.CANCELLED]

    operation = world.hear(operation, confirmed())

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])


def test_absence_that_is_looked_for_names_its_kind() -> None:
    world = World(policy(profile(lookup=LOOKUP)))

    operation = transitions.looked(unknown(world), 1, Look("absent"), world.moment)

    attempt = operation.steps[0].attempts[0]
    assert (attempt.no_change, attempt.known_by) == (NoChange.ABSENT, KnownBy.LOOKUP)

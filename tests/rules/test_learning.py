"""Who wins when things cross: rules.md, table 6, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opsledger.rules import fold, transitions
from opsledger.rules.answers import Answer
from opsledger.rules.learning import Finding
from opsledger.rules.profile import Retries
from opsledger.rules.record import Act, KnownBy, Operation
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


def unknown(world: World) -> Operation:
    return world.lose(world.claim(world.opened()))


def denied(world: World) -> Operation:
    """Sent, lost, and a person said that it did not happen; it is ready to be sent again."""
    return say(world, unknown(world), Answer.ABSENT_SEND_AGAIN)


# A reply arrives after its lease ended, nobody decided yet


@pytest.mark.parametrize(
    ("finding", "state", "left"),
    [
        pytest.param(confirmed(), S.CONFIRMED, [], id="confirmed"),
        pytest.param(accepted(), S.ACCEPTED, [], id="accepted"),
        pytest.param(REJECTED, S.READY, [R.REJECTED], id="rejected"),
        pytest.param(DEFERRED, S.READY, [], id="deferred"),
        pytest.param(NOT_SENT, S.READY, [], id="not sent"),
        pytest.param(UNCLEAR, S.UNKNOWN, [R.OUTCOME_UNKNOWN], id="unknown: nothing new"),
    ],
)
def test_a_late_reply_settles_the_attempt_and_ends_the_hold(
    finding: Finding, state: StepState, left: list[HoldReason]
) -> None:
    world = World()
    operation = unknown(world)
    assert reasons(operation) == [R.OUTCOME_UNKNOWN]

    operation = world.hear(operation, finding)

    assert (states(operation), reasons(operation)) == ([state], left)


# It arrives after "it did not happen", and says that it did


def test_a_resend_that_was_not_made_yet_is_stopped() -> None:
    world = World()
    operation = denied(world)
    assert operation.steps[0].act is Act.SEND

    operation = world.hear(operation, confirmed())

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])
    assert operation.steps[0].act is Act.NONE
    assert operation.holds[0].facts["statements"] == [
        {"outcome": "no_change", "known_by": "person", "reference": None},
        {"outcome": "confirmed", "known_by": "reply", "reference": "T-1"},
    ]
    with pytest.raises(NotNow):
        world.claim(operation)


def test_a_resend_that_was_made_is_named_in_the_hold() -> None:
    world = World()
    operation = world.claim(denied(world))

    operation = world.hear(operation, confirmed(), attempt=1)

    assert (states(operation), reasons(operation)) == ([S.IN_FLIGHT], [R.DISPUTED])
    assert operation.holds[0].facts["sent_since"] == [2]
    operation = world.hear(operation, DEFERRED, attempt=2)
    assert states(operation) == [S.UNKNOWN]  # not ready: the first attempt is in dispute


def test_a_late_reply_disputes_an_operation_that_was_ended() -> None:
    world = World(policy(), policy())
    operation = say(world, unknown(world), Answer.ABSENT_END)
    assert (states(operation), operation.state) == ([S.FAILED, S.CANCELLED], OperationState.FAILED)

    operation = world.hear(operation, confirmed())

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN, S.CANCELLED], [R.DISPUTED])
    assert operation.state is OperationState.HELD


def test_proof_of_absence_is_disputed_as_well() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = transitions.looked(unknown(world), 1, Look("absent", counted=True), world.moment)
    assert states(operation) == [S.READY]

    operation = world.hear(operation, confirmed())

    assert reasons(operation) == [R.DISPUTED]


# It arrives after "it happened", and says no change, or another reference


@pytest.mark.parametrize(
    "finding",
    [REJECTED, NOT_SENT, DEFERRED, confirmed("T-2"), accepted("T-2")],
    ids=["rejected", "not sent", "deferred", "another reference", "accepted under another reference"],
)
def test_a_contradiction_of_what_happened_stops_later_steps(finding: Finding) -> None:
    world = World(policy(), policy(), policy())
    operation = say(world, unknown(world), Answer.HAPPENED, reference="T-1")
    operation = world.claim(operation, 2)
    operation = world.hear(operation, confirmed("N-1"), 2)
    assert states(operation) == [S.CONFIRMED, S.CONFIRMED, S.READY]

    operation = world.hear(operation, finding)

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN, S.CONFIRMED, S.WAITING], [R.DISPUTED])
    assert operation.holds[0].facts["later_sent"] == ["step2"]
    assert operation.steps[0].reference is None  # freed


def test_a_later_step_in_flight_goes_on_and_is_named() -> None:
    world = World(policy(), policy())
    operation = say(world, unknown(world), Answer.HAPPENED, reference="T-1")
    operation = world.claim(operation, 2)

    operation = world.hear(operation, REJECTED)

    assert states(operation) == [S.UNKNOWN, S.IN_FLIGHT]
    assert operation.holds[0].facts["later_sent"] == ["step2"]
    assert states(world.hear(operation, DEFERRED, 2)) == [S.UNKNOWN, S.WAITING]


# It confirms what the person said


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        pytest.param(Answer.HAPPENED, confirmed("T-1"), id="happened"),
        pytest.param(Answer.HAPPENED, accepted("T-1"), id="happened, and the reply says less"),
        pytest.param(Answer.HAPPENED_ACCEPTED, accepted("T-1"), id="accepted"),
        pytest.param(Answer.ABSENT_END, REJECTED, id="did not happen"),
        pytest.param(Answer.ABSENT_END, NOT_SENT, id="did not happen, and it never left"),
        pytest.param(Answer.CLOSE_UNKNOWN, UNCLEAR, id="never known"),
    ],
)
def test_what_confirms_a_person_changes_nothing(answer: Answer, finding: Finding) -> None:
    world = World()
    operation = say(world, unknown(world), answer, reference="T-1")

    after = world.hear(operation, finding)

    assert not fold.difference(operation, after)


def test_a_missing_reference_is_filled_in() -> None:
    world = World()
    operation = say(world, unknown(world), Answer.HAPPENED)

    operation = world.hear(operation, confirmed("T-1"))

    assert (states(operation), operation.steps[0].reference) == ([S.CONFIRMED], "T-1")


# Two attempts confirmed with different references


def test_two_effects_are_a_duplicate() -> None:
    world = World(policy(), policy())
    operation = world.sent(denied(world), confirmed("T-2"))
    assert states(operation) == [S.CONFIRMED, S.READY]

    operation = world.hear(operation, confirmed("T-1"), attempt=1)

    assert (states(operation), reasons(operation)) == ([S.CONFIRMED, S.WAITING], [R.DUPLICATE_FOUND])
    assert operation.holds[0].facts["references"] == ["T-1", "T-2"]
    assert operation.steps[0].reference == "T-2"  # kept until a person says otherwise


def test_two_effects_are_a_duplicate_also_while_a_third_attempt_is_under_way() -> None:
    world = World(policy(profile(protection=KEYED, retries=Retries(tries_max=3)), recovers=False))
    operation = world.claim(denied(world))
    world.policies = {1: replace(world.policies[1], automatic_recovery=True)}
    operation = world.claim(world.lose(operation))
    operation = world.hear(operation, confirmed("T-2"), attempt=2)

    operation = world.hear(operation, confirmed("T-1"), attempt=1)

    assert (states(operation), reasons(operation)) == ([S.IN_FLIGHT], [R.DUPLICATE_FOUND])


def test_the_same_record_twice_is_one_effect() -> None:
    world = World()
    operation = world.sent(denied(world), confirmed("T-1"))

    operation = world.hear(operation, confirmed("T-1"), attempt=1)

    assert (states(operation), reasons(operation)) == ([S.CONFIRMED], [])
    assert [attempt.outcome for attempt in operation.steps[0].attempts] == [Outcome.CONFIRMED] * 2


def test_two_confirmations_without_a_reference_may_be_two_effects() -> None:
    world = World()
    operation = world.sent(denied(world), confirmed(None))

    operation = world.hear(operation, confirmed("T-1"), attempt=1)

    assert reasons(operation) == [R.DISPUTED]
    kept = say(world, operation, Answer.HAPPENED, reference="T-9")
    assert (reasons(kept), kept.holds[0].facts["references"]) == ([R.DUPLICATE_FOUND], ["T-1", "T-9"])


# An owner withdraws an answer


@pytest.mark.parametrize(
    "answer",
    [
        Answer.HAPPENED,
        Answer.HAPPENED_ACCEPTED,
        Answer.ABSENT_SEND_AGAIN,
        Answer.ABSENT_END,
        Answer.CLOSE_UNKNOWN,
    ],
)
def test_a_withdrawn_answer_is_disputed_and_its_reference_freed(answer: Answer) -> None:
    world = World(policy(), policy())
    operation = say(world, unknown(world), answer, reference="T-1")

    operation = transitions.withdrawn(operation, 1, world.moment, by="person:olga")

    step = operation.steps[0]
    assert (step.state, step.reference, reasons(operation)) == (S.UNKNOWN, None, [R.DISPUTED])
    assert not step.never_known
    assert step.act is Act.NONE
    assert operation.holds[0].facts["withdrawn_by"] == "person:olga"


def test_what_a_person_did_not_say_can_not_be_withdrawn() -> None:
    world = World()
    by_reply = world.sent(world.opened(), confirmed())
    twice = say(world, unknown(world), Answer.HAPPENED, reference="T-1")
    twice = transitions.withdrawn(twice, 1, world.moment, by="person:olga")

    for operation in (by_reply, twice):
        with pytest.raises(NotNow):
            transitions.withdrawn(operation, 1, world.moment, by="person:olga")


def test_only_the_withdrawn_attempt_is_in_doubt() -> None:
    world = World()
    operation = world.sent(denied(world), confirmed("T-2"))

    operation = transitions.withdrawn(operation, 1, world.moment, by="person:olga")

    assert [attempt.outcome for attempt in operation.steps[0].attempts] == [
        Outcome.UNKNOWN,
        Outcome.CONFIRMED,
    ]
    assert states(say(world, operation, Answer.ABSENT_END)) == [S.CONFIRMED]  # the second stands


# An older event says less than what is known


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(confirmed(), accepted(), id="accepted after confirmed"),
        pytest.param(confirmed(), UNCLEAR, id="unknown after confirmed"),
        pytest.param(accepted(), UNCLEAR, id="unknown after accepted"),
        pytest.param(REJECTED, UNCLEAR, id="unknown after rejected"),
        pytest.param(REJECTED, DEFERRED, id="another no change after rejected"),
    ],
)
def test_a_state_never_goes_back(first: Finding, second: Finding) -> None:
    world = World(policy(message()))
    operation = world.sent(world.opened(), first)

    assert not fold.difference(operation, world.hear(operation, second))


def test_an_acceptance_that_comes_after_the_bounce_says_less() -> None:
    world = World(policy(message()))
    operation = world.claim(world.opened())
    operation = transitions.reported(operation, 1, BOUNCED, final=True, moment=world.moment)
    assert (states(operation), reasons(operation)) == ([S.FAILED], [R.DELIVERY_FAILED])

    assert not fold.difference(operation, world.hear(operation, accepted(None)))


# Anything after "never known"


@pytest.mark.parametrize(
    "finding", [confirmed(), accepted(), REJECTED], ids=["confirmed", "accepted", "rejected"]
)
def test_late_truth_reopens_what_was_closed_as_never_known(finding: Finding) -> None:
    world = World(policy(), policy())
    operation = say(world, unknown(world), Answer.CLOSE_UNKNOWN)
    assert operation.state is OperationState.CLOSED_UNKNOWN

    operation = world.hear(operation, finding)

    assert (operation.state, reasons(operation)) == (OperationState.HELD, [R.DISPUTED])
    assert not operation.steps[0].never_known
    assert operation.holds[0].facts["statements"][0]["outcome"] == "never_known"


def test_what_settles_one_of_two_unknown_attempts_reopens_nothing() -> None:
    world = World(policy(profile(protection=KEYED)))
    operation = world.lose(world.claim(unknown(world)))
    operation = say(world, operation, Answer.CLOSE_UNKNOWN)

    operation = world.hear(operation, DEFERRED, attempt=2)

    assert (operation.state, reasons(operation)) == (OperationState.CLOSED_UNKNOWN, [])


# In dispute, a person decides


def test_nothing_but_a_person_settles_a_dispute() -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=False))
    operation = world.hear(denied(world), confirmed())
    world.policies = {1: replace(world.policies[1], automatic_recovery=True)}

    for heard in (confirmed(), accepted("T-3"), REJECTED):
        operation = world.hear(operation, heard)
    found = transitions.looked(operation, 1, Look("confirmed", reference="T-1"), world.moment)

    assert (states(found), reasons(found)) == ([S.UNKNOWN], [R.DISPUTED])
    assert len(found.holds[0].facts["statements"]) == 4  # each is shown, the same one once


def test_a_refusal_while_a_person_is_asked_about_a_record_is_a_dispute() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = unknown(world)
    operation = transitions.looked(
        operation, 1, Look("differs", reference="T-1", facts={"reference": "T-1"}), world.moment
    )
    assert reasons(operation) == [R.RECORD_DIFFERS]

    operation = world.hear(operation, REJECTED)

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])
    assert operation.holds[0].facts["reference"] == "T-1"  # the weaker question's facts are kept


# Reports and lookups that cross


def test_a_bounce_after_delivery_is_a_dispute() -> None:
    world = World(policy(message()))
    operation = world.sent(world.opened(), accepted())
    operation = transitions.reported(operation, 1, DELIVERED, final=True, moment=world.moment)

    operation = transitions.reported(operation, 1, BOUNCED, final=True, moment=world.moment)

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])


def test_a_delivery_after_a_bounce_is_a_dispute() -> None:
    world = World(policy(message()))
    operation = world.sent(world.opened(), accepted())
    operation = transitions.reported(operation, 1, BOUNCED, final=True, moment=world.moment)

    operation = transitions.reported(
        operation, 1, replace(DELIVERED, reference="T-1"), final=True, moment=world.moment
    )

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.DISPUTED])


@pytest.mark.parametrize(
    ("report", "state"), [(DELIVERED, S.CONFIRMED), (BOUNCED, S.FAILED)], ids=["delivered", "bounced"]
)
def test_a_report_that_overtakes_the_reply_counts(report: Finding, state: StepState) -> None:
    world = World(policy(message(), recovers=False))
    for before in (world.claim(world.opened()), unknown(world)):
        operation = transitions.reported(before, 1, report, final=True, moment=world.moment)

        assert states(operation) == [state]
        assert not fold.difference(operation, world.hear(operation, accepted(None)))


def test_a_report_names_the_attempt_by_its_reference() -> None:
    world = World(policy(message()))
    operation = world.sent(denied(world), accepted("T-2"))

    report = replace(DELIVERED, reference="T-2")
    operation = transitions.reported(operation, 1, report, final=True, moment=world.moment)

    assert [attempt.outcome for attempt in operation.steps[0].attempts] == [
        Outcome.NO_CHANGE,
        Outcome.CONFIRMED,
    ]
    assert not operation.holds


def test_nothing_is_learnt_about_a_step_that_was_never_sent() -> None:
    world = World(policy(message()))
    operation = world.opened()

    assert not fold.difference(
        operation, transitions.reported(operation, 1, DELIVERED, final=True, moment=world.moment)
    )


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        pytest.param(Look("confirmed", reference="T-1"), R.DISPUTED, id="finds the record"),
        pytest.param(Look("differs", reference="T-1"), R.DISPUTED, id="finds a record that differs"),
        pytest.param(Look("accepted", reference="T-1"), R.DISPUTED, id="finds it taken over"),
        pytest.param(
            Look("duplicate", facts={"references": ["T-1", "T-2"]}), R.DUPLICATE_FOUND, id="finds two"
        ),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_END, Answer.CLOSE_UNKNOWN],
    ids=lambda answer: answer.value,
)
def test_a_lookup_that_ends_after_an_answer_is_heard(answer: Answer, look: Look, reason: HoldReason) -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=False))
    operation = say(world, unknown(world), answer)

    operation = transitions.looked(operation, 1, look, world.moment)

    if answer is Answer.CLOSE_UNKNOWN and look.answer == "differs":
        reason = R.DISPUTED
    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [reason])
    assert operation.steps[0].act is not Act.SEND


def test_a_lookup_that_ends_while_it_is_sent_again_is_heard() -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=False))
    operation = world.claim(say(world, unknown(world), Answer.ABSENT_SEND_AGAIN))

    operation = transitions.looked(operation, 1, Look("confirmed", reference="T-1"), world.moment)

    assert (states(operation), reasons(operation)) == ([S.IN_FLIGHT], [R.DISPUTED])


@pytest.mark.parametrize(
    ("look", "left"),
    [
        pytest.param(Look("confirmed", reference="T-1"), [], id="finds the same record"),
        pytest.param(Look("differs", reference="T-1"), [], id="finds it, changed since"),
        pytest.param(Look("none"), [], id="finds nothing"),
        pytest.param(Look("no_answer"), [], id="no answer"),
        pytest.param(Look("confirmed", reference="T-2"), [R.DISPUTED], id="finds another record"),
        pytest.param(Look("differs", reference="T-2"), [R.RECORD_DIFFERS], id="finds another that differs"),
        pytest.param(Look("absent"), [R.DISPUTED], id="proves absence"),
        pytest.param(
            Look("duplicate", facts={"references": ["T-1", "T-2"]}), [R.DUPLICATE_FOUND], id="finds two"
        ),
    ],
)
def test_a_lookup_that_ends_after_it_happened(look: Look, left: list[HoldReason]) -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=False))
    operation = say(world, unknown(world), Answer.HAPPENED, reference="T-1")

    assert reasons(transitions.looked(operation, 1, look, world.moment)) == left


def test_a_record_that_is_gone_does_not_contradict_the_reply_that_proved_it() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    operation = world.sent(world.opened(), confirmed())

    assert not transitions.looked(operation, 1, Look("absent"), world.moment).holds


# A reference belongs to one create step only


def test_a_reference_that_another_step_holds_proves_nothing() -> None:
    world = World(policy(profile(protection=KEYED)))
    operation = world.sent(world.opened(), confirmed("T-1", taken_by="op-7"))

    assert (states(operation), reasons(operation)) == ([S.UNKNOWN], [R.OUTCOME_UNKNOWN])
    assert operation.holds[0].facts == {"reference_taken": "T-1", "taken_by": "op-7"}
    assert operation.steps[0].act is Act.NONE  # protected, but a person is asked first


def test_a_taken_reference_never_overturns_what_is_settled() -> None:
    world = World(policy(message()))
    operation = world.sent(world.opened(), accepted(None))

    after = transitions.reported(
        operation, 1, replace(DELIVERED, reference="T-1", taken_by="op-7"), final=True, moment=world.moment
    )

    assert not fold.difference(operation, after)


def test_a_taken_reference_in_a_dispute_is_shown_and_not_kept() -> None:
    world = World()
    operation = world.hear(denied(world), confirmed("T-1", taken_by="op-7"))
    assert operation.holds[0].facts["taken_by"] == "op-7"

    operation = say(world, operation, Answer.HAPPENED, reference="T-2")

    assert (operation.steps[0].reference, reasons(operation)) == ("T-2", [])


# Looks that were made before count no longer


def test_looks_begin_anew_when_an_answer_is_withdrawn() -> None:
    world = World(policy(profile(lookup=LOOKUP), recovers=False))
    operation = unknown(world)
    world.at(2)
    operation = transitions.looked(operation, 1, Look("none", counted=True), world.moment)
    assert operation.steps[0].looks_none == 1
    operation = say(world, operation, Answer.ABSENT_SEND_AGAIN)

    operation = transitions.withdrawn(operation, 1, world.moment, by="person:olga")

    assert (operation.steps[0].looks, operation.steps[0].looks_none) == (0, 0)
    assert operation.steps[0].unknown_at == at(2)


def test_who_knows_it_is_kept() -> None:
    world = World(policy(profile(lookup=LOOKUP)))
    never_left = world.sent(world.opened(), NOT_SENT).steps[0].attempts[0]
    lost = unknown(world)
    found = transitions.looked(lost, 1, Look("confirmed", reference="T-1"), world.moment)
    absent = transitions.looked(lost, 1, Look("absent"), world.moment)

    assert (never_left.known_by, lost.steps[0].attempts[0].known_by) == (KnownBy.TRANSPORT, KnownBy.LEASE)
    assert found.steps[0].attempts[0].known_by is KnownBy.LOOKUP
    assert absent.steps[0].attempts[0].no_change is NoChange.ABSENT

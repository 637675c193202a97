"""What contradicts absence, and what each conclusion of *it did not happen* makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from opsledger.rules import transitions
from opsledger.rules.absence import FOUND_UNNAMED, contradicts_absence, findings, found
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.destination_checks import refuse_action
from opsledger.rules.learning import Finding
from opsledger.rules.profile import Retries, Settles
from opsledger.rules.record import Act, KnownBy, Operation
from opsledger.rules.replays import Beside, Reason, Stated, mark_of, verdict_of
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    DEFERRED,
    KEYED,
    LOOKUP,
    NOT_SENT,
    REJECTED,
    UNCLEAR,
    World,
    confirmed,
    no_change,
    policy,
    profile,
    reasons,
)
from tests.rules.test_definitions import DOCUMENT, changed, read_definitions

ASKABLE = policy(profile(lookup=LOOKUP), recovers=False)
RECOVERS = policy(profile(lookup=LOOKUP))
FOUND = Look("confirmed", reference="T-1", applies=False, facts={"looked": "confirmed", "reference": "T-1"})
ABSENT = Look("absent", counted=True, facts={"looked": "absent"})
EMPTY = Look("none", counted=True, facts={"looked": "none"})
NAMED = replace(UNCLEAR, reference="T-1")  # 409: it exists, and this is it


def unknown(world: World) -> Operation:
    return world.sent(world.opened(), UNCLEAR)


def looked(world: World, operation: Operation, *looks: Look) -> Operation:
    for one in looks:
        operation = transitions.looked(operation, 1, one, world.moment)
    return operation


# What contradicts


def found_by_a_look(world: World) -> Operation:
    return looked(world, unknown(world), FOUND)


def named_by_the_destination(world: World) -> Operation:
    return world.sent(world.opened(), NAMED)


def taken_by_another(world: World) -> Operation:
    return world.sent(world.opened(), confirmed("T-1", taken_by="op-7"))


def taken_in_a_look(world: World) -> Operation:
    return looked(world, unknown(world), Look("no_answer", reference="T-1", facts={"taken_by": "op-7"}))


def taken_over(world: World) -> Operation:
    return looked(world, unknown(world), replace(FOUND, answer="accepted"))


def bounced(world: World) -> Operation:
    return looked(world, unknown(world), replace(FOUND, answer="bounced"))


def differs(world: World) -> Operation:
    return looked(world, unknown(world), replace(FOUND, answer="differs"))


def duplicate(world: World) -> Operation:
    return looked(world, unknown(world), Look("duplicate", facts={"references": ["T-1", "T-2"]}))


def unnamed(world: World) -> Operation:
    return looked(world, unknown(world), Look("no_answer", facts={FOUND_UNNAMED: True}))


def found_long_ago(world: World) -> Operation:
    return looked(world, found_by_a_look(world), EMPTY, Look("no_answer"), EMPTY)


CONTRADICTS: dict[str, Callable[[World], Operation]] = {
    "found, and only proposed": found_by_a_look,
    "named by a 409": named_by_the_destination,
    "a success that names another's record": taken_by_another,
    "found, but it is another's": taken_in_a_look,
    "found, its final effect not proven": taken_over,
    "found, and it bounced": bounced,
    "found, and it differs": differs,
    "several found": duplicate,
    "found without a reference": unnamed,
    "found, then looked for in vain": found_long_ago,
}


@pytest.mark.parametrize("make", CONTRADICTS.values(), ids=CONTRADICTS.keys())
@pytest.mark.parametrize("shape", [ASKABLE, RECOVERS], ids=["proposed only", "recovers"])
def test_what_was_found_or_named_contradicts_absence(
    make: Callable[[World], Operation], shape: object
) -> None:
    world = World(shape)
    operation = make(world)
    assert contradicts_absence(operation.step(1), operation.hold_on(1))

    for look in (ABSENT, replace(ABSENT, answer="failed"), replace(ABSENT, answer="contradicted")):
        after = looked(world, operation, look, look)
        assert after.step(1).state is StepState.UNKNOWN
        assert after.step(1).act is not Act.SEND
        assert len(after.holds) == 1
        assert contradicts_absence(after.step(1), after.hold_on(1))


@pytest.mark.parametrize(
    "operation_of",
    [
        unknown,
        lambda world: looked(world, unknown(world), EMPTY),
        lambda world: looked(world, unknown(world), Look("candidates")),
    ],
    ids=["nothing heard", "nothing found", "only alike"],
)
def test_nothing_else_contradicts_it(operation_of: Callable[[World], Operation]) -> None:
    world = World(RECOVERS)
    operation = operation_of(world)
    assert contradicts_absence(operation.step(1), operation.hold_on(1)) == ""

    after = looked(world, operation, ABSENT)

    assert (after.step(1).state, after.step(1).act) == (StepState.READY, Act.SEND)


def test_what_a_person_disowned_contradicts_nothing_more() -> None:
    world = World(ASKABLE)
    operation = differs(world)
    disowned = answered(operation, operation.holds[0].id, Given(Answer.NOT_OURS), world.moment)

    assert disowned.step(1).attempts[0].reference is None  # neither is it read again
    assert contradicts_absence(disowned.step(1), disowned.hold_on(1)) == ""
    assert found(["T-1", "T-2", None], ["T-1"], {}) == "T-2"


# What it makes of a conclusion


@pytest.mark.parametrize("shape", [ASKABLE, RECOVERS], ids=["proposed only", "recovers"])
def test_found_and_then_proven_absent_is_disputed_with_both_told(shape: object) -> None:
    world = World(shape)
    after = looked(world, found_by_a_look(world), EMPTY, replace(ABSENT, answer="contradicted"))

    assert reasons(after) == [HoldReason.DISPUTED]
    first, later = after.holds[0].facts["statements"]
    assert (first["outcome"], first["reference"]) == ("found", "T-1")
    assert (later["outcome"], later["known_by"]) == ("no_change", "lookup")
    (attempt,) = after.step(1).attempts
    assert (attempt.outcome, attempt.reference, attempt.known_by) == (Outcome.UNKNOWN, "T-1", None)


@pytest.mark.parametrize("make", [differs, duplicate], ids=["differs", "duplicate"])
def test_a_question_about_records_stays_the_question_that_it_is(make: Callable[[World], Operation]) -> None:
    world = World(RECOVERS)
    operation = make(world)

    after = looked(world, operation, replace(ABSENT, answer="contradicted"))

    assert [one.id for one in after.holds] == [one.id for one in operation.holds]


def test_late_truth_reopens_what_was_closed_as_never_known_also_where_it_is_contradicted() -> None:
    world = World(ASKABLE)
    operation = found_by_a_look(world)
    closed = answered(operation, operation.holds[0].id, Given(Answer.CLOSE_UNKNOWN), world.moment)

    after = looked(world, closed, replace(ABSENT, answer="contradicted"))

    assert reasons(after) == [HoldReason.DISPUTED]
    assert after.step(1).attempts[0].reference == "T-1"


@pytest.mark.parametrize("finding", [NOT_SENT, DEFERRED, REJECTED], ids=["not sent", "deferred", "rejected"])
@pytest.mark.parametrize("by", [KnownBy.REPLY, KnownBy.AUTOMATION, KnownBy.REPORT], ids=str)
def test_a_late_no_change_about_what_was_found_is_disputed(finding: Finding, by: KnownBy) -> None:
    world = World(RECOVERS)
    late = replace(finding, known_by=by)

    after = world.hear(found_by_a_look(world), late)

    assert reasons(after) == [HoldReason.DISPUTED]
    assert after.step(1).act is not Act.SEND
    assert after.step(1).attempts[0].reference == "T-1"
    assert world.hear(after, late).holds[0].facts == after.holds[0].facts  # the same again adds nothing
    settled = world.hear(unknown(world), late)
    assert settled.step(1).attempts[0].outcome is Outcome.NO_CHANGE  # where nothing was found


def test_no_change_of_one_attempt_leaves_what_was_found_with_the_other() -> None:
    keyed = policy(profile(protection=KEYED, lookup=replace(LOOKUP, delays_seconds=(900,))))
    world = World(keyed)
    operation = unknown(world)
    operation.step(1).resend_asked = True
    operation = world.sent(transitions.time_passed(operation, world.moment), UNCLEAR)
    operation = looked(world, operation, replace(FOUND, answer="no_answer"))
    assert [one.reference for one in operation.step(1).attempts] == ["T-1", "T-1"]

    after = world.hear(operation, NOT_SENT, attempt=1)

    assert [one.outcome for one in after.step(1).attempts] == [Outcome.NO_CHANGE, Outcome.UNKNOWN]
    assert contradicts_absence(after.step(1), after.hold_on(1)) == "T-1"


KEYED_AND_ASKABLE = policy(
    profile(protection=KEYED, lookup=replace(LOOKUP, delays_seconds=(900,)), retries=Retries(3, (50,)))
)


def tried_again(world: World, operation: Operation, finding: Finding | None) -> Operation:
    """Once more under protection. `finding`: what that is answered; None: it is under way."""
    operation.step(1).resend_asked = True
    operation = world.claim(transitions.time_passed(operation, world.moment))
    return operation if finding is None else world.hear(operation, finding)


@pytest.mark.parametrize("late", [NOT_SENT, DEFERRED, REJECTED], ids=["not sent", "deferred", "rejected"])
@pytest.mark.parametrize("second", [UNCLEAR, None], ids=["unknown", "under way"])
@pytest.mark.parametrize("make", [named_by_the_destination, found_by_a_look], ids=["named", "found"])
def test_no_change_of_the_attempt_that_was_named_is_disputed_while_a_later_one_is_open(
    make: Callable[[World], Operation], second: Finding | None, late: Finding
) -> None:
    """The later one was not sent yet when the record was there, so it can't have made it."""
    world = World(KEYED_AND_ASKABLE)
    operation = tried_again(world, make(world), second)

    after = world.hear(operation, late, attempt=1)

    assert reasons(after) == [HoldReason.DISPUTED]
    assert contradicts_absence(after.step(1), after.hold_on(1)) == "T-1"
    if second is None:
        after = world.hear(after, UNCLEAR)
    assert looked(world, after, ABSENT).step(1).act is not Act.SEND


def test_what_a_later_attempt_was_told_that_exists_is_an_earlier_ones_when_it_did_not_make_it() -> None:
    world = World(KEYED_AND_ASKABLE)
    operation = tried_again(world, unknown(world), NAMED)
    assert [one.reference for one in operation.step(1).attempts] == [None, "T-1"]

    after = world.hear(operation, REJECTED, attempt=2)

    assert [one.outcome for one in after.step(1).attempts] == [Outcome.UNKNOWN, Outcome.NO_CHANGE]
    assert contradicts_absence(after.step(1), after.hold_on(1)) == "T-1"


def look_finds(world: World, operation: Operation, reference: str) -> Operation:
    return looked(world, operation, replace(FOUND, applies=True, reference=reference))


def late_reply_says(world: World, operation: Operation, reference: str) -> Operation:
    return world.hear(operation, confirmed(reference))


def next_try_says(world: World, operation: Operation, reference: str) -> Operation:
    return tried_again(world, operation, confirmed(reference, settles_earlier=True))


@pytest.mark.parametrize("learns", [look_finds, late_reply_says, next_try_says])
@pytest.mark.parametrize("make", [named_by_the_destination, found_by_a_look], ids=["named", "found"])
def test_another_record_than_the_one_that_was_named_is_asked_about(
    make: Callable[[World], Operation], learns: Callable[[World, Operation, str], Operation]
) -> None:
    world = World(KEYED_AND_ASKABLE)

    after = learns(world, make(world), "T-2")

    assert reasons(after) == [HoldReason.DUPLICATE_FOUND]
    assert after.holds[0].facts["references"] == ["T-1", "T-2"]
    assert (after.step(1).state, after.step(1).reference) == (StepState.CONFIRMED, "T-2")
    kept = answered(after, after.holds[0].id, Given(Answer.KEEP_ONE, reference="T-1"), world.moment)
    assert (kept.step(1).reference, kept.step(1).not_ours, kept.holds) == ("T-1", ("T-2",), [])
    same = learns(world, make(world), "T-1")
    assert (same.step(1).state, same.holds) == (StepState.CONFIRMED, [])


@pytest.mark.parametrize("learns", [look_finds, late_reply_says, next_try_says])
def test_what_a_person_disowned_is_no_second_record(
    learns: Callable[[World, Operation, str], Operation],
) -> None:
    world = World(KEYED_AND_ASKABLE)
    operation = differs(world)
    disowned = answered(operation, operation.holds[0].id, Given(Answer.NOT_OURS), world.moment)

    after = learns(world, disowned, "T-2")

    assert (after.step(1).reference, after.holds) == ("T-2", [])


def test_a_name_that_another_step_holds_gives_way_to_what_a_person_says() -> None:
    world = World(RECOVERS)
    disputed = looked(world, taken_in_a_look(world), EMPTY, replace(ABSENT, answer="contradicted"))
    assert reasons(disputed) == [HoldReason.DISPUTED]
    given = Given(Answer.HAPPENED, reference="T-9")

    heard = answered(disputed, disputed.holds[0].id, given, world.moment)
    elsewhere = replace(given, elsewhere=frozenset({"T-1"}))
    after = answered(disputed, disputed.holds[0].id, elsewhere, world.moment)

    assert reasons(heard) == [HoldReason.DUPLICATE_FOUND]  # where it is nobody else's
    assert (after.step(1).state, after.step(1).reference, after.holds) == (StepState.CONFIRMED, "T-9", [])


def no_other_word(world: World) -> Operation:
    return looked(world, unknown(world), Look("no_answer", reference="T-1"))


ANSWERS_THAT_IT_HAPPENED = {
    Answer.HAPPENED: StepState.CONFIRMED,
    Answer.HAPPENED_ACCEPTED: StepState.ACCEPTED,
}
NAMED_BEFORE = {
    "found, and only proposed": found_by_a_look,
    "named by a 409": named_by_the_destination,
    "found, its final effect not proven": taken_over,
    "found, then looked for in vain": found_long_ago,
    "named in a look": no_other_word,
}


@pytest.mark.parametrize("answer", ANSWERS_THAT_IT_HAPPENED, ids=lambda one: str(one.value))
@pytest.mark.parametrize("make", NAMED_BEFORE.values(), ids=NAMED_BEFORE.keys())
def test_a_person_who_names_another_record_is_asked_about_both(
    make: Callable[[World], Operation], answer: Answer
) -> None:
    world = World(ASKABLE)
    operation = make(world)

    def said(reference: str | None) -> Operation:
        return answered(operation, operation.holds[0].id, Given(answer, reference=reference), world.moment)

    after, same, unsaid = said("T-2"), said("T-1"), said(None)

    state = ANSWERS_THAT_IT_HAPPENED[answer]
    assert reasons(after) == [HoldReason.DUPLICATE_FOUND]
    assert after.holds[0].facts["references"] == ["T-1", "T-2"]
    assert (after.step(1).state, after.step(1).reference) == (state, "T-2")
    kept = answered(after, after.holds[0].id, Given(Answer.KEEP_ONE, reference="T-1"), world.moment)
    assert (kept.step(1).reference, kept.step(1).not_ours, kept.holds) == ("T-1", ("T-2",), [])
    for one in (same, unsaid):  # who names none means the one that was found
        assert (one.step(1).state, one.step(1).reference, one.holds) == (state, "T-1", [])


@pytest.mark.parametrize("answer", ANSWERS_THAT_IT_HAPPENED, ids=lambda one: str(one.value))
@pytest.mark.parametrize("reference", ["T-2", None], ids=["another", "none"])
def test_a_person_is_not_asked_about_what_was_disowned_or_is_another_steps(
    answer: Answer, reference: str | None
) -> None:
    world = World(ASKABLE)
    operation = differs(world)
    disowned = answered(operation, operation.holds[0].id, Given(Answer.NOT_OURS), world.moment)
    disowned.step(1).attempts[0].reference = "T-1"  # as where it is heard of once more
    elsewhere = taken_in_a_look(world)
    given = Given(answer, reference=reference)

    first = answered(disowned, disowned.holds[0].id, given, world.moment)
    given = replace(given, elsewhere=frozenset({"T-1"}))
    second = answered(elsewhere, elsewhere.holds[0].id, given, world.moment)

    for after in (first, second):
        assert (after.step(1).state, after.step(1).reference) == (ANSWERS_THAT_IT_HAPPENED[answer], reference)
        assert after.holds == []


def test_all_records_are_asked_about_where_another_attempt_is_proven_too() -> None:
    world = World(policy(profile(protection=KEYED, retries=Retries(3, (50,)))))
    operation = tried_again(world, named_by_the_destination(world), confirmed("T-3"))
    (attempt, proven) = operation.step(1).attempts
    assert (attempt.outcome, proven.outcome) == (Outcome.UNKNOWN, Outcome.CONFIRMED)
    given = Given(Answer.HAPPENED, reference="T-2")

    after = answered(operation, operation.holds[0].id, given, world.moment)

    assert reasons(after) == [HoldReason.DUPLICATE_FOUND]
    assert after.holds[0].facts["references"] == ["T-1", "T-2", "T-3"]


def test_a_choice_among_records_leaves_none_of_them_unsaid() -> None:
    world = World(ASKABLE)
    operation = looked(world, found_by_a_look(world), Look("duplicate", facts={"references": ["T-2", "T-3"]}))
    assert reasons(operation) == [HoldReason.DUPLICATE_FOUND]

    def keep(one: Operation, reference: str) -> Operation:
        return answered(one, one.holds[0].id, Given(Answer.KEEP_ONE, reference=reference), world.moment)

    after = keep(operation, "T-2")

    assert reasons(after) == [HoldReason.DUPLICATE_FOUND]
    assert after.holds[0].facts["references"] == ["T-1", "T-2"]
    last = keep(after, "T-2")
    assert (last.step(1).reference, set(last.step(1).not_ours), last.holds) == ("T-2", {"T-1", "T-3"}, [])


def test_a_refusal_given_out_again_does_not_settle_an_attempt_whose_record_was_found() -> None:
    keyed = policy(profile(protection=KEYED))
    stored = no_change(NoChange.REJECTED, settles_earlier=True)
    world = World(keyed)

    plain = world.sent(unknown(world), stored)
    named = world.sent(named_by_the_destination(world), stored)

    assert [one.outcome for one in plain.step(1).attempts] == [Outcome.NO_CHANGE, Outcome.NO_CHANGE]
    assert [one.outcome for one in named.step(1).attempts] == [Outcome.UNKNOWN, Outcome.NO_CHANGE]
    assert named.step(1).state is StepState.UNKNOWN


# A provider's statement, and the plan of a replay


@pytest.mark.parametrize("make", CONTRADICTS.values(), ids=CONTRADICTS.keys())
def test_a_statement_sends_nothing_that_was_found_or_named(make: Callable[[World], Operation]) -> None:
    world = World(ASKABLE)
    operation = make(world)
    hold = operation.holds[0]
    beside = Beside(stated_absent={1: Stated("stm_1", hold.id, len(operation.step(1).attempts))})

    verdict = verdict_of(operation, operation.step(1), world.policies, world.now, beside)

    held = hold.reason in {HoldReason.RECORD_DIFFERS, HoldReason.DUPLICATE_FOUND}
    assert verdict.reason is (Reason.HELD if held else Reason.FOUND)
    assert not verdict.runs


def test_a_statement_from_before_something_was_learnt_covers_nothing() -> None:
    world = World(ASKABLE)
    operation = unknown(world)
    stated = Stated("stm_1", operation.holds[0].id, 1)

    def reason(one: Stated) -> Reason:
        beside = Beside(stated_absent={1: one})
        return verdict_of(operation, operation.step(1), world.policies, world.now, beside).reason

    assert reason(stated) is Reason.STATED_ABSENT
    assert reason(replace(stated, learnt_since=True)) is Reason.CAN_BE_ASKED


def test_a_mark_moves_with_what_was_found_also_where_that_decides_nothing() -> None:
    world = World(ASKABLE)
    before = unknown(world)
    verdict = verdict_of(before, before.step(1), world.policies, world.now)
    alike = Look("candidates", facts={"candidates": ["T-8"]})

    def mark(operation: Operation) -> bytes:
        return mark_of(operation.step(1), verdict, "v1", hold=operation.hold_on(1))

    assert mark(looked(world, before, EMPTY)) == mark(before)
    assert len({mark(before), mark(looked(world, before, alike)), mark(looked(world, before, FOUND))}) == 3
    assert findings(looked(world, before, alike).step(1), looked(world, before, alike).hold_on(1)) == ("T-8",)


# What may prove it at all


def test_an_action_that_settles_both_ways_has_a_search() -> None:
    (one, *_), problems = read_definitions(changed("destination/crm/actions/create_task/search", None))
    assert problems == []  # what was stored before is read as it is
    action = one.actions["create_task"]
    assert action.profile.lookup.settles is Settles.BOTH

    (why,) = refuse_action(action)

    assert "there is no search" in why
    positive = changed("destination/crm/actions/create_task/lookup/settles", "positive_only")
    del positive["destination"]["crm"]["actions"]["create_task"]["search"]
    for document in (DOCUMENT, positive):
        assert refuse_action(read_definitions(document)[0][0].actions["create_task"]) == []

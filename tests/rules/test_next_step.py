"""What happens next to a step: rules.md, table 4, row by row, and the order of its rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.learning import Finding
from opsledger.rules.next_step import Policy, Rendered, decide, protection_of, tries_left
from opsledger.rules.profile import Protection, ProtectionKind, Retries
from opsledger.rules.record import Act, KnownBy, Operation, Performer
from opsledger.rules.settling import NotNow, settled
from opsledger.rules.states import HoldReason, OperationState, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    BY_LOOKUP,
    BY_REPORT,
    DEFERRED,
    DELIVERED,
    KEYED,
    LOOKUP,
    NOT_SENT,
    PLAIN,
    POSITIVE_ONLY,
    REJECTED,
    SOURCE,
    UNCLEAR,
    Make,
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

S, R = StepState, HoldReason
LOOKED_UP, KEYED_LOOKED_UP = profile(lookup=LOOKUP), profile(protection=KEYED, lookup=LOOKUP)
AFTER_FAILURE: dict[str, Any] = {"continues_after_failure": True}


def lacking(*missing: str) -> Policy:
    return policy(render=lambda operation, step: Rendered(missing=missing))


def unknown(world: World) -> Operation:
    return world.lose(world.claim(world.opened()))


def cancelled(make: Make) -> Make:
    return lambda world: transitions.cancel_requested(make(world), world.moment)


def later(ticks: float, make: Make) -> Make:
    def made(world: World) -> Operation:
        operation = make(world)
        return transitions.time_passed(operation, world.at(ticks))

    return made


def bounced(world: World) -> Operation:
    operation = world.sent(world.opened(), accepted())
    finding = Finding(Outcome.NO_CHANGE, KnownBy.REPORT, no_change=REJECTED.no_change)
    return transitions.reported(operation, 1, finding, final=True, moment=world.moment)


def ended_as_failed(world: World) -> Operation:
    operation = world.sent(world.opened(), REJECTED)
    return answered(operation, operation.holds[0].id, Given(Answer.END_FAILED), world.moment)


def looked_for_in_vain(world: World) -> Operation:
    """All planned looks are used up, and none settled anything."""
    operation = unknown(world)
    while operation.steps[0].act is Act.LOOK:
        world.now = operation.steps[0].act_at or world.now
        operation = transitions.looked(operation, 1, Look("no_answer"), world.moment)
    return operation


def expired(world: World) -> Operation:
    operation = unknown(world)
    return transitions.time_passed(operation, world.at(9))


ROWS: dict[str, tuple[World, Make, int, tuple[Act, datetime | None, StepState, HoldReason | None]]] = {
    "row 1: cancelled, and nothing was sent": (
        World(),
        cancelled(lambda world: world.opened()),
        0,  # the row has done its work: the step has ended
        (Act.NONE, None, S.CANCELLED, None),
    ),
    "row 1: cancelled, and nothing that was sent had an effect": (
        World(),
        cancelled(lambda world: world.sent(world.opened(), DEFERRED)),
        0,
        (Act.NONE, None, S.CANCELLED, None),
    ),
    "row 2: cancelled while in flight: the lease is waited for": (
        World(),
        cancelled(lambda world: world.claim(world.opened())),
        2,
        (Act.LEASE, at(0.6), S.IN_FLIGHT, None),
    ),
    "row 2: cancelled while unknown: looked up": (
        World(policy(KEYED_LOOKED_UP)),
        cancelled(unknown),
        2,
        (Act.LOOK, at(0.6), S.UNKNOWN, None),
    ),
    "row 2: cancelled while unknown, no lookup: held, although protected": (
        World(policy(profile(protection=KEYED))),
        cancelled(unknown),
        2,
        (Act.NONE, None, S.UNKNOWN, R.OUTCOME_UNKNOWN),
    ),
    "row 2: cancelled while accepted: its final effect is waited for": (
        World(policy(message())),
        cancelled(lambda world: world.sent(world.opened(), accepted())),
        16,
        (Act.AWAIT, at(2.5), S.ACCEPTED, None),
    ),
    "row 3: an open hold: nothing is sent": (
        World(),
        lambda world: world.sent(world.opened(), REJECTED),
        3,
        (Act.NONE, None, S.READY, R.REJECTED),
    ),
    "row 3: an open hold: lookups go on": (
        World(policy(KEYED_LOOKED_UP, recovers=False)),
        unknown,
        3,
        (Act.LOOK, at(0.6), S.UNKNOWN, R.OUTCOME_UNKNOWN),
    ),
    "row 4: in flight: its lease is waited for": (
        World(),
        lambda world: world.claim(world.opened()),
        4,
        (Act.LEASE, at(0.6), S.IN_FLIGHT, None),
    ),
    "row 7: a field is missing": (
        World(lacking("params.subject")),
        lambda world: world.opened(),
        3,
        (Act.NONE, None, S.WAITING, R.DATA_MISSING),
    ),
    "row 8: an approval is missing": (
        World(),
        lambda world: world.opened(approval_needed=True),
        3,
        (Act.NONE, None, S.WAITING, R.APPROVAL_NEEDED),
    ),
    "row 8: the approval is of another request": (
        World(),
        lambda world: world.opened(approval_needed=True, approved_digest="other", approved_until=at(9)),
        3,
        (Act.NONE, None, S.WAITING, R.APPROVAL_NEEDED),
    ),
    "row 8: the approval has come to its end before the first send": (
        World(),
        lambda world: world.opened(approval_needed=True, approved_digest="content", approved_until=at(0)),
        3,
        (Act.NONE, None, S.WAITING, R.APPROVAL_NEEDED),
    ),
    "row 11: approved, and sent while that is good": (
        World(),
        lambda world: world.opened(approval_needed=True, approved_digest="content", approved_until=at(9)),
        11,
        (Act.SEND, at(0), S.READY, None),
    ),
    "row 9: past its latest moment, and never sent": (
        World(),
        later(2, lambda world: world.opened(not_after=at(2))),
        3,
        (Act.NONE, None, S.READY, R.TOO_LATE),
    ),
    "row 10: the destination is stopped: ready, and no hold here": (
        World(policy(destination_stopped=True)),
        lambda world: world.opened(),
        10,
        (Act.NONE, None, S.READY, None),
    ),
    "row 11: ready, performed by the engine": (
        World(),
        lambda world: world.opened(),
        11,
        (Act.SEND, at(0), S.READY, None),
    ),
    "row 11: ready, performed by an automation": (
        World(),
        lambda world: world.opened(performer=Performer.AUTOMATION),
        11,
        (Act.OFFER, at(1.5), S.READY, None),
    ),
    "row 11: unclaimed by its deadline": (
        World(),
        later(2, lambda world: world.opened(performer=Performer.AUTOMATION)),
        3,
        (Act.NONE, None, S.READY, R.NOBODY_CLAIMED),
    ),
    "row 12: not sent, tries left": (
        World(),
        lambda world: world.sent(world.opened(), replace(NOT_SENT, not_before=at(0.5))),
        12,
        (Act.SEND, at(0.5), S.READY, None),
    ),
    "row 12: deferred, tries left": (
        World(),
        lambda world: world.sent(world.opened(), replace(DEFERRED, not_before=at(0.5))),
        12,
        (Act.SEND, at(0.5), S.READY, None),
    ),
    "row 13: deferred, no tries left": (
        World(),
        lambda world: world.sent(world.sent(world.opened(), DEFERRED), DEFERRED),
        3,
        (Act.NONE, None, S.READY, R.ATTEMPTS_EXHAUSTED),
    ),
    "row 14: rejected": (
        World(),
        lambda world: world.sent(world.opened(), REJECTED),
        3,
        (Act.NONE, None, S.READY, R.REJECTED),
    ),
    "row 15: accepted, no final effect is documented": (
        World(),
        lambda world: world.sent(world.opened(), accepted()),
        15,
        (Act.NONE, None, S.ACCEPTED, None),
    ),
    "row 15: but a later step waits for more": (
        World(policy(), policy()),
        lambda world: world.sent(world.opened(), accepted()),
        3,
        (Act.NONE, None, S.ACCEPTED, R.DELIVERY_NOT_PROVEN),
    ),
    "row 16: accepted: the report is waited for": (
        World(policy(profile(final_effect=BY_REPORT))),
        lambda world: world.sent(world.opened(), accepted()),
        16,
        (Act.AWAIT, at(2.5), S.ACCEPTED, None),
    ),
    "row 16: accepted: looked up": (
        World(policy(profile(final_effect=BY_LOOKUP, lookup=LOOKUP))),
        lambda world: world.sent(world.opened(), accepted()),
        16,
        (Act.LOOK, at(1), S.ACCEPTED, None),
    ),
    "row 16: accepted, nothing at its deadline": (
        World(policy(profile(final_effect=BY_REPORT))),
        later(2.5, lambda world: world.sent(world.opened(), accepted())),
        3,
        (Act.NONE, None, S.ACCEPTED, R.DELIVERY_NOT_PROVEN),
    ),
    "row 17: accepted, then a final failure": (
        World(policy(message())),
        bounced,
        0,
        (Act.NONE, None, S.FAILED, R.DELIVERY_FAILED),
    ),
    "row 18: unknown, recovery not enabled": (
        World(policy(profile(protection=KEYED), recovers=False)),
        unknown,
        3,
        (Act.NONE, None, S.UNKNOWN, R.OUTCOME_UNKNOWN),
    ),
    "row 19: unknown, a lookup exists: looked up now": (
        World(policy(KEYED_LOOKED_UP)),
        unknown,
        19,
        (Act.LOOK, at(0.6), S.UNKNOWN, None),
    ),
    "row 20: unknown, no lookup, protected now: the same again": (
        World(policy(profile(protection=KEYED))),
        unknown,
        20,
        (Act.SEND, at(0.6), S.UNKNOWN, None),
    ),
    "row 20: unknown, looks used up, protected now": (
        World(policy(KEYED_LOOKED_UP)),
        looked_for_in_vain,
        20,
        (Act.SEND, at(3), S.UNKNOWN, None),
    ),
    "row 21: unknown, neither": (
        World(),
        unknown,
        3,
        (Act.NONE, None, S.UNKNOWN, R.OUTCOME_UNKNOWN),
    ),
    "row 21: unknown, and protection is over": (
        World(policy(profile(protection=KEYED))),
        expired,
        3,
        (Act.NONE, None, S.UNKNOWN, R.PROTECTION_EXPIRED),
    ),
    "row 21: something else was processed under the key": (
        World(policy(profile(protection=KEYED))),
        lambda world: world.sent(world.opened(), replace(UNCLEAR, integrity_alarm=True)),
        3,
        (Act.NONE, None, S.UNKNOWN, R.INTEGRITY_ALARM),
    ),
    "row 21: the bytes at hand were not the approved ones": (
        World(policy(profile(protection=KEYED))),
        lambda world: world.sent(world.opened(), replace(NOT_SENT, integrity_alarm=True)),
        3,
        (Act.NONE, None, S.READY, R.INTEGRITY_ALARM),
    ),
}


@pytest.mark.parametrize(("world", "make", "row", "plan"), ROWS.values(), ids=ROWS.keys())
def test_table_4(
    world: World,
    make: Make,
    row: int,
    plan: tuple[Act, datetime | None, StepState, HoldReason | None],
) -> None:
    operation = make(world)
    step = operation.steps[0]

    hold = operation.hold_on(1)
    assert (step.act, step.act_at, step.state, hold and hold.reason) == plan
    assert decide(operation, step, world.policies, world.now).row == row


# Rows 5 and 6: the step before


def second_after(first: Make, **words: Any) -> tuple[World, Operation]:
    world = World(policy(message()), policy(**words))
    return world, first(world)


@pytest.mark.parametrize(
    ("first", "words", "second"),
    [
        pytest.param(ended_as_failed, {}, S.CANCELLED, id="row 5: an earlier step has failed"),
        pytest.param(ended_as_failed, AFTER_FAILURE, S.READY, id="row 5: unless this one goes on"),
        pytest.param(bounced, {}, S.WAITING, id="row 6: failed, but a person may still bring it back"),
        pytest.param(lambda w: w.opened(), {}, S.WAITING, id="row 6: an earlier step is ready"),
        pytest.param(lambda w: w.claim(w.opened()), {}, S.WAITING, id="row 6: an earlier step is in flight"),
        pytest.param(unknown, {}, S.WAITING, id="row 6: an earlier step is unknown"),
        pytest.param(unknown, AFTER_FAILURE, S.WAITING, id="row 6: unknown is no failure"),
        pytest.param(
            lambda w: w.sent(w.opened(), accepted()), {}, S.WAITING, id="row 6: an earlier step is accepted"
        ),
        pytest.param(
            lambda w: w.sent(w.opened(), confirmed()), {}, S.READY, id="row 6: an earlier step is confirmed"
        ),
    ],
)
def test_a_step_waits_for_the_one_before(first: Make, words: dict[str, bool], second: StepState) -> None:
    _, operation = second_after(first, **words)

    assert operation.steps[1].state is second
    assert (operation.steps[1].act is Act.SEND) == (second is S.READY)


def test_accepted_is_enough_where_the_workflow_says_so() -> None:
    world = World(policy(message(), accepted_is_enough=True), policy())
    operation = world.sent(world.opened(), accepted())

    late = transitions.time_passed(operation, world.at(3))

    assert operation.steps[1].act is Act.SEND
    assert reasons(late) == [R.DELIVERY_NOT_PROVEN]
    assert late.steps[1].state is S.READY  # an unproven delivery does not stop what was allowed to follow it


@pytest.mark.parametrize(
    ("look", "reason"),
    [
        (Look("duplicate", facts={"references": ["T-1", "T-2"]}), R.DUPLICATE_FOUND),
        (Look("differs", reference="T-1", facts={"reference": "T-1"}), R.RECORD_DIFFERS),
    ],
    ids=["duplicate found", "record differs"],
)
def test_nothing_is_built_upon_a_step_whose_records_are_in_question(look: Look, reason: HoldReason) -> None:
    world = World(policy(LOOKED_UP, accepted_is_enough=True), policy())
    operation = transitions.looked(unknown(world), 1, look, world.moment)

    operation = world.hear(operation, accepted())

    assert reasons(operation) == [reason]
    assert states(operation) == [S.ACCEPTED, S.WAITING]


def test_an_operation_skips_a_skipped_step() -> None:
    world = World(policy(), policy())
    operation = world.opened()
    operation.steps[0].state = S.SKIPPED

    operation = settled(operation, world.moment)

    assert states(operation) == [S.SKIPPED, S.READY]


# The order of the rows


@pytest.mark.parametrize(
    ("world", "fields", "reason"),
    [
        pytest.param(
            World(lacking("params.subject")), {"approval_needed": True}, R.DATA_MISSING, id="7 before 8"
        ),
        pytest.param(
            World(), {"approval_needed": True, "not_after": at(0)}, R.APPROVAL_NEEDED, id="8 before 9"
        ),
        pytest.param(
            World(policy(destination_stopped=True)), {"not_after": at(0)}, R.TOO_LATE, id="9 before 10"
        ),
        pytest.param(
            World(), {"performer": Performer.AUTOMATION, "not_after": at(0)}, R.TOO_LATE, id="9 before 11"
        ),
    ],
)
def test_the_first_row_that_fits_wins(world: World, fields: dict[str, object], reason: HoldReason) -> None:
    assert reasons(world.opened(**fields)) == [reason]  # type: ignore[arg-type]


def test_cancelled_comes_before_a_hold_and_before_a_lease() -> None:
    world = World()
    held = world.sent(world.opened(), REJECTED)
    in_flight = world.claim(world.opened())

    assert states(transitions.cancel_requested(held, world.moment)) == [S.CANCELLED]
    assert not transitions.cancel_requested(held, world.moment).holds
    flying = transitions.cancel_requested(in_flight, world.moment)
    assert states(world.hear(flying, DEFERRED)) == [S.CANCELLED]  # not ready again, as row 12 would have it


SENT_BY_ITSELF: dict[str, tuple[World, Make, int]] = {
    "to be sent": (World(), lambda world: world.opened(), 1),
    "to be offered": (World(), lambda world: world.opened(performer=Performer.AUTOMATION), 1),
    "put off": (World(), lambda world: world.sent(world.opened(), DEFERRED), 1),
    "behind a step that is done now": (
        World(policy(), policy()),
        lambda world: world.sent(world.opened(), confirmed()),
        2,
    ),
    "behind a failure": (
        World(policy(), policy(continues_after_failure=True)),
        lambda world: answered(
            held := world.sent(world.opened(), REJECTED), held.holds[0].id, Given(Answer.END_FAILED), world.moment
        ),
        2,
    ),
    "its destination is stopped": (World(policy(destination_stopped=True)), lambda world: world.opened(), 1),
}  # fmt: skip


@pytest.mark.parametrize(("world", "make", "number"), SENT_BY_ITSELF.values(), ids=SENT_BY_ITSELF)
def test_what_another_operation_replaces_is_cancelled_where_it_would_be_sent(
    world: World, make: Make, number: int
) -> None:
    operation = make(world)
    alone = settled(operation.copy(), world.moment).step(number)

    step = settled(replace(operation.copy(), replaced=True), world.moment).step(number)

    assert alone.state is S.READY
    assert (step.state, step.act) == (S.CANCELLED, Act.NONE)


def test_what_another_operation_replaces_is_looked_for_and_not_sent_under_protection() -> None:
    world = World(policy(KEYED_LOOKED_UP))
    in_vain, at_once = looked_for_in_vain(world), unknown(World(policy(KEYED_LOOKED_UP)))
    at_once.steps[0].resend_asked = True
    assert (in_vain.steps[0].act, settled(at_once.copy(), world.moment).steps[0].act) == (Act.SEND, Act.SEND)

    asked = settled(replace(in_vain, replaced=True), world.moment)
    looked_for = settled(replace(at_once, replaced=True), world.moment)

    assert reasons(asked) == [R.OUTCOME_UNKNOWN]
    assert (looked_for.steps[0].act, reasons(looked_for)) == (Act.LOOK, [])
    with pytest.raises(NotNow):
        world.claim(asked)


def test_what_another_operation_replaces_keeps_its_questions() -> None:
    world = World(policy(), policy())
    operation = world.sent(world.opened(), REJECTED)

    replaced = settled(replace(operation.copy(), replaced=True), world.moment)

    assert (states(replaced), reasons(replaced)) == ([S.READY, S.WAITING], [R.REJECTED])
    ended = answered(replaced, replaced.holds[0].id, Given(Answer.END_FAILED), world.moment)
    assert (states(ended), ended.state) == ([S.FAILED, S.CANCELLED], OperationState.FAILED)


def test_a_hold_comes_before_the_step_before() -> None:
    world = World(policy(), policy())
    operation = world.sent(world.sent(world.opened(), confirmed()), REJECTED, 2)
    disputed = world.hear(operation, REJECTED, 1)

    assert disputed.steps[1].state is S.READY  # row 3: its own question stays; row 6 would have it wait
    assert reasons(disputed) == [R.REJECTED, R.DISPUTED]


def test_a_rejection_comes_before_the_cap_and_the_cap_before_a_stopped_destination() -> None:
    world = World(policy(profile(retries=Retries(tries_max=1, delays_seconds=(1,)))))
    once = world.sent(world.opened(), REJECTED)
    exhausted = world.sent(world.opened(), DEFERRED)
    stopped = World(replace(world.policies[1], destination_stopped=True))

    assert reasons(once) == [R.REJECTED]
    assert reasons(exhausted) == [R.ATTEMPTS_EXHAUSTED]
    exhausted.holds.clear()
    assert reasons(settled(exhausted, stopped.moment)) == [R.ATTEMPTS_EXHAUSTED]


def test_an_integrity_alarm_comes_before_looking_and_before_sending_again() -> None:
    world = World(policy(KEYED_LOOKED_UP))

    operation = world.sent(world.opened(), replace(UNCLEAR, integrity_alarm=True))

    assert reasons(operation) == [R.INTEGRITY_ALARM]
    assert operation.steps[0].act is Act.LOOK  # row 3: looking goes on, sending does not


# Times


def test_looks_leave_time_for_one_protected_attempt() -> None:
    world = World(policy(KEYED_LOOKED_UP))
    operation = looked_for_in_vain(world)

    assert operation.steps[0].act is Act.SEND
    assert operation.steps[0].send_until == at(
        4.4
    )  # the window of 500 s, less a whole attempt and the margin
    assert world.now < at(4.4)


def test_a_protected_send_that_was_not_made_in_time_is_a_question() -> None:
    world = World(policy(profile(protection=KEYED)))
    operation = unknown(world)

    late = transitions.time_passed(operation, world.at(4.4))

    assert reasons(late) == [R.PROTECTION_EXPIRED]
    with pytest.raises(NotNow):
        world.claim(operation)


def test_never_sent_again_before_the_delay_is_over() -> None:
    world = World(policy(profile(protection=KEYED)))
    operation = unknown(world)
    operation = world.hear(world.claim(operation), replace(DEFERRED, not_before=at(2)))

    assert (operation.steps[0].state, operation.steps[0].act_at) == (S.UNKNOWN, None)  # two tries were used
    automation = World(policy())
    offered = automation.opened(performer=Performer.AUTOMATION)
    offered = automation.sent(offered, replace(DEFERRED, not_before=at(1)))
    with pytest.raises(NotNow, match="not before"):
        automation.claim(offered)
    assert offered.steps[0].act_at == at(2.5)  # the offer lasts as long again from then on
    automation.at(1)
    assert automation.claim(offered).steps[0].state is S.IN_FLIGHT


def test_the_latest_moment_ends_a_planned_send_and_an_offer() -> None:
    world = World()
    sending = world.opened(not_after=at(1))
    offered = world.opened(not_after=at(1), performer=Performer.AUTOMATION)

    assert sending.steps[0].send_until == at(1)
    assert offered.steps[0].act_at == at(1)
    assert reasons(transitions.time_passed(offered, world.at(1))) == [R.TOO_LATE]


def test_the_latest_moment_is_for_steps_that_were_never_sent() -> None:
    world = World()
    put_off = world.sent(world.opened(not_after=at(1)), DEFERRED)
    never_left = world.sent(world.opened(not_after=at(1)), NOT_SENT)

    assert not transitions.time_passed(put_off, world.at(2)).holds
    assert reasons(transitions.time_passed(never_left, world.at(2))) == [R.TOO_LATE]


def test_an_offer_begins_anew_after_each_attempt() -> None:
    world = World(policy(profile(retries=Retries(tries_max=5, delays_seconds=(1,)))))
    operation = world.claim(world.opened(performer=Performer.AUTOMATION))
    world.at(20)

    operation = world.hear(operation, DEFERRED)

    assert (operation.steps[0].act, operation.steps[0].act_at) == (Act.OFFER, at(21.5))


def test_a_person_may_ask_for_a_look_at_any_time() -> None:
    world = World(policy(profile(final_effect=BY_REPORT, lookup=POSITIVE_ONLY)))
    operation = world.sent(world.opened(), accepted())

    asked = transitions.look_requested(operation, 1, at(1), world.moment)

    assert (asked.steps[0].act, asked.steps[0].act_at) == (Act.LOOK, at(1))


@pytest.mark.parametrize(
    "make",
    [lambda w: w.opened(), unknown, lambda w: w.sent(w.opened(), confirmed())],
    ids=["ready", "unknown, and no lookup", "confirmed"],
)
def test_a_look_is_refused_where_there_is_nothing_to_look_up(make: Make) -> None:
    world = World()

    with pytest.raises(NotNow):
        transitions.look_requested(make(world), 1, world.now, world.moment)


# Protection and tries


@pytest.mark.parametrize(
    ("protection", "changed", "protected"),
    [
        pytest.param(Protection(), None, False, id="none"),
        pytest.param(KEYED, None, True, id="key inside its window"),
        pytest.param(replace(KEYED, window_seconds=None), None, False, id="window unpublished"),
        pytest.param(
            Protection(ProtectionKind.UPSERT, side_effects_again="none", source=SOURCE),
            None,
            False,
            id="upsert, record not read",
        ),
        pytest.param(
            Protection(ProtectionKind.UPSERT, side_effects_again="none", source=SOURCE),
            False,
            True,
            id="upsert, record unchanged",
        ),
        pytest.param(Protection(ProtectionKind.CONDITIONAL, source=SOURCE), None, True, id="conditional"),
    ],
)
def test_unknown_is_sent_again_only_under_protection(
    protection: Protection, changed: bool | None, protected: bool
) -> None:
    world = World(policy(profile(protection=protection)))
    operation = world.claim(world.opened())
    operation.steps[0].record_changed = changed

    operation = world.lose(operation)

    step = operation.steps[0]
    assert protection_of(operation, step, world.policies[1], world.now).protected is protected
    assert (step.act is Act.SEND) is protected
    assert bool(operation.holds) is not protected


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param({"request_digest": None}, id="nobody knows the bytes"),
        pytest.param({"performer": Performer.AUTOMATION}, id="an automation does the work"),
        pytest.param({"tries_extra": -1}, id="no tries are left"),
    ],
)
def test_protection_alone_does_not_send_again(spoil: dict[str, object]) -> None:
    world = World(policy(profile(protection=KEYED)))
    operation = unknown(world)
    for name, value in spoil.items():
        setattr(operation.steps[0], name, value)

    operation = settled(operation, world.moment)

    assert operation.steps[0].act is Act.NONE
    assert reasons(operation) == [R.OUTCOME_UNKNOWN]


def test_tries_are_counted_per_revision_and_a_person_grants_more() -> None:
    world = World()
    operation = world.sent(world.sent(world.opened(), DEFERRED), DEFERRED)
    step = operation.steps[0]

    assert not tries_left(step, world.policies[1])
    step.tries_extra = 1
    assert tries_left(step, world.policies[1])
    step.tries_extra, step.revision = 0, 2
    assert tries_left(step, world.policies[1])


# Nothing is claimed unless it is to be sent


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda w: w.claim(w.opened()), id="in flight"),
        pytest.param(lambda w: w.sent(w.opened(), confirmed()), id="confirmed"),
        pytest.param(lambda w: w.sent(w.opened(), accepted()), id="accepted"),
        pytest.param(unknown, id="unknown"),
        pytest.param(ended_as_failed, id="failed"),
        pytest.param(cancelled(lambda w: w.opened()), id="cancelled"),
        pytest.param(lambda w: w.sent(w.opened(), REJECTED), id="an open hold"),
        pytest.param(lambda w: w.opened(approval_needed=True), id="waiting"),
        pytest.param(
            lambda w: w.sent(w.opened(), replace(DEFERRED, not_before=at(1))), id="its delay is not over"
        ),
    ],
)
def test_a_claim_is_refused(make: Make) -> None:
    world = World(policy(PLAIN))
    operation = make(world)

    with pytest.raises(NotNow):
        world.claim(operation)


# The operation's state


@pytest.mark.parametrize(
    ("world", "make", "state"),
    [
        pytest.param(World(), lambda w: w.opened(), OperationState.RUNNING, id="running: ready"),
        pytest.param(
            World(policy(message())),
            lambda w: w.sent(w.opened(), accepted()),
            OperationState.RUNNING,
            id="running: its final effect is waited for",
        ),
        pytest.param(World(policy(KEYED_LOOKED_UP)), unknown, OperationState.RECONCILING, id="reconciling"),
        pytest.param(
            World(policy(profile(protection=KEYED))),
            lambda w: w.claim(unknown(w)),
            OperationState.RECONCILING,
            id="reconciling: sent again under protection",
        ),
        pytest.param(
            World(),
            lambda w: w.opened(approval_needed=True),
            OperationState.AWAITING_APPROVAL,
            id="awaiting approval",
        ),
        pytest.param(World(), unknown, OperationState.HELD, id="held"),
        pytest.param(
            World(),
            lambda w: w.sent(w.opened(), confirmed()),
            OperationState.COMPLETED,
            id="completed: confirmed",
        ),
        pytest.param(
            World(),
            lambda w: w.sent(w.opened(), accepted()),
            OperationState.COMPLETED,
            id="completed: accepted",
        ),
        pytest.param(World(), ended_as_failed, OperationState.FAILED, id="failed"),
        pytest.param(World(), cancelled(lambda w: w.opened()), OperationState.CANCELLED, id="cancelled"),
        pytest.param(
            World(policy(), policy()),
            cancelled(lambda w: w.sent(w.opened(), confirmed())),
            OperationState.CANCELLED,
            id="cancelled: with one step confirmed",
        ),
    ],
)
def test_the_operations_state_follows_from_steps_and_holds(
    world: World, make: Make, state: OperationState
) -> None:
    assert make(world).state is state


def test_an_operation_with_an_unknown_attempt_never_ends() -> None:
    world = World(policy(), policy(**AFTER_FAILURE))
    operation = unknown(world)
    hold = operation.holds[0]

    closed = answered(operation, hold.id, Given(Answer.CLOSE_UNKNOWN), world.moment)

    assert operation.state is OperationState.HELD
    assert closed.state is OperationState.CLOSED_UNKNOWN
    assert states(closed) == [S.UNKNOWN, S.CANCELLED]


def test_the_final_effect_ends_the_wait() -> None:
    world = World(policy(message()))
    operation = world.sent(world.opened(), accepted())

    delivered = transitions.reported(operation, 1, DELIVERED, final=True, moment=world.moment)

    assert (delivered.steps[0].state, delivered.state) == (S.CONFIRMED, OperationState.COMPLETED)

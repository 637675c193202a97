"""Table 2 for every kind of evidence: what confirms names what it made, and only a final effect is delivered or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from builders import (
    BOUNCED,
    BY_LOOKUP,
    DELIVERED,
    KEYED,
    LOOKUP,
    NOT_SENT,
    REJECTED,
    UNCLEAR,
    World,
    accepted,
    confirmed,
    policy,
    profile,
    reasons,
)

from opsledger.rules import fold, transitions
from opsledger.rules.learning import Finding
from opsledger.rules.profile import ActionProfile, FinalEffect, FinalEffectBy, Reply
from opsledger.rules.record import KnownBy, Operation
from opsledger.rules.states import HoldReason, Outcome
from opsledger.rules.states import StepState as S
from opsledger.rules.transitions import Lacking, Look, ProvesNothing

NAMED = Reply(reference="id")
BY_REPORT = FinalEffect(FinalEffectBy.REPORT, deadline_seconds=250)
PLAIN = profile(reply=NAMED, lookup=LOOKUP)
FINAL = profile(reply=NAMED, lookup=LOOKUP, final_effect=BY_REPORT)
KEYED_FINAL = profile(reply=NAMED, protection=KEYED, final_effect=BY_REPORT)
UNNAMED = profile(lookup=LOOKUP, final_effect=BY_REPORT)
MAY_BE_EMPTY = profile(reply=replace(NAMED, empty_ok=True), lookup=LOOKUP)

# The states that a step may be in when something is told of it.
STATES: dict[str, Callable[[World], Operation]] = {
    "open": lambda w: w.claim(w.opened()),
    "unknown": lambda w: w.sent(w.opened(), UNCLEAR),
    "taken over as nothing": lambda w: w.sent(w.opened(), accepted(None)),
    "taken over as T-1": lambda w: w.sent(w.opened(), accepted("T-1")),
    "confirmed": lambda w: w.sent(w.opened(), confirmed("T-1")),
    "rejected": lambda w: w.sent(w.opened(), REJECTED),
    "not sent": lambda w: w.sent(w.opened(), NOT_SENT),
    "never tried": lambda w: w.opened(),
}


def told(outcome: Outcome, known_by: KnownBy, **more: Any) -> Finding:
    return Finding(outcome, known_by, **more)


EVIDENCE: dict[str, Finding | Look] = {
    "a reply": confirmed(None),
    "a reply with a reference": confirmed("T-1"),
    "an automation": told(Outcome.CONFIRMED, KnownBy.AUTOMATION),
    "an automation with a reference": told(Outcome.CONFIRMED, KnownBy.AUTOMATION, reference="T-1"),
    "delivered": DELIVERED,
    "delivered as T-1": replace(DELIVERED, reference="T-1"),
    "delivered, by identity": replace(DELIVERED, identified=True),
    "not delivered": BOUNCED,
    "T-1 not delivered": replace(BOUNCED, reference="T-1"),
    "not delivered, by identity": replace(BOUNCED, identified=True),
    "a lookup": Look("confirmed", reference="T-1"),
    "a found record": Look("confirmed", reference="T-1", known_by=KnownBy.REPORT),
}
PROFILES = {"no final effect": PLAIN, "a final effect": FINAL, "no reference": UNNAMED, "empty": MAY_BE_EMPTY}


def after(shape: ActionProfile, state: str, evidence: str) -> tuple[Operation, Operation]:
    """The step before and after. A reply and an automation speak of an attempt, all others of the step."""
    world, one = World(policy(shape)), EVIDENCE[evidence]
    before = STATES[state](world)
    if isinstance(one, Look):
        return before, transitions.looked(before, 1, one, world.moment)
    if one.known_by is not KnownBy.REPORT:
        return before, world.hear(before, one) if before.steps[0].attempts else before
    return before, transitions.reported(before, 1, one, final=True, moment=world.moment)


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", PROFILES)
def test_nothing_is_confirmed_that_is_not_named(shape: str, state: str, evidence: str) -> None:
    one, named = EVIDENCE[evidence], PROFILES[shape].reply.reference
    try:
        before, operation = after(PROFILES[shape], state, evidence)
    except ProvesNothing:
        return
    had = {attempt.id for attempt in before.steps[0].attempts if attempt.outcome is Outcome.CONFIRMED}

    for attempt in operation.steps[0].attempts:
        if attempt.outcome is Outcome.CONFIRMED and attempt.id not in had and named:
            excused = shape == "empty" and evidence == "a reply"
            identified = isinstance(one, Finding) and one.identified
            assert attempt.reference or identified or excused


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("evidence", [name for name in EVIDENCE if "delivered" in name])
def test_what_has_no_final_effect_is_neither_delivered_nor_not(state: str, evidence: str) -> None:
    with pytest.raises(ProvesNothing) as why:
        after(PLAIN, state, evidence)

    assert why.value.lacking is Lacking.FINAL_EFFECT


NOTHING = None  # refused: it lacks the reference
TABLE: dict[str, dict[str, S | None]] = {
    "open": {
        "delivered": NOTHING, "delivered as T-1": S.CONFIRMED, "delivered, by identity": S.CONFIRMED,
        "not delivered": NOTHING, "T-1 not delivered": S.FAILED, "not delivered, by identity": S.FAILED,
    },
    "unknown": {
        "delivered": NOTHING, "delivered as T-1": S.CONFIRMED, "delivered, by identity": S.CONFIRMED,
        "not delivered": NOTHING, "T-1 not delivered": S.FAILED, "not delivered, by identity": S.FAILED,
    },
    "taken over as nothing": {
        "delivered": NOTHING, "delivered as T-1": S.CONFIRMED, "delivered, by identity": S.CONFIRMED,
        "not delivered": S.FAILED, "T-1 not delivered": S.FAILED, "not delivered, by identity": S.FAILED,
    },
    "taken over as T-1": {
        "delivered": S.CONFIRMED, "delivered as T-1": S.CONFIRMED, "delivered, by identity": S.CONFIRMED,
        "not delivered": S.FAILED, "T-1 not delivered": S.FAILED, "not delivered, by identity": S.FAILED,
    },
    "confirmed": {  # a contradiction is a dispute, whatever it names
        "delivered": S.CONFIRMED, "delivered as T-1": S.CONFIRMED, "delivered, by identity": S.CONFIRMED,
        "not delivered": S.UNKNOWN, "T-1 not delivered": S.UNKNOWN, "not delivered, by identity": S.UNKNOWN,
    },
    "rejected": {
        "delivered": S.UNKNOWN, "delivered as T-1": S.UNKNOWN, "delivered, by identity": S.UNKNOWN,
        "not delivered": S.READY, "T-1 not delivered": S.READY, "not delivered, by identity": S.READY,
    },
    "never tried": dict.fromkeys((name for name in EVIDENCE if "delivered" in name), S.READY),
}  # fmt: skip
ROWS = [
    pytest.param(state, evidence, expected, id=f"{state}, {evidence}")
    for state, row in TABLE.items()
    for evidence, expected in row.items()
]


@pytest.mark.parametrize(("state", "evidence", "expected"), ROWS)
def test_a_report_of_the_final_effect_settles_what_it_names(
    state: str, evidence: str, expected: S | None
) -> None:
    if expected is NOTHING:
        with pytest.raises(ProvesNothing) as why:
            after(FINAL, state, evidence)
        assert why.value.lacking is Lacking.REFERENCE
        return

    _, operation = after(FINAL, state, evidence)

    assert operation.steps[0].state is expected


@pytest.mark.parametrize("known_by", [KnownBy.AUTOMATION, KnownBy.REPLY], ids=str)
@pytest.mark.parametrize("state", ["open", "unknown"])
def test_a_success_without_its_reference_is_unknown(state: str, known_by: KnownBy) -> None:
    """Also what no caller has refused."""
    world = World(policy(PLAIN))

    operation = world.hear(STATES[state](world), told(Outcome.CONFIRMED, known_by))

    assert operation.steps[0].state is S.UNKNOWN
    assert operation.steps[0].reference is None


def test_a_success_without_its_reference_adds_nothing_to_what_was_taken_over() -> None:
    world = World(policy(FINAL))
    before = STATES["taken over as nothing"](world)

    assert not fold.difference(before, world.hear(before, told(Outcome.CONFIRMED, KnownBy.AUTOMATION)))
    named = world.hear(before, told(Outcome.CONFIRMED, KnownBy.AUTOMATION, reference="T-1"))
    assert (named.steps[0].state, named.steps[0].reference) == (S.CONFIRMED, "T-1")


def test_a_final_effect_that_is_looked_up_may_be_reported_too() -> None:
    world = World(policy(replace(FINAL, final_effect=BY_LOOKUP)))
    before = STATES["taken over as T-1"](world)

    operation = transitions.reported(before, 1, DELIVERED, final=True, moment=world.moment)

    assert operation.steps[0].state is S.CONFIRMED


def test_what_bounced_under_a_reference_that_is_taken_asks_a_person() -> None:
    world = World(policy(FINAL))
    taken = replace(BOUNCED, reference="T-1", taken_by="op-7")

    operation = transitions.reported(STATES["unknown"](world), 1, taken, final=True, moment=world.moment)

    assert operation.steps[0].state is S.UNKNOWN
    assert operation.holds[0].facts["taken_by"] == "op-7"


# A bounce that is told while another attempt is open or unknown


def tried_twice(world: World, second: Finding | None) -> Operation:
    """The first attempt is unknown; `second`: what the protected repeat is answered, None: it is under way."""
    operation = world.sent(world.opened(), UNCLEAR)
    operation.step(1).resend_asked = True
    operation = world.claim(transitions.time_passed(operation, world.moment))
    return operation if second is None else world.hear(operation, second)


ENDS: dict[str, Finding] = {
    "taken over under the same reference": accepted("T-1"),
    "taken over": accepted(None),
    "rejected": REJECTED,
    "not sent": NOT_SENT,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())
@pytest.mark.parametrize("second", [UNCLEAR, None], ids=["unknown", "under way"])
def test_a_bounce_is_remembered_until_the_other_attempt_is_known(
    second: Finding | None, end: Finding
) -> None:
    world = World(policy(KEYED_FINAL))
    bounced = replace(BOUNCED, reference="T-1")

    told_of = transitions.reported(tried_twice(world, second), 1, bounced, final=True, moment=world.moment)
    assert told_of.steps[0].state is (S.UNKNOWN if second else S.IN_FLIGHT)
    after = world.hear(told_of, end, attempt=2)

    assert after.steps[0].state is S.FAILED
    assert reasons(after) == [HoldReason.DELIVERY_FAILED]
    assert after.steps[0].undelivered


def test_a_bounce_of_one_record_ends_nothing_that_was_taken_over_as_another() -> None:
    world = World(policy(KEYED_FINAL))
    bounced = replace(BOUNCED, reference="T-1")
    told_of = transitions.reported(tried_twice(world, UNCLEAR), 1, bounced, final=True, moment=world.moment)

    after = world.hear(told_of, accepted("T-2"), attempt=2)

    assert (after.steps[0].state, after.steps[0].reference) == (S.ACCEPTED, "T-2")

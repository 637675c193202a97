"""Which verb fits which selection: a table, and the sentence that says why not."""

from __future__ import annotations

import pytest

from opsledger.rules.bulk import Verb
from opsledger.rules.bulk_verbs import Chosen, fits, why_not
from opsledger.rules.states import DESTINATION_REASONS, HoldReason, StepState

R, S, V = HoldReason, StepState, Verb
ALWAYS = {V.TAKE, V.ASSIGN, V.NOTE}
UNKNOWN = ALWAYS | {V.CHECK_NOW, V.NEXT_CHECK, V.PLAN_REPLAY, V.HAPPENED}
ENDS = ALWAYS | {V.PLAN_REPLAY, V.END_FAILED}

FITTING = [
    (R.OUTCOME_UNKNOWN, S.UNKNOWN, UNKNOWN | {V.ABSENT}),
    (R.PROTECTION_EXPIRED, S.UNKNOWN, UNKNOWN | {V.ABSENT}),
    (R.INTEGRITY_ALARM, S.UNKNOWN, UNKNOWN),
    (R.DISPUTED, S.UNKNOWN, UNKNOWN),
    (R.DISPUTED, S.READY, UNKNOWN - {V.CHECK_NOW, V.HAPPENED}),
    (R.RECORD_DIFFERS, S.UNKNOWN, UNKNOWN - {V.HAPPENED}),
    (R.DUPLICATE_FOUND, S.UNKNOWN, UNKNOWN - {V.HAPPENED}),
    (R.DELIVERY_NOT_PROVEN, S.ACCEPTED, UNKNOWN - {V.HAPPENED}),
    (R.DELIVERY_FAILED, S.FAILED, ALWAYS | {V.PLAN_REPLAY}),
    (R.REJECTED, S.READY, ENDS),
    (R.ATTEMPTS_EXHAUSTED, S.READY, ENDS),
    (R.NOBODY_CLAIMED, S.READY, ENDS),
    (R.TOO_LATE, S.READY, ENDS),
    (R.DATA_MISSING, S.READY, ENDS),
    (R.APPROVAL_NEEDED, S.WAITING, ENDS),
    (R.PAUSED, None, ALWAYS),
    (R.ACCESS_REFUSED, None, ALWAYS),
    (R.CIRCUIT_OPEN, None, ALWAYS),
    (R.EVENT_CONFLICT, None, ALWAYS),
]


def chosen(reason: R, state: S | None, count: int = 3, where: str = "crm", action: str = "create") -> Chosen:
    return Chosen(reason, state, where, action, count)


@pytest.mark.parametrize(
    ("reason", "state", "fitting"), FITTING, ids=[f"{reason}-{state}" for reason, state, _ in FITTING]
)
def test_a_verb_fits_holds_that_have_its_answer(reason: R, state: S | None, fitting: set[Verb]) -> None:
    assert {one.verb for one in fits([chosen(reason, state)]) if one.fits} == fitting


def test_the_table_speaks_of_every_reason() -> None:
    assert {reason for reason, _, _ in FITTING} == set(R) >= DESTINATION_REASONS


def test_one_hold_that_does_not_fit_is_named_and_the_verb_is_not_offered() -> None:
    said = why_not(V.CHECK_NOW, [chosen(R.OUTCOME_UNKNOWN, S.UNKNOWN, 40), chosen(R.REJECTED, S.READY, 2)])
    assert said == ("2 of these, “rejected by destination” with a step that is ready, can’t be looked up.")
    assert why_not(V.CHECK_NOW, [chosen(R.OUTCOME_UNKNOWN, S.UNKNOWN, 40)]) == ""


def test_a_list_and_a_statement_speak_of_one_action_at_one_destination() -> None:
    here = chosen(R.OUTCOME_UNKNOWN, S.UNKNOWN)
    there = chosen(R.OUTCOME_UNKNOWN, S.UNKNOWN, where="mail", action="send")
    for verb in (V.HAPPENED, V.ABSENT):
        assert why_not(verb, [here, chosen(R.PROTECTION_EXPIRED, S.UNKNOWN)]) == ""
        assert why_not(verb, [here, there]).startswith("These holds are about crm (create) and mail (send);")
    assert why_not(V.NEXT_CHECK, [here, there]) == ""


WAITING = Chosen(None, S.READY, "crm", "create", 3)


def test_steps_that_wait_without_a_hold_are_ended_and_nothing_else() -> None:
    assert {one.verb for one in fits([WAITING]) if one.fits} == {V.CANCEL}
    assert why_not(V.NOTE, [WAITING]).startswith("These are steps that wait, without a hold of their own;")


@pytest.mark.parametrize("state", [one for one in S if one is not S.READY])
def test_only_a_step_that_is_ready_is_ended_so(state: S) -> None:
    moved = Chosen(None, state, "crm", "create", 2)
    assert why_not(V.CANCEL, [WAITING, moved]) == "2 of these steps do not wait any more."


def test_what_a_person_may_not_do_is_said_before_anything_else() -> None:
    said = {one.verb: one.why for one in fits([chosen(R.REJECTED, S.READY)], {V.END_FAILED: "You may not."})}
    assert said[V.END_FAILED] == "You may not."
    assert said[V.NOTE] == ""


def test_an_empty_selection_is_never_read_as_all() -> None:
    assert {why_not(verb, []) for verb in Verb} == {"Nothing is selected."}

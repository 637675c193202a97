"""Bells rung too often, by two clocks, or delivered again: the same ledger as with one (F3, K1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.definitions import AnyDefinition
from opsledger.ledger.actions.open import Opened
from opsledger.rules.definitions import DestinationDefinition
from opsledger.rules.profile import Timing
from tests.processes.house import House, definitions, until


def kinds(house: House, opened: Opened) -> list[str]:
    """What the operation's journal tells, in order."""
    found = house.rows("SELECT kind FROM journal_entry WHERE subject_id = %s ORDER BY seq", opened.id)
    return [row["kind"] for row in found]


def test_two_clocks_and_fifty_bells_at_once_make_the_same_ledger_as_one(house: House) -> None:
    dead = house.open("classic_follow_up", 20)
    assert len(claim_sends(20, worker="dead")) == 20
    plain = house.open("classic_follow_up", 40)
    lost = house.open("classic_follow_up", 5)
    for one in lost:
        house.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=house.identity(one))
    for name in ("dispatch", "reconcile", "sweep"):
        house.bell(name, 50)

    house.worker("first")
    house.worker("second")
    house.beat("clock")
    house.beat("other-clock")

    until(lambda: house.states()["confirmed"] == 45, "the sent ones to be confirmed")
    until(lambda: _held(house) == 20, "the dead worker's ones to be held")
    assert {tuple(kinds(house, one)) for one in plain} == {
        ("operation_recorded", "attempt_opened", "attempt_ended")
    }
    assert {tuple(kinds(house, one)) for one in lost} == {
        ("operation_recorded", "attempt_opened", "attempt_ended", "lookup_ended")
    }
    for one in dead:
        journal = kinds(house, one)
        assert journal[:3] == ["operation_recorded", "attempt_opened", "lease_ended"]
        assert set(journal[3:]) == {"lookup_ended"}
    house.check_laws()


def _held(house: House) -> Any:
    return house.value("SELECT count(*) FROM ledger_operation WHERE state = 'held'")


def test_bells_that_come_again_while_the_first_is_under_way_send_nothing_more(house: House) -> None:
    (opened,) = house.open()
    house.sandbox.script("answer", 1, method="POST", identity=house.identity(opened), seconds=1.0)
    house.worker()
    house.bell("dispatch")
    until(lambda: house.sends(opened), "the send", every=0.01)

    house.bell("dispatch", 20)
    house.bell("canary")

    until(lambda: house.rows("SELECT * FROM ledger_canary"), "all bells to be heard", every=0.01)
    assert house.state(opened) == "in_flight"
    until(lambda: house.state(opened) == "confirmed", "the step to be confirmed")
    assert len(house.sends(opened)) == len(house.attempts(opened)) == 1


def test_slow_destinations_hold_up_neither_others_nor_the_other_bells(house: House) -> None:
    house.load([slow_to_answer(one) for one in definitions(house.sandbox.url) if one.slug == "crm_classic"])
    house.worker()
    for _ in range(6):  # more than there are processes, each claimed by the next bell
        (slow,) = house.open("classic_follow_up")
        house.sandbox.script("silence_after_acting", 1, method="POST", identity=house.identity(slow))
        house.bell("dispatch")
        until(lambda slow=slow: house.sends(slow), "the slow send", every=0.01)

    (neighbour,) = house.open("campaign_follow_up")
    house.bell("dispatch")
    house.bell("canary")

    until(lambda: house.rows("SELECT * FROM ledger_canary"), "a sign of life", every=0.01)
    until(lambda: house.state(neighbour) == "confirmed", "the neighbour to be confirmed", every=0.01)
    assert house.states()["in_flight"] >= 6, "the slow ones are still under way"


def slow_to_answer(one: AnyDefinition) -> AnyDefinition:
    assert isinstance(one, DestinationDefinition)
    timing = Timing(1.0, 30.0, 40.0)
    actions = {name: replace(a, profile=replace(a.profile, timing=timing)) for name, a in one.actions.items()}
    return replace(one, actions=actions)

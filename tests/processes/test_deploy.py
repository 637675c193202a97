"""A new worker while the old one drains: who goes claims nothing new and finishes what is in flight (K4)."""

from __future__ import annotations

import os
import signal

from tests.processes.house import House, until


def test_a_draining_worker_claims_nothing_new_and_finishes_what_is_in_flight(house: House) -> None:
    old = house.worker("old")
    house.sandbox.script("answer", 8, method="POST", seconds=1.0)
    in_flight = house.open("classic_follow_up", 8)
    house.bell("dispatch")
    until(lambda: len(house.sandbox.requests(method="POST")) == 8, "eight in flight", every=0.01)

    old.signal(signal.SIGTERM)
    until(lambda: "Warm shutdown" in old.said, "the old worker to have heard", every=0.01)
    fresh = house.open("classic_follow_up", 20)
    new = house.worker("new")
    house.bell("dispatch")

    until(lambda: house.states()["confirmed"] == 28, "all to be confirmed")
    assert old.child.wait(10) == os.EX_OK
    mine = {house.attempts(one)[0]["worker"] for one in in_flight}
    theirs = {house.attempts(one)[0]["worker"] for one in fresh}
    assert not mine & theirs
    assert {one["known_by"] for opened in (*in_flight, *fresh) for one in house.attempts(opened)} == {"reply"}
    assert new.alive
    house.check_laws()


def test_a_draining_worker_leaves_what_comes_due_to_others(house: House) -> None:
    """Nobody else is there: what is due stays due, also while the old worker still waits for a slow reply."""
    old = house.worker("old")
    (slow,) = house.open("classic_follow_up")
    house.sandbox.script("answer", 1, method="POST", seconds=1.0)
    house.bell("dispatch")
    until(lambda: house.sends(slow), "the slow send", every=0.01)
    old.signal(signal.SIGTERM)
    until(lambda: "Warm shutdown" in old.said, "the old worker to have heard", every=0.01)

    (left,) = house.open("classic_follow_up")

    assert old.child.wait(10) == os.EX_OK
    assert house.state(slow) == "confirmed"
    assert house.state(left) == "ready"
    assert not house.attempts(left)

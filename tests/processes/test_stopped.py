"""Destinations that can't be reached or refuse access: one hold, trials, a backlog at a rate (table 4, row 10)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.destinations.sandbox.peer import SandboxPeer
from opsledger.engine import dispatch
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.destinations import settle_resume
from opsledger.ledger.models import Hold
from opsledger.local.broker import free_port
from tests.desk import WIRE
from tests.processes.house import House, definitions, until

TRIAL_SECONDS = 1.0
RATE_PER_SECOND = 30.0
_ACT_AT = "SELECT act_at FROM ledger_step WHERE operation_id = %s"


def send(house: House, threads: int = 8) -> dispatch.Counts:
    return dispatch.run_once(
        wire=WIRE, threads=threads, claim_for_seconds=0.3, trial_every_seconds=TRIAL_SECONDS
    )


def holds(house: House) -> list[Hold]:
    return list(Hold.objects.filter(destination__isnull=False, closed_at__isnull=True))


def test_ten_refused_connections_open_the_circuit_one_step_tries_it_and_a_good_reply_closes_it(
    house: House,
) -> None:
    (neighbour,) = house.open("campaign_follow_up")
    port = free_port()
    house.load([one for one in definitions(f"http://127.0.0.1:{port}") if one.slug == "crm_classic"])
    opened = house.open("classic_follow_up", 12)

    def tried() -> int:
        return sum(len(house.attempts(one)) for one in opened)

    until(lambda: send(house) and holds(house), "the circuit to open")
    refused_count = tried()
    assert refused_count >= 10
    assert [hold.reason for hold in holds(house)] == ["circuit_open"]
    assert house.state(neighbour) == "confirmed"
    house.rows("UPDATE ledger_step SET act_at = now() WHERE act = 'send' RETURNING id")
    send(house)
    assert tried() == refused_count  # until the trial

    assert until(lambda: send(house).claimed, "the trial") == 1
    assert [hold.reason for hold in holds(house)] == ["circuit_open"]

    with SandboxPeer(port=port) as peer:
        until(lambda: send(house).outcomes.get("confirmed"), "the next trial")
        assert holds(house) == []
        until(
            lambda: send(house) and all(house.state(one) == "confirmed" for one in opened),
            "the others to follow",
        )
        classic = SandboxControl(peer.url)
        assert [len(classic.effects(identity=house.identity(one))) for one in opened] == [1] * 12


def test_refused_access_stops_the_destination_with_one_hold_and_the_backlog_leaves_at_a_rate(
    house: House,
) -> None:
    (neighbour,) = house.open("campaign_follow_up")
    house.sandbox.script("answer", 1, method="POST", identity=house.identity(neighbour))
    house.sandbox.script("unauthorised", None, method="POST", path="/crm/tasks")
    opened = house.open("classic_follow_up", 30)

    send(house, threads=16)
    (hold,) = holds(house)
    assert (hold.reason, hold.destination_slug) == ("access_refused", "crm_classic")
    assert house.state(neighbour) == "confirmed"
    house.rows("UPDATE ledger_step SET act_at = now() WHERE act = 'send' RETURNING id")
    refused = [len(house.sends(one)) for one in opened]
    send(house)
    assert [len(house.sends(one)) for one in opened] == refused
    house.sandbox.reset("script")

    waiting = settle_resume(
        hold.pk,
        hold.version,
        RATE_PER_SECOND,
        "a new key was set",
        By("person:00000000-0000-0000-0000-000000000001", "Test"),
    )
    planned = {one.id: house.value(_ACT_AT, one.id) for one in opened}
    house.work_until(lambda: all(house.state(one) == "confirmed" for one in opened), "the backlog to leave")

    assert waiting == 30
    assert (max(planned.values()) - min(planned.values())).total_seconds() == pytest.approx(
        29 / RATE_PER_SECOND
    )
    for one in opened:
        (acted,) = (sent for sent in house.sends(one) if sent["acted"])
        assert datetime.fromisoformat(acted["received_at"]) >= planned[one.id] - timedelta(milliseconds=5)
    house.check_laws()

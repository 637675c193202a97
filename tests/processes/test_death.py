"""Workers that die or fall asleep at the worst moments (laws 1, 3, 4; field case K2)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connections

from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.destinations.sandbox.peer import SandboxPeer
from opsledger.engine import sweep
from opsledger.engine.dispatch import Held, elapsed_clock, send_in_time
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import record_sends
from tests.desk import WIRE
from tests.processes.house import LEASE_SECONDS, TOTAL_SECONDS, House, definitions, until


def wait_for_lease(house: House, opened: Opened) -> None:
    over = "SELECT count(*) FROM ledger_attempt WHERE operation_id = %s AND lease_ends_at <= now()"
    until(lambda: house.value(over, opened.id), "the lease to end", LEASE_SECONDS + 5)


def check_unknown_by_lease(house: House, opened: Opened) -> None:
    """What the lease's end has made of it, before anything else moves."""
    assert house.state(opened) in ("ready", "in_flight"), "it must not be decided before its lease ends"
    wait_for_lease(house, opened)
    sweep.run_once()
    assert house.state(opened) == "unknown"
    (attempt,) = house.attempts(opened)
    assert (attempt["outcome"], attempt["known_by"], attempt["no_change"]) == ("unknown", "lease", None)


class Door:
    """A listening socket whose queue is full: who knocks waits in `connect`, and no byte can leave."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0)
        self.url = "http://{}:{}".format(*self.socket.getsockname())
        self.queue = [self._stand_in_line() for _ in range(2)]

    def _stand_in_line(self) -> socket.socket:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(self.socket.getsockname())
        return one

    def knocked(self) -> bool:
        """Whether somebody else's `connect` waits at this port (state 2 in the kernel's table: SYN sent)."""
        port = self.socket.getsockname()[1]
        ours = {one.getsockname()[1] for one in self.queue}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(
            row[3] == "02" and int(row[2][-4:], 16) == port and int(row[1][-4:], 16) not in ours
            for row in rows
        )

    def open(self) -> socket.socket:
        """Lets everybody in; gives the connection of the one who had knocked last."""
        ours = {one.getsockname() for one in self.queue}
        self.socket.settimeout(20)
        while True:
            caller, address = self.socket.accept()
            if address not in ours:
                return caller
            caller.close()

    def close(self) -> None:
        for one in (self.socket, *self.queue):
            one.close()


@pytest.fixture(autouse=True)
def _linux() -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("the kernel's table of connections is needed")


@pytest.fixture
def door(house: House) -> Iterator[Door]:
    one = Door()
    house.load([found for found in definitions(one.url) if found.slug == "crm"])
    yield one
    one.close()


def test_killed_between_claim_and_send_is_unknown_then_proven_absent_and_sent_once(
    house: House, door: Door
) -> None:
    worker = house.worker()
    (opened,) = house.open("campaign_follow_up")
    house.bell("dispatch")
    until(door.knocked, "the worker to knock", every=0.01)
    assert house.attempts(opened)
    worker.kill()

    check_unknown_by_lease(house, opened)

    door.close()
    (neighbour,) = house.open("classic_follow_up")
    with SandboxPeer(port=urlsplit(door.url).port or 0) as peer:
        crm = SandboxControl(peer.url)
        house.work_until(lambda: house.state(opened) == "confirmed", "the step to be confirmed")
        assert [one["outcome"] for one in house.attempts(opened)] == ["no_change", "confirmed"]
        assert len(crm.effects(identity=house.identity(opened))) == 1
        assert len(crm.requests(identity=house.identity(opened), method="POST")) == 1
        assert len(house.effects(neighbour)) == 1


def test_killed_while_the_destination_is_silent_is_unknown_then_found(house: House) -> None:
    (opened,) = house.open("campaign_follow_up")
    house.sandbox.script("silence_after_acting", 1, method="POST", identity=house.identity(opened))
    worker = house.worker()
    house.bell("dispatch")
    until(lambda: house.effects(opened), "the effect", every=0.01)
    worker.kill()

    check_unknown_by_lease(house, opened)

    (neighbour,) = house.open("classic_follow_up")
    house.work_until(lambda: house.state(opened) == "confirmed", "the step to be confirmed")
    until(lambda: house.state(neighbour) == "confirmed", "the neighbour to be confirmed")
    assert len(house.sends(opened)) == len(house.attempts(opened)) == 1
    house.check_laws()


def test_killed_between_reply_and_record_is_unknown_then_found(house: House) -> None:
    (opened,) = house.open("campaign_follow_up")
    house.sandbox.script("answer", 1, method="POST", identity=house.identity(opened), seconds=0.5)
    worker = house.worker()
    house.bell("dispatch")
    until(lambda: house.attempts(opened), "the attempt", every=0.01)
    with psycopg.connect(house.urls.superuser) as holder:  # the record of the reply has to wait for this lock
        holder.execute("SELECT FROM ledger_operation WHERE id = %s FOR UPDATE", [opened.id])
        until(lambda: _waits_for_a_lock(house), "the worker to wait with the reply in its hands", every=0.01)
        assert house.effects(opened)
        worker.kill()
        for row in _of_workers(
            house
        ):  # the server would else finish a statement that nobody waits for any more
            holder.execute("SELECT pg_terminate_backend(%s)", [row["pid"]])
        until(lambda: not _waits_for_a_lock(house), "what it had asked for to end")
        holder.rollback()
    until(lambda: not _of_workers(house), "the dead worker's connections to end")

    check_unknown_by_lease(house, opened)

    house.work_until(lambda: house.state(opened) == "confirmed", "the step to be confirmed")
    assert len(house.sends(opened)) == len(house.attempts(opened)) == 1
    house.check_laws()


def _of_workers(house: House) -> list[dict[str, object]]:
    connections.close_all()  # the test's own
    return house.rows(
        "SELECT * FROM pg_stat_activity WHERE datname = current_database() AND usename = 'opsledger_app'"
    )


def _waits_for_a_lock(house: House) -> bool:
    return any(row["wait_event_type"] == "Lock" for row in _of_workers(house))


def test_a_worker_that_slept_beyond_its_lease_sends_nothing_when_it_wakes(house: House, door: Door) -> None:
    worker = house.worker()
    (opened,) = house.open("campaign_follow_up")
    house.bell("dispatch")
    until(door.knocked, "the worker to knock", every=0.01)
    assert house.attempts(opened)
    worker.signal_all(signal.SIGSTOP)

    check_unknown_by_lease(house, opened)

    with contextlib.closing(door.open()) as caller:
        worker.signal_all(signal.SIGCONT)
        caller.settimeout(20)
        assert caller.recv(1) == b"", "the request left although its lease was over"
    late = "SELECT sentence FROM ledger_evidence WHERE operation_id = %s AND kind = 'reply'"
    until(lambda: house.rows(late, opened.id), "the late worker's word to be kept")
    assert house.state(opened) in ("unknown", "ready")  # nobody has read it: never more than that


def test_a_step_claimed_too_long_ago_is_not_sent(house: House) -> None:
    """As when a worker sleeps between its claim and its send."""
    held_up, neighbour = house.open("classic_follow_up", 2)
    for claimed in claim_sends(2, worker="test"):
        seconds_left = TOTAL_SECONDS + (5.0 if claimed.operation_id == neighbour.id else -0.1)
        sent = send_in_time(Held(claimed, elapsed_clock() + seconds_left, sendable=True), WIRE)
        record_sends([sent])

    assert (len(house.sends(held_up)), house.state(held_up)) == (0, "ready")
    assert house.attempts(held_up)[0]["no_change"] == "not_sent"
    assert (len(house.sends(neighbour)), house.state(neighbour)) == (1, "confirmed")


def test_a_killed_child_is_replaced_and_its_step_is_found(house: House) -> None:
    (opened,) = house.open("campaign_follow_up")
    house.sandbox.script("silence_after_acting", 1, method="POST", identity=house.identity(opened))
    worker = house.worker()
    house.beat()
    until(lambda: house.effects(opened), "the effect", every=0.01)
    (attempt,) = house.attempts(opened)
    os.kill(int(attempt["worker"].split(":")[1]), signal.SIGKILL)

    (neighbour,) = house.open("classic_follow_up")
    until(lambda: house.state(neighbour) == "confirmed", "the neighbour to be confirmed")
    until(lambda: house.state(opened) == "confirmed", "the step to be confirmed")
    assert worker.alive
    assert len(house.sends(opened)) == 1
    assert house.attempts(opened)[0]["known_by"] == "lookup"
    house.check_laws()

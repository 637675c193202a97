"""Redis is a bell: flushed, gone or frozen, work starts later, never twice, never not at all (law 11; F1, F2, K9)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
import redis

from tests.processes.house import House, until

RING_SECONDS_MAX = 2.0
RINGER = """
import json, sys, time
from opsledger.engine import bell
print("up", flush=True)
for _ in sys.stdin:
    bell._silent_until = 0.0
    started = time.monotonic()
    rung = bell.ring()
    print(json.dumps([rung, time.monotonic() - started]), flush=True)
"""


def test_a_flushed_broker_loses_bells_but_no_work(house: House) -> None:
    under_way = house.open("classic_follow_up", 5)
    house.sandbox.script("answer", 5, method="POST", seconds=1.0)
    house.worker()
    house.bell("dispatch")
    until(lambda: house.states()["in_flight"] == 5, "five in flight", every=0.01)
    due = house.open("classic_follow_up", 100)
    house.bell("sweep", 100)
    with redis.from_url(house.broker.url) as client:
        client.flushall()

    house.beat()

    until(lambda: house.states()["confirmed"] == 105, "all to be confirmed")
    assert all(len(house.attempts(one)) == 1 for one in [*under_way, *due[:5]])
    assert len(house.sandbox.requests(method="POST")) == 105
    house.check_laws()


def test_work_goes_on_by_itself_after_the_broker_was_away_and_restarted_three_times(house: House) -> None:
    worker, beat = house.worker(), house.beat()
    house.broker.stop()
    while_away = house.open("classic_follow_up", 20)
    until(lambda: "onnection" in worker.said.partition("ready.")[2], "the worker to notice")
    for _ in range(3):
        house.broker.start()
        house.broker.stop()
    house.broker.start()

    until(lambda: house.states()["confirmed"] == 20, "all to be confirmed", seconds=60)
    assert worker.alive and beat.alive
    assert all(len(house.attempts(one)) == 1 for one in while_away)
    house.check_laws()


@pytest.fixture
def ringer(house: House) -> Iterator[subprocess.Popen[str]]:
    process = house.python(RINGER)
    assert process.stdout and process.stdout.readline() == "up\n"
    yield process
    process.communicate()


def ring(process: subprocess.Popen[str]) -> tuple[bool, float]:
    assert process.stdin and process.stdout
    process.stdin.write("ring\n")
    process.stdin.flush()
    rung, seconds = json.loads(process.stdout.readline())
    return rung, seconds


def test_ringing_never_raises_and_never_keeps_anybody_waiting(
    house: House, ringer: subprocess.Popen[str]
) -> None:
    assert ring(ringer)[0]

    os.kill(house.broker.pid or 0, signal.SIGSTOP)
    try:
        frozen = [ring(ringer) for _ in range(2)]
    finally:
        os.kill(house.broker.pid or 0, signal.SIGCONT)
    house.broker.stop()
    gone = [ring(ringer) for _ in range(2)]
    house.broker.start()

    assert [rung for rung, _ in (*frozen, *gone)] == [False] * 4
    assert max(seconds for _, seconds in (*frozen, *gone)) < RING_SECONDS_MAX
    until(lambda: ring(ringer)[0], "the bell to be heard again")

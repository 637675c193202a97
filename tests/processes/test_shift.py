"""Who may do what at the same time in a worker of few processes: a steady load must starve no sweep (laws 3 and 13)."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator

import pytest
from django.db import connections

from opsledger.engine import shift, tasks
from tests.processes.house import House


@pytest.fixture
def after_the_shift() -> Iterator[None]:
    before = shift._floor, dict(shift._places), shift._turn_seconds
    yield
    if shift._floor is not None:
        shift._floor.close()
    shift._floor, places, shift._turn_seconds = before
    shift._places.clear()
    shift._places.update(places)


@pytest.mark.parametrize(("processes", "seconds"), [(1, 5.0), (2, 5.0), (3, math.inf), (4, math.inf)])
def test_a_turn_ends_where_no_process_is_left_for_the_sweep(
    after_the_shift: None, processes: int, seconds: float
) -> None:
    shift.begin(processes)

    assert shift.turn_seconds() == seconds


@contextlib.contextmanager
def steady_load(house: House) -> Iterator[None]:
    """Something new is due at every moment."""
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            house.open("classic_follow_up", 20)
        connections.close_all()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_the_only_process_of_a_worker_makes_room_under_a_steady_load(
    house: House, after_the_shift: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift, "TURN_SECONDS", 0.3)
    shift.begin(1)
    house.open("classic_follow_up", 100)
    ended = threading.Event()

    def turn() -> None:
        tasks.dispatch.run()
        ended.set()
        connections.close_all()

    with steady_load(house):
        thread = threading.Thread(target=turn)
        thread.start()
        over = ended.wait(8)
    thread.join()

    assert over
    assert house.value("SELECT count(*) FROM ledger_attempt") > 0
    assert (
        house.value("SELECT count(*) FROM ledger_step WHERE act = 'send'") > 0
    )  # and it was not for want of work

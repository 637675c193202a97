"""What callers want at the same moment is written by one of them for all, and nobody fails by somebody else's rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from opsledger.ledger.actions.together import Together
from opsledger.lib import turns


class Desk:
    """Writes what it is given, when it is let; a row that says so is refused."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []
        self.began, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def write(self, rows: Sequence[str]) -> set[str]:
        self.written.append(list(rows))
        self.began.release()
        assert self.go_on.acquire(timeout=20)
        if "bad" in rows:
            raise ValueError("bad")
        return set(rows)


def at_once(desk: Desk, together: Together[str, set[str]], callers: Iterable[list[str]]) -> list[Any]:
    """The first begins to write; the others come while it does. What each is given, or what it raised."""
    found: list[Any] = []
    threads: list[threading.Thread] = []

    def run(place: int, rows: list[str]) -> None:
        try:
            found[place] = together(rows)
        except Exception as why:
            found[place] = why

    for place, rows in enumerate(callers):
        found.append(None)
        threads.append(threading.Thread(target=run, args=(place, rows)))
        threads[-1].start()
        if place == 0:
            assert desk.began.acquire(timeout=20)
        else:
            until(lambda place=place: len(together._waiting) == place)
    for _ in range(20):
        desk.go_on.release()
    for thread in threads:
        thread.join(20)
    return found


def until(true: Callable[[], bool]) -> None:
    deadline = threading.Event()
    timer = threading.Timer(20, deadline.set)
    timer.start()
    while not true():
        assert not deadline.is_set()
    timer.cancel()


def test_who_comes_alone_writes_alone() -> None:
    desk = Desk()
    desk.go_on.release()
    assert Together(desk.write, most=10)(["a", "b"]) == {"a", "b"}
    assert desk.written == [["a", "b"]]


def test_who_comes_meanwhile_is_written_together_with_the_others() -> None:
    desk = Desk()
    found = at_once(desk, Together(desk.write, most=10), [["a"], ["b"], ["c", "d"]])
    assert desk.written == [["a"], ["b", "c", "d"]]
    assert found == [{"a"}, {"b", "c", "d"}, {"b", "c", "d"}]


def test_no_more_are_written_together_than_may_be() -> None:
    desk = Desk()
    at_once(desk, Together(desk.write, most=3), [["a"], ["b", "c"], ["d", "e"], ["f"]])
    assert desk.written == [["a"], ["b", "c"], ["d", "e", "f"]]


def test_nobody_fails_by_somebody_elses_rows() -> None:
    desk = Desk()
    found = at_once(desk, Together(desk.write, most=10), [["a"], ["b"], ["bad"], ["c"]])
    assert [found[0], found[1], found[3]] == [{"a"}, {"b"}, {"c"}]
    assert isinstance(found[2], ValueError)
    assert desk.written[:2] == [["a"], ["b", "bad", "c"]]


def test_who_comes_after_a_failure_is_written() -> None:
    desk = Desk()
    together = Together(desk.write, most=10)
    desk.go_on.release()
    with pytest.raises(ValueError, match="bad"):
        together(["bad"])
    desk.go_on.release()
    assert together(["a"]) == {"a"}


def test_who_waits_for_anothers_write_keeps_nobody_from_computing() -> None:
    """The one who writes may need a turn to end."""
    desk = Desk()
    together: Together[str, set[str]] = Together(desk.write, most=64)
    inside = threading.Event()

    def long_computation() -> None:
        with turns.taken():
            inside.set()
            together(["second"])

    writer = threading.Thread(target=together, args=(["first"],))
    writer.start()
    assert desk.began.acquire(timeout=20)
    waiter = threading.Thread(target=long_computation)
    waiter.start()
    assert inside.wait(20)
    until(lambda: len(together._waiting) == 1)
    free = threading.Event()
    threading.Thread(target=_take_a_turn, args=(free,), daemon=True).start()
    assert free.wait(20)
    for _ in range(2):
        desk.go_on.release()
    writer.join(20)
    waiter.join(20)
    assert [sorted(rows) for rows in desk.written] == [["first"], ["second"]]


def test_who_writes_for_others_does_not_let_them_wait_for_a_long_computation() -> None:
    desk = Desk()

    def write(rows: Sequence[str]) -> set[str]:
        with turns.left():  # as every statement does
            return desk.write(rows)

    together: Together[str, set[str]] = Together(write, most=64)

    def long_computation() -> None:
        with turns.taken():
            together(["first"])

    leader = threading.Thread(target=long_computation)
    leader.start()
    assert desk.began.acquire(timeout=20)
    follower = threading.Thread(target=together, args=(["second"],))
    follower.start()
    until(lambda: len(together._waiting) == 1)
    with turns.taken():  # another long computation, until the short one has its answer
        for _ in range(2):
            desk.go_on.release()
        follower.join(2)
        answered = not follower.is_alive()
    leader.join(20)
    follower.join(20)
    assert answered
    assert [sorted(rows) for rows in desk.written] == [["first"], ["second"]]


def _take_a_turn(free: threading.Event) -> None:
    with turns.taken():
        free.set()

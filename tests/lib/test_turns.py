"""Long computations of one process go one after another, and nobody waits for anything with the turn in hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import create_server

import pytest
from django.db import connection
from psycopg import OperationalError

from opsledger.lib import turns
from opsledger.lib.postgres.base import DatabaseWrapper

SECONDS_MAX = 20


@contextmanager
def beside(act: Callable[[], object]) -> Iterator[threading.Thread]:
    """Another thread of the process; it has ended when the block has."""
    thread = threading.Thread(target=act)
    thread.start()
    yield thread
    thread.join(SECONDS_MAX)
    assert not thread.is_alive()


def taken_by_another() -> bool:
    """Whether another thread gets the turn at once."""
    found: list[bool] = []

    def look() -> None:
        found.append(turns._turn.acquire(blocking=False))
        if found[0]:
            turns._turn.release()

    with beside(look):
        pass
    return not found[0]


def test_one_computes_at_a_time() -> None:
    order: list[str] = []

    def second() -> None:
        with turns.taken():
            order.append("second")

    with turns.taken():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join(SECONDS_MAX)
    assert order == ["first", "second"]


def test_while_one_waits_the_next_one_computes_and_ends_before_it_goes_on() -> None:
    computing, go_on, order = threading.Event(), threading.Event(), list[str]()

    def second() -> None:
        with turns.taken():
            order.append("second begins")
            computing.set()
            assert go_on.wait(SECONDS_MAX)
            order.append("second ends")

    with turns.taken():
        with beside(second), turns.left():
            assert computing.wait(SECONDS_MAX)
            go_on.set()
        order.append("first goes on")
        assert taken_by_another()
    assert order == ["second begins", "second ends", "first goes on"]
    assert not taken_by_another()


def test_what_breaks_while_one_waits_leaves_the_turn_where_it_was() -> None:
    with turns.taken():
        assert taken_by_another()
        with pytest.raises(ZeroDivisionError), turns.left():
            _ = 1 / int(taken_by_another())
        assert taken_by_another()


def test_what_breaks_ends_the_turn() -> None:
    with pytest.raises(ZeroDivisionError), turns.taken():
        _ = 1 / 0
    assert not taken_by_another()
    with turns.left():  # of a turn that has ended: nothing
        pass
    assert not taken_by_another()


def test_who_has_no_turn_leaves_none() -> None:
    entered = threading.Event()

    def stranger() -> None:
        with turns.left():
            entered.set()

    with turns.taken():
        with beside(stranger):
            assert entered.wait(SECONDS_MAX)
        assert taken_by_another()


def test_what_is_left_can_be_left_again_inside() -> None:
    """A bell that asked the database, say: the turn may be another's by then."""
    with turns.taken():
        with turns.left():
            with turns.left():
                assert not taken_by_another()
            assert not taken_by_another()
        assert taken_by_another()


def test_a_turn_in_a_turn_is_refused_and_takes_nothing_from_the_first() -> None:
    with turns.taken():
        with pytest.raises(RuntimeError), turns.taken():
            pass
        assert taken_by_another()
    assert not taken_by_another()


def test_a_connection_that_is_not_answered_keeps_nobody_from_computing() -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS_MAX)
        host, port = silent.getsockname()
        there = {"HOST": host, "PORT": port}
        wrapper = DatabaseWrapper(connection.settings_dict | there)

        def connect() -> None:
            with turns.taken(), pytest.raises(OperationalError):
                wrapper.get_new_connection(wrapper.get_connection_params())

        with beside(connect):
            peer, _ = silent.accept()
            free = not taken_by_another()
            peer.close()
    assert free

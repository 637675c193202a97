"""The loop that sends and lookups share, with the world and the database passed in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from opsledger.engine import shift
from opsledger.engine.turn import Turn

Record = Callable[[list[tuple[UUID, str]]], None]


def turn(
    due: list[UUID],
    record: Record,
    *,
    call: Callable[[UUID], str] = lambda one: "reply",
    operation_of: Callable[[UUID], UUID] = lambda one: one,
    given_up: Callable[[UUID], bool] = lambda one: False,
    threads: int = 4,
) -> Turn[UUID, str]:
    def claim(limit: int) -> list[UUID]:
        taken = due[:limit]
        del due[:limit]
        return taken

    return Turn(claim, call, record, operation_of, given_up, threads)


@pytest.fixture
def recorded() -> list[UUID]:
    return []


def taking(recorded: list[UUID]) -> Record:
    return lambda pairs: recorded.extend(one for one, _ in pairs)


def test_everything_claimed_is_recorded_once(recorded: list[UUID]) -> None:
    due = [uuid4() for _ in range(50)]

    assert turn(list(due), taking(recorded)).run() == 50

    assert sorted(recorded) == sorted(due)


def test_a_result_that_cannot_be_recorded_takes_no_other_with_it(recorded: list[UUID]) -> None:
    due = [uuid4() for _ in range(10)]

    def record(pairs: list[tuple[UUID, str]]) -> None:
        if due[3] in [one for one, _ in pairs]:
            raise ValueError("no table can hold this")
        taking(recorded)(pairs)

    turn(list(due), record).run()

    assert sorted(recorded) == sorted({*due} - {due[3]})


def test_a_call_that_breaks_takes_no_other_with_it(recorded: list[UUID]) -> None:
    due = [uuid4() for _ in range(10)]

    def call(one: UUID) -> str:
        if one == due[3]:
            raise ValueError("a fault of ours")
        return "reply"

    turn(list(due), taking(recorded), call=call).run()

    assert sorted(recorded) == sorted({*due} - {due[3]})


def test_a_claim_that_breaks_takes_no_reply_with_it(recorded: list[UUID]) -> None:
    slow, quick = uuid4(), uuid4()
    claims = iter([[slow, quick]])
    broken = threading.Event()

    def claim(limit: int) -> list[UUID]:
        taken = next(claims, None)
        if taken is None:
            broken.set()
            raise ValueError("a fault of ours")
        return taken

    def call(one: UUID) -> str:
        if one == slow:
            assert broken.wait(10)
        return "reply"

    assert Turn(claim, call, taking(recorded), lambda one: one, lambda one: False, 4).run() == 2

    assert sorted(recorded) == sorted([slow, quick])


def test_results_wait_for_a_database_that_is_away_and_none_is_lost(recorded: list[UUID]) -> None:
    due = [uuid4() for _ in range(6)]
    refusals = iter(range(4))

    def record(pairs: list[tuple[UUID, str]]) -> None:
        if next(refusals, None) is not None:
            raise OperationalError("the connection was lost")
        taking(recorded)(pairs)

    turn(list(due), record).run()

    assert sorted(recorded) == sorted(due)


def test_a_locked_row_holds_up_its_own_result_only(recorded: list[UUID]) -> None:
    due = [uuid4() for _ in range(6)]

    def record(pairs: list[tuple[UUID, str]]) -> None:
        if due[2] in [one for one, _ in pairs] and len(recorded) < 5:
            raise OperationalError("canceling statement due to lock timeout")
        taking(recorded)(pairs)

    turn(list(due), record).run()

    assert recorded[-1] == due[2]
    assert sorted(recorded) == sorted(due)


def test_a_result_is_let_go_when_its_time_is_over(recorded: list[UUID]) -> None:
    def record(pairs: list[tuple[UUID, str]]) -> None:
        raise OperationalError("the connection was lost")

    assert turn([uuid4()], record, given_up=lambda one: True).run() == 1


def test_two_results_of_one_operation_are_recorded_in_two_turns() -> None:
    operation, other = uuid4(), uuid4()
    steps = {uuid4(): operation, uuid4(): operation, uuid4(): other}
    together = threading.Barrier(3)
    batches: list[list[UUID]] = []

    def call(one: UUID) -> str:
        together.wait(5)
        return "reply"

    record: Record = lambda pairs: batches.append([one for one, _ in pairs])  # noqa: E731
    turn(list(steps), record, call=call, operation_of=steps.__getitem__).run()

    assert sorted(one for batch in batches for one in batch) == sorted(steps)
    assert all(len({steps[one] for one in batch}) == len(batch) for batch in batches)


def test_a_slow_call_does_not_hold_up_those_that_come_due_meanwhile(recorded: list[UUID]) -> None:
    slow, *others = [uuid4() for _ in range(20)]
    all_others = threading.Event()

    def call(one: UUID) -> str:
        if one == slow:
            assert all_others.wait(10), "the others waited for the slow one"
        return "reply"

    def record(pairs: list[tuple[UUID, str]]) -> None:
        taking(recorded)(pairs)
        if set(others) <= set(recorded):
            all_others.set()

    turn([slow, *others], record, call=call, threads=4).run()

    assert recorded[-1] == slow


@pytest.fixture
def ending() -> Iterator[Callable[[], None]]:
    yield shift.end
    shift._over[0] = 0


def test_when_the_shift_is_over_nothing_new_is_claimed_and_what_is_in_flight_is_recorded(
    recorded: list[UUID], ending: Callable[[], None]
) -> None:
    first, second = uuid4(), uuid4()
    due = [first]

    def call(one: UUID) -> str:
        due.append(second)
        ending()
        return "reply"

    turn(due, taking(recorded), call=call).run()

    assert recorded == [first]
    assert due == [second]

"""A worker's turn under attack: calls that no thread takes, and calls that end the thread's own way."""

from __future__ import annotations

import threading
from uuid import UUID, uuid4

import pytest

from opsledger.engine.turn import Turn


@pytest.mark.parametrize("started", [0, 1, 2])
def test_threads_that_cannot_be_started_lose_no_reply(monkeypatch: pytest.MonkeyPatch, started: int) -> None:
    """What was sent is recorded; what no thread took is left to its lease, and the turn ends."""
    due = [uuid4() for _ in range(6)]
    recorded: list[UUID] = []
    sent: list[UUID] = []
    left = iter(range(started))
    start = threading.Thread.start

    def scarce(thread: threading.Thread) -> None:
        if thread.name.startswith("call") and next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    claims = iter([list(due), [uuid4()]])
    together = threading.Event()

    def call(one: UUID) -> str:
        sent.append(one)
        if len(sent) >= started:
            together.set()
        assert together.wait(5)
        return "reply"

    turn: Turn[UUID, str] = Turn(
        lambda limit: next(claims, []),
        call,
        lambda pairs: recorded.extend(one for one, _ in pairs),
        lambda one: one,
        lambda one: False,
        8,
    )
    assert turn.run() == 6
    assert sorted(recorded) == sorted(sent)
    assert len(sent) >= started
    assert not turn.flying
    assert len(list(claims)) == 1, "it went on claiming what it could not send"


@pytest.mark.parametrize("why", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_call_that_ends_its_thread_takes_no_other_with_it(why: type[BaseException]) -> None:
    due = [uuid4() for _ in range(10)]
    recorded: list[UUID] = []
    left = list(due)

    def claim(limit: int) -> list[UUID]:
        taken, left[:] = left[:limit], left[limit:]
        return taken

    def call(one: UUID) -> str:
        if one == due[3]:
            raise why
        return "reply"

    turn: Turn[UUID, str] = Turn(
        claim,
        call,
        lambda pairs: recorded.extend(one for one, _ in pairs),
        lambda one: one,
        lambda one: False,
        4,
    )
    assert turn.run() == 10
    assert sorted(recorded) == sorted({*due} - {due[3]})


def test_more_claims_than_threads_are_all_made() -> None:
    due = [uuid4() for _ in range(40)]
    recorded: list[UUID] = []
    claims = iter([list(due)])
    turn: Turn[UUID, str] = Turn(
        lambda limit: next(claims, []),
        lambda one: "reply",
        lambda pairs: recorded.extend(one for one, _ in pairs),
        lambda one: one,
        lambda one: False,
        2,
    )
    assert turn.run() == 40
    assert sorted(recorded) == sorted(due)

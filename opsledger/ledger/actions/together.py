"""Writes that threads of one process want at the same moment, made by one of them for all.

As a database gathers commits: whoever comes while nothing is being written writes at once. Whoever comes meanwhile waits for
that to end; then one of those who wait writes for all of them. Nobody waits for others to come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from opsledger.lib import turns

Row = TypeVar("Row")
Result = TypeVar("Result")


def _locked() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class _Turn(Generic[Row, Result]):
    """One caller's rows, and what became of them. `called` opens when they are written, or when it is to lead."""

    rows: Sequence[Row]
    called: Lock = field(default_factory=_locked)
    leads: bool = False
    results: list[Result] = field(default_factory=list)  # one, when they were written


class Together(Generic[Row, Result]):
    """`write` takes the rows of several callers, at most about `most`, and what it gives is given to each of them.

    What can't be written together is tried again by each caller alone, so that nobody fails by somebody else's rows; `write`
    must therefore not mind rows that were written already.
    """

    def __init__(self, write: Callable[[Sequence[Row]], Result], *, most: int) -> None:
        self._write, self._most = write, most
        self._lock, self._waiting, self._busy = Lock(), deque[_Turn[Row, Result]](), False

    def __call__(self, rows: Sequence[Row]) -> Result:
        # Also by the one who writes: those who wait for it may have no turn, and need none.
        with turns.left():
            turn = self._taken(rows)
        return turn.results[0] if turn.results else self._write(rows)

    def _taken(self, rows: Sequence[Row]) -> _Turn[Row, Result]:
        """After its rows were written, with others' or by itself; without a result where they have to be tried alone."""
        turn: _Turn[Row, Result] = _Turn(rows)
        with self._lock:
            turn.leads = not self._busy
            self._busy = True
            if not turn.leads:
                self._waiting.append(turn)
        if not turn.leads:
            turn.called.acquire()
        if turn.leads:
            self._lead(turn)
        return turn

    def _lead(self, first: _Turn[Row, Result]) -> None:
        group = [first]
        with self._lock:
            count = len(first.rows)
            while self._waiting and count + len(self._waiting[0].rows) <= self._most:
                group.append(self._waiting.popleft())
                count += len(group[-1].rows)
        try:
            result = self._write([row for turn in group for row in turn.rows])
            for turn in group:
                turn.results.append(result)
        except Exception:
            if len(group) == 1:
                raise
        finally:
            self._end(group)

    def _end(self, group: Sequence[_Turn[Row, Result]]) -> None:
        """Calls the next one to lead, then those whose rows were written."""
        with self._lock:
            following = self._waiting.popleft() if self._waiting else None
            self._busy = following is not None
        if following is not None:
            following.leads = True
            following.called.release()
        for turn in group[1:]:
            turn.called.release()

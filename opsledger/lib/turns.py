"""Long computations of one process, one after another.

Python computes in one thread of a process at a time. Two long computations that begin together are cut into each other: both
end late, and the database, which both ask then, had nothing to do meanwhile. In turns, the first one asks while the second
one computes.

Whoever has the turn waits for nothing with it in hand: it is left for as long as others are waited for (`left`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local

_turn = Lock()
_here = local()


@contextmanager
def taken() -> Iterator[None]:
    """For a long computation. Not to be nested."""
    with _turn:
        _here.taken = True
        try:
            yield
        finally:
            _here.taken = False


@contextmanager
def left() -> Iterator[None]:
    """While something else is waited for: a database, a broker, another thread. Nothing without a turn."""
    if not getattr(_here, "taken", False):
        yield
        return
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()

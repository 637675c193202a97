"""Long computations of one process, one after another.

Python computes in one thread of a process at a time. Two long computations that begin together are cut into each other: both
end late, and the database, which both ask then, had nothing to do meanwhile. In turns, the first one asks while the second
one computes.

Whoever has the turn waits for nothing with it in hand: it is left for as long as others are waited for (`left`). Django's
connections leave it by themselves (`lib/postgres`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local

_turn = Lock()
_here = local()


@contextmanager
def taken() -> Iterator[None]:
    """For a long computation. Not to be nested: RuntimeError."""
    if in_hand():
        raise RuntimeError("this thread has the turn already")
    with _turn:
        _here.taken = True
        try:
            yield
        finally:
            _here.taken = False


def in_hand() -> bool:
    """Whether this thread has the turn now."""
    return getattr(_here, "taken", False)


@contextmanager
def left() -> Iterator[None]:
    """While something else is waited for: a database, a broker, another thread. Nothing without a turn."""
    if not in_hand():
        yield
        return
    _here.taken = False  # what is called meanwhile has none to leave
    _turn.release()
    try:
        yield
    finally:
        _turn.acquire()
        _here.taken = True

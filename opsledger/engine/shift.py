"""What the processes of one worker have in common: who may do what at the same time, and the end of the shift.

A worker's processes are forked from one; what is laid out before that is theirs together. Without a worker (tests,
commands) every seat is free and the shift never ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import tempfile
from collections.abc import Iterator
from typing import IO

_over = mmap.mmap(-1, 1)  # one byte that all processes see
_floor: IO[bytes] | None = None
_places: dict[str, range] = {}
_turn_seconds = math.inf

PROCESSES_ENOUGH = 3  # one that sends, one that looks things up, one for everything short
TURN_SECONDS = 5.0  # with fewer, whoever sends or looks makes room for the others so often


def begin(processes: int) -> None:
    """Lays out the seats, in the process that is going to fork the others.

    Half of the processes may send and a quarter may look things up, so that from three on one is always free for the
    short tasks: a destination that keeps its senders waiting for minutes delays neither a sweep nor a sign of life. One
    process at a time sends notices, for some seconds. With fewer than three (a small machine) nobody goes on for as long
    as there is work, or no lease would end under a steady load.
    """
    global _floor, _turn_seconds
    _turn_seconds = math.inf if processes >= PROCESSES_ENOUGH else TURN_SECONDS
    senders, lookers = max(1, processes // 2), max(1, processes // 4)
    others = senders + lookers
    _places.update(
        dispatch=range(senders), reconcile=range(senders, others), notices=range(others, others + 1)
    )
    _floor = tempfile.TemporaryFile()  # noqa: SIM115  open for as long as the worker lives
    _over[0] = 0


def turn_seconds() -> float:
    """For how long one turn goes on claiming; what it has in flight then is finished."""
    return _turn_seconds


def end() -> None:
    """The worker is asked to stop: what is in flight is finished, nothing new is claimed."""
    _over[0] = 1


def is_over() -> bool:
    return _over[0] == 1


@contextlib.contextmanager
def seat(name: str) -> Iterator[bool]:
    """Whether this process may do `name` now. A seat is a lock of the kernel's: a killed process leaves it free."""
    place = _taken(name)
    try:
        yield place is not None
    finally:
        if _floor is not None and place is not None:
            fcntl.lockf(_floor, fcntl.LOCK_UN, 1, place)


def _taken(name: str) -> int | None:
    if _floor is None:
        return 0
    for place in _places[name]:
        with contextlib.suppress(BlockingIOError, PermissionError):  # taken by another process
            fcntl.lockf(_floor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return place
    return None

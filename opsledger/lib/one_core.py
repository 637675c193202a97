"""Threads that answer requests, kept on one core.

Python computes in one thread of a process at a time. Where its threads are on several cores, each time that one hands over
to the next wakes another core, which takes several times as long as going on with the next one of the same core. All else
that a process does, and all other processes, go where the kernel puts them: it moves what may move out of the rest's way.

Each process has a core of its own. It holds a socket whose name says which; when it has ended, however it ended, the name is
free again. A process that finds none free, and a system that has no such calls, stay as they were.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

NAMES = "opsledger/core"
_choosing = threading.Lock()
_held: list[socket.socket] = []  # until the process ends


class _Here(threading.local):
    """This thread's cores: the one that it keeps to, and those that it had before."""

    asked = False
    kept: frozenset[int] | None = None
    before: frozenset[int] = frozenset()


_here = _Here()


def on_one_core(app: WSGIApplication, *, names: str = NAMES) -> WSGIApplication:
    """Wrap a WSGI application: the first request chooses the process's core, and each thread's first one keeps it there."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not _here.asked:
            _here.asked = True
            _keep_this_thread(names)
        return app(environ, start_response)

    return application


@contextmanager
def anywhere() -> Iterator[None]:
    """For what computes long without Python's one lock, such as the hash of a password: wherever there is room."""
    kept = _here.kept
    if kept is None:
        yield
        return
    _move(_here.before)
    try:
        yield
    finally:
        _move(kept)


def _keep_this_thread(names: str) -> None:
    with _choosing:
        core = _core_of_this_process(names)
    if core is not None:
        _here.before, _here.kept = frozenset(os.sched_getaffinity(0)), frozenset({core})
        _move(_here.kept)


def _move(cores: frozenset[int]) -> None:
    with suppress(OSError):  # a system that does not allow it: nothing is lost but speed
        os.sched_setaffinity(0, cores)


@cache
def _core_of_this_process(names: str) -> int | None:
    """The first core that this process may use and no other one holds; None where that is none, or where it has only one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        return None
    return next((core for core in allowed if _hold(f"\0{names}/{core}")), None)


def _hold(name: str) -> bool:
    """A name outside the file system, which nobody has to clear away."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(name)
    except OSError:
        held.close()
        return False
    _held.append(held)
    return True

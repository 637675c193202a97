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
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

NAMES = "opsledger/core"
_choosing = threading.Lock()
_held: list[socket.socket] = []  # until the process ends


def on_one_core(app: WSGIApplication, *, names: str = NAMES) -> WSGIApplication:
    """Wrap a WSGI application: the first request chooses the process's core, and each thread's first one keeps it there."""
    here = threading.local()

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not hasattr(here, "kept"):
            here.kept = True
            _keep_this_thread(names)
        return app(environ, start_response)

    return application


def _keep_this_thread(names: str) -> None:
    with _choosing:
        core = _core_of_this_process(names)
    if core is not None:
        with suppress(OSError):  # a system that does not allow it: nothing is lost but speed
            os.sched_setaffinity(0, {core})


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

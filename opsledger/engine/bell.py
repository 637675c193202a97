"""The bell: tells a worker that something is due. Never raises, never carries ids, never matters for correctness."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any

log = logging.getLogger(__name__)

# One ring per quarter second and process is enough: a bell wakes a worker for all that is due.
_QUIET_SECONDS = 0.25
_AFTER_FAILURE_SECONDS = 5.0
# A connection of its own, less patient than a worker's: who rings is answering a request.
_PATIENCE = {"socket_connect_timeout": 0.7, "socket_timeout": 0.7}
_ringing = threading.Lock()
_silent_until = 0.0
_rope: Any = None


def ring(name: str = "dispatch") -> bool:
    """Rings for `name` (dispatch, reconcile, replays, bulk), at most once in a while, and takes less than two seconds.

    True when a message was handed to the broker.
    """
    global _silent_until
    if time.monotonic() < _silent_until or not _ringing.acquire(blocking=False):
        return False
    try:
        _silent_until = time.monotonic() + _QUIET_SECONDS
        _pull(name)
    except Exception as why:  # whatever the broker's client raises: the sweep finds the work
        _silent_until = time.monotonic() + _AFTER_FAILURE_SECONDS
        _let_go()
        log.warning("the bell could not be rung: %s; work starts with the next sweep", type(why).__name__)
        return False
    finally:
        _ringing.release()
    return True


def _pull(name: str) -> None:
    global _rope
    from opsledger.celery import app  # the broker's library is loaded only by those who ring

    if _rope is None:
        _rope = app.connection_for_write(transport_options=_PATIENCE)
    app.send_task(f"opsledger.{name}", connection=_rope, expires=10, retry=False, ignore_result=True)


def _let_go() -> None:
    global _rope
    rope, _rope = _rope, None
    with contextlib.suppress(Exception):
        if rope is not None:
            rope.release()

"""The bell: tells a worker that something is due. Never raises, never carries ids, never matters for correctness."""

from __future__ import annotations

import logging
import threading
import time

log = logging.getLogger(__name__)

_QUIET_SECONDS = (
    0.25  # one ring per quarter second and process is enough: a bell wakes a worker for all that is due
)
_AFTER_FAILURE_SECONDS = 5.0
_lock = threading.Lock()
_silent_until = 0.0


def ring(name: str = "dispatch") -> bool:
    """Rings for `name` (dispatch, reconcile), at most once in a while. True when a message was handed to the broker."""
    global _silent_until
    with _lock:
        if time.monotonic() < _silent_until:
            return False
        _silent_until = time.monotonic() + _QUIET_SECONDS
    from opsledger.celery import app  # the broker's library is loaded only by those who ring

    try:
        app.send_task(f"opsledger.{name}", expires=10, retry=False, ignore_result=True)
    except Exception as why:  # whatever the broker's client raises: the sweep finds the work
        with _lock:
            _silent_until = time.monotonic() + _AFTER_FAILURE_SECONDS
        log.warning("the bell could not be rung: %s; work starts with the next sweep", type(why).__name__)
        return False
    return True

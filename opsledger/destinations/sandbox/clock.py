"""The peer's own clock: real time plus what was advanced. Windows, lags and late acts follow it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime


class Clock:
    """`now()` is in Unix seconds. Waiting ends early when the clock is advanced, rung or stopped."""

    def __init__(self, advanced_seconds: float = 0.0) -> None:
        self.advanced_seconds = advanced_seconds
        self._changed = threading.Condition()
        self._rings = 0
        self._stopped = False

    def now(self) -> float:
        return time.time() + self.advanced_seconds

    def advance(self, seconds: float) -> float:
        with self._changed:
            self.advanced_seconds += seconds
        self.ring()
        return self.now()

    def set_advanced(self, seconds: float) -> None:
        with self._changed:
            self.advanced_seconds = seconds
        self.ring()

    def wait_until(self, moment: float) -> bool:
        """True once `moment` has come; False when the peer stops first."""
        with self._changed:
            while not self._stopped and (left := moment - self.now()) > 0:
                self._changed.wait(left)
            return not self._stopped

    @property
    def rings(self) -> int:
        return self._rings

    def wait_for_ring(self, heard: int, moment: float | None) -> bool:
        """Wait until something changed since `heard` or `moment` came; False when the peer stops.

        The caller reads `rings` before it looks for work, so that a ring in between is not lost.
        """
        with self._changed:
            while not self._stopped and self._rings == heard:
                left = None if moment is None else moment - self.now()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return not self._stopped

    def ring(self) -> None:
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def iso(moment: float) -> str:
    """UTC with microseconds, as in 2026-04-14T14:07:31.204000Z."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

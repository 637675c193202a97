"""One moment after which nothing is waited for, and the wait itself."""

from __future__ import annotations

import math
import select
import time
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def remaining_seconds(self) -> float:
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and one that many seconds from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def wait_for(sock: HasFileno, events: int, deadline: Deadline) -> int:
    """Wait until one of the poll events is there; 0 when the deadline came first.

    `poll`, because `select` fails on descriptors above 1023.
    """
    poller = select.poll()
    poller.register(sock, events)
    ready = poller.poll(math.ceil(deadline.remaining_seconds() * 1000))
    return ready[0][1] if ready else 0

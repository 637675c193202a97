"""Children that should run, and what is done when one does not."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opsledger.local.children import describe, end_session, fresh_log, spawn
from opsledger.local.programs import Program

BACKOFF_SECONDS_FIRST, BACKOFF_SECONDS_MAX = 1.0, 30.0
# A child that ran this long is healthy again: its next end is a first one.
HEALTHY_AFTER_SECONDS = 60.0


class Watched:
    """One program that is started again when it ends, after 1, 2, 4 … 30 seconds."""

    def __init__(self, program: Program, *, env: Mapping[str, str], folder: Path, logs: Path) -> None:
        self.program, self.env, self.folder = program, {**env, **program.env}, folder
        self.log = fresh_log(logs / f"{program.name}.log")
        self.failures_count = 0
        self.child: subprocess.Popen[bytes] | None = None
        self._started_at = self._again_at = 0.0

    def start(self) -> None:
        self.child = spawn(self.program.command, env=self.env, log=self.log, folder=self.folder)
        self._started_at = time.monotonic()

    def look(self, say: Callable[[str], None]) -> None:
        """One look: notes an end, and starts again when the time has come."""
        now = time.monotonic()
        if self.child is None:
            if now >= self._again_at:
                self.start()
        elif (status := self.child.poll()) is not None:
            end_session(self.child)  # whatever it left behind would be in the way of its successor
            self.child = None
            self.failures_count = (
                1 if now - self._started_at > HEALTHY_AFTER_SECONDS else self.failures_count + 1
            )
            delay_seconds = backoff_seconds(self.failures_count)
            self._again_at = now + delay_seconds
            when = f"starting it again in {delay_seconds:.0f} s"
            say(f"{self.program.name} ended ({describe(status)}); {when}. Its log: {self.log}")


def backoff_seconds(failures_count: int) -> float:
    doublings = min(failures_count - 1, 10)
    return min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_FIRST * float(1 << doublings))


def stop_all(
    children: Sequence[subprocess.Popen[bytes]],
    seconds_max: float,
    *,
    hurry: Callable[[], bool] = lambda: False,
) -> None:
    """SIGTERM to all, time for all of them to finish what they do, then SIGKILL for their whole sessions."""
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + seconds_max
    while any(child.poll() is None for child in children) and time.monotonic() < deadline and not hurry():
        time.sleep(0.05)
    for child in children:
        end_session(child)

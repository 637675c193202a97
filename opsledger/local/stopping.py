"""Ctrl-C and its kin, turned into something that every wait notices."""

from __future__ import annotations

import os
import select
import signal
import types

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """Somebody wants us to stop; not an error, so nothing that catches errors swallows it."""


class StopSignal:
    """Counts requests to stop while entered. The first ends every `pause`; a second one says: hurry.

    Handlers are set even when the signal came in ignored, as a shell does for its background jobs.
    """

    def __init__(self) -> None:
        self.count = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> StopSignal:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._reader)
        os.close(self._writer)

    def pause(self, seconds: float) -> None:
        """Waits, at most until somebody wants us to stop; then raises StopRequested."""
        if not self.count:
            select.select([self._reader], [], [], seconds)
        if self.count:
            raise StopRequested

    @property
    def hurry(self) -> bool:
        return self.count > 1

    def _note(self, number: int, frame: types.FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            os.write(self._writer, b".")

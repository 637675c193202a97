"""Values that may be a few seconds old, kept per process."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Remembers what `find` gave for `keep_seconds`; at most `count_max` values, then it starts anew."""

    def __init__(
        self,
        find: Callable[[K], V],
        *,
        keep_seconds: float,
        count_max: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find, self._keep_seconds, self._count_max, self._clock = find, keep_seconds, count_max, clock
        self._kept: dict[K, tuple[float, V]] = {}
        self._lock = Lock()

    def get(self, key: K) -> V:
        kept = self._kept.get(key)
        if kept is not None and self._clock() - kept[0] < self._keep_seconds:
            return kept[1]
        value = self._find(key)
        with self._lock:
            if len(self._kept) >= self._count_max:
                self._kept.clear()
            self._kept[key] = (self._clock(), value)
        return value

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()

"""Python's cyclic collector, put off while much is made that lives until the end."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_pauses = 0


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """No collection of cycles meanwhile, in the whole process: for a few seconds' work that breaks its own cycles.

    Each of the collector's full runs walks everything that was made so far; for a list that grows by tens of thousands of
    objects that is most of the time. Pauses of several threads overlap; the last one to end starts the collector again.
    """
    global _pauses
    with _lock:
        _pauses += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses:
                gc.enable()

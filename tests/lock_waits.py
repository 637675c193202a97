"""Until writers wait for a lock: the one place where tests look at who waits, instead of letting time go by."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event, Thread

from django.db import connection

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def waiting() -> int:
    """How many connections to this database wait for a lock now, by this thread's own connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # one transaction sees one list of connections else
        cursor.execute(WAITING)
        return int(cursor.fetchone()[0])


def until_waiting(count: int, rivals: Sequence[Thread], *, seconds: float = 20.0) -> None:
    """Until so many wait. Fails where a rival ends instead, which is that it did not wait, and after so many seconds."""
    deadline = time.monotonic() + seconds
    while waiting() < count:
        assert all(rival.is_alive() for rival in rivals), "a rival ended; it did not wait"
        assert time.monotonic() < deadline, f"fewer than {count} came as far as a lock within {seconds:g} s"
        Event().wait(0.01)

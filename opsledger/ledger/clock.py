"""One clock: the database's."""

import time
from datetime import datetime, timedelta

from django.db import connection

from opsledger.lib.recent import Recent


def database_now() -> datetime:
    """The transaction's time inside a transaction, else the statement's. Aware, UTC."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        now: datetime = cursor.fetchone()[0]
        return now


def lately_now() -> datetime:
    """The same without asking each time: what the database said at most a second ago, and what has passed since.

    Never ahead of it, as our count begins when its answer is here. Inside a transaction that one's own time.
    """
    if connection.in_atomic_block:
        return database_now()
    said, at = _said.get(None)
    return said + timedelta(seconds=_elapsed() - at)


def _elapsed() -> float:
    """Seconds that also pass while the machine is asleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _ask(_: None) -> tuple[datetime, float]:
    said = database_now()
    return said, _elapsed()


_said: Recent[None, tuple[datetime, float]] = Recent(_ask, keep_seconds=1.0, clock=_elapsed)

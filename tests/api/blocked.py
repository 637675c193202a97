"""Two writers in a fixed order: one has written and not committed, the other has come as far as it can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from django.db import connection

from opsledger.local.postgres import Urls

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def behind(urls: Urls, first: Callable[[psycopg.Connection], object], second: Callable[[], Any]) -> Any:
    """What `second` comes to when it has begun before `first`, in its own transaction, commits."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(second())
        except Exception as why:
            found.append(why)
        finally:
            connection.close()

    rival = threading.Thread(target=run)
    with psycopg.connect(urls.superuser) as holder, psycopg.connect(urls.superuser, autocommit=True) as watch:
        first(holder)
        rival.start()
        deadline = time.monotonic() + 20
        while watch.execute(_WAITING).fetchone() == (0,):
            assert rival.is_alive(), f"it did not wait: {found}"
            assert time.monotonic() < deadline, "it never came as far as the lock"
        holder.commit()
    rival.join(timeout=30)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]

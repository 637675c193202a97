"""Two writers in a fixed order: one has written and not committed, the other has come as far as it can."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from django.db import connection, transaction

from opsledger.local.postgres import Urls

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def behind(urls: Urls, first: Callable[[psycopg.Connection], object], second: Callable[[], Any]) -> Any:
    """What `second` comes to when it has begun before `first`, in its own transaction, commits."""
    holder = psycopg.connect(urls.superuser)
    return _behind(urls, holder, lambda: first(holder), second)


def behind_ours(urls: Urls, first: Callable[[], object], second: Callable[[], Any]) -> Any:
    """The same for a `first` that writes through this thread's connection."""
    return _behind(urls, transaction.atomic(), first, second)


def _behind(
    urls: Urls,
    committing: AbstractContextManager[Any],
    first: Callable[[], object],
    second: Callable[[], Any],
) -> Any:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(second())
        except Exception as why:
            found.append(why)
        finally:
            connection.close()

    rival = threading.Thread(target=run)
    with committing, psycopg.connect(urls.superuser, autocommit=True) as watch:
        first()
        rival.start()
        deadline = time.monotonic() + 20
        while watch.execute(_WAITING).fetchone() == (0,):
            assert rival.is_alive(), f"it did not wait: {found}"
            assert time.monotonic() < deadline, "it never came as far as the lock"
    rival.join(timeout=30)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]

"""Two writers in a fixed order: one has written and not committed, the other has come as far as it can."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from django.db import connection, transaction

from opsledger.local.postgres import Urls
from tests.lock_waits import until_waiting


def behind(urls: Urls, first: Callable[[psycopg.Connection], object], second: Callable[[], Any]) -> Any:
    """What `second` comes to when it has begun before `first`, in its own transaction, commits."""
    holder = psycopg.connect(urls.superuser)
    return _behind(holder, lambda: first(holder), second)


def behind_ours(first: Callable[[], object], second: Callable[[], Any]) -> Any:
    """The same for a `first` that writes through this thread's connection."""
    return _behind(transaction.atomic(), first, second)


def _behind(
    committing: AbstractContextManager[Any], first: Callable[[], object], second: Callable[[], Any]
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
    with committing:
        first()
        rival.start()
        until_waiting(1, [rival])
    rival.join(timeout=30)
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]

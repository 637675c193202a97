"""Whatever a connection waits for: to be made, a statement, the end of a pipeline, a commit."""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import proxy

from django.db.backends.postgresql import base
from psycopg import Connection

from opsledger.lib import turns


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: Any) -> Any:
        with turns.left():
            made = super().get_new_connection(conn_params)
        # All its waits go through this one; by a proxy, so that it makes no circle.
        made.wait = partial(_wait, proxy(made))
        return made


def _wait(made: Any, *args: Any, **options: Any) -> Any:
    if not turns.in_hand():
        return Connection.wait(made, *args, **options)
    with turns.left():
        return Connection.wait(made, *args, **options)

"""Moments as people write them, and from the database.

Those from the database are read by the standard library in one step: Django's own loader takes a moment apart with a regular
expression, 3.5 µs each; a page reads hundreds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from psycopg.abc import Buffer
from psycopg.types.datetime import TimestamptzLoader


def read_moment(text: str) -> datetime | None:
    """An ISO time with its zone; None for anything else, a day that there is not included."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


class MomentLoader(TimestamptzLoader):
    """The sessions' time zone is UTC (`database_url`). What is written in another way is left to psycopg."""

    timezone = UTC  # Django asks a loader for it

    def load(self, data: Buffer) -> datetime:
        text = bytes(data)
        if text.endswith(b"+00"):
            try:
                return datetime.fromisoformat(text.decode())
            except ValueError:  # before Christ, or after the year 9999
                pass
        return super().load(data).astimezone(UTC)


def read_moments(*, connection: Any, **_: Any) -> None:
    """For each new connection of Django's."""
    connection.connection.adapters.register_loader("timestamptz", MomentLoader)

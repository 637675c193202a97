"""Rows of a query whose columns are read by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection
from psycopg.rows import namedtuple_row


def named_rows(query: str, parameters: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """Every row of the query, as named tuples. A failing database raises Django's errors, as everywhere."""
    connection.ensure_connection()
    with connection.wrap_database_errors, connection.connection.cursor(row_factory=namedtuple_row) as cursor:
        return list(cursor.execute(query, parameters).fetchall())

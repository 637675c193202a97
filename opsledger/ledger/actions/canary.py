"""A sign of life from a worker."""

from django.db import connection


def record_canary(name: str) -> None:
    """Notes that a task has finished now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_canary (name, finished_at) VALUES (%s, now())"
            " ON CONFLICT (name) DO UPDATE SET finished_at = now()",
            [name],
        )

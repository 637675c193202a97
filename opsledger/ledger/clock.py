"""One clock: the database's."""

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """The transaction's time inside a transaction, else the statement's. Aware, UTC."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        now: datetime = cursor.fetchone()[0]
        return now

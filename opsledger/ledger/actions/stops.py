"""What a stop waits for before it returns: claims that were under way when it was committed, and have not seen it.

A claim locks the switch and its destinations FOR KEY SHARE until it is committed (claim_sends.sql, report.py). A stop is
written without waiting for them, so that every later claim sees it, however many come; then the row is locked once, for a
moment, FOR UPDATE: those that came earlier have ended by then, and what they opened is in flight.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection, transaction

_CLAIMED_THERE = "SELECT FROM ledger_destination WHERE definition_id = %s FOR UPDATE"
_CLAIMED_ANYWHERE = "SELECT FROM ledger_sendingswitch FOR UPDATE"


def wait_for_claims(destination_id: UUID | None) -> None:
    """Called when the stop of a destination (None: of all sending) has been committed."""
    with transaction.atomic(), connection.cursor() as cursor:
        if destination_id is None:
            cursor.execute(_CLAIMED_ANYWHERE)
        else:
            cursor.execute(_CLAIMED_THERE, [destination_id])

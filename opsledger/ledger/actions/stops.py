"""What a stop waits for before it returns: claims that were under way when it was committed, and have not seen it.

A claim takes the claims' lock for itself and others (`CLAIM`) before it reads whether it may send, and has it until it is
committed. A stop is written without waiting, so that every later claim sees it; then it takes the lock alone, for a moment:
those that came earlier have ended by then, and what they opened is in flight. Those that come while it waits wait behind it.

It is an advisory lock, not the rows of the switch and the destinations: these are written all the time, and rows that are
both shared and written make those who write them block each other.
"""

from __future__ import annotations

import logging

from django.db import OperationalError, connection, transaction

log = logging.getLogger(__name__)

CLAIMS_LOCK = 7_301_845_113  # any number that no other advisory lock has
CLAIM = f"SELECT pg_advisory_xact_lock_shared({CLAIMS_LOCK})"


_WAITED_LONG = frozenset({"55P03", "57014"})  # the limits of this process for locks and for statements


def wait_for_claims() -> bool:
    """Called when a stop, of one destination or of all sending, has been committed.

    False where a claim that came before is still under way when this process may wait no longer: what it opens is sent. The
    stop stands all the same, and whoever asked for it is told so, not that it failed.
    """
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CLAIMS_LOCK])
    except OperationalError as why:
        if getattr(why.__cause__, "sqlstate", None) not in _WAITED_LONG:
            raise
        log.warning("a claim from before the stop is still under way; what it opens may be sent")
        return False
    return True

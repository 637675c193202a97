"""The turn of a worker that looks things up."""

from __future__ import annotations

import math
from collections import Counter

from django.conf import settings
from django.db import connection

from opsledger.destinations.http import Wire
from opsledger.engine.looking import look
from opsledger.engine.turn import DATABASE_AWAY, Pairs, Turn
from opsledger.engine.wire import installed_wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.claim import ClaimedLook, claim_looks
from opsledger.ledger.actions.destinations import record_access_refused
from opsledger.ledger.actions.record import Looked, record_looks
from opsledger.rules.facts import LookupStatus


def run_once(
    *, wire: Wire | None = None, threads: int | None = None, look_for_seconds: float = math.inf
) -> int:
    """Makes the lookups that are due until none is left or the time is up. Returns how many."""
    wire = wire or installed_wire()
    turn: Turn[ClaimedLook, Looked] = Turn(
        claim=lambda limit: _claim(limit, turn),
        call=lambda claimed: look(claimed, wire),
        record=_record,
        operation_of=lambda claimed: claimed.operation_id,
        given_up=lambda claimed: (
            True
        ),  # nothing was sent and nothing is lost: it is due again when its lease ends
        threads=threads or settings.SEND_THREADS,
        claim_for_seconds=look_for_seconds,
    )
    return turn.run()


def _claim(limit: int, turn: Turn[ClaimedLook, Looked]) -> list[ClaimedLook]:
    """Those whose definition can be read now, so that threads need no database; the others are due again later.

    No destination gets all threads: a quarter of them is left for the others, however slowly it answers.
    """
    busy = Counter(one.destination_id for one in turn.flying.values())
    each = max(1, turn.threads * 3 // 4)
    at_hand = []
    for one in claim_looks(limit, each=each, busy=busy):
        try:
            definitions.destination(one.destination_version_id)
        except DATABASE_AWAY:
            connection.close()
            continue
        at_hand.append(one)
    return at_hand


def _record(pairs: Pairs[ClaimedLook, Looked]) -> None:
    record_looks([looked for _, looked in pairs])
    refused = {
        looked.destination_id for _, looked in pairs if looked.fact.status is LookupStatus.ACCESS_REFUSED
    }
    for destination_id in sorted(refused):
        record_access_refused(destination_id)

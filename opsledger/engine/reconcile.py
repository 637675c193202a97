"""The turn of a worker that looks things up."""

from __future__ import annotations

import math

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
        claim=_claim,
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


def _claim(limit: int) -> list[ClaimedLook]:
    """Those whose definition can be read now, so that threads need no database; the others are due again later."""
    at_hand = []
    for one in claim_looks(limit):
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

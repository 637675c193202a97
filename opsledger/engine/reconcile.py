"""The loop of a worker that looks things up."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from opsledger.destinations.http import Wire
from opsledger.engine.looking import look
from opsledger.engine.wire import installed_wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.claim import claim_looks
from opsledger.ledger.actions.destinations import record_access_refused
from opsledger.ledger.actions.record import Looked, record_looks
from opsledger.rules.facts import LookupStatus

log = logging.getLogger(__name__)

LOOK_FOR_SECONDS = 3.0


def run_once(
    *, wire: Wire | None = None, threads: int | None = None, look_for_seconds: float = LOOK_FOR_SECONDS
) -> int:
    """Makes the lookups that are due, in batches, until none is left or the time is up. Returns how many."""
    threads = threads or settings.SEND_THREADS
    wire, count, until = wire or installed_wire(), 0, time.monotonic() + look_for_seconds
    with ThreadPoolExecutor(threads, thread_name_prefix="look") as pool:
        while True:
            try:
                claimed = claim_looks(threads)
                if not claimed:
                    return count
                for one in claimed:
                    definitions.destination(one.destination_version_id)
                looked = list(pool.map(lambda one: look(one, wire), claimed))
                record_looks(_one_per_operation(looked))
            except (OperationalError, InterfaceError) as why:
                # nothing was sent and nothing is lost: the lookups are due again when their leases end
                log.warning("lookups were not recorded (%s); they are made again", type(why).__name__)
                connection.close()
                return count
            count += len(looked)
            for made in looked:
                if made.fact.status is LookupStatus.ACCESS_REFUSED:
                    record_access_refused(made.destination_id)
            if time.monotonic() > until:
                return count


def _one_per_operation(looked: list[Looked]) -> list[Looked]:
    """Two steps of one operation are recorded in two turns; the second is due again at once."""
    return list({one.operation_id: one for one in looked}.values())

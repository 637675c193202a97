"""The loop of a worker that sends: claim, send, record, and again.

A worker is mostly waiting, so one process keeps many sends in flight. It claims no more than it has free threads, because
every claimed step of a dead worker becomes an unknown outcome. The threads touch no database.
"""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from opsledger.destinations.http import Wire
from opsledger.engine.sending import send_claimed
from opsledger.engine.wire import installed_wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from opsledger.ledger.actions.destinations import record_access_refused, record_reachability
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.rules.states import NoChange, Outcome

log = logging.getLogger(__name__)

CLAIM_FOR_SECONDS = (
    3.0  # then the task ends, so that a stopping worker claims nothing new; the next bell goes on
)
RECORD_BATCH_MAX = 16
_UNREACHABLE = frozenset({NoChange.NOT_SENT})


def worker_name() -> str:
    """Unique per process start: recovery goes by leases, never by names."""
    return f"{os.uname().nodename}:{os.getpid()}:{uuid4().hex[:8]}"


@dataclass(slots=True)
class Counts:
    claimed: int = 0
    recorded: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


def run_once(
    *, wire: Wire | None = None, threads: int | None = None, claim_for_seconds: float = CLAIM_FOR_SECONDS
) -> Counts:
    """Claims, sends and records until nothing is due or the time for claiming is up; waits for what is in flight."""
    threads = threads or settings.SEND_THREADS
    worker, counts = worker_name(), Counts()
    wire = wire or installed_wire()
    flying: dict[Future[Sent], ClaimedSend] = {}
    claim_until = time.monotonic() + claim_for_seconds
    with ThreadPoolExecutor(threads, thread_name_prefix="send") as pool:
        while True:
            free = threads - len(flying)
            if time.monotonic() < claim_until and free >= max(1, threads // 4):
                for claimed in _claim(free, worker):
                    flying[pool.submit(send_claimed, claimed, wire)] = claimed
                    counts.claimed += 1
            if not flying:
                return counts
            _record(_finished(flying), counts)


def _claim(limit: int, worker: str) -> list[ClaimedSend]:
    try:
        claimed = claim_sends(limit, worker=worker)
    except (OperationalError, InterfaceError) as why:
        log.warning("claiming failed (%s); the next bell goes on", type(why).__name__)
        connection.close()
        return []
    for one in claimed:
        definitions.destination(one.destination_version_id)  # parsed here, so that threads need no database
    return claimed


def _finished(flying: dict[Future[Sent], ClaimedSend]) -> list[tuple[ClaimedSend, Sent]]:
    done, _ = wait(flying, timeout=1.0, return_when=FIRST_COMPLETED)
    finished = []
    for future in list(done)[:RECORD_BATCH_MAX]:
        claimed = flying.pop(future)
        finished.append((claimed, future.result()))
    return finished


def _record(finished: list[tuple[ClaimedSend, Sent]], counts: Counts) -> None:
    if not finished:
        return
    if not _record_until_lease(
        [sent for _, sent in finished], min(c.lease_ends_at for c, _ in finished).timestamp()
    ):
        return
    counts.recorded += len(finished)
    good: set[UUID] = set()
    bad: dict[UUID, int] = {}
    for claimed, sent in finished:
        word = sent.finding.outcome.value
        counts.outcomes[word] = counts.outcomes.get(word, 0) + 1
        if sent.access_refused:
            record_access_refused(claimed.destination_id)
        if sent.finding.outcome in {Outcome.CONFIRMED, Outcome.ACCEPTED}:
            good.add(claimed.destination_id)
        elif sent.finding.no_change in _UNREACHABLE:
            bad[claimed.destination_id] = bad.get(claimed.destination_id, 0) + 1
    record_reachability(good, {key: count for key, count in bad.items() if key not in good})


def _record_until_lease(results: list[Sent], lease_ends: float) -> bool:
    """A reply in hand is worth waiting for the database: tried until the lease ends, then the lease decides."""
    pause_seconds = 0.2
    while True:
        try:
            record_sends(results)
            return True
        except (OperationalError, InterfaceError) as why:
            connection.close()
            if time.time() + pause_seconds > lease_ends:
                log.error("a reply could not be recorded before its lease ended (%s)", type(why).__name__)
                return False
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, 5.0)

"""The turn of a worker that sends: claim, send, record."""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection

from opsledger.destinations.http import Wire
from opsledger.engine import shift
from opsledger.engine.sending import not_sent, send_claimed
from opsledger.engine.turn import DATABASE_AWAY, Pairs, Turn
from opsledger.engine.wire import installed_wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.claim import TRIAL_EVERY_SECONDS, ClaimedSend, claim_sends
from opsledger.ledger.actions.destinations import record_access_refused, record_reachability
from opsledger.ledger.actions.ordinary import record_replies
from opsledger.ledger.actions.record import Sent
from opsledger.rules.states import NoChange, Outcome

log = logging.getLogger(__name__)

KEEP_REPLIES_SECONDS = 600.0  # after the lease: late truth is still worth having


def worker_name() -> str:
    """Unique per process start: recovery goes by leases, never by names."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename).lstrip(".-")[:64] or "host"
    return f"{host}:{os.getpid()}:{uuid4().hex[:8]}"


def elapsed_clock() -> float:
    """Seconds that also pass while this process, or the whole machine, is asleep."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Held:
    """A claimed step in this process. Times are on our own clock, counted from before the claim was asked for."""

    claimed: ClaimedSend
    lease_ends: float
    sendable: bool  # its destination's definition is at hand
    send_until: float = math.inf  # then protection ends, or nobody wants it sent any more


@dataclass(slots=True)
class Counts:
    claimed: int = 0
    recorded: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


def run_once(
    *,
    wire: Wire | None = None,
    threads: int | None = None,
    claim_for_seconds: float = math.inf,
    trial_every_seconds: float = TRIAL_EVERY_SECONDS,
) -> Counts:
    """Claims, sends and records until nothing is due and nothing in flight; bounded when `claim_for_seconds` says so."""
    sender = _Sender(wire or installed_wire(), trial_every_seconds)
    turn: Turn[Held, Sent] = Turn(
        claim=sender.claim,
        call=lambda held: send_in_time(held, sender.wire),
        record=sender.record,
        operation_of=lambda held: held.claimed.operation_id,
        given_up=_given_up,
        threads=threads or settings.SEND_THREADS,
        claim_for_seconds=claim_for_seconds,
    )
    sender.counts.claimed = turn.run()
    return sender.counts


def _given_up(held: Held) -> bool:
    keep_seconds = 0.0 if shift.is_over() else KEEP_REPLIES_SECONDS
    return elapsed_clock() > held.lease_ends + keep_seconds


class _Sender:
    def __init__(self, wire: Wire, trial_every_seconds: float) -> None:
        self.wire, self.trial_every_seconds = wire, trial_every_seconds
        self.worker, self.counts = worker_name(), Counts()

    def claim(self, limit: int) -> list[Held]:
        asked_at = elapsed_clock()
        claimed = claim_sends(limit, worker=self.worker, trial_every_seconds=self.trial_every_seconds)
        return [_held(one, asked_at) for one in claimed]

    def record(self, pairs: Pairs[Held, Sent]) -> None:
        record_replies([(held.claimed, sent) for held, sent in pairs])
        self.counts.recorded += len(pairs)
        for _, sent in pairs:
            word = sent.finding.outcome.value
            self.counts.outcomes[word] = self.counts.outcomes.get(word, 0) + 1
        try:
            self._record_destinations(pairs)
        except (
            DATABASE_AWAY
        ) as why:  # the replies are kept; the next ones tell the same about their destinations
            connection.close()
            log.warning("what replies say about destinations was not recorded (%s)", type(why).__name__)

    def _record_destinations(self, pairs: Pairs[Held, Sent]) -> None:
        refused = {held.claimed.destination_id for held, sent in pairs if sent.access_refused}
        for destination_id in sorted(refused):
            record_access_refused(destination_id)
        good = {held.claimed.destination_id for held, sent in pairs if _good(sent)}
        news = {held.claimed.destination_id for held, _ in pairs if held.claimed.destination_failing}
        bad = _counted(held.claimed.destination_id for held, sent in pairs if _unreachable(sent))
        record_reachability(
            good & news,
            {key: count for key, count in bad.items() if key not in good},
            trial_every_seconds=self.trial_every_seconds,
        )


def _held(claimed: ClaimedSend, asked_at: float) -> Held:
    def on_our_clock(at: datetime | None) -> float:
        return math.inf if at is None else asked_at + (at - claimed.opened_at).total_seconds()

    return Held(
        claimed, on_our_clock(claimed.lease_ends_at), _at_hand(claimed), on_our_clock(claimed.send_until)
    )


def send_in_time(held: Held, wire: Wire) -> Sent:
    """Sends a claimed step once, or not at all.

    1. Without its destination's definition nothing can be sent.
    2. What could still be under way when the lease ends stays here: by then others may find out, and send, for us.
    3. So does what was claimed in time and would be sent after its protection has ended, or too late.
    """
    claimed = held.claimed
    if not held.sendable:
        return not_sent(claimed, "definition_unread", "Nothing was sent: the database was away.")
    profile = definitions.destination(claimed.destination_version_id).actions[claimed.action].profile
    now = elapsed_clock()
    if now + profile.timing.total_seconds > held.lease_ends or now >= held.send_until:
        return not_sent(claimed, "held_up", "Nothing was sent: the worker was held up for too long.")
    return send_claimed(claimed, wire)


def _at_hand(claimed: ClaimedSend) -> bool:
    """Reads the definition here, so that threads need no database."""
    try:
        definitions.destination(claimed.destination_version_id)
    except DATABASE_AWAY:
        connection.close()
        return False
    return True


def _good(sent: Sent) -> bool:
    return sent.finding.outcome in {Outcome.CONFIRMED, Outcome.ACCEPTED}


def _unreachable(sent: Sent) -> bool:
    return sent.finding.no_change is NoChange.NOT_SENT and sent.seen.get("phase") != "guard"


def _counted(ids: Iterable[UUID]) -> dict[UUID, int]:
    counts: dict[UUID, int] = {}
    for one in ids:
        counts[one] = counts.get(one, 0) + 1
    return counts

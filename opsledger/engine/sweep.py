"""The sweep finds everything that is due, whatever the broker lost: leases that ended, deadlines that came."""

from __future__ import annotations

from dataclasses import dataclass

from opsledger.ledger.actions.record import record_leases_ended, record_time_passed

BATCH = 200
ROUNDS_MAX = 50


@dataclass(frozen=True, slots=True)
class Swept:
    leases: int
    deadlines: int


def run_once() -> Swept:
    """Goes through what is due in batches that commit; bounded, and harmless when run twice or by two."""
    leases = record_leases_ended(BATCH, rounds=ROUNDS_MAX)
    return Swept(leases, record_time_passed(BATCH, rounds=ROUNDS_MAX))

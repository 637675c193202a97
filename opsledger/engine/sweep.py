"""The sweep finds everything that is due, whatever the broker lost: leases that ended, deadlines that came, and operations
that are still to be moved to their content's newest version."""

from __future__ import annotations

from dataclasses import dataclass

from opsledger.ledger.actions.content import record_moves
from opsledger.ledger.actions.record import record_leases_ended, record_time_passed

BATCH = 200
ROUNDS_MAX = 50


@dataclass(frozen=True, slots=True)
class Swept:
    leases: int
    deadlines: int
    moves: int = 0  # operations that were still to show their content's newest version


def run_once() -> Swept:
    """Goes through what is due in batches that commit; bounded, and harmless when run twice or by two."""
    leases = record_leases_ended(BATCH, rounds=ROUNDS_MAX)
    deadlines = record_time_passed(BATCH, rounds=ROUNDS_MAX)
    return Swept(leases, deadlines, record_moves(BATCH))

"""The turn of a worker that carries replays on. It sends nothing: what it begins is claimed like everything else.

Rung by the beat and by the bell. Any number may run, be killed at any point, or run twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from opsledger.engine import bell, shift
from opsledger.ledger.actions.replay_items import (
    ABORT_BATCH,
    END_BATCH,
    record_items_aborted,
    record_items_ended,
    record_items_started,
)
from opsledger.ledger.actions.replay_stops import record_replays_stopped

ROUNDS_MAX = 20  # of each kind, so that a turn is short


@dataclass(slots=True)
class Carried:
    started: int = 0  # or skipped, because they had moved
    ended: int = 0
    aborted: int = 0


def run_once() -> Carried:
    """Ends what has come to rest, ends what was aborted, pauses what has enough unknown outcomes, starts what is due:
    bounded batches that commit."""
    carried = Carried()
    for _ in range(ROUNDS_MAX):
        count = record_items_ended()
        carried.ended += count
        if count < END_BATCH or shift.is_over():
            break
    for _ in range(ROUNDS_MAX):
        count = record_items_aborted()
        carried.aborted += count
        if count < ABORT_BATCH or shift.is_over():
            break
    for _ in range(ROUNDS_MAX):
        record_replays_stopped()
        count = record_items_started()
        carried.started += count
        if not count or shift.is_over():
            break
    if carried.started:
        bell.ring()
    return carried

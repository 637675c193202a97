"""The sweep finds everything that is due, whatever the broker lost: leases that ended, deadlines that came, operations that
are still to be moved to their content's newest version, and holds that are still to be given to an incident. It also tells
people of holds that opened, or that nobody acts on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from opsledger.ledger.actions.content import record_moves
from opsledger.ledger.actions.escalate import (
    record_escalations,
    record_news,
    record_owners_gone,
    record_reminders,
)
from opsledger.ledger.actions.event_questions import record_forgotten_bodies
from opsledger.ledger.actions.incidents import record_incidents
from opsledger.ledger.actions.record import record_leases_ended, record_time_passed

log = logging.getLogger(__name__)

BATCH = 200
ROUNDS_MAX = 50


@dataclass(frozen=True, slots=True)
class Swept:
    leases: int
    deadlines: int
    moves: int = 0  # operations that were still to show their content's newest version
    grouped: int = 0  # holds that were given to an incident
    told: int = 0  # holds whose people were told, reminded, or that changed hands because nobody acted
    asked: int = 0  # questions about other bodies of events that nobody had been asked about


def run_once() -> Swept:
    """Goes through what is due in batches that commit; bounded, and harmless when run twice or by two.

    A part that breaks stops no other; then that is raised.
    """
    parts = _Parts()
    leases = parts.do(lambda: record_leases_ended(BATCH, rounds=ROUNDS_MAX))
    deadlines = parts.do(lambda: record_time_passed(BATCH, rounds=ROUNDS_MAX))
    moves = parts.do(lambda: record_moves(BATCH))
    grouped = parts.do(record_incidents)
    asked = parts.do(lambda: record_forgotten_bodies(BATCH))
    turns = (record_news, record_owners_gone, record_reminders, record_escalations)
    told = sum(parts.do(partial(turn, BATCH, rounds=ROUNDS_MAX)) for turn in turns)
    if parts.broken is not None:
        raise parts.broken
    return Swept(leases, deadlines, moves, grouped, told, asked)


@dataclass(slots=True)
class _Parts:
    broken: Exception | None = None  # the first of them

    def do(self, part: Callable[[], int]) -> int:
        try:
            return part()
        except Exception as why:
            log.warning("a part of the sweep broke (%s); the others go on", type(why).__name__)
            self.broken = self.broken or why
            return 0

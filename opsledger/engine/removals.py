"""The turn of a worker that removes what nothing was done with, and what was told and read long ago. Rung by the beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings

from opsledger.engine import shift
from opsledger.ledger.actions.removals import (
    BATCH,
    remove_early_reports,
    remove_old_messages,
    remove_old_notices,
    remove_unused_lists,
    remove_unused_selections,
)

ROUNDS_MAX = 20  # of each kind, so that a turn is short; the next one goes on


@dataclass(frozen=True, slots=True)
class Removed:
    lists: int
    selections: int
    notices: int
    messages: int
    early_reports: int


def run_once() -> Removed:
    """Lists before their selections, notices before their messages: bounded batches that commit."""
    selections, notices = settings.KEEP_UNUSED_SELECTIONS_DAYS, settings.KEEP_READ_NOTICES_DAYS
    return Removed(
        lists=_rounds(remove_unused_lists, selections),
        selections=_rounds(remove_unused_selections, selections),
        notices=_rounds(remove_old_notices, notices),
        messages=_rounds(remove_old_messages, notices),
        early_reports=_rounds(remove_early_reports, settings.KEEP_EARLY_REPORTS_DAYS),
    )


def _rounds(remove: Callable[[int], int], days: int) -> int:
    total = 0
    for _ in range(ROUNDS_MAX):
        count = remove(days)
        total += count
        if count < BATCH or shift.is_over():
            break
    return total

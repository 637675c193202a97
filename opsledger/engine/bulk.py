"""Carries bulk runs on: what each verb does, in batches that commit. By the page that began one, and by workers.

Any number may run, be killed at any point, or run twice: an item is done with its result, in one transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from opsledger.engine import bell, lists, shift
from opsledger.ledger.actions import bulk_verbs
from opsledger.ledger.actions import lists as list_verbs
from opsledger.ledger.actions.bulk import Doer, open_items, record_batch, record_broken
from opsledger.ledger.models import BulkItem, BulkRun
from opsledger.ledger.queries.bulk import open_runs
from opsledger.rules.bulk import BulkState, Verb

log = logging.getLogger(__name__)

RUNS_MAX = 50  # in one turn
AT_ONCE_SECONDS = 2.0  # while a page waits
TURN_SECONDS = 5.0  # of one run, so that the others have theirs


@dataclass(frozen=True, slots=True)
class Deed:
    """How a verb is done."""

    do: Doer
    batch_max: int
    # What has to be found out at a destination first, outside of any transaction: by hold, for `Batch.prepared`.
    prepare: Callable[[UUID, Sequence[BulkItem]], Mapping[UUID, Any]] | None = None
    wakes: str = ""  # the bell of who goes on with what was done


DEEDS: dict[Verb, Deed] = {
    Verb.TAKE: Deed(bulk_verbs.take, 500),
    Verb.ASSIGN: Deed(bulk_verbs.assign, 500),
    Verb.NOTE: Deed(bulk_verbs.note, 200),
    Verb.CHECK_NOW: Deed(bulk_verbs.check_now, 100, wakes="reconcile"),
    Verb.NEXT_CHECK: Deed(bulk_verbs.next_check, 100),
    Verb.END_FAILED: Deed(bulk_verbs.end_failed, 100, wakes="dispatch"),
    Verb.CANCEL: Deed(bulk_verbs.cancel, 100, wakes="reconcile"),
    Verb.HAPPENED: Deed(list_verbs.happened, 50, prepare=lists.readings_of, wakes="dispatch"),
}


def run_once() -> int:
    """A turn: every open run, oldest first, for a few seconds each. Returns how many items had their turn.

    Where the database does not let one through, the others have their turn all the same; then that is raised.
    """
    count, refused = 0, None
    for run_id, verb in open_runs(RUNS_MAX):
        if shift.is_over():
            break
        try:
            count += carry(run_id, verb, TURN_SECONDS)
        except OperationalError as why:
            log.warning("bulk run %s was not let through (%s); the next turn goes on", run_id, why)
            refused = refused or why
    if refused is not None:
        raise refused
    return count


def carry(run_id: UUID, verb: Verb, seconds: float) -> int:
    """Does batches of one run for about so many seconds. Returns how many items had their turn."""
    deed, ends, total = DEEDS[verb], time.monotonic() + seconds, 0
    while time.monotonic() < ends and not shift.is_over():
        count = _batch(run_id, deed)
        if count is None:
            break
        total += count
    if total and deed.wakes:
        bell.ring(deed.wakes)
    return total


def carry_at_once(run: BulkRun) -> BulkRun:
    """What a page does with a run that it began: as much as fits, then a worker is called. Returns the run as it is then.

    The run has begun by now, so a database that is too busy for it is no error of the page's: a worker goes on.
    """
    try:
        carry(run.pk, Verb(run.verb), AT_ONCE_SECONDS)
    except OperationalError as why:
        log.warning("bulk run %s was not let through (%s); a worker goes on", run.pk, why)
    run.refresh_from_db()
    if run.state == BulkState.RUNNING.value:
        bell.ring("bulk")
    return run


def _batch(run_id: UUID, deed: Deed) -> int | None:
    """One batch; where it breaks, its items one by one, so that one that can't be done does not stop the others."""
    items = open_items(run_id, deed.batch_max)
    if not items:
        return None
    try:
        return _record(run_id, deed, items)
    except (OperationalError, InterfaceError):  # the database is away, or too busy: the next turn goes on
        raise
    except Exception:
        log.exception("a batch of bulk run %s could not be done together; one by one", run_id)
    count = 0
    for item in items:
        try:
            done = _record(run_id, deed, [item])
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("item %s of bulk run %s could not be done", item.position, run_id)
            record_broken(run_id, item.position)
            done = 1
        if done is None:
            break
        count += done
    return count


def _record(run_id: UUID, deed: Deed, items: Sequence[BulkItem]) -> int | None:
    prepared = deed.prepare(run_id, items) if deed.prepare is not None else {}
    only = {item.pk for item in items}
    return record_batch(run_id, deed.do, deed.batch_max, prepared, only=only)

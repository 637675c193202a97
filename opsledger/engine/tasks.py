"""The bells' tasks. Each takes nothing, may run twice and at the same time, and calls one function."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from celery import shared_task
from celery.signals import worker_init, worker_shutting_down
from django.db import connection

from opsledger.engine import bulk as bulk_running
from opsledger.engine import dispatch as dispatching
from opsledger.engine import notices as telling
from opsledger.engine import reconcile as reconciling
from opsledger.engine import removals as removing
from opsledger.engine import replays as replaying
from opsledger.engine import shift
from opsledger.engine import sweep as sweeping
from opsledger.engine.turn import DATABASE_AWAY
from opsledger.ledger.actions.canary import record_canary

log = logging.getLogger(__name__)


@worker_init.connect
def begin_shift(sender: Any, **_: Any) -> None:
    shift.begin(sender.concurrency)


@worker_shutting_down.connect
def end_shift(**_: Any) -> None:
    shift.end()


@shared_task(name="opsledger.dispatch")
def dispatch() -> None:
    with _until_next_bell("dispatch"), shift.seat("dispatch") as free:
        if free:
            dispatching.run_once(claim_for_seconds=shift.turn_seconds())


@shared_task(name="opsledger.reconcile")
def reconcile() -> None:
    with _until_next_bell("reconcile"), shift.seat("reconcile") as free:
        if free:
            reconciling.run_once(look_for_seconds=shift.turn_seconds())


@shared_task(name="opsledger.sweep")
def sweep() -> None:
    with _until_next_bell("sweep"):
        sweeping.run_once()


@shared_task(name="opsledger.replays")
def replays() -> None:
    with _until_next_bell("replays"):
        replaying.run_once()


@shared_task(name="opsledger.bulk")
def bulk() -> None:
    with _until_next_bell("bulk"):
        bulk_running.run_once()


@shared_task(name="opsledger.notices")
def notices() -> None:
    with _until_next_bell("notices"), shift.seat("notices") as free:
        if free:
            telling.run_once()


@shared_task(name="opsledger.canary")
def canary() -> None:
    with _until_next_bell("canary"):
        record_canary("worker")


@shared_task(name="opsledger.removals")
def removals() -> None:
    with _until_next_bell("removals"):
        removing.run_once()


@contextlib.contextmanager
def _until_next_bell(name: str) -> Iterator[None]:
    """A database that is away is no fault of the task's: what it had not committed is found again by the next bell."""
    try:
        yield
    except DATABASE_AWAY as why:
        connection.close()
        log.warning("%s stopped: the database is away (%s); the next bell goes on", name, type(why).__name__)

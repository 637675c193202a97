"""The bells' tasks. Each takes nothing, may run twice and at the same time, and calls one function."""

from __future__ import annotations

from celery import shared_task

from opsledger.engine import dispatch as dispatching
from opsledger.engine import reconcile as reconciling
from opsledger.engine import sweep as sweeping
from opsledger.ledger.actions.canary import record_canary


@shared_task(name="opsledger.dispatch")
def dispatch() -> None:
    dispatching.run_once()


@shared_task(name="opsledger.reconcile")
def reconcile() -> None:
    reconciling.run_once()


@shared_task(name="opsledger.sweep")
def sweep() -> None:
    sweeping.run_once()


@shared_task(name="opsledger.canary")
def canary() -> None:
    record_canary("worker")

"""What happens without a request: late acts, and delivery reports."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import logging
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from .clock import iso
from .documents import dump
from .store import Forgotten
from .world import World

REPORT_DELAYS_SECONDS = (1.0, 5.0, 30.0, 120.0)
REPORT_TIMEOUT_SECONDS = 5.0
AFTER_FAILURE_SECONDS = 5.0
SIGNATURE_HEADER = "X-Sandbox-Signature"

log = logging.getLogger("opsledger.sandbox")


class Later:
    """Two threads that wake when the clock, or somebody, rings."""

    def __init__(self, world: World, failures: list[Exception]) -> None:
        self._world = world
        self._failures = failures
        self._threads = [
            threading.Thread(target=self._run, args=(step,), name=f"sandbox-{step.__name__}", daemon=True)
            for step in (self._act_late, self._report)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self, seconds: float) -> None:
        for thread in self._threads:
            if thread.is_alive():
                thread.join(seconds)

    def _run(self, step: Callable[[], float | None]) -> None:
        """Do what is due, then wait for the next moment or ring; ends with the peer."""
        clock = self._world.clock
        goes_on = True
        while goes_on:
            heard = clock.rings
            try:
                moment = step()
            except Forgotten:  # the peer has stopped
                return
            except Exception as failure:
                log.exception("What was due later failed; it is tried again")
                self._failures.append(failure)
                moment = clock.now() + AFTER_FAILURE_SECONDS
            goes_on = clock.wait_for_ring(heard, moment)

    def _act_late(self) -> float | None:
        return self._world.desk.keep_due_promises()

    def _report(self) -> float | None:
        """Post every report that is due, once each. Returns when the next one is."""
        while report := self._next_report():
            if report["due_at"] > self._world.clock.now():
                return float(report["due_at"])
            self._keep_result(report, self._post(report))
        return None

    def _next_report(self) -> dict[str, Any] | None:
        row = self._world.store.row(
            "SELECT record, copy, due_at, url, tries_count, reference, identity, outcome, deliver_at"
            " FROM reports JOIN records ON number = record"
            " WHERE ended IS NULL ORDER BY due_at, record, copy LIMIT 1"
        )
        return dict(row) if row else None

    def _post(self, report: dict[str, Any]) -> str | None:
        """Post one report. Returns None when it was taken, else what went wrong."""
        body = dump(report_document(report))
        timestamp = int(self._world.clock.now())
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: sign(self._world.desk.mode.report_secret, timestamp, body),
        }
        try:
            status = _post(report["url"], body, headers)
        except (OSError, http.client.HTTPException, ValueError) as wrong:
            return str(wrong) or type(wrong).__name__
        return None if 200 <= status < 300 else f"status {status}"

    def _keep_result(self, report: dict[str, Any], wrong: str | None) -> None:
        tries_count = report["tries_count"] + 1
        gives_up = tries_count > len(REPORT_DELAYS_SECONDS)
        delay_seconds = 0.0 if wrong is None or gives_up else REPORT_DELAYS_SECONDS[tries_count - 1]
        ended = "taken" if wrong is None else f"given up: {wrong}" if gives_up else None
        if wrong is not None:
            log.warning("Report for %s was not taken: %s", report["reference"], wrong)
        with self._world.store.transaction() as db:
            db.execute(
                "UPDATE reports SET tries_count = ?, due_at = ?, ended = ? WHERE record = ? AND copy = ?",
                (
                    tries_count,
                    self._world.clock.now() + delay_seconds,
                    ended,
                    report["record"],
                    report["copy"],
                ),
            )


def report_document(report: dict[str, Any]) -> dict[str, Any]:
    """The same event for every copy and every try, so that a receiver can tell a repeat."""
    return {
        "event_id": f"E-{report['reference']}-{report['outcome']}",
        "type": report["outcome"],
        "message_id": report["reference"],
        "metadata": {"operation": report["identity"]},
        "occurred_at": iso(report["deliver_at"]),
    }


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """`t=<unix seconds>,v1=<hex HMAC-SHA256 over "timestamp.body">`."""
    signed = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={signed}"


def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """One POST, no redirect followed. Raises OSError, HTTPException or ValueError."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=REPORT_TIMEOUT_SECONDS)
    try:
        connection.request(
            "POST", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body, headers
        )
        return connection.getresponse().status
    finally:
        connection.close()

"""Stopping a destination and letting it go on: one hold for all its steps (rules.md 4, row 10)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger import assignment
from opsledger.ledger.actions.claim import TRIAL_EVERY_SECONDS
from opsledger.ledger.actions.deciding import By, Refused, Stale, check_reason
from opsledger.ledger.actions.offers import begin_offers_anew
from opsledger.ledger.actions.stops import wait_for_claims
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Destination, Hold
from opsledger.lib.ids import new_id
from opsledger.rules.states import HoldReason

DUE_SECONDS = 4 * 3600
CIRCUIT_FAILURES_MAX = 10
_COLUMN = {
    HoldReason.PAUSED: "paused_at",
    HoldReason.ACCESS_REFUSED: "access_refused_at",
    HoldReason.CIRCUIT_OPEN: "circuit_opened_at",
}
_IF_NOBODY = {
    HoldReason.PAUSED: "Nothing is sent to this destination until somebody resumes it.",
    HoldReason.ACCESS_REFUSED: "Nothing is sent to this destination until access is mended.",
    HoldReason.CIRCUIT_OPEN: "One step is tried every half minute; the first good reply lets the others go on.",
}


class DestinationChanged(Exception):
    """The decision was made on an older version of the destination; nothing was changed."""


class Paused(NamedTuple):
    """What came of pausing a destination, which is paused now."""

    stopped: bool  # False: it was paused already
    seen: bool  # by every claim that is under way; False: one that began before may still open a send


def settle_pause(destination_id: UUID, version: int, reason: str, by: By) -> Paused:
    """A person stops sending to a destination.

    Returns when no claim is under way that has not seen it, or when it may wait no longer for one (`stops.py`). What is in
    flight by then ends as it ends. `version`: of the destination, as it was read; another one by now is DestinationChanged.
    """
    check_reason(reason)
    with transaction.atomic(durable=True):
        row = _locked(destination_id)
        if row.version != version:
            raise DestinationChanged
        kept: dict[str, object] = {"reason": keep_text(destination_id, reason), "version": version}
        stopped = _stop(destination_id, HoldReason.PAUSED, by.actor, kept)
    return Paused(stopped, wait_for_claims())


def _locked(destination_id: UUID) -> Destination:
    """FOR NO KEY UPDATE: against every other writer, and without waiting for claims (stops.py)."""
    return Destination.objects.select_for_update(of=("self",), no_key=True).get(pk=destination_id)


def record_access_refused(destination_id: UUID) -> bool:
    """401, or a 403 that means it: sending to this destination stops, one hold for all."""
    stopped = _stop(destination_id, HoldReason.ACCESS_REFUSED, "engine", {})
    if stopped:
        wait_for_claims()
    return stopped


def record_reachability(
    good: set[UUID], bad: dict[UUID, int], *, trial_every_seconds: float = TRIAL_EVERY_SECONDS
) -> None:
    """Counts failures in a row; ten open the circuit, one good reply closes it.

    Writes nothing for a destination that was fine and is fine: its row is not a place where every send meets.
    """
    for destination_id in _with_failures(good):
        if Destination.objects.filter(pk=destination_id, circuit_opened_at__isnull=False).exists():
            begin_offers_anew(destination_id)
        with transaction.atomic():  # both or neither: a circuit must not stay open with no failures counted
            Destination.objects.filter(pk=destination_id).update(failures_in_a_row=0)
            _go_on(destination_id, HoldReason.CIRCUIT_OPEN, "evidence", "engine", {"good_reply": True})
    for destination_id, count in sorted(bad.items()):
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE ledger_destination SET failures_in_a_row = failures_in_a_row + %s"
                " WHERE definition_id = %s RETURNING failures_in_a_row",
                [count, destination_id],
            )
            failures = cursor.fetchone()[0]
        if failures >= CIRCUIT_FAILURES_MAX:
            facts: dict[str, object] = {"failures_in_a_row": failures}
            if _stop(destination_id, HoldReason.CIRCUIT_OPEN, "engine", facts, trial_every_seconds):
                wait_for_claims()


def _with_failures(destination_ids: set[UUID]) -> list[UUID]:
    if not destination_ids:
        return []
    with connection.cursor() as cursor:  # asked with every batch that is recorded
        cursor.execute(
            "SELECT definition_id FROM ledger_destination"
            " WHERE definition_id = ANY(%s) AND failures_in_a_row > 0 ORDER BY definition_id",
            [list(destination_ids)],
        )
        return [row[0] for row in cursor.fetchall()]


def _stop(
    destination_id: UUID,
    reason: HoldReason,
    actor: str,
    facts: dict[str, object],
    trial_seconds: float = TRIAL_EVERY_SECONDS,
) -> bool:
    column = _COLUMN[reason]
    with transaction.atomic():
        row = _locked(destination_id)
        if getattr(row, column) is not None:
            return False
        now = database_now()
        trial = (
            {"circuit_trial_at": now + timedelta(seconds=trial_seconds)}
            if reason is HoldReason.CIRCUIT_OPEN
            else {}
        )
        Destination.objects.filter(pk=row.pk).update(version=row.version + 1, **{column: now}, **trial)
        hold_id = new_id()
        given = assignment.given_to(row.team_id, "", row.slug, reason.value)
        Hold.objects.create(
            id=hold_id,
            team_id=row.team_id,
            owner_id=given.owner if given else None,
            destination=row,
            reason=reason.value,
            opened_at=now,
            due_at=now + timedelta(seconds=DUE_SECONDS),
            if_nobody=_IF_NOBODY[reason],
            title=f"Sending to {row.slug} is stopped",
            destination_slug=row.slug,
        )
        by_rule = assignment.told_of([{"id": str(hold_id), "given": assignment.told(given)}])
        line = body({"hold": str(hold_id), "stopped": reason.value, **by_rule, **facts})
        append([Line("destination", row.pk, "sending_stopped", actor, line)])
        return True


def settle_resume(hold_id: UUID, version: int, rate_per_second: float, reason: str, by: By) -> int:
    """Mended: the destination goes on. Its backlog leaves at the given rate. Returns how many steps wait in it."""
    check_reason(reason)
    if not 0.01 <= rate_per_second <= 10_000:
        raise Refused("The rate must be between 0.01 and 10,000 a second.", field="rate")
    asked = Hold.objects.get(pk=hold_id)
    if asked.destination_id is not None and (asked.version, asked.closed_at) == (version, None):
        begin_offers_anew(asked.destination_id)
    with transaction.atomic(durable=True):
        hold = Hold.objects.get(pk=hold_id)
        if hold.destination_id is None:
            raise Refused("This hold is not about a destination.")
        _locked(hold.destination_id)
        hold.refresh_from_db()
        if hold.version != version or hold.closed_at is not None:
            raise Stale(hold)
        kept = {
            "reason": keep_text(hold.destination_id, reason),
            "rate_per_second": rate_per_second,
            "hold_version": version,
        }
        _go_on(hold.destination_id, HoldReason(hold.reason), by.actor, by.actor, kept)
        return _spread(hold.destination_id, rate_per_second)


def _go_on(
    destination_id: UUID, reason: HoldReason, closed_by: str, actor: str, facts: dict[str, object]
) -> None:
    with transaction.atomic():
        stopped = Destination.objects.filter(pk=destination_id, **{f"{_COLUMN[reason]}__isnull": False})
        changes: dict[str, Any] = {_COLUMN[reason]: None, "version": F("version") + 1}
        if reason is HoldReason.CIRCUIT_OPEN:
            changes |= {"circuit_trial_at": None, "failures_in_a_row": 0}
        stopped.update(**changes)
        holds = Hold.objects.filter(
            destination_id=destination_id, reason=reason.value, closed_at__isnull=True
        )
        for hold in holds.select_for_update(of=("self",)):
            Hold.objects.filter(pk=hold.pk).update(
                closed_at=database_now(), closed_by=closed_by, answer="go_on", version=hold.version + 1
            )
            line = body({"hold": str(hold.pk), "went_on": reason.value, **facts})
            append([Line("destination", destination_id, "sending_resumed", actor, line)])


def _spread(destination_id: UUID, rate_per_second: float) -> int:
    """Gives each waiting step its place in time, oldest first. Only the plan moves; states stay.

    One whose row somebody has at this moment keeps its place: whoever writes steps has their operations' locks, in an order
    of its own, and is not waited for here.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_step s SET act_at = now() + (place.number / %s) * interval '1 second'"
            " FROM (SELECT id, row_number() OVER (ORDER BY act_at, id) - 1 AS number"
            "         FROM (SELECT id, act_at FROM ledger_step WHERE act = 'send' AND destination_id = %s"
            "                  AND act_at <= now() FOR NO KEY UPDATE SKIP LOCKED) free) place"
            " WHERE s.id = place.id AND s.act = 'send' AND s.act_at <= now()",
            [rate_per_second, destination_id],
        )
        return int(cursor.rowcount)

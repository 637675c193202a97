"""Questions about an event: one at a time, until a person has judged each body that came under its id.

1. A delivery with another body asks about it, unless something is being asked about the event already: then the body waits.
2. A question ends by a person's answer, or by evidence: what was missing has come.
3. In the same transaction the next body that waits is asked about. Each delivery keeps the question that asked about it.

Whoever opens or ends a question has locked the event's row before. A delivery keeps it until it commits, so that no body
comes in between unseen.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.deciding import By, Refused, Stale, check_reason
from opsledger.ledger.actions.events import EventQuestion, open_event_hold_here
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Event, Hold, Operation
from opsledger.rules.states import HoldReason

FIRST_STANDS, RECORDED_APART = "first_stands", "recorded_apart"
EVENT_ANSWERS = (FIRST_STANDS, RECORDED_APART)

_WAITING = """
SELECT e.team_id, s.slug, d.digest, d.body_id, b.digest
  FROM ledger_delivery d JOIN ledger_rawbody b ON b.id = d.body_id
  JOIN ledger_event e ON e.id = d.event_id JOIN ledger_definition s ON s.id = e.source_id
 WHERE d.event_id = %s AND d.conflict AND d.hold_id IS NULL ORDER BY d.id LIMIT 1
"""
_FORGOTTEN = """
SELECT DISTINCT d.event_id FROM ledger_delivery d
 WHERE d.conflict AND d.hold_id IS NULL
   AND NOT EXISTS (SELECT 1 FROM ledger_hold h WHERE h.event_id = d.event_id AND h.closed_at IS NULL) LIMIT %s
"""
_ASKED = """
UPDATE ledger_delivery SET hold_id = %s
 WHERE event_id = %s AND conflict AND hold_id IS NULL AND (digest = %s OR body_id = %s)
"""


def ask_about_next_body_here(event_id: UUID, *, actor: str) -> UUID | None:
    """Asks about the first body of an event that was not asked about. None where none waits, or something is being asked."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [event_id])
        row = cursor.fetchone()
        if row is None:
            return None
        team_id, source, said, body_id, raw = row
        question = EventQuestion(
            event_id, team_id, HoldReason.EVENT_CONFLICT, f"{source} sent one event id with two bodies",
            {"other_body": bytes(raw).hex()},
        )  # fmt: skip
        hold_id = open_event_hold_here(question, actor=actor)
        if hold_id is not None:
            cursor.execute(_ASKED, [hold_id, event_id, said, body_id])
    return hold_id


def record_forgotten_bodies(batch: int) -> int:
    """Asks about bodies that wait though nothing is being asked about their event, one event in a transaction each.

    An earlier release left such bodies behind. Returns how many questions it opened.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FORGOTTEN, [batch])
        event_ids = sorted(row[0] for row in cursor.fetchall())
    return sum(_ask_about_forgotten(event_id) for event_id in event_ids)


def _ask_about_forgotten(event_id: UUID) -> bool:
    with transaction.atomic(durable=True):
        _lock(event_id)
        return ask_about_next_body_here(event_id, actor="engine") is not None


def close_event_holds_here(event_id: UUID, reason: HoldReason, *, actor: str) -> None:
    """Ends the question by evidence: what was missing has come. What waited behind it is asked next."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_hold SET closed_at = now(), closed_by = 'evidence', version = version + 1"
            " WHERE event_id = %s AND reason = %s AND closed_at IS NULL RETURNING id",
            [event_id, reason.value],
        )
        closed = [row[0] for row in cursor.fetchall()]
    append(
        Line("event", event_id, "event_hold_ended", actor, body({"hold": str(one), "by": "evidence"}))
        for one in closed
    )
    if closed:
        ask_about_next_body_here(event_id, actor=actor)


def is_held(event_id: UUID) -> bool:
    return Hold.objects.filter(event_id=event_id, closed_at__isnull=True).exists()


_JUDGED = """
SELECT 1 FROM ledger_hold h WHERE h.event_id = %s AND h.closed_by LIKE 'person:%%'
   AND (h.answer = %s OR NOT EXISTS (SELECT 1 FROM ledger_delivery d WHERE d.event_id = h.event_id AND d.hold_id = h.id))
 LIMIT 1
"""


def judged_before(event_id: UUID) -> bool:
    """Whether a person has decided what follows from the body that was taken: then a redelivery starts nothing by itself.

    That it stands against another body says nothing of what it may start; that an operation was recorded apart does.
    """
    with connection.cursor() as cursor:
        cursor.execute(_JUDGED, [event_id, RECORDED_APART])
        return cursor.fetchone() is not None


def settle_event_hold(
    hold_id: UUID, answer: str, version: int, reason: str, by: By, *, operation: UUID | None = None
) -> UUID | None:
    """A person's answer about an event: nothing follows from it, or an operation that was recorded apart does.

    1. The event's row, then the hold's are locked (FOR NO KEY UPDATE, FOR UPDATE); the hold is read again.
    2. Another version than the one decided on, or closed: Stale, nothing is written.
    3. The hold ends; answer, reason and journal line are written together. The event itself never changes.
    4. Another body that waits is asked about next: that question is returned.
    """
    check_reason(reason)
    if answer not in EVENT_ANSWERS:
        raise Refused(f"Answer with one of: {', '.join(EVENT_ANSWERS)}.", field="answer")
    if (answer == RECORDED_APART) != (operation is not None):
        raise Refused(f"Name the operation with {RECORDED_APART}, and only then.", field="operation")
    with transaction.atomic(durable=True):
        hold = _locked(hold_id)
        if hold.version != version or hold.closed_at is not None:
            raise Stale(hold)
        if operation and not Operation.objects.filter(pk=operation, team_id=hold.team_id).exists():
            raise Refused("There is no such operation in this team.", field="operation")
        assert hold.event_id is not None
        Hold.objects.filter(pk=hold_id).update(
            closed_at=database_now(), closed_by=by.actor, answer=answer, version=version + 1
        )
        facts = {"hold": str(hold_id), "answer": answer, "hold_version": version,
                 "reason": keep_text(hold.event_id, reason)}  # fmt: skip
        if operation:
            facts["operation"] = str(operation)
        append([Line("event", hold.event_id, "answered", by.actor, body(facts))])
        return ask_about_next_body_here(hold.event_id, actor=by.actor)


def _locked(hold_id: UUID) -> Hold:
    event_id = Hold.objects.values_list("event_id", flat=True).get(pk=hold_id)
    if event_id is None:
        raise Refused("This hold is not about an event; it is settled where it belongs.")
    _lock(event_id)
    return Hold.objects.select_for_update(of=("self",)).get(pk=hold_id)


def _lock(event_id: UUID) -> None:
    Event.objects.select_for_update(no_key=True).only("pk").get(pk=event_id)

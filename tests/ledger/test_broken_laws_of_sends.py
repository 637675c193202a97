"""Sequences that once broke a law on the way from the plan to the wire, each as short as it could be made."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.core.management import call_command
from django.db import connection

from opsledger.engine import dispatch
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Hold, Step
from opsledger.rules.answers import Answer
from tests.desk import WIRE, Desk

OWNER = By("person:00000000-0000-0000-0000-000000000001", "Test owner")


def sql(statement: str, *values: object) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


# Row 9: a lateness that a person has waived


def late(desk: Desk, count: int) -> list[UUID]:
    """Operations that nobody sent in time, and of which a person said: send it all the same."""
    ago = datetime.now(UTC) - timedelta(minutes=1)
    wanted = [desk.wanted("classic_follow_up")._replace(not_after=ago) for _ in range(count)]
    opened = [one.id for one in open_operations(wanted)]
    desk.sweep()
    for hold in Hold.objects.filter(closed_at__isnull=True, reason="too_late"):
        settle_hold(hold.pk, Decision(Answer.MORE_TRIES, "still wanted", hold.version), OWNER)
    assert not Hold.objects.filter(closed_at__isnull=True).exists()
    return opened


def test_what_a_person_sends_although_it_is_too_late_is_sent(desk: Desk) -> None:
    (opened,) = late(desk, 1)

    assert desk.send().claimed == 1

    assert Step.objects.get(operation_id=opened).state == "confirmed"
    call_command("verify_ledger")


def test_what_waits_although_it_is_late_is_not_swept_again_and_again(desk: Desk) -> None:
    late(desk, 1)

    assert desk.sweep().deadlines == 0


def test_what_is_too_late_and_not_waived_is_not_sent(desk: Desk) -> None:
    opened = desk.open("classic_follow_up")
    sql("UPDATE ledger_operation SET not_after = now() - interval '1 minute'")

    assert desk.send().claimed == 0
    desk.sweep()

    assert Hold.objects.get(operation_id=opened.id).reason == "too_late"


# Law 4: protection that has run out between the claim and the wire


def held_up(desk: Desk) -> dispatch.Held:
    """A protected resend, claimed in the last moment of its protection by a worker that is then held up."""
    opened = desk.open("campaign_follow_up")
    sql(
        "UPDATE ledger_step SET send_until = now() + interval '0.3 seconds', lease_seconds = 600"
        " WHERE act = 'send'"
    )
    sender = dispatch._Sender(WIRE, 30.0)
    (held,) = sender.claim(1)
    assert held.claimed.operation_id == opened.id
    time.sleep(0.4)
    return held


def test_a_worker_that_was_held_up_past_the_protection_sends_nothing(desk: Desk) -> None:
    sent = dispatch.send_in_time(held_up(desk), WIRE)

    assert sent.seen["left_house"] is False
    assert desk.sandbox.requests(method="POST") == []


# Clocks


def test_a_database_clock_that_was_ahead_does_not_stop_sending(desk: Desk) -> None:
    desk.open("classic_follow_up")
    sql("UPDATE ledger_destination SET tokens_at = now() + interval '2 hours', send_tokens = 1")

    assert len(claim_sends(5, worker="test")) == 1

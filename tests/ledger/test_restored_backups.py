"""`after_restore` reaches every step that the rules want it to reach (tests/rules/test_backups.py says which)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.sending import record_restored, switch_sending
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Hold, Recovery
from opsledger.ledger.queries.hold_lines import line_of
from opsledger.ledger.queries.record import record_of
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from tests.desk import Desk, step_identity

OWNER = By("person:00000000-0000-0000-0000-000000000001", "Test owner")


def scripted(behaviour: str) -> Callable[[Desk], Opened]:
    def make(desk: Desk) -> Opened:
        opened = desk.open("classic_follow_up")
        desk.sandbox.script(behaviour, 1, method="POST", identity=step_identity(opened.id, 1))
        desk.send()
        return opened

    return make


def in_flight(desk: Desk) -> Opened:
    opened = desk.open("classic_follow_up")
    assert len(claim_sends(1, worker="dies")) == 1
    return opened


def confirmed(desk: Desk) -> Opened:
    opened = desk.open("classic_follow_up")
    desk.send()
    return opened


def failed(desk: Desk) -> Opened:
    opened = scripted("invalid")(desk)
    hold = Hold.objects.get(operation_id=opened.id)
    settle_hold(hold.pk, Decision(Answer.END_FAILED, "not wanted any more", hold.version), OWNER)
    assert desk.operation(opened).ended_at is not None
    return opened


def cancelled(desk: Desk) -> Opened:
    opened = desk.open("classic_follow_up")
    settle_cancel(opened.id, "not wanted", OWNER, version=desk.operation(opened).version)
    return opened


@pytest.mark.parametrize(
    ("make", "was", "becomes"),
    [
        pytest.param(lambda d: d.open("classic_follow_up"), "ready", "unknown", id="ready"),
        pytest.param(scripted("invalid"), "ready", "unknown", id="held after a rejection"),
        pytest.param(in_flight, "in_flight", "in_flight", id="in flight"),
        pytest.param(scripted("lose_reply_after_acting"), "unknown", "unknown", id="unknown"),
        pytest.param(failed, "failed", "unknown", id="failed, and its operation ended"),
        pytest.param(confirmed, "confirmed", "confirmed", id="confirmed"),
        pytest.param(cancelled, "cancelled", "cancelled", id="cancelled"),
    ],
)
def test_after_restore_reaches_every_step_that_could_have_been_sent(
    desk: Desk, make: Callable[[Desk], Opened], was: str, becomes: str
) -> None:
    opened = make(desk)
    assert desk.step(opened).state == was
    attempts = desk.step(opened).attempts.count()
    later = desk.open("classic_follow_up")
    until = desk.operation(later).created_at - timedelta(microseconds=1)  # which is recorded after it

    count = record_restored(until, actor="command:test")

    step, reached = desk.step(opened), was not in {"confirmed", "cancelled"}
    assert (count, step.state) == (int(reached), becomes)
    assert step.attempts.count() == attempts + reached
    assert desk.step(later).attempts.count() == 0
    assert record_restored(until, actor="command:test") == 0
    call_command("verify_ledger", stdout=StringIO())


def test_a_key_that_may_be_another_one_protects_nothing_on_any_page(desk: Desk) -> None:
    Recovery.objects.all().delete()
    forgotten = desk.open()
    record_restored(desk.operation(forgotten).created_at + timedelta(seconds=1), actor="command:test")
    known = desk.open()
    desk.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=step_identity(known.id, 1))
    desk.send()

    assert said_of_protection(desk, forgotten) == {"forgotten"}
    assert said_of_protection(desk, known) == {"within_window"}
    assert claim_sends(10, worker="w") == []


def said_of_protection(desk: Desk, opened: Opened) -> set[str]:
    """In the inbox, and on the operation's page."""
    line = line_of(Hold.objects.get(operation_id=opened.id, step__number=1).pk, [desk.team.pk])
    record = record_of(desk.team.pk, opened.id)
    assert line is not None and line.protected is not None and record is not None
    return {line.protected.why, record.steps[0].protected.why}


def test_one_that_can_not_be_read_is_named_when_all_others_are_done(desk: Desk) -> None:
    broken, other = desk.open("classic_follow_up"), desk.open("classic_follow_up")
    switch_sending(False, reason="a backup is restored", by="command:test")
    until = (desk.operation(other).created_at + timedelta(minutes=1)).isoformat()

    def not_ours(text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE ledger_step SET not_ours = %s WHERE operation_id = %s", [text, broken.id])

    not_ours("5")
    with pytest.raises(CommandError, match=public("op", broken.id)) as why:
        call_command("after_restore", until=until, stdout=StringIO())

    assert "1 operations have steps of unknown outcome now, but 1 can't be read" in str(why.value)
    assert (desk.step(other).state, desk.step(broken).state) == ("unknown", "ready")
    not_ours("[]")
    call_command("after_restore", until=until, stdout=StringIO())
    assert desk.step(broken).state == "unknown"
    call_command("verify_ledger", stdout=StringIO())

"""From intake to a settled operation, with real HTTP to a sandbox that loses replies."""

from __future__ import annotations

from django.core.management import call_command

from tests.desk import Desk, step_identity


def test_an_ordinary_operation_is_sent_once_per_step(desk: Desk) -> None:
    opened = desk.open()

    counts = desk.send()

    assert counts.outcomes == {"confirmed": 1, "accepted": 1}
    assert desk.step(opened).state == "confirmed"
    assert desk.step(opened, 2).state == "accepted"
    assert len(desk.sandbox.effects(identity=step_identity(opened.id, 1))) == 1
    assert len(desk.sandbox.effects(identity=step_identity(opened.id, 2))) == 1
    call_command("verify_ledger")


def test_a_lost_reply_is_found_by_lookup_and_never_sent_again(desk: Desk) -> None:
    opened = desk.open()
    desk.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=step_identity(opened.id, 1))

    desk.send()
    assert desk.step(opened).state == "unknown"
    assert desk.operation(opened).state == "reconciling"
    desk.look()

    assert desk.step(opened).state == "confirmed"
    assert len(desk.sandbox.requests(identity=step_identity(opened.id, 1), method="POST")) == 1
    call_command("verify_ledger")

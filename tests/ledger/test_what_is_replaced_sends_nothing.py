"""Table 6, last row: what another operation takes the place of sends nothing any more, else both would take effect."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from test_broken_laws_of_evidence import quiet_since

from opsledger.engine.looking import look
from opsledger.ledger.actions.claim import claim_looks
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.destinations import settle_pause, settle_resume
from opsledger.ledger.actions.evidence import Says, Statement, add_evidence
from opsledger.ledger.actions.intake import open_intended
from opsledger.ledger.actions.interventions import settle_cancel, settle_check
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import record_looks
from opsledger.ledger.actions.sending import record_restored
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.actions.wanted import Taken, Verdict, Wanted
from opsledger.ledger.models import Destination, Hold
from opsledger.rules.answers import Answer
from opsledger.rules.facts import LookupFact, LookupStatus
from tests.desk import AUTOMATION, WIRE, Desk, load_with_steps, params, step_identity, turn_recovery
from tests.replaying import by_owner, effects

FOLLOW_UP = "campaign_follow_up"
# First the message, which may bounce; then the task, whatever has become of the message.
TURNED = """
[[workflow.campaign_follow_up.steps]]
name = "send_message"
title = "Send the message"
destination = "mail"
action = "send_message"

[[workflow.campaign_follow_up.steps]]
name = "create_task"
title = "Create the task"
destination = "crm"
action = "create_task"
continues_after_failure = true
"""


@pytest.fixture
def turned(desk: Desk, tmp_path: Path) -> Desk:
    return with_steps(desk, tmp_path, TURNED)


def with_steps(desk: Desk, folder: Path, steps: str) -> Desk:
    load_with_steps(desk.team.pk, folder, FOLLOW_UP, steps)
    return desk


def recorded(desk: Desk, own: str, *, replaces: str | None = None) -> Taken:
    return open_intended(
        desk.team.pk, [Wanted(own, FOLLOW_UP, params(FOLLOW_UP), replaces=replaces)], AUTOMATION
    )[0]


def bounced(desk: Desk) -> Opened:
    """Its message bounced, of which a person is asked; its task is still to be made, and the CRM is paused."""
    opened = recorded(desk, "x").opened
    assert opened is not None
    row = Destination.objects.get(slug="crm")
    settle_pause(row.pk, row.version, "they are migrating", by_owner(desk))
    desk.send()
    told = Statement(Says.NOT_DELIVERED, "a bounce", reference=desk.step(opened).reference)
    add_evidence(desk.team.pk, opened.id, "send_message", told, AUTOMATION)
    assert [desk.step(opened, number).state for number in (1, 2)] == ["failed", "ready"]
    assert Hold.objects.get(operation_id=opened.id).reason == "delivery_failed"
    return opened


def let_go_on(desk: Desk) -> None:
    for hold in Hold.objects.filter(destination__slug="crm", closed_at=None):
        settle_resume(hold.pk, hold.version, 100, "they are done", by_owner(desk))
    Destination.objects.update(send_tokens=5.0)
    desk.hurry()
    desk.send()


@pytest.mark.parametrize("performer", ["engine", "automation"])
def test_what_goes_on_beside_its_question_is_not_replaced(desk: Desk, tmp_path: Path, performer: str) -> None:
    with_steps(desk, tmp_path, f'{TURNED}performer = "{performer}"\n')
    x = bounced(desk)

    taken = recorded(desk, "y", replaces="x")

    assert taken.verdict is Verdict.REPLACED_IS_OPEN
    assert taken.why == "The earlier operation is still to be sent; cancel it first."
    let_go_on(desk)
    assert effects(desk, x, 2) == (1 if performer == "engine" else 0)


def test_what_was_cancelled_or_waits_for_its_question_is_replaced(turned: Desk) -> None:
    x = bounced(turned)
    settle_cancel(x.id, "a new message goes out", by_owner(turned), version=turned.operation(x).version)

    taken = recorded(turned, "y", replaces="x")

    assert taken.verdict is Verdict.RECORDED
    assert taken.opened is not None
    let_go_on(turned)
    turned.send()
    assert effects(turned, x, 2) == 0


def test_what_waits_behind_its_question_is_replaced(desk: Desk) -> None:
    x = recorded(desk, "x").opened
    assert x is not None
    desk.sandbox.script("invalid", 1, method="POST", identity=step_identity(x.id, 1))
    desk.send()
    assert [desk.step(x, number).state for number in (1, 2)] == ["ready", "waiting"]  # the first is held

    assert recorded(desk, "y", replaces="x").verdict is Verdict.RECORDED


@pytest.mark.parametrize("answer", [Answer.HAPPENED, Answer.HAPPENED_ACCEPTED])
def test_no_answer_brings_a_step_of_what_is_replaced_back(turned: Desk, answer: Answer) -> None:
    """Neither to be sent at once, nor to be sent when the step before it is done."""
    turn_recovery(on=False)
    x = recorded(turned, "x").opened
    assert x is not None
    turned.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=step_identity(x.id, 1))
    turned.send()
    by = by_owner(turned)
    hold = Hold.objects.get(operation_id=x.id, closed_at=None)
    settle_hold(hold.pk, Decision(Answer.CLOSE_UNKNOWN, "nobody knows", hold.version), by)
    assert turned.step(x, 2).state == "cancelled"
    assert recorded(turned, "y", replaces="x").verdict is Verdict.RECORDED
    told = Statement(Says.DELIVERED, "the mail service says so", reference="M-77")
    add_evidence(turned.team.pk, x.id, "send_message", told, AUTOMATION)
    hold = Hold.objects.get(operation_id=x.id, closed_at=None)
    assert hold.reason == "disputed"

    given = Decision(answer, "seen there", hold.version, reference="M-77", keep_later=frozenset({2}))
    with pytest.raises(Refused, match="step 2 would still be sent"):
        settle_hold(hold.pk, given, by)

    settle_hold(hold.pk, Decision(answer, "seen there", hold.version, reference="M-77"), by)
    assert turned.step(x, 2).state == "cancelled"


@pytest.mark.parametrize("ticked", [True, False])
def test_a_step_of_what_is_replaced_is_not_sent_when_the_step_before_is_done(
    desk: Desk, tmp_path: Path, ticked: bool
) -> None:
    """It waits behind what was taken over; the final effect is told after the answer."""
    with_steps(desk, tmp_path, TURNED.replace("continues_after_failure = true\n", ""))
    x = recorded(desk, "x").opened
    assert x is not None
    desk.send()
    told_of(desk, x, Says.NOT_DELIVERED, "a bounce")
    assert [desk.step(x, number).state for number in (1, 2)] == ["failed", "waiting"]
    assert recorded(desk, "y", replaces="x").verdict is Verdict.RECORDED
    told_of(desk, x, Says.DELIVERED, "their log")
    hold = Hold.objects.get(operation_id=x.id, closed_at=None)
    given = Decision(Answer.HAPPENED_ACCEPTED, "taken over", hold.version, reference=desk.step(x).reference)
    if ticked:
        with pytest.raises(Refused, match="step 2 would still be sent") as why:
            settle_hold(hold.pk, replace(given, keep_later=frozenset({2})), by_owner(desk))
        assert why.value.field == "keep_later"

    settle_hold(hold.pk, given, by_owner(desk))
    told_of(desk, x, Says.DELIVERED, "their log, read again")
    let_go_on(desk)

    assert [desk.step(x, number).state for number in (1, 2)] == ["confirmed", "cancelled"]
    assert (desk.operation(x).state, effects(desk, x, 2)) == ("cancelled", 0)
    call_command("verify_ledger")


@pytest.mark.parametrize("performer", ["engine", "automation"])
def test_a_step_of_what_is_replaced_is_not_sent_when_it_is_found_absent(
    desk: Desk, tmp_path: Path, performer: str
) -> None:
    """After a restored backup it is looked for; that it is not there sends or offers nothing."""
    with_steps(desk, tmp_path, f'{TURNED}performer = "{performer}"\n')
    x = recorded(desk, "x").opened
    assert x is not None
    desk.sandbox.script("invalid", 1, method="POST", identity=step_identity(x.id, 1))
    desk.send()
    y = recorded(desk, "y", replaces="x").opened
    assert y is not None
    record_restored(desk.operation(y).created_at - timedelta(microseconds=1), actor="command:test")
    assert [desk.step(x, number).state for number in (1, 2)] == ["unknown", "unknown"]
    hold = Hold.objects.get(operation_id=x.id, closed_at=None)
    given = Decision(Answer.ABSENT_END, "y does it", hold.version, checked_how="searched")
    settle_hold(hold.pk, given, by_owner(desk))

    found_nowhere(desk, x, 2)
    let_go_on(desk)

    assert [desk.step(x, number).state for number in (1, 2)] == ["failed", "cancelled"]
    assert (desk.operation(x).state, effects(desk, x, 2)) == ("failed", 0)


def told_of(desk: Desk, opened: Opened, says: Says, sentence: str) -> None:
    told = Statement(says, sentence, reference=told_reference(desk, opened))
    add_evidence(desk.team.pk, opened.id, "send_message", told, AUTOMATION)


def told_reference(desk: Desk, opened: Opened) -> str:
    (effect,) = desk.sandbox.effects(identity=step_identity(opened.id, 1))
    return str(effect["reference"])


def found_nowhere(desk: Desk, opened: Opened, number: int) -> None:
    """Two searches that find nothing, long after the quiet period."""
    quiet_since(3600, opened)
    for _ in range(2):
        settle_check(opened.id, number, None, by_owner(desk))
        desk.hurry()
        for claimed in claim_looks(5):
            if (claimed.operation_id, claimed.step_number) == (opened.id, number):
                nothing = LookupFact(LookupStatus.RECORDS, searched=True)
                record_looks([replace(look(claimed, WIRE), fact=nothing)])

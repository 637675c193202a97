"""Sequences that once broke a law when something was learnt: lookups, leases, deadlines, reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from django.db import connection

from opsledger.engine.looking import look
from opsledger.ledger.actions.claim import ClaimedLook, claim_looks, claim_sends
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.interventions import settle_check
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import Looked, record_leases_ended, record_looks
from opsledger.ledger.models import Hold, Step
from opsledger.local.postgres import Urls
from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from tests.by_hand import change_by_hand
from tests.desk import WIRE, Desk, step_identity

OWNER = By("person:00000000-0000-0000-0000-000000000001", "Test owner")


def sql(statement: str, *values: object) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


# Law 5: which looks count


@pytest.fixture
def lost(desk: Desk) -> Opened:
    """A request that was lost before the destination acted; its search settles both ways."""
    opened = desk.open("campaign_follow_up")
    desk.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=step_identity(opened.id, 1))
    desk.send()
    assert desk.step(opened).state == "unknown"
    return opened


def quiet_since(seconds: float, opened: Opened) -> None:
    """The quiet period of five seconds began so long before it is over by now."""
    sql(
        "UPDATE ledger_attempt SET opened_at = now() - interval '1 day',"
        " lease_ends_at = now() - (5 + %s) * interval '1 second' WHERE operation_id = %s",
        seconds,
        opened.id,
    )


def claimed_look(desk: Desk) -> ClaimedLook:
    desk.hurry()
    (claimed,) = claim_looks(5)
    return claimed


def test_a_look_made_in_the_quiet_period_does_not_count_however_late_its_answer_is_recorded(
    desk: Desk, lost: Opened
) -> None:
    quiet_since(-0.3, lost)
    answers = [look(claimed_look(desk), WIRE)]
    time.sleep(0.4)  # the reply was slow, or its worker was: by now the quiet period is over

    record_looks(answers)

    assert desk.step(lost).looks_none == 0


def test_two_looks_at_the_same_moment_count_as_one(desk: Desk, lost: Opened) -> None:
    quiet_since(3600, lost)
    first = claimed_look(desk)
    settle_check(lost.id, 1, None, OWNER)  # somebody asks for a look while one is under way
    (second,) = claim_looks(5)

    for claimed in (first, second):
        record_looks([look(claimed, WIRE)])

    assert (desk.step(lost).state, desk.step(lost).looks_none) == ("unknown", 1)


def test_two_looks_after_each_other_prove_an_absence(desk: Desk, lost: Opened) -> None:
    quiet_since(3600, lost)

    for _ in range(2):
        record_looks([look(claimed_look(desk), WIRE)])

    assert desk.step(lost).state == "ready"


# Law 6: whose record tells of the final effect


@pytest.fixture
def handed_over(desk: Desk) -> Callable[[str | None], Looked]:
    """A message that was taken over; and what a search has found meanwhile, begun when its outcome was unknown."""

    def make(identity: str | None, final: str = "confirmed", **fields: str) -> Looked:
        opened = desk.open("campaign_follow_up")
        desk.send()
        step = desk.step(opened, 2)
        assert step.state == "accepted"
        record = FoundRecord("M-stranger", identity, tuple(fields.items()))
        looked = look(claimed_look(desk), WIRE)
        fact = LookupFact(LookupStatus.RECORDS, (record,))
        return replace(looked, fact=fact, final=final)

    return make


@pytest.mark.parametrize("final", ["confirmed", "failed"])
@pytest.mark.parametrize("identity", [None, "somebody-else"])
def test_a_strangers_record_says_nothing_of_the_final_effect(
    desk: Desk, handed_over: Callable[..., Looked], identity: str | None, final: str
) -> None:
    looked = handed_over(identity, final)

    record_looks([looked])

    step = Step.objects.get(operation_id=looked.operation_id, number=2)
    assert step.state == "accepted"
    assert step.reference != "M-stranger"
    assert not Hold.objects.exists()


# Laws 3 and 13: one record that can't be read holds up no other


def opened_and_claimed(desk: Desk, count: int) -> list[UUID]:
    opened = [desk.open("classic_follow_up").id for _ in range(count)]
    sql("UPDATE ledger_destination SET send_tokens = 100, sends_per_second = 100, in_flight_max = 100")
    assert len(claim_sends(count, worker="dies")) == count
    sql(
        "UPDATE ledger_attempt SET opened_at = now() - interval '2 minutes',"
        " lease_ends_at = now() - interval '1 second'"
    )
    sql("UPDATE ledger_step SET act_at = now() - interval '1 second' WHERE act = 'lease'")
    return opened


def make_unreadable(urls: Urls, operation_id: UUID) -> None:
    """As for an older process, whose definitions know no such action."""
    change_by_hand(
        urls,
        "UPDATE ledger_step SET action = 'of_tomorrow', act_at = act_at - interval '1 hour' WHERE operation_id = %s",
        operation_id,
    )


def test_a_record_that_cannot_be_read_keeps_no_other_lease_from_ending(
    desk: Desk, database_urls: Urls
) -> None:
    poisoned, *others = opened_and_claimed(desk, 4)
    make_unreadable(database_urls, poisoned)

    assert desk.sweep().leases == 3

    assert {step.state for step in Step.objects.filter(operation_id__in=others)} == {"unknown"}


def test_more_unreadable_records_than_a_batch_hold_up_nothing(desk: Desk, database_urls: Urls) -> None:
    poisoned, other = (ids := opened_and_claimed(desk, 5))[:4], ids[4]
    for one in poisoned:
        make_unreadable(database_urls, one)

    assert record_leases_ended(2, rounds=5) == 1

    assert Step.objects.get(operation_id=other).state == "unknown"


def test_a_record_that_cannot_be_read_keeps_no_other_deadline_from_coming(
    desk: Desk, database_urls: Urls
) -> None:
    poisoned, other = desk.open("classic_follow_up").id, desk.open("classic_follow_up").id
    sql("UPDATE ledger_operation SET not_after = now() - interval '1 minute'")
    make_unreadable(database_urls, poisoned)

    assert desk.sweep().deadlines == 1

    assert Hold.objects.get().operation_id == other

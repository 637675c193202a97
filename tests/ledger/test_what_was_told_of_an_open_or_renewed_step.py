"""Law 9: a record that somebody tells of counts also while its attempt is open, when its request was changed since, and
where nobody knows any more what was sent. Each of these once decided nothing, and the step was sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from test_broken_laws_of_evidence import quiet_since
from test_what_is_replaced_sends_nothing import TURNED, recorded, with_steps
from test_what_was_found_is_not_absent import (
    changed_definitions,
    loaded,
    proven,
    send_what_is_due,
    unprotected,
)

from opsledger.engine.looking import look
from opsledger.engine.sending import send_claimed
from opsledger.ledger.actions.claim import claim_looks, claim_sends
from opsledger.ledger.actions.evidence import Says, Statement, add_evidence
from opsledger.ledger.actions.interventions import settle_check
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.ordinary import record_replies
from opsledger.ledger.actions.record import record_leases_ended, record_looks
from opsledger.ledger.actions.sending import record_restored
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Attempt, Evidence, Hold
from opsledger.rules.answers import Answer
from opsledger.rules.facts import LookupFact, LookupStatus
from opsledger.rules.record import KnownBy
from opsledger.rules.states import NoChange
from tests.content_cast import Cast, make_cast
from tests.desk import AUTOMATION, WIRE, Desk, params, step_identity
from tests.replaying import by_owner, effects, unknown

FOLLOW_UP = "campaign_follow_up"
SENT = {name: str(params(FOLLOW_UP)[name]) for name in ("subject", "queue", "due_date", "account")}
OTHER = SENT | {"queue": "another queue"}
EQUAL_DIFFERENT_NONE = pytest.mark.parametrize(
    "fields", [SENT, OTHER, {}], ids=["equal", "a field differs", "no field told"]
)


def tell_found(
    desk: Desk,
    opened: Opened,
    reference: str,
    fields: Mapping[str, str],
    *,
    identity: str = "",
    number: int = 1,
) -> None:
    ours, name = step_identity(opened.id, number), desk.step(opened, number).name
    said = Statement(Says.FOUND, "their list", reference=reference, identity=identity or ours, fields=fields)
    add_evidence(desk.team.pk, opened.id, name, said, AUTOMATION)


def effect_of(desk: Desk, opened: Opened) -> str:
    (effect,) = desk.sandbox.effects(identity=step_identity(opened.id, 1))
    return str(effect["reference"])


def look_in_vain(desk: Desk, opened: Opened, number: int = 1) -> None:
    """Two searches of this step alone that find nothing, long after the quiet period."""
    quiet_since(3600, opened)
    for _ in range(2):
        if desk.step(opened, number).state != "unknown":
            return
        settle_check(opened.id, number, None, by_owner(desk))
        desk.hurry()
        nothing = LookupFact(LookupStatus.RECORDS, searched=True)
        for claimed in claim_looks(5):
            if claimed.step_number == number:
                record_looks([replace(look(claimed, WIRE), fact=nothing)])


def question(opened: Opened) -> str:
    return Hold.objects.get(operation_id=opened.id, closed_at=None).reason


# While its attempt is open


def acted_and_not_heard(desk: Desk, folder: Path) -> Opened:
    """Its worker sent it, and died before it could record the reply."""
    loaded(desk, changed_definitions(desk, folder, "crm.toml", unprotected))
    opened = desk.open(FOLLOW_UP)
    (claimed,) = claim_sends(1, worker="dies")
    send_claimed(claimed, WIRE)
    return opened


def let_the_lease_end(opened: Opened) -> None:
    quiet_since(3600, opened)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_step SET act_at = now() - interval '1 hour' WHERE act = 'lease'")
    assert record_leases_ended(10) == 1


@pytest.mark.parametrize("again", [False, True], ids=["told once", "told again after it"])
@EQUAL_DIFFERENT_NONE
def test_what_is_told_while_the_attempt_is_open_is_not_absent_when_its_lease_has_ended(
    desk: Desk, tmp_path: Path, fields: Mapping[str, str], again: bool
) -> None:
    opened = acted_and_not_heard(desk, tmp_path)
    reference = effect_of(desk, opened)
    tell_found(desk, opened, reference, fields)
    assert desk.step(opened).state == "in_flight"
    proven()
    let_the_lease_end(opened)
    assert desk.step(opened).state == "unknown"
    if again:
        tell_found(desk, opened, reference, fields)

    look_in_vain(desk, opened)
    send_what_is_due(desk)

    assert effects(desk, opened) == 1
    assert Attempt.objects.get(operation_id=opened.id).reference == reference
    assert question(opened) == ("disputed" if fields is SENT else "record_differs")


def test_what_is_told_while_the_attempt_is_open_is_settled_by_a_look_that_finds_it(
    desk: Desk, tmp_path: Path
) -> None:
    opened = acted_and_not_heard(desk, tmp_path)
    reference = effect_of(desk, opened)
    tell_found(desk, opened, reference, SENT)
    let_the_lease_end(opened)

    desk.hurry()
    desk.look()

    assert (desk.step(opened).state, desk.step(opened).reference) == ("confirmed", reference)
    assert not Hold.objects.filter(operation_id=opened.id).exists()


@pytest.mark.parametrize(
    ("told", "reason"), [("", None), ("T-other", "duplicate_found")], ids=["the same record", "another one"]
)
def test_the_reply_is_compared_with_what_was_told_before_it(
    desk: Desk, told: str, reason: str | None
) -> None:
    opened = desk.open(FOLLOW_UP)
    (claimed,) = claim_sends(1, worker="slow")
    sent = send_claimed(claimed, WIRE)
    reference = effect_of(desk, opened)
    tell_found(desk, opened, told or reference, SENT)

    record_replies([(claimed, sent)])

    assert (desk.step(opened).state, desk.step(opened).reference) == ("confirmed", reference)
    open_holds = Hold.objects.filter(operation_id=opened.id, closed_at=None)
    assert list(open_holds.values_list("reason", flat=True)) == ([reason] if reason else [])
    proven()


def test_what_is_only_alike_proves_nothing_while_the_attempt_is_open(desk: Desk, tmp_path: Path) -> None:
    """The neighbour: nobody's record of ours was told of, so absence is proven and the step is sent."""
    loaded(desk, changed_definitions(desk, tmp_path, "crm.toml", unprotected))
    opened = desk.open(FOLLOW_UP)
    claim_sends(1, worker="dies")
    tell_found(desk, opened, "T-9", SENT, identity="somebody-else")
    let_the_lease_end(opened)

    look_in_vain(desk, opened)
    send_what_is_due(desk)

    assert effects(desk, opened) == 1
    assert desk.step(opened).state == "confirmed"


# When its request was changed since


def waiting_for_its_approval(desk: Desk, cast: Cast) -> Opened:
    """A person said that it did not happen, which is wrong, and changed its request."""
    opened = unknown(desk, FOLLOW_UP, acted=True)
    hold = Hold.objects.get(operation_id=opened.id, closed_at=None)
    changed = {"queue": "launch-phone"}
    given = Decision(Answer.ABSENT_REVISE, "not there", hold.version, checked_how="searched", params=changed)
    settle_hold(hold.pk, given, cast.anna)
    assert question(opened) == "approval_needed"
    return opened


def approved_and_ready(desk: Desk, cast: Cast) -> Opened:
    opened = waiting_for_its_approval(desk, cast)
    cast.approve_revision(opened, cast.bert)
    assert desk.step(opened).state == "ready"
    return opened


@pytest.mark.parametrize("make", [waiting_for_its_approval, approved_and_ready])
@pytest.mark.parametrize("fields", [SENT, OTHER], ids=["equal", "a field differs"])
def test_a_record_of_what_was_sent_before_its_request_was_changed_is_disputed(
    desk: Desk, make: Callable[[Desk, Cast], Opened], fields: Mapping[str, str]
) -> None:
    cast = make_cast(desk)
    opened = make(desk, cast)
    reference = effect_of(desk, opened)

    tell_found(desk, opened, reference, fields)
    send_what_is_due(desk)

    assert effects(desk, opened) == 1
    assert (desk.step(opened).state, question(opened)) == ("unknown", "disputed")
    told = Evidence.objects.get(operation_id=opened.id, kind="report")
    assert told.says == (
        "found" if fields is SENT else "field_differs"
    )  # from what left, not from what waits
    proven()


@pytest.mark.parametrize("identity", ["", "somebody-else"], ids=["ours", "only alike"])
def test_what_was_never_sent_has_made_no_record(desk: Desk, identity: str) -> None:
    """The neighbours: kept for people, and the step goes its way."""
    opened = desk.open(FOLLOW_UP)

    tell_found(desk, opened, "T-9", SENT, identity=identity)

    assert list(Evidence.objects.values_list("says", flat=True)) == ["seen"]
    send_what_is_due(desk)
    assert desk.step(opened).state == "confirmed"


def test_what_is_only_alike_leaves_a_changed_request_as_it_is(desk: Desk) -> None:
    cast = make_cast(desk)
    opened = waiting_for_its_approval(desk, cast)

    tell_found(desk, opened, "T-9", SENT, identity="somebody-else")

    assert (desk.step(opened).state, question(opened)) == ("waiting", "approval_needed")


# Where nobody knows what was sent


@EQUAL_DIFFERENT_NONE
def test_after_a_restored_backup_the_identity_alone_is_a_question(
    desk: Desk, tmp_path: Path, fields: Mapping[str, str]
) -> None:
    """Its step waits in the backup: no request was frozen there, and it may have been sent since."""
    with_steps(desk, tmp_path, TURNED)
    x = recorded(desk, "x").opened
    assert x is not None
    record_restored(desk.operation(x).created_at + timedelta(seconds=1), actor="command:test")
    assert (desk.step(x, 2).state, desk.step(x, 2).request_digest) == ("unknown", None)

    tell_found(desk, x, "T-9", fields, number=2)
    proven()
    look_in_vain(desk, x, 2)
    send_what_is_due(desk)

    assert Attempt.objects.get(step__operation_id=x.id, step__number=2).reference == "T-9"
    assert (desk.step(x, 2).state, effects(desk, x, 2)) == ("unknown", 0)
    asked = Hold.objects.get(operation_id=x.id, step__number=2, closed_at=None).reason
    assert asked == ("record_differs" if fields else "disputed")


def test_after_a_restored_backup_what_nobody_tells_of_is_absent(desk: Desk, tmp_path: Path) -> None:
    """The neighbour: its looks prove that it was not sent since."""
    with_steps(desk, tmp_path, TURNED)
    x = recorded(desk, "x").opened
    assert x is not None
    record_restored(desk.operation(x).created_at + timedelta(seconds=1), actor="command:test")

    look_in_vain(desk, x, 2)

    attempt = Attempt.objects.get(step__operation_id=x.id, step__number=2)
    assert (attempt.no_change, attempt.known_by) == (NoChange.ABSENT, KnownBy.LOOKUP)

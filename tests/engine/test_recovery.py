"""What the engine makes of replies that were lost, late or wrong: the main rows of the tables, end to end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db import connection

from opsledger.ledger.actions.deciding import By, Refused, Stale
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import Attempt, Hold
from opsledger.rules.answers import Answer
from tests.desk import Desk, step_identity

OWNER = By("person:00000000-0000-0000-0000-000000000001", "Test owner")


def test_a_request_lost_before_acting_is_proven_absent_and_sent_again(desk: Desk) -> None:
    opened = desk.open()
    identity = step_identity(opened.id, 1)
    desk.sandbox.script("lose_reply_before_acting", 1, method="POST", identity=identity)
    desk.send()

    for _ in range(8):
        desk.hurry()
        if desk.step(opened).state == "unknown":
            with connection.cursor() as cursor:  # the quiet period is over
                cursor.execute(
                    "UPDATE ledger_attempt SET opened_at = opened_at - interval '1 hour',"
                    " lease_ends_at = lease_ends_at - interval '1 hour' WHERE outcome IS NOT NULL"
                )
        desk.look()
        if desk.step(opened).state == "ready":
            break
    assert desk.step(opened).state == "ready"
    desk.hurry()
    desk.send()

    assert desk.step(opened).state == "confirmed"
    assert len(desk.sandbox.effects(identity=identity)) == 1
    assert [a.outcome for a in Attempt.objects.filter(step=desk.step(opened)).order_by("number")] == [
        "no_change",
        "confirmed",
    ]


@pytest.mark.parametrize(
    ("behaviour", "options", "state"),
    [
        ("lose_reply_after_acting", {}, "unknown"),
        ("reset_after_acting", {}, "unknown"),
        ("error_after_acting", {"status": 504}, "unknown"),
        ("error_before_acting", {"status": 503}, "unknown"),
        ("cut_reply", {}, "unknown"),
        ("not_json", {}, "unknown"),
        ("wrong_shape", {}, "unknown"),
        ("conflict_running", {}, "unknown"),
        ("rate_limited", {}, "ready"),
        ("unauthorised", {}, "ready"),
        ("invalid", {}, "ready"),
        ("too_large", {}, "unknown"),
        ("redirect", {"status": 302}, "unknown"),
        ("redirect", {"status": 308}, "ready"),
    ],
)
def test_one_send_per_attempt_whatever_comes_back(
    desk: Desk, behaviour: str, options: dict[str, object], state: str
) -> None:
    opened = desk.open("classic_follow_up")
    identity = step_identity(opened.id, 1)
    neighbour = desk.open("classic_follow_up")
    desk.sandbox.script(behaviour, 1, method="POST", identity=identity, **options)

    desk.send()

    assert desk.step(opened).state == state
    assert len(desk.sandbox.requests(identity=identity, method="POST")) == 1
    assert Attempt.objects.filter(step=desk.step(opened)).count() == 1
    if behaviour != "unauthorised":  # which stops the whole destination
        assert desk.step(neighbour).state == "confirmed"
    call_command("verify_ledger")


def hold_of(opened: object) -> Hold:
    return Hold.objects.get(operation_id=opened.id, closed_at__isnull=True)  # type: ignore[attr-defined]


@pytest.fixture
def held(desk: Desk) -> Callable[[str], object]:
    """An operation whose outcome only a person can settle; the sandbox acted or not."""

    def make(behaviour: str) -> object:
        opened = desk.open("classic_follow_up")
        desk.sandbox.script(behaviour, 1, method="POST", identity=step_identity(opened.id, 1))
        desk.sandbox.script(
            "error_before_acting", None, method="GET", identity=step_identity(opened.id, 1), status=503
        )
        desk.send()
        for _ in range(12):
            desk.hurry()
            desk.look()
            if desk.operation(opened).state == "held":
                return opened
        raise AssertionError("the operation was not held")

    return make


def test_it_happened_confirms_and_releases_nothing_else(desk: Desk, held: Callable[[str], object]) -> None:
    opened, neighbour = held("lose_reply_after_acting"), held("lose_reply_after_acting")
    reference = desk.sandbox.effects(identity=step_identity(opened.id, 1))[0]["reference"]
    hold = hold_of(opened)

    settle_hold(
        hold.pk, Decision(Answer.HAPPENED, "seen in the CRM", hold.version, reference=reference), OWNER
    )

    assert desk.operation(opened).state == "completed"
    assert desk.step(opened).reference == reference
    assert desk.operation(neighbour).state == "held"
    call_command("verify_ledger")


def test_it_did_not_happen_sends_the_same_request_once_more(
    desk: Desk, held: Callable[[str], object]
) -> None:
    opened = held("lose_reply_before_acting")
    hold = hold_of(opened)

    decision = Decision(
        Answer.ABSENT_SEND_AGAIN, "not in the CRM", hold.version, checked_how="searched by order"
    )
    settle_hold(hold.pk, decision, OWNER)
    desk.send()

    assert desk.operation(opened).state == "completed"
    assert len(desk.sandbox.effects(identity=step_identity(opened.id, 1))) == 1
    bodies = {
        one["body_sha256"]
        for one in desk.sandbox.requests(identity=step_identity(opened.id, 1), method="POST")
    }
    assert len(bodies) == 1


def test_a_decision_on_a_stale_version_changes_nothing(desk: Desk, held: Callable[[str], object]) -> None:
    opened = held("lose_reply_before_acting")
    hold = hold_of(opened)

    with pytest.raises(Stale):
        settle_hold(hold.pk, Decision(Answer.CLOSE_UNKNOWN, "late", hold.version - 1), OWNER)

    assert desk.operation(opened).state == "held"


def test_a_reference_of_another_operation_is_refused_and_named(
    desk: Desk, held: Callable[[str], object]
) -> None:
    first, second = held("lose_reply_after_acting"), held("lose_reply_before_acting")
    reference = desk.sandbox.effects(identity=step_identity(first.id, 1))[0]["reference"]
    one, other = hold_of(first), hold_of(second)
    settle_hold(one.pk, Decision(Answer.HAPPENED, "seen", one.version, reference=reference), OWNER)

    with pytest.raises(Refused, match=desk.operation(first).operation_id):
        settle_hold(other.pk, Decision(Answer.HAPPENED, "seen", other.version, reference=reference), OWNER)

    assert desk.operation(second).state == "held"


def test_a_late_reply_that_contradicts_a_persons_answer_is_disputed(
    desk: Desk, held: Callable[[str], object]
) -> None:
    from opsledger.ledger.actions.record import Sent, record_sends, statement_evidence
    from opsledger.rules.learning import Finding
    from opsledger.rules.record import KnownBy
    from opsledger.rules.states import Outcome

    opened = held("lose_reply_after_acting")
    hold = hold_of(opened)
    settle_hold(
        hold.pk, Decision(Answer.ABSENT_END, "not there", hold.version, checked_how="searched"), OWNER
    )
    assert desk.operation(opened).state == "failed"
    attempt = Attempt.objects.get(operation_id=opened.id)

    finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="T-99")
    said = statement_evidence(1, "crm_classic", "confirmed", "late reply")
    late = Sent(opened.id, 1, attempt.pk, finding, said, "destination:crm_classic")
    record_sends([late])

    assert hold_of(opened).reason == "disputed"
    assert desk.operation(opened).state == "held"
    assert desk.send().claimed == 0
    call_command("verify_ledger")


def test_a_lease_that_ends_makes_unknown_never_failed(desk: Desk) -> None:
    from opsledger.ledger.actions.claim import claim_sends

    opened = desk.open("classic_follow_up")
    claimed = claim_sends(1, worker="dies")
    assert len(claimed) == 1
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_attempt SET opened_at = now() - interval '2 minutes', lease_ends_at = now() - interval '1 second'"
        )
        cursor.execute("UPDATE ledger_step SET act_at = now() - interval '1 second' WHERE act = 'lease'")

    assert desk.sweep().leases == 1

    assert desk.step(opened).state == "unknown"
    assert desk.sweep().leases == 0


def test_what_another_operation_replaces_is_never_sent_again(desk: Desk) -> None:
    opened = desk.open("classic_follow_up")
    desk.sandbox.script("invalid", 1, method="POST", identity=step_identity(opened.id, 1))
    desk.send()
    hold = hold_of(opened)
    wanted = desk.wanted("classic_follow_up", "test:successor")._replace(replaces=opened.id)
    successor = open_operations([wanted])[0]

    with pytest.raises(Refused, match="test:successor"):
        settle_hold(hold.pk, Decision(Answer.SAME_AGAIN, "mended", hold.version), OWNER)
    settle_hold(hold.pk, Decision(Answer.END_FAILED, "replaced", hold.version), OWNER)
    desk.send()

    assert desk.operation(opened).state == "failed"
    assert desk.operation(successor).state == "completed"
    assert desk.sandbox.effects(identity=step_identity(opened.id, 1)) == []

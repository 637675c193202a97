"""Automations that do the work themselves: claims, leases, outcomes in time and late, evidence."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from api_world import World, read, wanted
from blocked import behind_ours
from django.utils import timezone

from opsledger.accounts.permissions import AUTOMATION_SCOPES
from opsledger.journal.models import Entry
from opsledger.ledger.actions.change import Change, change_here
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.destinations import settle_pause
from opsledger.ledger.actions.record import record_leases_ended
from opsledger.ledger.models import Attempt, Destination, Evidence, Hold, Step, StepRequest
from opsledger.ledger.records import Loaded
from opsledger.lib.ids import parse
from opsledger.rules import transitions
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy, Operation
from opsledger.rules.settling import Moment
from opsledger.rules.states import Outcome

STEP = "/operations/order:1/steps/create_task"


def claim(world: World) -> str:
    answer = world.auto.post(f"{STEP}/claim")
    assert answer.status_code == 201, answer.content
    return str(answer.json()["attempt_id"])


def report(world: World, attempt: str, outcome: str, **more: Any) -> Any:
    body = {"outcome": outcome, "evidence": {"how": "the reply said so"}} | more
    return world.auto.post(f"/attempts/{attempt}/outcome", body)


@pytest.fixture
def ready(world: World) -> World:
    """One operation whose first step is offered to automations."""
    assert world.record("order:1", "by_hand").status_code == 201
    return world


def end_lease(attempt: str) -> None:
    """The lease ends without a word, and the sweep notices."""
    row = Attempt.objects.get(pk=parse("att", attempt))
    past = timezone.now() - timedelta(hours=1)
    Attempt.objects.filter(pk=row.pk).update(opened_at=past - timedelta(hours=1), lease_ends_at=past)
    Step.objects.filter(pk=row.step_id).update(act_at=past)
    assert record_leases_ended(10) == 1


# Claims


BOTH = """
[workflow.both]
title = "Do {params.subject} elsewhere"
owner = "owner"
if_nobody = "Nobody is called."
due_seconds = { default = 3600 }
[[workflow.both.params]]
name = "subject"
label = "Subject"
[[workflow.both.steps]]
name = "create_task"
title = "Create the task"
destination = "crm"
action = "create_task"
performer = "automation"
[[workflow.both.steps]]
name = "send_message"
title = "Send the message"
destination = "mail"
action = "send"
performer = "automation"
"""


def test_a_claim_tells_the_journal_of_the_request_that_it_gives_out(live_world: World) -> None:
    """The second step's request is frozen by the first one's reference, while its claim waits for the lock."""
    load(live_world.cast.launch.pk, read(BOTH), actor="command:test")
    live_world.record("order:1", "both")
    attempt = parse("att", claim(live_world))
    step = Step.objects.get(number=2)
    assert (step.state, step.request_digest) == ("waiting", None)
    finding = Finding(Outcome.CONFIRMED, KnownBy.AUTOMATION, reference="T-1")

    def ends(loaded: Loaded, moment: Moment) -> Operation:
        return transitions.attempt_ended(loaded.record, 1, str(attempt), finding, moment)

    answer = behind_ours(
        lambda: change_here(
            {step.operation_id: Change("attempt_ended", "token:00000000-0000-0000-0000-000000000001", ends)}
        ),
        lambda: live_world.auto.post("/operations/order:1/steps/send_message/claim"),
    )

    assert answer.status_code == 201, answer.content
    opened = Entry.objects.filter(kind="attempt_opened").latest("seq")
    assert json.loads(opened.body)["digest"] == StepRequest.objects.get(step=step).digest


def test_a_claim_is_committed_with_the_exact_request(ready: World) -> None:
    answer = ready.auto.post(f"{STEP}/claim")
    body = answer.json()
    assert answer.status_code == 201
    row = Attempt.objects.get()
    assert parse("att", body["attempt_id"]) == row.pk
    assert row.worker.startswith("token:")
    request = body["request"]
    assert (request["method"], request["url"]) == ("POST", "http://127.0.0.1:9/tasks")
    assert json.loads(request["body"])["subject"] == "Call back"
    assert ["Idempotency-Key", body["idempotency_key"]] in request["headers"]
    assert Step.objects.get(number=1).state == "in_flight"


def test_a_claim_of_the_same_token_while_its_lease_runs_is_in_flight(ready: World) -> None:
    claim(ready)
    for caller in (ready.auto, ready.robot):
        answer = caller.post(f"{STEP}/claim")
        assert answer.status_code == 409
        problem = answer.json()
        assert (problem["code"], problem["reason"], problem["state"]) == (
            "not_claimable",
            "in_flight",
            "in_flight",
        )
    assert Attempt.objects.count() == 1


def _stop(world: World) -> None:
    destination = Destination.objects.get(team=world.cast.launch, slug="crm")
    settle_pause(
        destination.pk,
        destination.version,
        "they migrate",
        By("person:00000000-0000-0000-0000-000000000001", "Olga"),
    )


CASES: list[tuple[str, Any, str, str | None]] = [
    ("done", lambda w: report(w, claim(w), "confirmed", reference="T-1"), "done", "T-1"),
    ("taken over", lambda w: report(w, claim(w), "accepted", reference="T-1"), "done", "T-1"),
    ("unknown", lambda w: report(w, claim(w), "unknown"), "held", None),
    ("rejected", lambda w: report(w, claim(w), "no_change", no_change="rejected"), "held", None),
    ("put off", lambda w: report(w, claim(w), "no_change", no_change="deferred"), "not_now", None),
    ("cancelled", lambda w: w.decide("order:1"), "ended", None),
    ("stopped", _stop, "stopped", None),
]


@pytest.mark.parametrize(
    ("act", "reason", "reference"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_a_step_that_is_not_to_be_done_now_says_what_to_do(
    ready: World, act: Any, reason: str, reference: str | None
) -> None:
    act(ready)
    before = Attempt.objects.count()
    problem = ready.auto.post(f"{STEP}/claim").json()
    assert (problem["status"], problem["reason"], problem["reference"]) == (409, reason, reference)
    assert problem["next"]
    assert Attempt.objects.count() == before


def test_a_step_behind_another_waits_and_the_engines_step_is_not_offered(ready: World) -> None:
    answer = ready.auto.post("/operations/order:1/steps/send_message/claim")
    assert answer.json()["reason"] == "not_yours"
    assert ready.auto.post("/operations/order:1/steps/nothing/claim").status_code == 404


# Leases


def test_a_heartbeat_stretches_the_lease_but_never_beyond_the_longest(ready: World) -> None:
    attempt = claim(ready)
    row = Attempt.objects.get()
    Attempt.objects.update(
        opened_at=row.opened_at - timedelta(seconds=50),
        lease_ends_at=row.lease_ends_at - timedelta(seconds=50),
    )
    answer = ready.auto.post(f"/attempts/{attempt}/heartbeat").json()
    row.refresh_from_db()
    assert answer["lease_expires_at"] == answer["longest_until"]
    assert row.lease_ends_at == row.opened_at + timedelta(seconds=90)
    entries = Entry.objects.count()
    assert ready.auto.post(f"/attempts/{attempt}/heartbeat").json() == answer
    assert Entry.objects.count() == entries


def test_after_its_end_a_lease_is_not_extended(ready: World) -> None:
    attempt = claim(ready)
    end_lease(attempt)
    answer = ready.auto.post(f"/attempts/{attempt}/heartbeat")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_now")


def test_a_lease_that_ends_without_an_outcome_means_unknown(ready: World) -> None:
    end_lease(claim(ready))
    record = ready.auto.get("/operations/order:1").json()
    assert record["steps"][0]["state"] == "unknown"
    assert [hold["reason"] for hold in record["holds"]] == ["outcome_unknown"]
    assert record["next"]["by"] == "person"


# Outcomes


def test_a_confirmed_outcome_lets_the_next_step_go(ready: World) -> None:
    answer = report(ready, claim(ready), "confirmed", reference="T-1").json()
    assert (answer["state"], answer["reference"], answer["attempt_outcome"]) == (
        "confirmed",
        "T-1",
        "confirmed",
    )
    assert Step.objects.get(number=2).state == "ready"
    assert Entry.objects.filter(kind="attempt_ended").get().actor.startswith("token:")


def test_the_same_report_again_changes_nothing(ready: World) -> None:
    attempt = claim(ready)
    first = report(ready, attempt, "confirmed", reference="T-1")
    entries = Entry.objects.count()
    again = report(ready, attempt, "confirmed", reference="T-1")
    assert again.status_code == 200
    assert again.json() == first.json() | {"repeated": True}
    assert (Entry.objects.count(), Evidence.objects.count()) == (entries, 1)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("no kind", {"outcome": "no_change", "evidence": {"how": "x"}}, "no_change"),
    ("absence", {"outcome": "no_change", "no_change": "absent", "evidence": {"how": "x"}}, "no_change"),
    ("how unsaid", {"outcome": "unknown", "evidence": {"how": " "}}, "evidence.how"),
    ("how missing", {"outcome": "unknown", "evidence": {}}, "evidence.how"),
    ("evidence missing", {"outcome": "unknown"}, "evidence"),
    (
        "kind of a success",
        {"outcome": "confirmed", "no_change": "rejected", "evidence": {"how": "x"}},
        "no_change",
    ),
    ("success without reference", {"outcome": "confirmed", "evidence": {"how": "x"}}, "reference"),
    ("reference of nothing", {"outcome": "unknown", "reference": "T", "evidence": {"how": "x"}}, "reference"),
    ("unknown word", {"outcome": "failed", "evidence": {"how": "x"}}, "outcome"),
    ("nul", {"outcome": "confirmed", "reference": "a\u0000", "evidence": {"how": "x"}}, "reference"),
    ("half", {"outcome": "confirmed", "reference": "\ud83d", "evidence": {"how": "x"}}, "reference"),
    ("status", {"outcome": "unknown", "evidence": {"how": "x", "status": 999}}, "evidence.status"),
    (
        "wait",
        {"outcome": "unknown", "retry_after_seconds": -1, "evidence": {"how": "x"}},
        "retry_after_seconds",
    ),
    ("unknown field", {"outcome": "unknown", "evidence": {"how": "x", "who": "me"}}, "evidence.who"),
]


@pytest.mark.parametrize(("body", "field"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_report_that_proves_nothing_is_refused_at_its_field(
    ready: World, body: dict[str, Any], field: str
) -> None:
    attempt = claim(ready)
    answer = ready.auto.post(f"/attempts/{attempt}/outcome", body)
    assert answer.status_code == 422, answer.content
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert Step.objects.get(number=1).state == "in_flight"
    assert not Evidence.objects.exists()


def test_a_deferred_attempt_is_offered_again_after_its_delay(ready: World) -> None:
    report(ready, claim(ready), "no_change", no_change="deferred", retry_after_seconds=30)
    step = Step.objects.get(number=1)
    assert step.state == "ready"
    assert step.not_before is not None
    assert step.not_before >= timezone.now() + timedelta(seconds=25)


def test_a_late_outcome_settles_what_nobody_decided_and_ends_the_hold(ready: World) -> None:
    attempt = claim(ready)
    end_lease(attempt)
    answer = report(ready, attempt, "confirmed", reference="T-1").json()
    assert (answer["late"], answer["state"]) == (True, "confirmed")
    assert Evidence.objects.get(kind="automation").late
    assert Hold.objects.get().closed_by == "evidence"


def test_a_late_outcome_that_contradicts_a_person_is_a_dispute(ready: World) -> None:
    attempt = claim(ready)
    end_lease(attempt)
    hold = ready.owner.get("/holds").json()["items"][0]
    body = {"answer": "absent_end", "reason": "asked them", "checked_how": "by telephone"}
    assert ready.owner.post(f"/holds/{hold['id']}/settle", body, if_match=hold["version"]).status_code == 200
    assert report(ready, attempt, "confirmed", reference="T-1").status_code == 200
    assert [one["reason"] for one in ready.owner.get("/holds").json()["items"]] == ["disputed"]


def test_a_reference_that_another_step_holds_proves_nothing(ready: World) -> None:
    report(ready, claim(ready), "confirmed", reference="T-1")
    ready.record("order:2", "by_hand")
    attempt = ready.auto.post("/operations/order:2/steps/create_task/claim").json()["attempt_id"]
    answer = report(ready, attempt, "confirmed", reference="T-1").json()
    assert answer["state"] == "unknown"
    facts = ready.owner.get("/holds").json()["items"][0]["facts"]
    assert (facts["reference_taken"], facts["taken_by"]) == ("T-1", "order:1")
    assert Step.objects.get(operation__operation_id="order:1", number=1).reference == "T-1"


def test_the_engines_attempts_are_not_reported_by_automations(world: World) -> None:
    from opsledger.ledger.actions.claim import claim_sends
    from opsledger.lib.ids import public

    world.record()
    claimed = claim_sends(1, worker="w")[0]
    attempt = public("att", claimed.attempt_id)
    answer = report(world, attempt, "confirmed", reference="T-1")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_now")
    assert world.auto.post(f"/attempts/{attempt}/heartbeat").status_code == 409
    assert Step.objects.get(number=1).state == "in_flight"


def test_another_teams_attempt_is_not_there(ready: World) -> None:
    attempt = claim(ready)
    assert ready.other.post(f"/attempts/{attempt}/heartbeat").status_code == 404
    body = {"outcome": "unknown", "evidence": {"how": "x"}}
    assert ready.other.post(f"/attempts/{attempt}/outcome", body).status_code == 404
    assert ready.auto.post("/attempts/att_x/heartbeat").status_code == 404


# Evidence


TELL = "/operations/order:1/steps/tell"


def evidence(world: World, says: str, step: str = STEP, **more: Any) -> Any:
    return world.auto.post(f"{step}/evidence", {"says": says, "how": "webhook"} | more)


@pytest.fixture
def told(world: World) -> World:
    """One message that an automation claimed, whose service tells of its final effect."""
    assert world.record("order:1", "told").status_code == 201
    return world


def claim_told(world: World) -> str:
    return str(world.auto.post(f"{TELL}/claim").json()["attempt_id"])


def test_a_delivery_report_proves_the_final_effect(told: World) -> None:
    report(told, claim_told(told), "accepted", reference="M-1")
    assert evidence(told, "delivered", TELL, reference="M-1").json()["state"] == "confirmed"
    assert evidence(told, "delivered", TELL, reference="M-1").json()["repeated"] is True


def test_a_bounce_fails_the_step_and_asks_a_person(told: World) -> None:
    report(told, claim_told(told), "accepted", reference="M-1")
    assert evidence(told, "not_delivered", TELL).json()["state"] == "failed"
    assert [one["reason"] for one in told.owner.get("/holds").json()["items"]] == ["delivery_failed"]


def test_a_report_about_another_reference_is_a_dispute_not_a_proof(told: World) -> None:
    report(told, claim_told(told), "accepted", reference="M-1")
    evidence(told, "delivered", TELL, reference="M-2")
    record = told.auto.get("/operations/order:1").json()
    assert record["steps"][0]["state"] != "confirmed"
    assert [hold["reason"] for hold in record["holds"] if hold["closed_at"] is None] == ["disputed"]


@pytest.mark.parametrize("says", ["delivered", "not_delivered"])
@pytest.mark.parametrize("outcome", ["", "unknown", "accepted", "confirmed"])
def test_what_has_no_final_effect_is_not_delivered_or_not(ready: World, outcome: str, says: str) -> None:
    """A bare word would confirm a task that nobody has seen, or let it be made a second time."""
    attempt = claim(ready)
    if outcome:
        report(ready, attempt, outcome, **({} if outcome == "unknown" else {"reference": "T-1"}))
    before = ready.auto.get("/operations/order:1").json()

    for more in ({}, {"reference": "T-1"}):
        answer = evidence(ready, says, **more)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "says")
        message = answer.json()["errors"][0]["message"]
        assert "`found`" in message and "POST /attempts/{attempt}/outcome" in message

    assert ready.auto.get("/operations/order:1").json() == before
    assert not Evidence.objects.filter(says=says).exists()


@pytest.mark.parametrize("says", ["delivered", "not_delivered"])
@pytest.mark.parametrize("outcome", ["", "unknown"])
def test_a_final_effect_of_what_was_not_taken_over_needs_its_reference(
    told: World, outcome: str, says: str
) -> None:
    attempt = claim_told(told)
    if outcome:
        report(told, attempt, outcome)

    answer = evidence(told, says, TELL)

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "reference")
    assert told.auto.get("/operations/order:1").json()["steps"][0]["state"] == (outcome or "in_flight")
    named = evidence(told, says, TELL, reference="M-1")
    assert named.json()["state"] == {"delivered": "confirmed", "not_delivered": "failed"}[says]


def test_what_was_seen_decides_nothing(ready: World) -> None:
    report(ready, claim(ready), "unknown")
    assert evidence(ready, "seen", reference="T-9", reply="a list page").json()["state"] == "unknown"
    kept = Evidence.objects.get(says="seen")
    assert b"a list page" in bytes(kept.content)


def _identity() -> str:
    return Step.objects.get(operation__operation_id="order:1", number=1).identity or ""


def test_a_found_record_is_judged_and_proposed_where_recovery_is_not_automatic(ready: World) -> None:
    report(ready, claim(ready), "unknown")
    evidence(ready, "found", reference="T-1", identity=_identity(), fields={"subject": "Call back"})
    hold = ready.owner.get("/holds").json()["items"][0]
    assert (hold["reason"], hold["facts"]["looked"], hold["facts"]["reference"]) == (
        "outcome_unknown",
        "confirmed",
        "T-1",
    )


def test_a_found_record_that_is_only_alike_decides_nothing(ready: World) -> None:
    report(ready, claim(ready), "unknown")
    evidence(ready, "found", reference="T-1", identity="somebody-else", fields={"subject": "Call back"})
    assert ready.owner.get("/holds").json()["items"][0]["facts"]["looked"] == "candidates"


def test_a_found_record_with_another_field_is_a_hold_of_its_own(ready: World) -> None:
    report(ready, claim(ready), "unknown")
    evidence(ready, "found", reference="T-1", identity=_identity(), fields={"subject": "Other"})
    assert [one["reason"] for one in ready.owner.get("/holds").json()["items"]] == ["record_differs"]


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        pytest.param(
            "unknown",
            {"answer": "absent_end", "checked_how": "asked the desk"},
            id="said not to have happened",
        ),
        pytest.param("no_change", {"answer": "end_failed"}, id="refused, then ended"),
    ],
)
def test_a_found_record_contradicts_what_was_ended_as_failed(
    ready: World, outcome: str, answer: dict[str, str]
) -> None:
    how = {"no_change": "rejected", "evidence": {"how": "its reply"}} if outcome == "no_change" else {}
    report(ready, claim(ready), outcome, **how)
    hold = ready.owner.get("/holds").json()["items"][0]
    settled = ready.owner.post(
        f"/holds/{hold['id']}/settle", {"reason": "not there", **answer}, if_match=hold["version"]
    )
    assert settled.status_code == 200, settled.content
    evidence(ready, "found", reference="T-1", identity=_identity(), fields={"subject": "Call back"})
    assert [one["reason"] for one in ready.owner.get("/holds").json()["items"]] == ["disputed"]


def test_a_found_record_of_another_contradicts_nothing(ready: World) -> None:
    report(ready, claim(ready), "confirmed", reference="T-1")
    answer = evidence(ready, "found", reference="T-2", identity="somebody-else", fields={})
    assert (answer.json()["state"], ready.owner.get("/holds").json()["items"]) == ("confirmed", [])


def test_a_found_record_needs_its_reference(ready: World) -> None:
    report(ready, claim(ready), "unknown")
    answer = evidence(ready, "found")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "reference")


def test_scopes_of_automations_are_told_apart(ready: World) -> None:
    for scope in AUTOMATION_SCOPES:
        caller = ready.token(f"only {scope.value}", scope)
        assert (caller.post("/operations", wanted("x")).status_code != 403) == (scope.value == "record")
        assert (caller.post(f"{STEP}/evidence", {"says": "seen", "how": "x"}).status_code != 403) == (
            scope.value == "report"
        )

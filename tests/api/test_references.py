"""A reference proves one create step, whoever names it and however close they come; updates may share a record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from api_world import World, read
from blocked import behind
from django.utils import timezone
from test_holds import settle, unknown

from opsledger.ledger import definitions
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.record import (
    Looked,
    Sent,
    record_looks,
    record_sends,
    record_time_passed,
    statement_evidence,
)
from opsledger.ledger.models import Attempt, Destination, Evidence, HeldReference, Hold, Recovery, Step
from opsledger.local.postgres import Urls
from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import Outcome

MORE = """
[destination.pipeline]
name = "Pipeline"
base_url = "http://127.0.0.1:9"
[destination.pipeline.actions.move]
title = "Move a deal"
effect = "update"
[destination.pipeline.actions.move.request]
method = "POST"
path = "/deals"
[destination.pipeline.actions.move.request.body]
subject = "{params.subject}"
[destination.pipeline.actions.move.reply]
reference = "id"

[destination.pipeline.actions.open]
title = "Open a deal"
effect = "create"
[destination.pipeline.actions.open.request]
method = "POST"
path = "/deals"
[destination.pipeline.actions.open.request.body]
subject = "{params.subject}"
[destination.pipeline.actions.open.reply]
reference = "id"

[destination.tickets]
name = "Tickets"
base_url = "http://127.0.0.1:9"
[destination.tickets.actions.open]
title = "Open a ticket and hear of it"
effect = "create"
status = { field = "data.status", confirmed = ["delivered"], failed = ["bounced"] }
final_effect = { by = "report", deadline_seconds = 3600 }
report = { source = "shop", identity = "data.step", reference = "data.ticket" }
[destination.tickets.actions.open.request]
method = "POST"
path = "/tickets"
[destination.tickets.actions.open.request.body]
subject = "{params.subject}"
[destination.tickets.actions.open.reply]
accepts_only = true
[destination.tickets.actions.open.lookup]
settles = "positive_only"
quiet_seconds = 5
delays_seconds = [2, 5]
last_look_seconds = 60
identity = "external_id"
decisive = { subject = "subject" }
[destination.tickets.actions.open.search]
path = "/tickets"
query = { external_id = "{step.identity}" }
records = "items"

[workflow.moved]
title = "Move {params.subject}"
owner = "owner"
if_nobody = "It stays."
due_seconds = { default = 3600 }
[[workflow.moved.params]]
name = "subject"
label = "Subject"
[[workflow.moved.steps]]
name = "create_task"
title = "Move it"
destination = "pipeline"
action = "move"
performer = "automation"

[workflow.dealt]
title = "A deal for {params.subject}"
owner = "owner"
if_nobody = "There is none."
due_seconds = { default = 3600 }
[[workflow.dealt.params]]
name = "subject"
label = "Subject"
[[workflow.dealt.steps]]
name = "create_task"
title = "Open it"
destination = "pipeline"
action = "open"
performer = "automation"

[workflow.ticketed]
title = "A ticket for {params.subject}"
owner = "owner"
if_nobody = "Nobody looks."
due_seconds = { default = 3600 }
[[workflow.ticketed.params]]
name = "subject"
label = "Subject"
[[workflow.ticketed.steps]]
name = "create_task"
title = "Open it"
destination = "tickets"
action = "open"
performer = "automation"
"""


def claim(world: World, own: str, workflow: str = "by_hand") -> str:
    """An open attempt of a new operation's first step."""
    world.record(own, workflow)
    attempt: str = world.auto.post(f"/operations/{own}/steps/create_task/claim").json()["attempt_id"]
    return attempt


def report(world: World, attempt: str, outcome: str, **more: Any) -> Any:
    body = {"outcome": outcome, "evidence": {"how": "their reply"}} | more
    return world.auto.post(f"/attempts/{attempt}/outcome", body)


def evidence(world: World, says: str, **more: Any) -> Any:
    return world.auto.post(
        "/operations/order:1/steps/create_task/evidence", {"says": says, "how": "seen"} | more
    )


def held(world: World, own: str = "order:1", workflow: str = "by_hand") -> dict[str, Any]:
    report(world, claim(world, own, workflow), "unknown")
    return next(one for one in world.auto.get("/holds").json()["items"] if one["operation_id"] == own)


def step(own: str = "order:1") -> Step:
    return Step.objects.get(operation__operation_id=own, number=1)


def taking(holder: Step, reference: str) -> Callable[[psycopg.Connection], object]:
    """Makes the reference this step's, in a transaction that is still open."""
    key = bytes.fromhex(definitions.reference_key(reference))
    return lambda connection: connection.execute(
        "INSERT INTO ledger_heldreference (destination_id, reference_key, step_id) VALUES (%s, %s, %s)",
        [holder.destination_id, key, holder.pk],
    )


# At the same moment


def answers(answer: str, **more: Any) -> Any:
    def prepare(world: World) -> Any:
        hold = unknown(world)
        return lambda: settle(world, hold, answer, reference="T-1", **more)

    return prepare


def reports(world: World) -> Any:
    attempt = claim(world, "order:1")
    return lambda: report(world, attempt, "confirmed", reference="T-1")


def recovers(world: World) -> None:
    """What is found is applied, not only shown to the owner."""
    row = Destination.objects.get(team=world.cast.launch, slug="crm")
    Recovery.objects.create(destination=row, action="create_task", enabled=True, changed_at=timezone.now())


def finds(world: World) -> Any:
    unknown(world)
    recovers(world)
    fields = {"subject": "Call back"}
    return lambda: evidence(world, "found", reference="T-1", identity=step().identity, fields=fields)


def hears(world: World) -> Any:
    claim(world, "order:1")
    row = Attempt.objects.get(operation__operation_id="order:1")
    finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="T-1")
    said = statement_evidence(1, "crm", "confirmed", "their reply")
    sent = Sent(row.operation_id, 1, row.pk, finding, said, "destination:crm")
    return lambda: record_sends([sent])


REFUSED = 422
WRITERS: list[Any] = [
    pytest.param(answers("happened"), REFUSED, id="it happened"),
    pytest.param(answers("happened_accepted"), REFUSED, id="it was taken over"),
    pytest.param(reports, 200, id="an automation's report"),
    pytest.param(finds, 200, id="a found record"),
    pytest.param(hears, None, id="a reply"),
]


@pytest.mark.parametrize(("prepare", "status"), WRITERS)
def test_who_names_a_reference_that_is_being_taken_is_told_who_took_it(
    live_world: World, database_urls: Urls, prepare: Any, status: int | None
) -> None:
    claim(live_world, "order:0")
    second = prepare(live_world)
    holder = step("order:0")

    answer = behind(database_urls, taking(holder, "T-1"), second)

    assert HeldReference.objects.get().step_id == holder.pk
    assert (step().state, step().reference) == ("unknown", None)
    if status is not None:
        assert answer.status_code == status, answer.content
    if status == REFUSED:
        assert answer.json()["errors"] == [
            {"field": "reference", "message": "Reference T-1 already belongs to operation order:0."}
        ]
        assert Hold.objects.get(operation__operation_id="order:1").version == 1
    else:
        hold = Hold.objects.get(operation__operation_id="order:1", closed_at=None)
        assert "order:0" in hold.facts


def test_a_delivery_report_that_names_what_is_being_taken_is_told_who_took_it(
    live_world: World, database_urls: Urls
) -> None:
    load(live_world.cast.launch.pk, read(MORE), actor="command:test")
    claim(live_world, "order:0", "ticketed")
    held(live_world, workflow="ticketed")
    holder = step("order:0")

    answer = behind(
        database_urls, taking(holder, "T-1"), lambda: evidence(live_world, "delivered", reference="T-1")
    )

    assert (answer.status_code, HeldReference.objects.get().step_id) == (200, holder.pk)
    assert (step().state, step().reference) == ("unknown", None)
    assert "order:0" in Hold.objects.get(operation__operation_id="order:1", closed_at=None).facts


# What nobody has typed just now


def test_a_proven_attempts_reference_is_its_steps_while_another_attempt_is_in_doubt(world: World) -> None:
    """Else somebody could take it, and what ends the doubt could never be recorded."""
    first = claim(world, "order:1")
    report(world, first, "no_change", no_change="not_sent")
    Step.objects.filter(operation__operation_id="order:1").update(not_before=None)
    second = world.auto.post("/operations/order:1/steps/create_task/claim").json()["attempt_id"]
    report(world, first, "confirmed", reference="T-0")
    assert report(world, second, "confirmed", reference="T-1").json()["state"] == "unknown"
    other = held(world, "order:2")

    answer = settle(world, other, "happened", reference="T-1")

    assert answer.json()["errors"][0]["message"] == "Reference T-1 already belongs to operation order:1."
    disputed = world.auto.get("/operations/order:1").json()["holds"][0]
    assert settle(world, disputed, "absent_end", checked_how="searched").status_code == 200
    assert (step().state, step().reference) == ("confirmed", "T-1")


def test_what_was_heard_in_a_dispute_is_not_confirmed_when_another_step_took_it(world: World) -> None:
    attempt = claim(world, "order:1")
    report(world, attempt, "unknown")
    hold = world.auto.get("/operations/order:1").json()["holds"][0]
    settle(world, hold, "absent_end", checked_how="searched")
    report(world, attempt, "confirmed", reference="T-1")
    assert settle(world, held(world, "order:2"), "happened", reference="T-1").status_code == 200
    disputed = next(
        one
        for one in world.auto.get("/operations/order:1").json()["holds"]
        if one["reason"] == "disputed" and one["closed_at"] is None
    )

    answer = settle(world, disputed, "happened", no_reference_why="as they said")

    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [{"field": "reference", "message": "Reference T-1 already belongs to operation order:2."}],
    )
    assert (step().state, step("order:2").reference) == ("unknown", "T-1")


def looked(*references: str, final: str = "") -> Looked:
    """A lookup's answer for order:1: these records carry its identity and its subject."""
    row = step()
    fields = (("subject", "Call back"),)
    return Looked(
        operation_id=row.operation_id,
        step_number=1,
        destination_id=row.destination_id,
        identity=row.identity or "",
        request_fields={"subject": "Call back"},
        fact=LookupFact(
            LookupStatus.RECORDS, tuple(FoundRecord(one, row.identity, fields) for one in references)
        ),
        evidence=statement_evidence(1, "crm", "", ""),
        actor="destination:crm",
        known_by=KnownBy.LOOKUP,
        final=final,
    )


def test_a_found_record_beside_one_that_is_not_ours_proves_nothing_when_it_is_taken(world: World) -> None:
    assert settle(world, held(world, "order:2"), "happened", reference="T-2").status_code == 200
    held(world)
    recovers(world)
    evidence(world, "found", reference="T-1", identity=step().identity, fields={"subject": "Else"})
    differs = next(
        one
        for one in world.auto.get("/operations/order:1").json()["holds"]
        if one["reason"] == "record_differs" and one["closed_at"] is None
    )
    assert settle(world, differs, "not_ours", reference="T-1").status_code == 200

    record_looks([looked("T-1", "T-2")])

    assert (step().state, step().reference) == ("unknown", None)
    assert "order:2" in Evidence.objects.get(says="reference_taken").facts


@pytest.fixture
def tickets(world: World) -> World:
    """order:0 has the ticket T-1; that order:1 was taken over is known, but not as which ticket."""
    load(world.cast.launch.pk, read(MORE), actor="command:test")
    report(world, claim(world, "order:0", "ticketed"), "confirmed", reference="T-1")
    report(world, claim(world, "order:1", "ticketed"), "accepted")
    assert (step("order:0").reference, step().state, step().reference) == ("T-1", "accepted", None)
    return world


def test_a_final_effect_under_a_taken_reference_is_no_answer(tickets: World) -> None:
    record_looks([looked("T-1", final="confirmed")])

    assert (step().state, step().reference) == ("accepted", None)
    assert "order:0" in Evidence.objects.get(says="reference_taken").facts


def test_delivered_under_a_taken_reference_is_refused(tickets: World) -> None:
    past = timezone.now() - timedelta(hours=2)
    Step.objects.filter(operation__operation_id="order:1").update(accepted_at=past, act_at=past)
    record_time_passed(10)
    hold = tickets.owner.get("/holds").json()["items"][0]

    answer = settle(tickets, hold, "delivered", reference="T-1")

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "reference")
    assert settle(tickets, hold, "delivered", reference="T-2").status_code == 200


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        pytest.param("dealt", "dealt", 422, id="two creates"),
        pytest.param("dealt", "moved", 200, id="an update of what was created"),
        pytest.param("moved", "moved", 200, id="two updates"),
        pytest.param("moved", "dealt", 200, id="created, as an update had heard before"),
    ],
)
def test_a_record_is_one_creates_and_any_number_of_updates(
    world: World, first: str, second: str, status: int
) -> None:
    load(world.cast.launch.pk, read(MORE), actor="command:test")
    one, two = held(world, "order:1", first), held(world, "order:2", second)
    assert settle(world, one, "happened", reference="D-1").status_code == 200

    assert settle(world, two, "happened", reference="D-1").status_code == status

    states = (step("order:1").state, step("order:2").state)
    assert states == ("confirmed", "confirmed" if status == 200 else "unknown")


def test_a_batch_keeps_its_other_replies_when_one_names_what_is_being_taken(
    live_world: World, database_urls: Urls
) -> None:
    claim(live_world, "order:0")
    holder = step("order:0")
    batch = []
    for number in (1, 2, 3):
        claim(live_world, f"order:{number}")
        row = Attempt.objects.get(operation__operation_id=f"order:{number}")
        finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=f"T-{number}")
        said = statement_evidence(1, "crm", "confirmed", "their reply")
        batch.append(Sent(row.operation_id, 1, row.pk, finding, said, "destination:crm"))

    behind(database_urls, taking(holder, "T-2"), lambda: record_sends(batch))

    assert [step(f"order:{number}").state for number in (1, 2, 3)] == ["confirmed", "unknown", "confirmed"]

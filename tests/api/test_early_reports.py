"""Laws 3 and 9: what is told of a record before anybody knows whose it is counts as soon as somebody does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from api_world import DEFINITIONS, World, deliver, event, read
from blocked import behind_ours
from django.core.management import call_command
from django.db import transaction
from test_holds import settle
from test_references import MORE

from opsledger.api import hooks
from opsledger.journal.models import Entry
from opsledger.ledger.actions.change import Change, NewEvidence, change_here
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.evidence import forget_reporting, record_event_report_here
from opsledger.ledger.actions.ordinary import record_replies
from opsledger.ledger.actions.record import Sent
from opsledger.ledger.models import EarlyReport, Event, Evidence, Hold, Step
from opsledger.ledger.records import Loaded
from opsledger.lib.ids import new_id
from opsledger.rules import transitions
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy, Operation
from opsledger.rules.settling import Moment
from opsledger.rules.states import Outcome

TELL = "/operations/{}/steps/tell"


def tell(number: int, status: str, message: str = "M-1", **more: Any) -> Any:
    return deliver(event(number, type="mail.told", data={"status": status, "message": message} | more))


def claim(world: World, own: str = "order:1") -> str:
    world.record(own, "told")
    return str(world.auto.post(f"{TELL.format(own)}/claim").json()["attempt_id"])


def report(world: World, attempt: str, outcome: str, **more: Any) -> Any:
    return world.auto.post(
        f"/attempts/{attempt}/outcome", {"outcome": outcome, "evidence": {"how": "reply"}} | more
    )


def state(own: str = "order:1") -> str:
    return str(Step.objects.get(operation__operation_id=own).state)


def kinds(own: str = "order:1") -> list[str]:
    step = Step.objects.get(operation__operation_id=own)
    return list(
        Entry.objects.filter(subject_id=step.operation_id).order_by("seq").values_list("kind", flat=True)
    )


def by_reply(world: World, attempt: str) -> None:
    assert report(world, attempt, "accepted", reference="M-1").status_code == 200


def by_late_reply(world: World, attempt: str) -> None:
    report(world, attempt, "unknown")
    assert report(world, attempt, "accepted", reference="M-1").status_code == 200


def by_person(world: World, attempt: str) -> None:
    report(world, attempt, "unknown")
    (hold,) = world.auto.get("/holds").json()["items"]
    assert settle(world, hold, "happened_accepted", reference="M-1").status_code == 200


RECORDERS = [by_reply, by_late_reply, by_person]


@pytest.mark.parametrize("records", RECORDERS)
@pytest.mark.parametrize(
    ("status", "expected", "reason"),
    [("delivered", "confirmed", None), ("bounced", "failed", "delivery_failed")],
)
def test_what_came_before_the_reference_is_heard_with_it(
    world: World, records: Any, status: str, expected: str, reason: str | None
) -> None:
    attempt = claim(world)
    tell(1, status)
    assert EarlyReport.objects.get().reference == "M-1"

    records(world, attempt)

    assert state() == expected
    assert Hold.objects.filter(closed_at=None).values_list("reason", flat=True).first() == reason
    assert kinds()[-1] == "evidence_added"
    told = Entry.objects.get(kind="evidence_added")
    kept = Evidence.objects.get(kind="report")
    assert (told.actor, kept.origin, kept.late) == ("source:shop", "shop", False)
    assert not EarlyReport.objects.exists()


def test_told_twice_it_is_one_report_before_and_one_piece_of_evidence_after(world: World) -> None:
    attempt = claim(world)
    tell(1, "delivered")
    tell(1, "delivered")
    assert EarlyReport.objects.count() == 1

    by_reply(world, attempt)
    tell(1, "delivered")

    assert (Evidence.objects.filter(kind="report").count(), EarlyReport.objects.count()) == (1, 0)
    assert (state(), Event.objects.get().delivery_count) == ("confirmed", 3)


def test_what_contradicts_itself_before_anybody_listens_is_disputed(world: World) -> None:
    attempt = claim(world)
    tell(1, "delivered")
    tell(2, "bounced")

    by_reply(world, attempt)

    assert (state(), Hold.objects.get(closed_at=None).reason) == ("unknown", "disputed")
    assert list(Evidence.objects.filter(kind="report").order_by("id").values_list("says", flat=True)) == [
        "delivered",
        "not_delivered",
    ]


def test_only_reports_of_this_record_are_heard(world: World) -> None:
    attempt = claim(world)
    for number, message in enumerate(["M-2", "m-1", "M-1 "], start=1):
        tell(number, "bounced", message)
    kept = EarlyReport.objects.get(reference="M-2")
    EarlyReport.objects.create(
        team=world.cast.returns, event=kept.event, destination=kept.event.source, action="tell", reference="M-1",
        reference_key=kept.reference_key, says="not_delivered", told_at=kept.told_at,
    )  # fmt: skip

    by_reply(world, attempt)

    assert (state(), EarlyReport.objects.count()) == ("accepted", 4)


@pytest.mark.parametrize(
    "data",
    [{"status": "queued", "message": "M-1"}, {"status": "bounced"}],
    ids=["no final word", "no reference"],
)
def test_what_tells_nothing_is_not_kept_either(world: World, data: dict[str, str]) -> None:
    deliver(event(1, type="mail.told", data=data))

    assert not EarlyReport.objects.exists()


def test_what_names_the_step_of_somebody_else_is_not_kept_for_its_reference(world: World) -> None:
    tell(1, "bounced", step="of another system")

    assert not EarlyReport.objects.exists()


# By another version of the definition than the step was recorded with


REPORT = 'report = { source = "shop", identity = "data.step", reference = "data.message" }'
FINAL = 'final_effect = { by = "report", deadline_seconds = 3600 }\n'
BY_IDENTITY = DEFINITIONS.replace(REPORT, REPORT.replace(', reference = "data.message"', ""))
BY_ANOTHER_FIELD = DEFINITIONS.replace(REPORT, REPORT.replace("data.message", "data.id"))
NO_FINAL_EFFECT = DEFINITIONS.replace(f"{FINAL}{REPORT}", "")


def loads(world: World, text: str) -> None:
    load(world.cast.launch.pk, read(text), actor="command:test")
    forget_current()
    hooks.forget()
    forget_reporting()


@pytest.mark.parametrize("quick", [True, False], ids=["before the reply", "after it"])
@pytest.mark.parametrize(
    ("recorded_with", "newest", "expected"),
    [
        (BY_IDENTITY, DEFINITIONS, "failed"),
        (BY_ANOTHER_FIELD, DEFINITIONS, "failed"),
        (NO_FINAL_EFFECT, DEFINITIONS, "accepted"),
        (DEFINITIONS, BY_IDENTITY, "accepted"),
        (DEFINITIONS, BY_ANOTHER_FIELD, "accepted"),
        (DEFINITIONS, NO_FINAL_EFFECT, "accepted"),
    ],
    ids=["by reference now", "by another field now", "a final effect now", "by identity now", "not by it now",
         "no final effect now"],
)  # fmt: skip
def test_events_are_read_by_the_newest_definition_whenever_they_come(
    world: World, quick: bool, recorded_with: str, newest: str, expected: str
) -> None:
    loads(world, recorded_with)
    attempt = claim(world)
    loads(world, newest)

    if quick:
        tell(1, "bounced")
    by_reply(world, attempt)
    if not quick:
        tell(1, "bounced")

    assert (state(), EarlyReport.objects.count()) == (expected, 0)
    evidence = Evidence.objects.filter(kind="report")
    assert evidence.count() == (newest == DEFINITIONS)


def test_what_was_kept_is_heard_although_the_newest_definition_tells_of_nothing(world: World) -> None:
    attempt = claim(world)
    tell(1, "bounced")
    loads(world, NO_FINAL_EFFECT)

    by_reply(world, attempt)

    assert (state(), EarlyReport.objects.count()) == ("failed", 0)


# Of records that steps share


@pytest.fixture
def tickets(live_world: World) -> World:
    """Tickets that operations update: a record has a history before we touch it. Each call has a time of its own."""
    shared = MORE.replace('effect = "create"\nstatus', 'effect = "update"\nstatus')
    load(live_world.cast.launch.pk, read(shared), actor="command:test")
    forget_reporting()
    return live_world


def tell_of_ticket(number: int, status: str) -> None:
    deliver(event(number, type="ticket.told", data={"status": status, "ticket": "T-1"}))


def accept_ticket(world: World, own: str) -> None:
    step = f"/operations/{own}/steps/create_task"
    attempt = world.auto.post(f"{step}/claim").json()["attempt_id"]
    assert report(world, attempt, "accepted", reference="T-1").status_code == 200


def test_what_was_told_before_the_first_attempt_is_of_something_else(tickets: World) -> None:
    tickets.record("order:1", "ticketed")
    tell_of_ticket(1, "bounced")

    accept_ticket(tickets, "order:1")

    assert (state(), EarlyReport.objects.count()) == ("accepted", 1)


def test_a_report_of_a_record_that_two_steps_share_is_of_neither(tickets: World) -> None:
    for own in ("order:1", "order:2"):
        tickets.record(own, "ticketed")
        tickets.auto.post(f"/operations/{own}/steps/create_task/claim")
    tell_of_ticket(1, "bounced")

    with transaction.atomic():
        change_here(accepts("order:1", "T-1") | accepts("order:2", "T-1"))

    assert (state("order:1"), state("order:2"), EarlyReport.objects.count()) == ("accepted", "accepted", 1)


# At the same moment


def accepts(own: str, reference: str) -> dict[UUID, Change]:
    """A reply that names this record."""
    step = Step.objects.get(operation__operation_id=own)
    attempt = step.attempts.get()
    finding = Finding(Outcome.ACCEPTED, KnownBy.AUTOMATION, reference=reference)

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        return transitions.attempt_ended(loaded.record, 1, str(attempt.pk), finding, moment)

    return {step.operation_id: Change("attempt_ended", "engine", decide)}


def is_told(world: World) -> Callable[[], object]:
    """An event that tells of M-1 is being taken."""
    tell(9, "queued", "M-9")
    known = Event.objects.get()
    body = {"data": {"status": "bounced", "message": "M-1"}}
    return lambda: record_event_report_here(world.cast.launch.pk, "shop", known.pk, body, None)


def test_an_event_that_crosses_the_reply_is_heard(live_world: World) -> None:
    claim(live_world)

    answer = behind_ours(lambda: change_here(accepts("order:1", "M-1")), lambda: tell(1, "bounced"))

    assert (answer.status_code, state(), EarlyReport.objects.count()) == (200, "failed", 0)


def test_a_reply_that_crosses_the_event_hears_it(live_world: World) -> None:
    attempt = claim(live_world)
    first = is_told(live_world)

    answer = behind_ours(first, lambda: report(live_world, attempt, "accepted", reference="M-1"))

    assert (answer.json()["state"], state(), EarlyReport.objects.count()) == ("failed", "failed", 0)


# What the engine sends


@pytest.mark.parametrize("told", [True, False], ids=["told before", "not told"])
@pytest.mark.parametrize("older", [True, False], ids=["by the newest definition", "by its own"])
def test_a_reply_that_confirms_what_events_tell_of_is_no_ordinary_one(
    live_world: World, told: bool, older: bool
) -> None:
    """The short way looks at nothing that came before."""
    text = DEFINITIONS.replace('[destination.mail.actions.tell.reply]\nreference = "id"\naccepts_only = true',
                               '[destination.mail.actions.tell.reply]\nreference = "id"')  # fmt: skip
    text = text.replace('action = "tell"\nperformer = "automation"', 'action = "tell"')
    assert text.count("accepts_only") < DEFINITIONS.count("accepts_only")
    if older:
        loads(live_world, text.replace(', reference = "data.message"', ""))
    else:
        loads(live_world, text)
    live_world.record("order:1", "told")
    loads(live_world, text)
    (claimed,) = claim_sends(1, worker="w")
    if told:
        tell(1, "bounced")
    finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference="M-1")
    said = NewEvidence(new_id(), 1, claimed.attempt_id, "reply", "mail", "confirmed", "201", b"0" * 32)
    sent = Sent(claimed.operation_id, 1, claimed.attempt_id, finding, said, "destination:mail")

    record_replies([(claimed, sent)])

    assert state() == ("unknown" if told else "confirmed")
    assert kinds()[2:] == ["attempt_ended", *(["evidence_added"] if told else [])]
    call_command("verify_ledger")

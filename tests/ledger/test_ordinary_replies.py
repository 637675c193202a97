"""What one statement writes of an ordinary reply is what the rules would have written, row by row and byte by byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.engine.sending import sent_of
from opsledger.journal.models import Entry
from opsledger.ledger import definitions
from opsledger.ledger.actions import ordinary
from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import current_workflow
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.actions.new_operations import NewOperation
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.ledger.models import Hold, Operation, Step
from opsledger.local.postgres import Urls
from opsledger.rules import record
from opsledger.rules.facts import Phase, SendFact
from opsledger.rules.outcomes import classify
from tests.api.blocked import behind
from tests.desk import AUTOMATION, Desk
from tests.ledger.test_moulds import given_params, kinds

__all__ = ["kinds"]

TABLES = {
    "ledger_operation": "id", "ledger_step": "operation_id", "ledger_attempt": "operation_id",
    "ledger_evidence": "operation_id", "ledger_hold": "operation_id", "journal_chain": "subject_id",
    "journal_entry": "subject_id",
}  # fmt: skip
OF_STEPS = ("ledger_steprequest", "ledger_heldreference")
OWN = {"ledger_steprequest": "'id'", "ledger_heldreference": "'id'"}  # numbers that the table gives


def rows_of(operation_id: UUID) -> dict[str, list[Any]]:
    """Everything that is written of an operation."""
    found: dict[str, list[Any]] = {}
    with connection.cursor() as cursor:
        for table, column in TABLES.items():
            cursor.execute(f"SELECT to_jsonb(t) FROM {table} t WHERE {column} = %s", [operation_id])
            found[table] = cursor.fetchall()
        for table in OF_STEPS:
            cursor.execute(
                f"SELECT to_jsonb(t) - 'id' FROM {table} t JOIN ledger_step s ON s.id = t.step_id"
                " WHERE s.operation_id = %s",
                [operation_id],
            )
            found[table] = cursor.fetchall()
    return {table: sorted((row[0] for row in rows), key=json.dumps) for table, rows in found.items()}


@contextmanager
def one_transaction() -> Iterator[None]:
    """In which everything has the same time, and nothing stays."""
    with transaction.atomic():
        connection.atomic_blocks[
            -1
        ]._from_testcase = True  # what is written stays inside, as in Django's own tests
        yield
        transaction.set_rollback(True)


def taken_back(write: Callable[[], object], operation_id: UUID) -> dict[str, list[Any]]:
    """What `write` makes of the operation's rows; then it is as if it had not been."""
    before = transaction.savepoint()
    write()
    rows = rows_of(operation_id)
    transaction.savepoint_rollback(before)
    return rows


def reply_to(claimed: ClaimedSend, fact: SendFact) -> Sent:
    action = definitions.destination(claimed.destination_version_id).actions[claimed.action]
    return sent_of(claimed, fact, classify(fact, action.profile))


def answered(body: bytes, status: int = 201) -> SendFact:
    headers = (("content-type", "application/json"), ("x-request-id", "r 1 %s"))
    return SendFact(True, Phase.DONE, status=status, headers=headers, body=body, elapsed_seconds=0.0125)


def claimed_of(operation_id: UUID) -> ClaimedSend:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_step SET act_at = now() WHERE act = 'send'")
    return next(one for one in claim_sends(50, worker="w") if one.operation_id == operation_id)


REFERENCES = st.text(min_size=1, max_size=60) | st.sampled_from(
    ["T-1", "%", "%(at)s", "%%", '"', "\\", "é", "\x01", "日本"]
)
STATUSES = st.sampled_from([200, 201, 201, 201, 202, 400, 409, 500])


def test_an_ordinary_reply_is_written_as_the_rules_would_write_it(desk: Desk, kinds: list[str]) -> None:
    seen: dict[str, int] = {}

    @settings(max_examples=250, suppress_health_check=list(HealthCheck), deadline=None)
    @given(
        data=st.data(), slug=st.sampled_from([*kinds]), reference=REFERENCES | st.none(), status=STATUSES,
        steps=st.integers(1, 3),
    )  # fmt: skip
    def rows_are_equal(
        data: st.DataObject, slug: str, reference: str | None, status: int, steps: int
    ) -> None:
        current = current_workflow(desk.team.pk, slug)
        params = data.draw(given_params(definitions.workflow(current.version_id)))
        wanted = NewOperation(
            desk.team.pk, "a", current.version_id, current.destinations, params, AUTOMATION.actor
        )
        with one_transaction():
            opened = open_operations([wanted])[0]
            for number in range(1, steps + 1):
                if not Step.objects.filter(operation_id=opened.id, number=number, act="send").exists():
                    return
                claimed = claimed_of(opened.id)
                body = json.dumps({"id": reference and f"{reference} {number}", "more": "x"}).encode()
                last = number == steps
                sent = reply_to(claimed, answered(body, status if last else 201))
                row = ordinary._row(claimed, sent)
                word = "ordinary" if row else "rules"
                seen[word] = seen.get(word, 0) + 1
                if row:
                    by_rules = taken_back(lambda: record_sends([sent]), opened.id)  # noqa: B023
                    at_once = taken_back(lambda: ordinary._record([row]), opened.id)  # noqa: B023
                    assert at_once == by_rules
                ordinary.record_replies([(claimed, sent)])

    rows_are_equal()
    assert min(seen.values()) > 20 and len(seen) == 2, seen


# What differs from one plain operation to the next, and what its state says already.
MAY_DIFFER = {
    "number", "name", "destination", "action", "performer", "state", "request_digest", "attempts", "reference", "ready_at",
    "act", "act_at", "send_until",
}  # fmt: skip
OTHERWISE = {
    "revision": 2, "tries_extra": 1, "looks": 1, "looks_none": 1, "content_number": 1, "approved_digest": "a" * 64,
}  # fmt: skip
GOES_WITH = {  # or the table refuses it
    "approval_needed": ("approved_digest", "approved_until"),
    "approved_digest": ("approved_until",),
    "approved_until": ("approved_digest",),
    "revision": ("approval_needed", "approved_digest", "approved_until"),
}


def otherwise(name: str) -> Any:
    """A value that a plain step doesn't have."""
    if name == "not_ours":
        return '["T-9"]'
    if name.endswith(("_at", "_until", "_before")):
        return "2030-01-01T00:00:00+00:00"
    return OTHERWISE.get(name, True)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", sorted({field.name for field in fields(record.Step)} - MAY_DIFFER))
def test_whatever_else_is_said_of_a_step_is_left_to_the_rules(desk: Desk, name: str, number: int) -> None:
    with one_transaction():
        opened = desk.open("campaign_follow_up")
        with connection.cursor() as cursor:
            changed = {one: otherwise(one) for one in [name, *GOES_WITH.get(name, ())]}
            words = ", ".join(f"{one} = %s" for one in changed)
            cursor.execute(
                f"UPDATE ledger_step SET {words} WHERE operation_id = %s AND number = %s",
                [*changed.values(), opened.id, number],
            )
        with connection.cursor() as cursor:
            cursor.execute("UPDATE ledger_step SET act_at = now() WHERE act = 'send'")
        assert not [one for one in claim_sends(50, worker="w") if one.plain is not None]


@pytest.mark.parametrize(
    ("column", "value"),
    [("not_after", "2030-01-01T00:00:00+00:00"), ("state", "reconciling"), ("state", "held")],
)
def test_whatever_is_said_of_an_operation_is_left_to_the_rules(desk: Desk, column: str, value: str) -> None:
    with one_transaction():
        opened = desk.open("campaign_follow_up")
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE ledger_operation SET {column} = %s WHERE id = %s", [value, opened.id])
        assert claimed_of(opened.id).plain is None


def claimed_and_answered(desk: Desk, count: int) -> list[ordinary.Reply]:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_destination SET sends_per_second = 100, send_tokens = 100, in_flight_max = 100"
        )
    made = {desk.open("campaign_follow_up").id for _ in range(count)}
    claims = [one for one in claim_sends(50, worker="w") if one.operation_id in made]
    assert len(claims) == count
    assert all(one.plain is not None for one in claims)
    return [
        (one, reply_to(one, answered(b'{"id":"T-%d"}' % place))) for place, one in enumerate(claims, start=1)
    ]


def test_an_operation_that_changed_since_its_claim_is_left_to_the_rules(desk: Desk) -> None:
    changed, neighbour = claimed_and_answered(desk, 2)
    operation = Operation.objects.get(pk=changed[0].operation_id)
    settle_cancel(
        operation.pk,
        "Not wanted.",
        By("person:00000000-0000-0000-0000-000000000001", "Owner"),
        version=operation.version,
    )
    ordinary.record_replies([changed, neighbour])
    steps = dict(Step.objects.filter(operation_id=operation.pk).values_list("number", "state"))
    assert steps == {1: "confirmed", 2: "cancelled"}
    assert Step.objects.get(operation_id=neighbour[0].operation_id, number=2).state == "ready"


def test_an_operation_that_changes_while_its_reply_is_written_is_left_to_the_rules(
    desk: Desk, database_urls: Urls
) -> None:
    changing, neighbour = claimed_and_answered(desk, 2)
    rows = [row for reply in (changing, neighbour) if (row := ordinary._row(*reply)) is not None]

    def another_version(holder: psycopg.Connection) -> None:
        holder.execute(
            "UPDATE ledger_operation SET version = version + 1 WHERE id = %s", [changing[0].operation_id]
        )

    recorded = behind(database_urls, another_version, lambda: ordinary._record(rows))
    assert recorded == {neighbour[0].operation_id}
    assert Step.objects.get(pk=changing[0].step_id).state == "in_flight"
    assert Step.objects.get(pk=neighbour[0].step_id).state == "confirmed"


def test_a_reference_that_another_step_holds_proves_nothing(desk: Desk) -> None:
    first, second, third = claimed_and_answered(desk, 3)
    ordinary.record_replies([first])
    stolen = replace(second[1], finding=replace(second[1].finding, reference=first[1].finding.reference))
    ordinary.record_replies([(second[0], stolen), third])
    assert Step.objects.get(pk=second[0].step_id).state == "unknown"
    assert Hold.objects.get(step_id=second[0].step_id).reason == "outcome_unknown"
    assert Step.objects.get(pk=third[0].step_id).state == "confirmed"


def test_one_reference_of_two_in_a_batch_goes_to_one(desk: Desk) -> None:
    first, second = claimed_and_answered(desk, 2)
    same = replace(second[1], finding=replace(second[1].finding, reference=first[1].finding.reference))
    ordinary.record_replies([first, (second[0], same)])
    states = Step.objects.filter(pk__in=[first[0].step_id, second[0].step_id]).values_list("state", flat=True)
    assert sorted(states) == ["confirmed", "unknown"]


def test_a_reply_that_is_recorded_twice_moves_nothing_the_second_time(desk: Desk) -> None:
    ((claimed, sent),) = claimed_and_answered(desk, 1)
    row = ordinary._row(claimed, sent)
    assert row is not None
    assert ordinary._record([row]) == {claimed.operation_id}
    lines = Entry.objects.count()
    assert ordinary._record([row]) == set()
    assert Entry.objects.count() == lines

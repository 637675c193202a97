"""Ordinary replies under attack: what is recorded twice, in part, too late, or at the same moment as something else."""

from __future__ import annotations

import io
import json
import logging
import secrets
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from opsledger.engine.turn import Turn
from opsledger.journal.models import Entry
from opsledger.ledger.actions import ordinary
from opsledger.ledger.actions.claim import ClaimedSend
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.definitions import current_workflow
from opsledger.ledger.actions.destinations import record_access_refused, record_reachability, settle_pause
from opsledger.ledger.actions.events import event_names, open_named_events_here
from opsledger.ledger.actions.interventions import settle_cancel
from opsledger.ledger.actions.new_operations import NewOperation
from opsledger.ledger.actions.notes import settle_note_on_operation
from opsledger.ledger.actions.offers import begin_offers_anew
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.actions.ordinary import Reply, record_replies
from opsledger.ledger.actions.record import record_leases_ended, record_sends, record_time_passed
from opsledger.ledger.actions.sending import record_restored, switch_sending
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Destination, Evidence, Operation, Recovery, Step
from opsledger.ledger.queries import operations
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.local.postgres import Urls
from tests.api.blocked import behind
from tests.desk import AUTOMATION, Desk
from tests.ledger.test_moulds import kinds
from tests.ledger.test_ordinary_replies import (
    answered,
    claimed_and_answered,
    claimed_of,
    one_transaction,
    reply_to,
    taken_back,
)

__all__ = ["kinds"]


def verified() -> str:
    said = io.StringIO()
    call_command("verify_ledger", stdout=said)
    return said.getvalue()


def lines_of(reply: Reply) -> list[str]:
    of = Entry.objects.filter(subject_id=reply[0].operation_id)
    return list(of.order_by("seq").values_list("kind", flat=True))


def turn_of(due: list[Reply], record: Any) -> Turn[Reply, Any]:
    left = list(due)

    def claim(limit: int) -> list[Reply]:
        taken, left[:] = left[:limit], left[limit:]
        return taken

    def together(pairs: list[tuple[Reply, Any]]) -> None:
        record([reply for reply, _ in pairs])

    return Turn(
        claim, lambda reply: reply[1], together, lambda reply: reply[0].operation_id, lambda reply: False, 8
    )


def with_a_refusal(desk: Desk) -> list[Reply]:
    ordinary_one, refused = claimed_and_answered(desk, 2)
    return [ordinary_one, (refused[0], reply_to(refused[0], answered(b'{"id":"T-9"}', 500)))]


def test_what_is_recorded_in_part_is_recorded_once_and_nothing_is_said_to_be_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    due = with_a_refusal(desk)
    refusals = iter(range(2))

    def away_twice(others: Any) -> Any:
        if next(refusals, None) is not None:
            raise OperationalError("the connection was lost")
        return record_sends(others)

    monkeypatch.setattr(ordinary, "record_sends", away_twice)
    with caplog.at_level(logging.ERROR):
        turn_of(due, record_replies).run()
    assert not caplog.records
    assert [Step.objects.get(pk=one.step_id).state for one, _ in due] == ["confirmed", "unknown"]
    assert lines_of(due[0]) == ["operation_recorded", "attempt_opened", "attempt_ended"]
    assert Evidence.objects.filter(attempt_id=due[0][0].attempt_id).count() == 1
    verified()


def test_what_was_recorded_before_the_connection_was_lost_is_recorded_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    due = claimed_and_answered(desk, 3)
    record = ordinary._record
    lost = iter(range(1))

    def unheard(rows: Any) -> Any:
        done = record(rows)
        if next(lost, None) is not None:
            raise OperationalError("the connection was lost")
        return done

    monkeypatch.setattr(ordinary, "_record", unheard)
    with caplog.at_level(logging.ERROR):
        turn_of(due, record_replies).run()
    assert not caplog.records
    assert all(lines_of(one).count("attempt_ended") == 1 for one in due)
    verified()


def test_a_fault_in_the_short_way_loses_no_reply(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    due = claimed_and_answered(desk, 2)

    def broken(kind: object) -> object:
        raise ArithmeticError("a fault of ours")

    monkeypatch.setattr(ordinary, "_pattern_of", broken)
    turn_of(due, record_replies).run()
    assert [Step.objects.get(pk=one.step_id).state for one, _ in due] == ["confirmed"] * 2


def test_a_statement_that_the_database_refuses_for_good_loses_no_reply(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = claimed_and_answered(desk, 2)
    monkeypatch.setattr(ordinary, "statement", lambda name: "SELECT %(replies)s::json FROM nowhere")
    turn_of(due, record_replies).run()
    assert [Step.objects.get(pk=one.step_id).state for one, _ in due] == ["confirmed"] * 2


def test_what_is_added_meanwhile_without_another_version_stays(desk: Desk, database_urls: Urls) -> None:
    ((claimed, sent),) = claimed_and_answered(desk, 1)
    with transaction.atomic():
        (named,) = event_names(desk.team.pk, [("shop", "evt-1")]).values()
        event = open_named_events_here(desk.team.pk, [named], actor="command:test")[named]
    told = json.dumps({"event": str(event)})

    def another_line(holder: psycopg.Connection) -> None:
        holder.execute(
            "INSERT INTO ledger_operationevent (operation_id, event_id, added_at) VALUES (%s, %s, now())",
            [claimed.operation_id, event],
        )
        holder.execute(
            "UPDATE ledger_operation SET event_count = event_count + 1, updated_at = now() WHERE id = %s",
            [claimed.operation_id],
        )
        holder.execute(
            "WITH c AS (UPDATE journal_chain SET length = length + 1, head = journal_hash(head, subject_kind, subject_id,"
            " length + 1, now(), 'event_added', 'command:test', %s) WHERE subject_id = %s RETURNING *)"
            " INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)"
            " SELECT subject_id, length, subject_kind, now(), 'event_added', 'command:test', %s, head FROM c",
            [told, claimed.operation_id, told],
        )

    behind(database_urls, another_line, lambda: record_replies([(claimed, sent)]))
    operation = Operation.objects.get(pk=claimed.operation_id)
    assert (operation.event_count, operation.version, operation.confirmed_count) == (1, 3, 1)
    assert lines_of((claimed, sent))[2:] == ["event_added", "attempt_ended"]
    verified()


def at_once(*acts: Any) -> list[Any]:
    """What each act comes to, begun together in threads of their own."""
    barrier = threading.Barrier(len(acts))
    found: list[Any] = [None] * len(acts)

    def run(place: int, act: Any) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(10)
            found[place] = act()
        except Exception as why:
            found[place] = why
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(acts)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    return found


def test_two_workers_that_record_one_reply_record_it_once(desk: Desk) -> None:
    for _ in range(8):
        due = claimed_and_answered(desk, 4)
        assert at_once(*[lambda due=due: record_replies(due)] * 3) == [None] * 3
        assert all(lines_of(one).count("attempt_ended") == 1 for one in due)
    verified()


def test_references_that_cross_in_two_batches_block_nobody(desk: Desk) -> None:
    for turn in range(10):
        replies = claimed_and_answered(desk, 8)
        named = [
            (one, replace(sent, finding=replace(sent.finding, reference=f"X-{turn}-{place}")))
            for (one, sent), place in zip(replies, [0, 1, 2, 3, 3, 2, 1, 0], strict=True)
        ]
        found = at_once(lambda: record_replies(named[:4]), lambda: record_replies(named[4:]))  # noqa: B023
        assert found == [None, None], found
        states = [Step.objects.get(pk=one.step_id).state for one, _ in named]
        assert sorted(states) == ["confirmed"] * 4 + ["unknown"] * 4
    verified()


def test_an_attempt_that_a_restored_backup_forgot_confirms_nothing(
    desk: Desk, owner_connection: psycopg.Connection
) -> None:
    """The version may be the same again: another attempt was opened, as a person or another worker went on."""
    claimed, _ = claimed_and_answered(desk, 1)[0]
    ghost = claimed._replace(attempt_id=uuid4())
    row = ordinary._row(ghost, reply_to(ghost, answered(b'{"id":"T-1"}')))
    assert row is not None
    assert ordinary._record([row]) == set()
    assert Step.objects.get(pk=claimed.step_id).state == "in_flight"


@pytest.mark.parametrize(
    "reference",
    [
        "T" * 10_000,
        "x\x01y",
        "%(at)s",
        "%",
        "a\u2028b",
        "\U0001f600",
        '"\\',
        "{steps.create_task.reference}",
        " T ",
    ],
    ids=["long", "control", "place", "percent", "line", "astral", "quotes", "template", "blanks"],
)
def test_no_reference_breaks_the_journal(desk: Desk, reference: str) -> None:
    claimed, _ = claimed_and_answered(desk, 1)[0]

    sent = reply_to(claimed, answered(json.dumps({"id": reference}).encode()))
    assert ordinary._recorded_at_once([(claimed, sent)]) == {claimed.operation_id}
    assert Step.objects.get(pk=claimed.step_id).reference == reference
    verified()


@pytest.mark.parametrize("reference", ["a\0b", "\ud83d"], ids=["nul", "half"])
def test_a_reference_that_cannot_be_kept_takes_no_other_with_it(desk: Desk, reference: str) -> None:
    (claimed, sent), neighbour = claimed_and_answered(desk, 2)
    odd = replace(sent, finding=replace(sent.finding, reference=reference))
    turn_of([(claimed, odd), neighbour], record_replies).run()
    assert Step.objects.get(pk=claimed.step_id).state == "in_flight"  # its lease decides
    assert Step.objects.get(pk=neighbour[0].step_id).state == "confirmed"


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"])
def test_a_session_of_another_zone_writes_the_line_in_utc(desk: Desk, zone: str) -> None:
    due = claimed_and_answered(desk, 2)
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('TimeZone', %s, false)", [zone])
        cursor.execute("SELECT set_config('DateStyle', 'SQL, DMY', false)")
    try:
        assert ordinary._recorded_at_once(due) == {one.operation_id for one, _ in due}
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO, MDY', false)"
            )
    verified()


def test_a_reference_longer_than_an_index_row_is_kept_and_found(desk: Desk) -> None:
    """Each reply that says one would else hold up its worker: the database seems too busy to take it."""
    replies = claimed_and_answered(desk, 3)
    start = secrets.token_hex(100)
    names = [start + secrets.token_hex(16_000), start + secrets.token_hex(16_000), "T-1"]
    due = [
        (claimed, reply_to(claimed, answered(json.dumps({"id": name}).encode())))
        for (claimed, _), name in zip(replies, names, strict=True)
    ]
    ids = [claimed.operation_id for claimed, _ in due]
    assert ordinary._recorded_at_once(due) == set(ids)
    assert found(desk, OperationFilter(reference=names[0])) == {ids[0]}
    assert found(desk, OperationFilter(search=names[1][:300])) == {ids[1]}
    assert found(desk, OperationFilter(search=start)) == {*ids[:2]}
    assert found(desk, OperationFilter(search=start[:50])) == {*ids[:2]}
    assert found(desk, OperationFilter(search="T-")) == {ids[2]}
    assert found(desk, OperationFilter(reference=start)) == set()
    verified()


def found(desk: Desk, asked: OperationFilter) -> set[UUID]:
    return set(operations.every_id(desk.team.pk, asked, 50))


BY = By("person:00000000-0000-0000-0000-000000000001", "Owner")


def pause(desk: Desk, claimed: ClaimedSend) -> None:
    for one in Destination.objects.all():
        settle_pause(one.pk, one.version, "It is being repaired.", BY)


def refuse_access(desk: Desk, claimed: ClaimedSend) -> None:
    for one in Destination.objects.all():
        record_access_refused(one.pk)


def break_circuits(desk: Desk, claimed: ClaimedSend) -> None:
    record_reachability(set(), {one.pk: 1_000 for one in Destination.objects.all()}, trial_every_seconds=30)


def send_nothing(desk: Desk, claimed: ClaimedSend) -> None:
    switch_sending(False, reason="A backup was restored.", by="command:olga")


def note(desk: Desk, claimed: ClaimedSend) -> None:
    settle_note_on_operation(claimed.operation_id, "They called.", BY)


def recover_by_hand(desk: Desk, claimed: ClaimedSend) -> None:
    for step in Step.objects.filter(operation_id=claimed.operation_id):
        Recovery.objects.filter(destination_id=step.destination_id).delete()


def restore(desk: Desk, claimed: ClaimedSend) -> None:
    record_restored(database_now() + timedelta(seconds=1), actor="command:olga")


def cancel(desk: Desk, claimed: ClaimedSend) -> None:
    version = Operation.objects.get(pk=claimed.operation_id).version
    settle_cancel(claimed.operation_id, "Not wanted.", BY, version=version)


def begin_offers(desk: Desk, claimed: ClaimedSend) -> None:
    begin_offers_anew(None)


def sweep_all(desk: Desk, claimed: ClaimedSend) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_step SET act_at = now() WHERE act = 'lease'")
        cursor.execute(
            "UPDATE ledger_attempt SET opened_at = now() - interval '1 hour', lease_ends_at = now()"
        )
    record_leases_ended(50)
    record_time_passed(50)


@pytest.mark.parametrize(
    "meanwhile",
    [
        pause,
        refuse_access,
        break_circuits,
        send_nothing,
        note,
        recover_by_hand,
        restore,
        cancel,
        begin_offers,
        sweep_all,
    ],
    ids=lambda one: one.__name__,
)
@pytest.mark.parametrize("slug", ["campaign_follow_up", "kept"])
def test_whatever_happens_meanwhile_a_reply_is_what_the_rules_make_of_it(
    desk: Desk, kinds: list[str], slug: str, meanwhile: Any
) -> None:
    """`kept` goes on with an offer to an automation."""
    with one_transaction():
        extra = {"text": "x"} if slug == "kept" else {}
        current = current_workflow(desk.team.pk, slug)
        params = extra or desk.wanted(slug).params
        wanted = NewOperation(
            desk.team.pk, "a", current.version_id, current.destinations, params, AUTOMATION.actor
        )
        opened = open_operations([wanted])[0]
        claimed = claimed_of(opened.id)
        assert claimed.plain is not None
        sent = reply_to(claimed, answered(b'{"id":"T-1"}'))
        meanwhile(desk, claimed)
        by_rules = taken_back(lambda: record_sends([sent]), opened.id)
        as_recorded = taken_back(lambda: record_replies([(claimed, sent)]), opened.id)
        by_rules, as_recorded = (without_new_ids(rows) for rows in (by_rules, as_recorded))
        assert as_recorded == by_rules


def without_new_ids(rows: dict[str, list[Any]]) -> dict[str, Any]:
    """Holds have ids of their own each time, and so have the lines that tell of them."""
    kept = {table: found for table, found in rows.items() if not table.startswith("journal")}
    return kept | {"ledger_hold": [json.loads(one) | {"id": None} for one in rows["ledger_hold"]]}

"""Those chosen among what waits at a stopped destination are ended: nothing else, nothing that moved or was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from datetime import timedelta

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone
from test_open_work_follows_its_indexes import fill

from opsledger.accounts.actions import add_team
from opsledger.accounts.models import Person
from opsledger.engine import bulk as engine
from opsledger.journal.models import Entry
from opsledger.ledger.actions.bulk import record_batch
from opsledger.ledger.actions.claim import claim_sends
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.destinations import settle_pause, settle_resume
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.waiting import freeze_first, freeze_steps
from opsledger.ledger.models import (
    Attempt,
    BulkItem,
    BulkRun,
    Destination,
    Hold,
    Operation,
    Selection,
    SelectionItem,
    Step,
)
from opsledger.ledger.queries import waiting
from opsledger.ledger.queries.bulk import groups_of, items_of, lines_of, remaining
from opsledger.ledger.queries.waiting import Stopped
from opsledger.local.postgres import Urls
from opsledger.rules.bulk import Verb
from opsledger.rules.states import HoldReason
from tests.bulk import begun, counts, ran
from tests.bulk import lines_of as journal_of
from tests.desk import Desk
from tests.replaying import by_owner

REASON = "They closed the account for good."


def stop(desk: Desk, slug: str = "crm_classic") -> Stopped:
    """Paused by a person; the same as a page reads it."""
    row = Destination.objects.get(team=desk.team, slug=slug)
    settle_pause(row.pk, row.version, "Their upgrade.", by_owner(desk))
    return place_of(desk, slug)


def place_of(desk: Desk, slug: str = "crm_classic") -> Stopped:
    found = waiting.destination_of(Destination.objects.get(team=desk.team, slug=slug).pk, desk.team.pk)
    assert found is not None
    return found


def go_on(desk: Desk) -> None:
    hold = Hold.objects.get(destination__slug="crm_classic", closed_at__isnull=True)
    settle_resume(hold.pk, hold.version, 100.0, "Done.", by_owner(desk))
    Destination.objects.update(send_tokens=100)


def opened(desk: Desk, count: int) -> list[Opened]:
    return [desk.open("classic_follow_up") for _ in range(count)]


def chosen(desk: Desk, some: Sequence[Opened], place: Stopped) -> Selection:
    """These, as the page of what waits shows them now."""
    ids = {one.id for one in some}
    lines = [line for line in waiting.page_of(place, desk.team.pk) if line.operation_id in ids]
    versions = {line.step_id: line.version for line in lines}
    return freeze_steps(place, desk.team.pk, by_owner(desk).person_id, versions, words="some")


def ended(desk: Desk, selection: Selection) -> BulkRun:
    return ran(selection, Verb.CANCEL, by_owner(desk), reason=REASON)


def states(some: Sequence[Opened]) -> list[str]:
    found = dict(Operation.objects.values_list("pk", "state"))
    return [found[one.id] for one in some]


# What waits


def test_only_what_is_ready_for_this_destination_waits(desk: Desk, database_urls: Urls) -> None:
    in_flight = opened(desk, 1)[0]
    assert [one.operation_id for one in claim_sends(1, worker="test:1")] == [in_flight.id]
    ready = opened(desk, 2)
    desk.open("campaign_follow_up")  # at another destination
    place = stop(desk)
    shown = waiting.page_of(place, desk.team.pk)
    assert [line.operation_id for line in shown] == [one.id for one in ready]
    assert place.reasons == (HoldReason.PAUSED,)
    with psycopg.connect(
        database_urls.superuser, autocommit=True
    ) as server:  # unknown, and about to be sent again
        server.execute("SET session_replication_role = replica")
        server.execute("UPDATE ledger_step SET state = 'unknown', act = 'send' WHERE state = 'in_flight'")
    assert [line.operation_id for line in waiting.page_of(place, desk.team.pk)] == [one.id for one in ready]


def test_pages_follow_their_turn_without_a_gap_or_a_double(desk: Desk) -> None:
    some = opened(desk, 5)
    Step.objects.update(act_at=Step.objects.earliest("act_at").act_at)  # the same turn for all
    place, seen, after = stop(desk), [], None
    while page := waiting.page_of(place, desk.team.pk, after=after, size=2):
        seen += [line.operation_id for line in page[:2]]
        after = page[:2][-1].turn
    assert sorted(seen) == sorted(one.id for one in some)


def test_another_teams_steps_do_not_wait_here(desk: Desk) -> None:
    opened(desk, 1)
    place = stop(desk)
    other = add_team(
        slug="other", name="Other", fallback_owner=Person.objects.get(pk=desk.team.fallback_owner_id)
    )
    assert waiting.destination_of(place.id, other.pk) is None
    assert waiting.page_of(place, other.pk) == []
    step = Step.objects.get(destination_id=place.id)
    with pytest.raises(Refused):
        freeze_steps(place, other.pk, by_owner(desk).person_id, {step.pk: 1}, words="theirs")
    assert not SelectionItem.objects.exists()


def test_a_page_of_what_waits_costs_the_same_whatever_was_sent_before(
    desk: Desk, database_urls: Urls
) -> None:
    one = opened(desk, 1)[0]
    place, step = stop(desk), Step.objects.get(operation_id=one.id)
    with psycopg.connect(database_urls.superuser, autocommit=True) as server:
        server.execute("SET session_replication_role = replica")
        of_their_own = {"id": "gen_random_uuid()", "number": "n + 1"}
        sent = of_their_own | {"state": "'confirmed'", "act": "'none'", "act_at": "NULL"}
        fill(server, "ledger_step", step.pk, 30_000, **sent)
        fill(server, "ledger_step", step.pk, 30_000, **of_their_own | {"number": "-n"})
        server.execute("VACUUM (ANALYZE) ledger_step")
    after = waiting.page_of(place, desk.team.pk, size=20)[-1].turn
    connection.ensure_connection()
    with connection.cursor() as cursor:
        for turn in (None, after):
            assert len(waiting.page_of(place, desk.team.pk, after=turn, size=20)) == 21
            query, parameters = waiting.page_query(place, desk.team.pk, turn, 20)
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", parameters)
            plan = cursor.fetchone()[0][0]["Plan"]
            assert "step_to_be_sent" in json.dumps(plan)
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 3_000, json.dumps(plan, indent=1)


# Ending those chosen


def test_those_chosen_are_ended_without_a_send_and_the_others_wait_on(desk: Desk) -> None:
    first, second, neighbour = opened(desk, 3)
    place = stop(desk)
    run = ended(desk, chosen(desk, [first, second], place))
    assert counts(run) == {"done": 2}
    assert states([first, second, neighbour]) == ["cancelled", "cancelled", "running"]
    assert not Attempt.objects.exists()
    assert [line.operation_id for line in waiting.page_of(place, desk.team.pk)] == [neighbour.id]
    assert place_of(desk).reasons == (HoldReason.PAUSED,)  # ending some is no answer to why it is stopped
    go_on(desk)
    assert [one.operation_id for one in claim_sends(10, worker="test:1")] == [neighbour.id]


def test_each_has_its_line_with_author_reason_version_and_run(desk: Desk) -> None:
    some = opened(desk, 2)
    run = ended(desk, chosen(desk, some, stop(desk)))
    assert journal_of(run) == [
        ("team", "bulk_begun"),
        ("operation", "cancel_requested"),
        ("operation", "cancel_requested"),
    ]
    for one in some:
        line = Entry.objects.get(subject_id=one.id, kind="cancel_requested")
        body = json.loads(line.body)
        assert (line.actor, body["operation_version"], body["step"]) == (by_owner(desk).actor, 1, 1)
        assert REASON not in line.body
        with connection.cursor() as cursor:
            cursor.execute("SELECT text FROM journal_text WHERE id = %s", [body["reason"]["text"]])
            assert cursor.fetchone()[0] == REASON


def test_all_that_wait_are_the_first_by_their_turn_and_nothing_joins_them(desk: Desk) -> None:
    some = opened(desk, 3)
    place = stop(desk)
    made = freeze_first(place, desk.team.pk, by_owner(desk).person_id, words="all", most=2)
    late = opened(desk, 1)[0]
    assert [line.operation_id for line in lines_of(made.pk)] == [one.id for one in some[:2]]
    assert counts(ended(desk, made)) == {"done": 2}
    assert states([some[2], late]) == ["running", "running"]


def test_what_moved_since_it_was_chosen_is_skipped(desk: Desk) -> None:
    sent, stays = opened(desk, 2)
    place = stop(desk)
    made = chosen(desk, [sent, stays], place)
    go_on(desk)
    Step.objects.filter(operation_id=stays.id).update(act_at=timezone.now() + timedelta(days=1))
    assert [one.operation_id for one in claim_sends(1, worker="test:1")] == [sent.id]
    groups = groups_of(made.pk)
    assert sum(group.moved for group in groups) == 1
    assert [one.count for one in remaining(groups)] == [1]
    run = ended(desk, made)
    assert counts(run) == {"done": 1, "skipped": 1}
    assert [(line.operation_id, line.why) for line in items_of(run.pk, result="skipped")] == [
        (sent.id, "It changed after it was selected.")
    ]
    assert states([sent, stays]) == ["running", "cancelled"]
    assert not Operation.objects.get(pk=sent.id).cancelled


def test_what_does_not_wait_is_never_ended_though_its_version_is_right(desk: Desk) -> None:
    one = opened(desk, 1)[0]
    claim_sends(1, worker="test:1")
    place, step = stop(desk), Step.objects.get(operation_id=one.id)
    version = Operation.objects.get(pk=one.id).version
    made = freeze_steps(place, desk.team.pk, by_owner(desk).person_id, {step.pk: version}, words="forged")
    run = ended(desk, made)
    assert counts(run) == {"refused": 1}
    assert items_of(run.pk)[0].why == "Its step 1 does not wait any more: it is in flight."
    assert not Operation.objects.get(pk=one.id).cancelled
    assert not Entry.objects.filter(subject_id=one.id, kind="cancel_requested").exists()


@pytest.mark.parametrize("claims_first", [True, False], ids=["sent", "ended"])
def test_a_send_and_an_ending_that_meet_are_one_or_the_other(desk: Desk, claims_first: bool) -> None:
    """Whoever has the operation first decides; the other one finds it changed, or finds nothing to send."""
    one = opened(desk, 1)[0]
    made = chosen(desk, [one], stop(desk))
    run = begun(made, Verb.CANCEL, by_owner(desk), reason=REASON)
    go_on(desk)
    barrier, claimed = threading.Barrier(2), []

    def sends() -> None:
        barrier.wait()
        claimed.extend(claim_sends(1, worker="test:1"))
        connection.close()

    other = threading.Thread(target=sends)
    other.start()
    if claims_first:
        barrier.wait()
        other.join()
        engine.carry(run.pk, Verb.CANCEL, 10.0)
    else:
        barrier.wait()
        engine.carry(run.pk, Verb.CANCEL, 10.0)
        other.join()
    run.refresh_from_db()
    cancelled = Operation.objects.get(pk=one.id).cancelled
    assert cancelled is not bool(claimed)
    assert counts(run) == ({"skipped": 1} if claimed else {"done": 1})
    assert not claims_first or claimed


def test_a_second_carrier_of_a_run_ends_nothing_twice(desk: Desk) -> None:
    some = opened(desk, 3)
    run = begun(chosen(desk, some, stop(desk)), Verb.CANCEL, by_owner(desk), reason=REASON)
    assert record_batch(run.pk, engine.DEEDS[Verb.CANCEL].do, 1) == 1  # and then it was killed
    engine.run_once()
    engine.run_once()
    assert Entry.objects.filter(kind="cancel_requested").count() == 3
    assert set(BulkItem.objects.filter(run=run).values_list("result", flat=True)) == {"done"}


def test_a_destination_that_goes_on_lets_nothing_be_chosen(desk: Desk) -> None:
    some = opened(desk, 1)
    place = stop(desk)
    go_on(desk)
    with pytest.raises(Refused, match="crm_classic goes on, so what waited leaves by itself"):
        chosen(desk, some, place)
    with pytest.raises(Refused, match="goes on"):
        freeze_first(place, desk.team.pk, by_owner(desk).person_id, words="all")
    assert not Selection.objects.exists()


def test_nothing_chosen_is_never_read_as_all(desk: Desk) -> None:
    opened(desk, 1)
    place = stop(desk)
    with pytest.raises(Refused, match="never means “all”"):
        freeze_steps(place, desk.team.pk, by_owner(desk).person_id, {}, words="none")


# What the tables refuse


def test_an_item_is_about_a_hold_or_a_step_never_both_or_none(desk: Desk) -> None:
    some = opened(desk, 1)
    place = stop(desk)
    made, hold = chosen(desk, some, place), Hold.objects.get(destination_id=place.id)
    run = begun(made, Verb.CANCEL, by_owner(desk), reason=REASON)
    step = Step.objects.get(operation_id=some[0].id)
    for more in ({}, {"hold": hold, "step": step}):
        with pytest.raises(IntegrityError, match="is_a_hold_or_a_step"), transaction.atomic():
            SelectionItem.objects.create(selection=made, position=9, version=1, **more)
        with pytest.raises(IntegrityError, match="is_a_hold_or_a_step"), transaction.atomic():
            BulkItem.objects.create(run=run, position=9, version=1, **more)
    with pytest.raises(IntegrityError, match="selection_has_a_step_once"), transaction.atomic():
        SelectionItem.objects.create(selection=made, position=9, version=1, step=step)


@pytest.mark.parametrize("model", [SelectionItem, BulkItem])
def test_which_step_was_chosen_never_changes(desk: Desk, model: type[SelectionItem] | type[BulkItem]) -> None:
    some = opened(desk, 2)
    made = chosen(desk, some[:1], stop(desk))
    begun(made, Verb.CANCEL, by_owner(desk), reason=REASON)
    other = Step.objects.get(operation_id=some[1].id)
    with pytest.raises(DatabaseError), transaction.atomic():
        model.objects.update(step=other)

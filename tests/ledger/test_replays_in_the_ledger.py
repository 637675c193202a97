"""Table 7 in the database: what is planned is what is started, once, and every item is accounted for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from opsledger.engine import replays
from opsledger.engine.loading import read_files
from opsledger.journal.models import Entry
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.definitions import load
from opsledger.ledger.actions.destinations import settle_pause
from opsledger.ledger.actions.interventions import settle_cancel, settle_check
from opsledger.ledger.actions.replays import (
    PlanMoved,
    ReplayMoved,
    open_replay,
    settle_abort_replay,
    settle_pause_replay,
    settle_resume_replay,
)
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import (
    Attempt,
    Definition,
    Destination,
    Hold,
    Replay,
    ReplayDestination,
)
from opsledger.ledger.queries import replay_plans
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.replay_plans import EmptyScope, ScopeTooLarge, UnknownOperations
from opsledger.ledger.replay_plan import UnreadablePlan, freeze, thaw
from opsledger.lib.ids import new_id
from opsledger.local.postgres import Urls
from opsledger.rules.answers import Answer
from opsledger.rules.definitions import DestinationDefinition
from opsledger.rules.replays import Reason, VerdictKind
from tests.desk import DEFINITIONS, Desk, step_identity, turn_recovery
from tests.replaying import (
    by_owner,
    carry,
    done,
    effects,
    frozen,
    items,
    opened_by,
    planned,
    rejected,
    start_of,
    started,
    unknown,
    writes,
)

OTHER = By("person:00000000-0000-0000-0000-000000000002", "Other owner")


# Plans


def counts_of_all_tables() -> dict[str, int]:
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        found = {}
        for table in tables:
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            found[table] = cursor.fetchone()[0]
        return found


def test_planning_writes_nothing_at_all(desk: Desk) -> None:
    operations = [done(desk), rejected(desk), unknown(desk)]
    before = counts_of_all_tables()

    with transaction.atomic(), connection.cursor() as cursor:
        freeze(planned(desk, operations), 1)
        cursor.execute("SELECT pg_current_xact_id_if_assigned()")
        transaction_id = cursor.fetchone()[0]

    assert transaction_id is None, "a transaction that writes, or locks a row, has a number"
    assert counts_of_all_tables() == before


def test_a_plan_puts_each_step_into_one_list(desk: Desk) -> None:
    follow = rejected(desk, "campaign_follow_up")
    kept, asked = done(desk), unknown(desk)

    plan = planned(desk, [follow, kept, asked])

    assert [(item.operation_id, item.number) for item in plan.running] == [
        (follow.id, 1), (follow.id, 2), (asked.id, 1),
    ]  # fmt: skip
    assert [(item.operation_id, item.verdict.reference) for item in plan.kept] == [
        (kept.id, desk.step(kept).reference)
    ]
    assert plan.refused == []
    assert {one.slug: one.step_count for one in plan.destinations} == {"crm": 1, "crm_classic": 1, "mail": 1}


def test_an_empty_scope_is_refused_and_never_read_as_all(desk: Desk) -> None:
    done(desk)

    with pytest.raises(EmptyScope):
        planned(desk, [])
    asked, _ = OperationFilter.read({"workflow": ["nothing_of_this_name"]})
    with pytest.raises(EmptyScope):
        replay_plans.scope_of_filter(desk.team.pk, asked, "nothing")


def test_another_teams_operation_does_not_exist(desk: Desk) -> None:
    opened = done(desk)

    with pytest.raises(UnknownOperations):
        replay_plans.scope_of_ids(new_id(), [opened.id])


def test_more_than_one_replay_takes_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = [done(desk) for _ in range(3)]
    monkeypatch.setattr(replay_plans, "OPERATIONS_MAX", 2)

    with pytest.raises(ScopeTooLarge):
        planned(desk, operations)


def test_a_filter_is_frozen_at_the_moment_of_planning(desk: Desk) -> None:
    first = rejected(desk)
    asked, problems = OperationFilter.read({"state": ["held"]})
    assert problems == []
    scope = replay_plans.scope_of_filter(desk.team.pk, asked, "held operations")
    later = rejected(desk)

    plan = replay_plans.plan(desk.team.pk, scope, database_now())

    assert {item.operation_id for item in plan.items} == {first.id}
    assert later.id not in scope.operation_ids


def test_a_frozen_plan_comes_back_as_it_was(desk: Desk) -> None:
    plan = planned(desk, [rejected(desk, "campaign_follow_up"), done(desk)])

    back = frozen(desk, plan)

    assert (back.id, back.digest, back.scope) == (plan.id, plan.digest(), plan.scope)
    assert {key: mark for key, (_, mark) in back.items.items()} == {
        item.key: item.mark for item in plan.items
    }
    assert [back.items[item.key][0].sentence for item in plan.items] == [
        item.verdict.sentence for item in plan.items
    ]


@pytest.mark.parametrize("spoil", ["team", "person", "text", "cut"])
def test_a_plan_belongs_to_its_person_and_team(desk: Desk, spoil: str) -> None:
    text = freeze(planned(desk, [done(desk)]), 7)
    team = new_id() if spoil == "team" else desk.team.pk
    changed = {"text": "A" + text[1:], "cut": text[: len(text) // 2]}.get(spoil, text)

    with pytest.raises(UnreadablePlan):
        thaw(changed, team, 8 if spoil == "person" else 7)


# Starts


def test_a_replay_does_what_was_planned_and_nothing_else(desk: Desk) -> None:
    kept = done(desk)
    refused_there = rejected(desk, "campaign_follow_up")
    asked = unknown(desk)
    neighbour = rejected(desk)
    before = writes(desk)

    replay = carry(desk, started(desk, [kept, refused_there, asked]))

    assert replay.state == "finished"
    assert items(replay) == {
        (kept.id, 1): ("kept", "", ""),
        (refused_there.id, 1): ("ended", "recovered", ""),
        (refused_there.id, 2): ("ended", "accepted", ""),
        (asked.id, 1): ("ended", "recovered", ""),
    }
    assert [effects(desk, one) for one in (kept, refused_there, asked, neighbour)] == [1, 1, 1, 0]
    assert writes(desk) - before == 2, "one task, one message; the unknown one was found by asking"
    assert desk.step(neighbour).state == "ready"
    call_command("verify_ledger", stdout=StringIO())


def test_the_same_start_twice_is_one_replay(desk: Desk) -> None:
    opened = rejected(desk)
    plan = planned(desk, [opened])

    first, second = opened_by(desk, plan), opened_by(desk, plan)

    assert (first.created, second.created) == (True, False)
    assert first.replay.pk == second.replay.pk
    carry(desk, first.replay)
    third = opened_by(desk, plan)
    assert not third.created
    assert effects(desk, opened) == 1


def test_a_double_click_has_one_effect(desk: Desk) -> None:
    opened = rejected(desk)
    plan = planned(desk, [opened])
    by, together, told = by_owner(desk), frozen(desk, plan), []
    barrier = threading.Barrier(2)

    def click() -> None:
        barrier.wait()
        told.append(open_replay(together, start_of(plan), by))
        connection.close()

    threads = [threading.Thread(target=click) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(one.created for one in told) == [False, True]
    assert Replay.objects.count() == 1
    assert Entry.objects.filter(subject_kind="replay").count() == 1


def test_two_owners_start_over_one_step_and_one_is_told_who_has_it(desk: Desk) -> None:
    shared, alone = rejected(desk), rejected(desk)
    plans = [planned(desk, [shared, alone]), planned(desk, [shared])]
    by, barrier = by_owner(desk), threading.Barrier(2)
    begun: list[Replay] = []
    moved: list[PlanMoved] = []

    def start(number: int) -> None:
        together = frozen(desk, plans[number])
        barrier.wait()
        try:
            begun.append(open_replay(together, start_of(plans[number]), by).replay)
        except PlanMoved as why:
            moved.append(why)
        connection.close()

    threads = [threading.Thread(target=start, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(begun) == len(moved) == 1
    difference = moved[0].moved[0]
    assert difference.item.verdict.reason is Reason.OTHER_REPLAY
    assert begun[0].pk == Replay.objects.get().pk
    carry(desk, begun[0])
    assert effects(desk, shared) == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"reason": ""}, "reason"),
        ({"reason": "r" * 4001}, "reason"),
        ({"plan_digest": "0" * 64}, "plan_digest"),
        ({"touches": frozenset()}, "touches.crm_classic"),
        ({"per_second": {"crm_classic": 0.0}}, "per_second.crm_classic"),
        ({"per_second": {"crm_classic": float("nan")}}, "per_second.crm_classic"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_start_needs_what_it_says(desk: Desk, changes: dict[str, object], field: str) -> None:
    plan = planned(desk, [rejected(desk)])

    with pytest.raises(Refused) as why:
        opened_by(desk, plan, **changes)

    assert why.value.field == field
    assert not Replay.objects.exists()


def test_a_plan_in_which_nothing_runs_can_not_be_started(desk: Desk) -> None:
    with pytest.raises(Refused, match="Nothing in this plan can run"):
        started(desk, [done(desk)])


def test_an_old_plan_is_refused_and_the_differences_are_shown(desk: Desk) -> None:
    stays, moves = rejected(desk), rejected(desk)
    plan = planned(desk, [stays, moves])
    settle_cancel(moves.id, "no longer wanted", OTHER, version=desk.operation(moves).version)

    with pytest.raises(PlanMoved) as why:
        opened_by(desk, plan)

    (difference,) = why.value.moved
    assert difference.item.operation_id == moves.id
    assert (difference.was.reason, difference.item.verdict.reason) == (
        Reason.REJECTED,
        Reason.OPERATION_CANCELLED,
    )
    assert why.value.plan.digest() != plan.digest()
    assert not Replay.objects.exists()
    assert effects(desk, stays) == 0


def test_a_lookup_that_found_nothing_does_not_spoil_a_plan(desk: Desk) -> None:
    opened = unknown(desk, acted=False)
    plan = planned(desk, [opened])
    settle_check(opened.id, 1, None, OTHER)
    assert desk.operation(opened).version > plan.items[0].operation_version

    assert opened_by(desk, plan).created


def test_what_a_person_closes_as_never_known_meanwhile_is_counted_apart_from_held(desk: Desk) -> None:
    closed, held = unknown(desk, acted=False), unknown(desk, acted=False)
    replay = started(desk, [closed, held])
    replays.run_once()
    hold = Hold.objects.get(operation_id=closed.id)
    decision = Decision(Answer.CLOSE_UNKNOWN, "They keep no list so far back.", hold.version)
    settle_hold(hold.pk, decision, by_owner(desk))

    carry(desk, replay, rounds=20)

    assert items(replay)[closed.id, 1] == ("ended", "closed_unknown", "never_known")
    assert items(replay)[held.id, 1] == ("ended", "held", "outcome_unknown")
    assert (replay.closed_unknown_count, replay.held_count) == (1, 1)
    assert replay.state == "finished"
    call_command("verify_ledger")


def test_what_was_rejected_runs_only_if_its_cause_was_mended(desk: Desk) -> None:
    opened, other = rejected(desk, "campaign_follow_up"), unknown(desk)

    replay = carry(desk, started(desk, [opened, other], mended=False))

    assert items(replay) == {
        (opened.id, 1): ("refused", "", ""),
        (opened.id, 2): ("refused", "", ""),
        (other.id, 1): ("ended", "recovered", ""),
    }
    assert effects(desk, opened) == 0


# Turns


def test_an_unknown_step_goes_again_under_its_protection_and_acts_once(desk: Desk) -> None:
    opened = unknown(desk, "campaign_follow_up")
    hold = Hold.objects.get(operation_id=opened.id)
    turn_recovery("send_message", on=True)
    plan = planned(desk, [opened])
    assert plan.items[0].verdict.kind is VerdictKind.SEND_PROTECTED

    replay = carry(desk, opened_by(desk, plan).replay)

    assert items(replay)[opened.id, 1] == ("ended", "recovered", "")
    assert effects(desk, opened) == 1
    sent = Attempt.objects.filter(operation_id=opened.id, step__number=1)
    assert [one.outcome for one in sent.order_by("number")] == ["confirmed", "confirmed"]
    hold.refresh_from_db()
    assert hold.closed_by == by_owner(desk).actor


@pytest.mark.parametrize("acted", [True, False], ids=["there", "not there"])
def test_a_lookup_that_can_only_find_leaves_what_it_does_not_find_held_as_it_was(
    desk: Desk, acted: bool
) -> None:
    opened = unknown(desk, acted=acted)
    hold = Hold.objects.get(operation_id=opened.id)

    replay = carry(desk, started(desk, [opened]), rounds=20)

    hold.refresh_from_db()
    if acted:
        assert items(replay)[opened.id, 1] == ("ended", "recovered", "")
        assert hold.closed_by == "evidence"
    else:
        assert items(replay)[opened.id, 1] == ("ended", "held", "outcome_unknown")
        assert hold.closed_at is None
        assert effects(desk, opened) == 0
    assert Attempt.objects.filter(operation_id=opened.id).count() == 1


def test_an_item_that_moved_is_skipped_and_says_so(desk: Desk) -> None:
    moves, stays = rejected(desk), rejected(desk)
    replay = started(desk, [moves, stays])
    hold = Hold.objects.get(operation_id=moves.id)
    settle_hold(hold.pk, Decision(Answer.END_FAILED, "not wanted", hold.version), OTHER)

    carry(desk, replay)

    assert items(replay) == {
        (moves.id, 1): ("skipped", "", "moved:ended_by_person"),
        (stays.id, 1): ("ended", "recovered", ""),
    }
    assert effects(desk, moves) == 0
    assert not Entry.objects.filter(subject_id=moves.id, kind="replayed").exists()


def test_an_operation_that_can_not_be_read_is_skipped_and_stops_no_other(desk: Desk) -> None:
    broken, fine = rejected(desk), rejected(desk)
    replay = started(desk, [broken, fine])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_step SET not_ours = '5' WHERE operation_id = %s", [broken.id])

    carry(desk, replay)

    assert items(replay) == {
        (broken.id, 1): ("skipped", "", "moved:could_not_be_begun"),
        (fine.id, 1): ("ended", "recovered", ""),
    }
    assert replay.state == "finished"


def test_a_step_that_stays_behind_ends_behind(desk: Desk) -> None:
    opened = rejected(desk, "campaign_follow_up")
    replay = started(desk, [opened])
    desk.sandbox.script("invalid", 1, method="POST", identity=step_identity(opened.id, 1))

    carry(desk, replay)

    assert items(replay) == {
        (opened.id, 1): ("ended", "held", "rejected_by_destination"),
        (opened.id, 2): ("ended", "behind", ""),
    }


def test_resuming_three_times_repeats_nothing(desk: Desk) -> None:
    """P1: what is done is not done again, however often somebody continues."""
    opened = rejected(desk, "campaign_follow_up")
    for _ in range(3):
        try:
            carry(desk, started(desk, [opened]))
        except Refused:
            continue

    assert (effects(desk, opened, 1), effects(desk, opened, 2)) == (1, 1)


def test_one_cap_counts_whoever_asks(desk: Desk) -> None:
    """P5: each start grants one try, and no more, beside the engine's own."""
    opened = desk.open("classic_follow_up")
    desk.sandbox.script("rate_limited", 50, method="POST", identity=step_identity(opened.id, 1))
    for _ in range(8):
        desk.hurry()
        desk.send()
    assert desk.step(opened).attempt_count == 3, "the profile's tries"

    for granted in (1, 2):
        replay = carry(desk, started(desk, [opened]))
        assert items(replay)[opened.id, 1] == ("ended", "held", "attempts_exhausted")
        assert desk.step(opened).attempt_count == 3 + granted


def test_a_replay_passes_no_stop(desk: Desk) -> None:
    opened = rejected(desk)
    replay = started(desk, [opened])
    destination = Destination.objects.get(slug="crm_classic", team=desk.team)
    settle_pause(destination.pk, destination.version, "maintenance", OTHER)

    carry(desk, replay, rounds=3)

    assert (replay.state, replay.started_count) == ("running", 1)
    assert effects(desk, opened) == 0


def test_a_replay_starts_no_more_than_its_rate(desk: Desk) -> None:
    operations = [rejected(desk) for _ in range(4)]
    replay = started(desk, operations, per_second={"crm_classic": 0.1})

    first = replays.run_once().started
    replays.run_once()

    replay.refresh_from_db()
    assert first == 1
    assert (replay.started_count, replay.waiting_count) == (1, 3)
    ReplayDestination.objects.update(tokens_at=database_now().replace(year=2020))
    assert replays.run_once().started == 1, "the bucket holds one second's worth, and at least one"


def test_a_start_says_who_and_why_in_each_operation(desk: Desk) -> None:
    opened = rejected(desk)
    replay = carry(desk, started(desk, [opened]))

    line = Entry.objects.get(subject_id=opened.id, kind="replayed")
    lines = Entry.objects.filter(subject_id=replay.pk).order_by("seq")

    assert line.actor == by_owner(desk).actor
    assert str(replay.pk) in line.body
    assert '"reason":{' in line.body
    assert [one.kind for one in lines] == ["replay_started", "replay_finished"]


# A newer definition


def test_a_newer_definition_is_taken_by_choice_and_only_where_nothing_is_frozen(
    desk: Desk,
) -> None:
    """P6: what it was recorded with is what runs, unless a person chose otherwise; the journal says which."""
    recorded, chosen = rejected(desk, "campaign_follow_up"), rejected(desk, "campaign_follow_up")
    both = [
        replace(one, name=f"{one.name} (moved)")
        for one in read_files([DEFINITIONS])
        if isinstance(one, DestinationDefinition)
    ]
    load(desk.team.pk, both, actor="command:test")
    newest = Definition.objects.get(slug="mail", team=desk.team).current_id

    plain = planned(desk, [recorded])
    offered = next(one for one in plain.destinations if one.slug == "mail")
    frozen_there = next(one for one in plain.destinations if one.slug == "crm")
    assert (offered.open_older_count, offered.takes_newest, offered.version_number) == (1, False, 2)
    assert (frozen_there.frozen_older_count, frozen_there.open_older_count) == (1, 0)
    assert (offered.runs_with, frozen_there.runs_with) == ((1,), (1,))
    assert [(one.version_numbers, one.newest_number) for one in plain.workflows] == [((1,), 1)]
    choice = planned(desk, [chosen], newest=frozenset({"mail"}))
    assert {one.slug: one.runs_with for one in choice.destinations} == {"crm": (1,), "mail": (2,)}
    assert choice.digest() != planned(desk, [chosen]).digest()

    carry(desk, opened_by(desk, plain).replay)
    carry(desk, opened_by(desk, choice).replay)

    assert desk.step(recorded, 2).destination_version_id != newest
    assert desk.step(chosen, 2).destination_version_id == newest
    assert '"rebound":{"2":2}' in Entry.objects.get(subject_id=chosen.id, kind="replayed").body
    assert (effects(desk, recorded, 2), effects(desk, chosen, 2)) == (1, 1)


# Pause, resume, abort


def test_a_paused_replay_starts_nothing_until_it_is_resumed(desk: Desk) -> None:
    opened = rejected(desk)
    replay = started(desk, [opened])
    replay = settle_pause_replay(replay.pk, replay.version, "wait for the provider", OTHER)

    carry(desk, replay, rounds=2)
    assert (replay.state, effects(desk, opened)) == ("paused", 0)
    replay = settle_resume_replay(replay.pk, replay.version, "they answered", OTHER)

    assert carry(desk, replay).state == "finished"
    assert effects(desk, opened) == 1


def test_an_abort_ends_what_waits_and_counts_what_was_started(desk: Desk) -> None:
    operations = [rejected(desk) for _ in range(3)]
    replay = started(desk, operations, per_second={"crm_classic": 0.1})
    replays.run_once()
    replay = settle_abort_replay(replay.pk, replay.version, "wrong batch", OTHER)

    carry(desk, replay)

    assert (replay.state, replay.aborted_count, replay.recovered_count) == ("aborted", 2, 1)
    assert sum(effects(desk, one) for one in operations) == 1
    kinds = Entry.objects.filter(subject_id=replay.pk).order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == ["replay_started", "replay_aborting", "replay_aborted"]
    assert carry(desk, started(desk, operations[1:])).recovered_count == 2, "a later replay takes them"


def test_two_owners_decide_at_once_and_the_second_sees_who(desk: Desk) -> None:
    replay = started(desk, [rejected(desk)])
    settle_pause_replay(replay.pk, replay.version, "first", OTHER)

    with pytest.raises(ReplayMoved) as why:
        settle_abort_replay(replay.pk, replay.version, "second", by_owner(desk))

    assert (why.value.replay.state, why.value.replay.changed_by) == ("paused", "Other owner")


@pytest.mark.parametrize("decide", [settle_pause_replay, settle_resume_replay, settle_abort_replay])
def test_a_replay_that_has_ended_is_not_decided_about(desk: Desk, decide: Callable[..., Replay]) -> None:
    replay = carry(desk, started(desk, [rejected(desk)]))

    with pytest.raises(ReplayMoved):
        decide(replay.pk, replay.version, "too late", OTHER)


THE_SAME_STEP_AGAIN = """
INSERT INTO ledger_replayitem (replay_id, position, operation_id, operation_version, step_id, number, destination_id,
                               verdict, reason, detail, mark, leads, state, result, said)
SELECT replay_id, 99, operation_id, operation_version, step_id, number, destination_id, verdict, reason, detail, mark, leads,
       'waiting', '', ''
  FROM ledger_replayitem
"""


def run(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


# What the tables refuse, and what verify_ledger finds


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE ledger_replay SET recovered_count = recovered_count + 1", "counts_every_item_once"),
        ("UPDATE ledger_replay SET state = 'finished', ended_at = now()", "ends_only_when_every_item_has"),
        ("UPDATE ledger_replay SET state = 'paused'", "without a line in the journal"),
        ("UPDATE ledger_replayitem SET verdict = 'send'", "refused"),
        ("UPDATE ledger_replayitem SET state = 'ended'", "replay_item"),
        ("DELETE FROM ledger_replayitem", "refused"),
        (
            THE_SAME_STEP_AGAIN,
            "step_is_in_one_open_replay",
        ),
    ],
)
def test_the_tables_refuse(desk: Desk, statement: str, why: str) -> None:
    started(desk, [rejected(desk)])

    with pytest.raises(DatabaseError, match=why):
        run(statement)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE ledger_replay SET state = 'paused'", "its row says paused, its journal tells running"),
        ("UPDATE ledger_replay SET plan_digest = ''", "another plan"),
        (
            "UPDATE ledger_replay SET waiting_count = 0, started_count = 1",
            "its row counts 0 waiting, its items 1",
        ),
        ("DELETE FROM journal_chain WHERE subject_kind = 'replay'", "its chain's head is missing"),
    ],
)
def test_verify_ledger_finds_a_replay_that_was_tampered_with(
    desk: Desk, database_urls: Urls, statement: str, why: str
) -> None:
    started(desk, [rejected(desk)])
    call_command("verify_ledger", stdout=StringIO())
    with psycopg.connect(database_urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute(statement)

    told = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", stdout=StringIO(), stderr=told)

    assert why in told.getvalue()

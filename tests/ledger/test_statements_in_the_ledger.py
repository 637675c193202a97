"""Provider's statements: what they cover is sent again by a replay, and nothing else; what is heard later still counts."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from opsledger.engine import replays
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.change import NewEvidence
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.ledger.actions.replays import PlanMoved, open_replay
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.actions.statements import Said, keep_statement
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import (
    Attempt,
    Destination,
    Evidence,
    Hold,
    ProviderStatement,
    Replay,
    StatementCover,
)
from opsledger.ledger.queries.replay_plans import plan
from opsledger.ledger.queries.statements import (
    StatementLine,
    covers_of,
    scope_of_statement,
    statement_of,
)
from opsledger.ledger.replay_plan import Plan, StatementRef, digest_of, freeze, thaw
from opsledger.lib.ids import new_id
from opsledger.local.postgres import Urls
from opsledger.rules.answers import Answer
from opsledger.rules.learning import Finding
from opsledger.rules.list_matching import Cover
from opsledger.rules.record import KnownBy
from opsledger.rules.replays import Reason, VerdictKind
from opsledger.rules.states import Outcome
from tests.bulk import selected
from tests.by_hand import change_by_hand
from tests.desk import Desk, step_identity
from tests.replaying import (
    by_owner,
    carry,
    effects,
    frozen,
    items,
    opened_by,
    planned,
    rejected,
    start_of,
    unknown,
)

SAID = Said("Asked by mail; Ines of their second line answered.", words="None of these reached us.")


def lost(desk: Desk, count: int = 1) -> list[Opened]:
    """Operations whose request never arrived; nobody here knows."""
    found = []
    for _ in range(count):
        Destination.objects.update(send_tokens=5.0)  # no waiting for the destination's rate
        found.append(unknown(desk, acted=False))
    return found


def hold_of(opened: Opened) -> Hold:
    return Hold.objects.get(operation_id=opened.id, closed_at__isnull=True)


def stated(desk: Desk, opened: list[Opened], said: Said = SAID) -> StatementLine:
    by = by_owner(desk)
    row = keep_statement(selected([hold_of(one) for one in opened], by), said, by)
    line = statement_of(row.pk, [desk.team.pk])
    assert line is not None
    return line


def plan_by(desk: Desk, line: StatementLine) -> Plan:
    return plan(desk.team.pk, scope_of_statement(line), database_now(), statement=line.ref)


def verdicts(made: Plan) -> list[tuple[VerdictKind, Reason]]:
    return [(item.verdict.kind, item.verdict.reason) for item in made.items]


def test_what_the_statement_covers_is_sent_again_once_and_recovers(desk: Desk) -> None:
    opened = lost(desk, 2)
    line = stated(desk, opened)
    made = plan_by(desk, line)
    assert verdicts(made) == [(VerdictKind.SEND, Reason.STATED_ABSENT)] * 2

    replay = carry(desk, opened_by(desk, made).replay)

    assert replay.recovered_count == 2
    assert [effects(desk, one) for one in opened] == [1, 1]
    assert replay.statement_id == line.id
    for one in opened:
        hold = Hold.objects.get(operation_id=one.id)
        assert hold.closed_by == by_owner(desk).actor
        said = Evidence.objects.get(operation_id=one.id, says="absent_send_again")
        assert bytes(said.digest).hex() == line.digest
        assert json.loads(said.facts)["statement"] == line.ref.name
    call_command("verify_ledger", verbosity=0)


def test_the_journal_names_the_statement_and_how_it_was_asked_and_nothing_that_it_says(desk: Desk) -> None:
    opened = lost(desk)
    line = stated(desk, opened)
    carry(desk, opened_by(desk, plan_by(desk, line)).replay)

    (keeping,) = Entry.objects.filter(kind="statement_kept")
    (starting,) = Entry.objects.filter(kind="replay_started")
    (replayed,) = Entry.objects.filter(kind="replayed")
    assert json.loads(keeping.body)["digest"] == line.digest
    for entry in (starting, replayed):
        body = json.loads(entry.body)
        assert (body["statement"], body["statement_digest"]) == (str(line.id), line.digest)
    assert json.loads(replayed.body)["checked_how"] == json.loads(keeping.body)["how"]
    for entry in Entry.objects.all():
        assert "Ines" not in entry.body
        assert "reached us" not in entry.body


def test_without_the_statement_the_same_steps_are_refused(desk: Desk) -> None:
    opened = lost(desk)
    line = stated(desk, opened)

    without = planned(desk, opened)

    assert Reason.STATED_ABSENT not in {item.verdict.reason for item in without.items}
    assert without.digest() != plan_by(desk, line).digest()


def test_a_list_says_which_holds_are_covered_and_the_others_are_not(desk: Desk) -> None:
    first, second, third = lost(desk, 3)
    listed = f"{step_identity(first.id, 1)}\n{step_identity(third.id, 1).upper()}\n".encode()

    line = stated(desk, [first, second, third], replace(SAID, listed=listed))

    covers = {one.target.operation_id: one.cover for one in covers_of(line)}
    assert covers == {first.id: Cover.COVERED, second.id: Cover.NOT_NAMED, third.id: Cover.NOT_NAMED}
    assert {item.operation_id for item in plan_by(desk, line).items} == {first.id}


def test_a_hold_that_changed_since_it_was_chosen_is_not_covered(desk: Desk) -> None:
    by, (first, second) = by_owner(desk), lost(desk, 2)
    selection = selected([hold_of(first), hold_of(second)], by)
    settle_assign([hold_of(second).pk], by.person_id, by)

    row = keep_statement(selection, SAID, by)

    assert [one.operation_id for one in StatementCover.objects.filter(statement=row)] == [first.id]


def test_a_question_that_was_answered_and_asked_again_is_another_one(desk: Desk) -> None:
    """Law 4: the statement was made on the first attempt; of the second it says nothing."""
    (opened,) = lost(desk)
    line = stated(desk, [opened])
    hold = hold_of(opened)
    desk.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=step_identity(opened.id, 1))
    again = Decision(Answer.ABSENT_SEND_AGAIN, "They say so.", hold.version, checked_how="By telephone.")
    settle_hold(hold.pk, again, by_owner(desk))
    desk.hurry()
    desk.send()
    assert desk.step(opened).state == "unknown"

    made = plan_by(desk, line)

    assert Reason.STATED_ABSENT not in {item.verdict.reason for item in made.items}


def test_a_reply_that_comes_before_the_start_wins(desk: Desk) -> None:
    (opened,) = lost(desk)
    made = plan_by(desk, stated(desk, [opened]))
    settle(desk, opened, Answer.HAPPENED, reference="T-1")

    with pytest.raises(PlanMoved) as moved:
        opened_by(desk, made)

    assert [one.item.verdict.kind for one in moved.value.moved] == [VerdictKind.KEEP]
    assert effects(desk, opened) == 0


def test_a_reply_that_comes_before_its_turn_wins_and_the_item_is_skipped(desk: Desk) -> None:
    opened, neighbour = lost(desk, 2)
    replay = opened_by(desk, plan_by(desk, stated(desk, [opened, neighbour]))).replay
    settle(desk, opened, Answer.HAPPENED, reference="T-1")

    carry(desk, replay)

    told = items(replay)
    assert told[(opened.id, 1)] == ("skipped", "", "moved:confirmed")
    assert told[(neighbour.id, 1)][:2] == ("ended", "recovered")
    assert effects(desk, opened) == 0


def test_what_is_found_later_against_the_statement_is_disputed(desk: Desk) -> None:
    """Law 9: the provider was wrong; the first request had arrived after all."""
    opened = unknown(desk, acted=True)
    replay = opened_by(desk, plan_by(desk, stated(desk, [opened]))).replay
    replays.run_once()
    replay.refresh_from_db()
    assert desk.step(opened).state == "ready"

    (effect,) = desk.sandbox.effects(identity=step_identity(opened.id, 1))
    attempt = Attempt.objects.get(operation_id=opened.id)
    finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=str(effect["reference"]))
    late = late_reply(attempt)
    record_sends([Sent(opened.id, 1, attempt.pk, finding, late, f"destination:{late.origin}")])

    assert hold_of(opened).reason == "disputed"
    desk.hurry()
    desk.send()
    assert effects(desk, opened) == 1


def late_reply(attempt: Attempt) -> NewEvidence:
    return NewEvidence(
        new_id(), 1, attempt.pk, "reply", "crm_classic", "confirmed", "It came late.", b"\0" * 32
    )


def settle(desk: Desk, opened: Opened, answer: Answer, **more: Any) -> None:
    hold = hold_of(opened)
    settle_hold(hold.pk, Decision(answer, "I looked.", hold.version, **more), by_owner(desk))


# Bound


def test_a_plan_is_bound_to_the_very_statement(desk: Desk) -> None:
    opened = lost(desk)
    made = plan_by(desk, stated(desk, opened))
    other = stated(desk, opened, replace(SAID, words="Nothing at all."))
    back = frozen(desk, made)
    assert back.statement == made.statement

    exchanged = replace(made, statement=other.ref)
    assert digest_of(made.items, other.ref) != made.digest()
    person_id = by_owner(desk).person_id
    forged = thaw(freeze(exchanged, person_id), desk.team.pk, person_id)
    with pytest.raises(PlanMoved):
        open_replay(forged, start_of(exchanged), by_owner(desk))
    assert Replay.objects.count() == 0


def test_a_statement_with_another_digest_covers_nothing(desk: Desk) -> None:
    line = stated(desk, lost(desk))
    forged = replace(line, digest="00" * 32)

    made = plan(
        desk.team.pk, scope_of_statement(forged), database_now(), statement=StatementRef(line.id, "00" * 32)
    )

    assert Reason.STATED_ABSENT not in {item.verdict.reason for item in made.items}


def test_a_replay_that_rests_on_another_statement_than_its_journal_is_found(
    desk: Desk, database_urls: Urls
) -> None:
    opened = lost(desk)
    line = stated(desk, opened)
    other = stated(desk, opened, replace(SAID, words="Nothing at all."))
    replay = opened_by(desk, plan_by(desk, line)).replay

    change_by_hand(
        database_urls, "UPDATE ledger_replay SET statement_id = %s WHERE id = %s", other.id, replay.pk
    )

    told = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", stdout=StringIO(), stderr=told)
    assert "rests on another statement than its journal" in told.getvalue()


# Kept


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"how": " "}, "how"),
        ({"words": " "}, "words"),
        ({"words": "x" * 20_001}, "words"),
        ({"file": b"x" * 2_000_001}, "file"),
        ({"how": "x" * 4_001}, "how"),
        ({"ticket": "x" * 4_001}, "ticket"),
        ({"listed": b"ol_nobody\n"}, "list"),
        ({"listed": b'"open'}, "list"),
        ({"listed": b"reference,identity\nT-1,\n"}, "list"),
    ],
    ids=[
        "not asked",
        "nothing said",
        "too many words",
        "file too long",
        "how too long",
        "ticket too long",
        "covers nobody",
        "unreadable",
        "references only",
    ],
)
def test_what_is_missing_or_cant_be_read_is_refused(desk: Desk, changed: dict[str, Any], field: str) -> None:
    by, selection = by_owner(desk), selected([hold_of(one) for one in lost(desk)], by_owner(desk))

    with pytest.raises(Refused) as why:
        keep_statement(selection, replace(SAID, **changed), by)

    assert why.value.field == field
    assert ProviderStatement.objects.count() == 0


def test_a_statement_is_refused_for_holds_that_do_not_ask_whether_it_happened(desk: Desk) -> None:
    rejected(desk)
    selection = selected(Hold.objects.all(), by_owner(desk))

    with pytest.raises(Refused, match="can’t be answered with “It did not happen”"):
        keep_statement(selection, SAID, by_owner(desk))


def test_the_same_statement_is_kept_once_and_can_not_be_changed(desk: Desk) -> None:
    by, selection = by_owner(desk), selected([hold_of(one) for one in lost(desk)], by_owner(desk))
    row = keep_statement(selection, SAID, by)

    assert keep_statement(selection, SAID, by).pk == row.pk
    for table in ("ledger_providerstatement", "ledger_statementcover"):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table}")

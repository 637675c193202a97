"""Attacks on triage where its parts meet: bulk runs, lists, proposals, escalation, notices and who may do what by then."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.utils import timezone

from opsledger.accounts import actions
from opsledger.accounts.absences import add_absence
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import bulk as engine
from opsledger.engine import replays, sweep
from opsledger.journal.models import Entry
from opsledger.ledger.actions import bulk_verbs
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.assignment import NewRule, add_rule, apply_rules
from opsledger.ledger.actions.bulk import Batch, Said
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.escalate import record_owners_gone
from opsledger.ledger.actions.lists import begin_happened, keep_list
from opsledger.ledger.actions.propose import Thought, open_proposal
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.ledger.actions.replay_items import record_items_started
from opsledger.ledger.actions.replay_stops import record_replays_stopped
from opsledger.ledger.actions.replays import open_replay, settle_resume_replay
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Attempt, BulkRun, Destination, Hold, Notice, Proposal, Replay, Step
from opsledger.ledger.queries.bulk import groups_of, remaining
from opsledger.ledger.queries.lists import list_of, look
from opsledger.ledger.queries.replay_plans import plan, scope_of_ids
from opsledger.ledger.replay_plan import freeze, thaw
from opsledger.lib.ids import public
from opsledger.rules.answers import Answer
from opsledger.rules.bulk import Verb
from opsledger.rules.content import AuthorKind
from opsledger.rules.learning import Finding
from opsledger.rules.record import KnownBy
from opsledger.rules.states import Outcome
from tests.bulk import begun, counts, ran, results, selected
from tests.console.scenes import Scenes
from tests.desk import Desk, step_identity
from tests.ledger.test_statements_in_the_ledger import late_reply, plan_by, stated
from tests.people import client_of
from tests.replaying import effects, opened_by, start_of, unknown

SYSTEM = By("token:00000000-0000-0000-0000-000000000003", "flow")


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


def told(who: Person) -> list[str]:
    return sorted(Notice.objects.filter(person=who).values_list("kind", flat=True))


# What is told, however a hold changes hands before the sweep saw it


def by_hand(scenes: Scenes, hold: Hold, to: Person) -> None:
    assert settle_assign([hold.pk], to.pk, SYSTEM) == 1


def by_selection(scenes: Scenes, hold: Hold, to: Person) -> None:
    run = ran(selected([hold], by_person(to)), Verb.TAKE, by_person(to))
    assert counts(run) == {"done": 1}


def by_rule(scenes: Scenes, hold: Hold, to: Person) -> None:
    add_rule(scenes.desk.team.pk, NewRule(to.pk), by_person(scenes.owner))
    assert apply_rules(scenes.desk.team.pk, SYSTEM).given_count == 1


def when_the_owner_left(scenes: Scenes, hold: Hold, to: Person) -> None:
    gone = scenes.member("Gone", Role.OWNER)
    Hold.objects.filter(pk=hold.pk).update(owner=gone)
    actions.set_roles(gone, scenes.desk.team, [])
    assert record_owners_gone(10) == 1


HANDS = [by_hand, by_selection, by_rule, when_the_owner_left]


def asked(scenes: Scenes) -> Hold:
    return scenes.hold(scenes.unapproved())


def disputed(scenes: Scenes) -> Hold:
    return scenes.hold(scenes.disputed())


@pytest.mark.parametrize(
    ("make", "kind"),
    [(asked, "approval"), (disputed, "disputed"), (Scenes.stopped, "destination_stopped")],
    ids=["approval", "dispute", "stopped destination"],
)
@pytest.mark.parametrize("give", HANDS, ids=[one.__name__ for one in HANDS])
def test_whoever_gets_a_hold_first_those_whom_it_concerns_are_still_told(
    scenes: Scenes,
    maria: Person,
    give: Callable[[Scenes, Hold, Person], None],
    make: Callable[[Scenes], Hold],
    kind: str,
) -> None:
    jon = scenes.member(
        "Jon", Role.OWNER if give is by_rule else Role.OPERATOR
    )  # no rule gives approvals to others
    hold = make(scenes)
    give(scenes, hold, maria if kind == "disputed" else jon)
    sweep.run_once()
    whom = [scenes.owner] if give is when_the_owner_left and kind == "disputed" else [maria]
    assert [kind in told(one) for one in whom] == [True]


# Who gives it to Maria, while who is away for whom; and who is told.
AWAY: dict[str, tuple[list[tuple[str, str]], str, str]] = {
    "she is there": ([], "flow", "Maria"),
    "she is away": ([("Maria", "Jon")], "flow", "Jon"),
    "her deputy is away, too": ([("Maria", "Jon"), ("Jon", "Ann")], "flow", "Ann"),
    "her deputy gives it": ([("Maria", "Jon")], "Jon", "Maria"),
    "she takes it herself": ([("Maria", "Jon")], "Maria", ""),
}


@pytest.mark.parametrize(("absences", "giver", "whom"), AWAY.values(), ids=AWAY.keys())
@pytest.mark.parametrize("give", ["by hand", "by a bulk run"])
def test_what_is_given_to_somebody_who_is_away_is_told_to_whoever_stands_in(
    scenes: Scenes, maria: Person, give: str, absences: list[tuple[str, str]], giver: str, whom: str
) -> None:
    people = {"Maria": maria} | {name: scenes.member(name, Role.OWNER) for name in ("Jon", "Ann")}
    now = timezone.now()
    for who, deputy in absences:
        span = {"begins_at": now - timedelta(hours=1), "ends_at": now + timedelta(hours=1)}
        add_absence(people[who], scenes.desk.team, people[deputy], **span)
    hold = scenes.hold(scenes.unknown())
    by = by_person(people[giver]) if giver in people else by_person(scenes.owner)
    if give == "by hand":
        settle_assign([hold.pk], maria.pk, by)
    else:
        run = ran(selected([hold], by), Verb.ASSIGN, by, facts={"owner": str(maria.pk)})
        assert counts(run) == {"done": 1}
    sweep.run_once()
    assert {name: told(who) for name, who in people.items() if told(who)} == (
        {whom: ["assigned"]} if whom else {}
    )
    hold.refresh_from_db()
    assert hold.owner == maria  # it stays theirs


def test_somebody_for_whom_nobody_stands_in_is_told_themselves(scenes: Scenes, maria: Person) -> None:
    jon, now = scenes.member("Jon", Role.OWNER), timezone.now()
    span = {"begins_at": now - timedelta(hours=1), "ends_at": now + timedelta(hours=1)}
    add_absence(maria, scenes.desk.team, jon, **span)
    actions.deactivate_person(jon)
    settle_assign([scenes.hold(scenes.unknown()).pk], maria.pk, SYSTEM)
    assert told(maria) == ["assigned"]


def test_a_request_that_nobody_may_approve_is_told_to_the_one_who_has_it(scenes: Scenes) -> None:
    opened = scenes.desk.letter(by=by_person(scenes.owner))
    hold = scenes.hold(opened)
    assert hold.owner == scenes.owner  # nobody else of the team approves, so it fell back to them
    sweep.run_once()
    assert told(scenes.owner) == ["assigned"]


# Who may no longer do it


def deactivated(scenes: Scenes, who: Person) -> None:
    actions.deactivate_person(who)


def left_the_team(scenes: Scenes, who: Person) -> None:
    actions.set_roles(who, scenes.desk.team, [])


def became_a_viewer(scenes: Scenes, who: Person) -> None:
    actions.set_roles(who, scenes.desk.team, [Role.VIEWER])


LOST = [deactivated, left_the_team, became_a_viewer]


@pytest.mark.parametrize("lose", LOST, ids=[one.__name__ for one in LOST])
@pytest.mark.parametrize(
    ("verb", "make"),
    [
        (Verb.END_FAILED, Scenes.rejected),
        (Verb.TAKE, Scenes.unknown),
        (Verb.NOTE, Scenes.unknown),
    ],
)
def test_a_run_goes_no_further_than_its_persons_rights(
    scenes: Scenes,
    maria: Person,
    lose: Callable[[Scenes, Person], None],
    verb: Verb,
    make: Callable[[Scenes], Any],
) -> None:
    holds = [scenes.hold(make(scenes)) for _ in range(2)]
    run = begun(selected(holds, by_person(maria)), verb, by_person(maria), reason="The queue is gone.")
    before = [(one.version, one.owner_id, one.closed_at) for one in Hold.objects.order_by("pk")]
    lose(scenes, maria)
    engine.run_once()
    run.refresh_from_db()
    assert (run.state, counts(run)) == ("aborted", {"left": 2})
    assert {why for _result, why in results(run).values()} == {"Maria may not do this any more."}
    assert [(one.version, one.owner_id, one.closed_at) for one in Hold.objects.order_by("pk")] == before
    line = Entry.objects.get(kind="bulk_aborted")
    assert (line.actor, '"cause":"not_allowed_any_more"' in line.body) == ("engine", True)
    call_command("verify_ledger")


@pytest.mark.parametrize("lose", [deactivated, left_the_team], ids=["deactivated", "left"])
def test_nothing_is_assigned_to_somebody_who_is_gone_by_then(
    scenes: Scenes, maria: Person, lose: Callable[[Scenes, Person], None]
) -> None:
    hold = scenes.hold(scenes.unknown())
    by = by_person(scenes.owner)
    run = begun(selected([hold], by), Verb.ASSIGN, by, facts={"owner": str(maria.pk)})
    lose(scenes, maria)
    engine.run_once()
    assert results(run) == {hold.pk: ("refused", "Its new owner is not in the team any more.")}
    hold.refresh_from_db()
    assert (hold.owner_id, hold.version) == (None, 1)


# A replay in somebody's name


def replay_of_maria(scenes: Scenes, maria: Person) -> Replay:
    """Over two rejected steps, of which the first was begun while Maria was an owner; both may go by its rate."""
    operations, by = [scenes.rejected() for _ in range(2)], by_person(maria)
    team = scenes.desk.team.pk
    made = plan(team, scope_of_ids(team, [one.id for one in operations]), database_now())
    start = start_of(made, per_second={"crm_classic": 1.0})
    replay = open_replay(thaw(freeze(made, maria.pk), team, maria.pk), start, by).replay
    assert record_items_started() == 1
    replay.destinations.update(tokens=5.0)
    return replay


@pytest.mark.parametrize("lose", LOST, ids=[one.__name__ for one in LOST])
@pytest.mark.parametrize("turn", [replays.run_once, record_items_started, record_replays_stopped])
def test_a_replay_goes_no_further_than_its_persons_rights(
    scenes: Scenes, maria: Person, lose: Callable[[Scenes, Person], None], turn: Callable[[], object]
) -> None:
    """Whichever part of a turn comes first."""
    replay = replay_of_maria(scenes, maria)
    lose(scenes, maria)

    turn()
    record_items_started()

    replay.refresh_from_db()
    assert (replay.state, replay.version, replay.waiting_count) == ("paused", 2, 1)
    line = Entry.objects.get(subject_id=replay.pk, kind="replay_paused")
    assert line.actor == "engine"
    assert json.loads(line.body) == {"cause": "not_allowed_any_more", "person": str(maria.pk)}
    assert told(scenes.owner).count("replay_stopped") == 1
    assert "replay_stopped" not in told(maria)
    call_command("verify_ledger")


def test_a_replay_of_somebody_who_is_an_owner_still_runs_on(scenes: Scenes, maria: Person) -> None:
    actions.set_roles(maria, scenes.desk.team, [Role.OWNER, Role.VIEWER])
    replay = replay_of_maria(scenes, maria)
    replays.run_once()
    replay.refresh_from_db()
    assert (replay.state, replay.waiting_count) == ("running", 0)


def test_an_owner_resumes_it_in_their_own_name(scenes: Scenes, maria: Person) -> None:
    replay = replay_of_maria(scenes, maria)
    became_a_viewer(scenes, maria)
    replays.run_once()
    page = client_of(scenes.owner).get(f"/replays/{public('rpl', replay.pk)}/").content.decode()
    assert (
        "It paused by itself: Maria, in whose name it began steps, may not start replays here any more."
        in page
    )
    assert "An owner may resume it, in their own name from then on, or abort it." in page

    settle_resume_replay(replay.pk, 2, "I looked at the plan.", by_person(scenes.owner))
    replays.run_once()

    lines = Entry.objects.filter(kind="replayed").order_by("at", "subject_id")
    assert [one.actor for one in lines] == [f"person:{maria.pk}", f"person:{scenes.owner.pk}"]
    assert [json.loads(one.body).get("started_by") for one in lines] == [None, f"person:{maria.pk}"]
    page = client_of(scenes.owner).get(f"/operations/{public('op', lines[1].subject_id)}/").content.decode()
    assert "Maria started the replay." in page
    replay.refresh_from_db()
    assert (replay.started_by_id, replay.resumed_by_id) == (maria.pk, scenes.owner.pk)
    call_command("verify_ledger")


# One run that the database does not let through


def busy(batch: Batch) -> dict[Any, Said]:
    raise OperationalError("canceling statement due to statement timeout")


def test_a_run_that_the_database_refuses_again_and_again_does_not_stop_the_others(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engine.DEEDS, Verb.NOTE, engine.Deed(busy, 200))
    by, holds = by_person(scenes.owner), [scenes.hold(scenes.unknown()) for _ in range(2)]
    stuck = begun(selected(holds[:1], by), Verb.NOTE, by, reason="Asked.")
    other = begun(selected(holds[1:], by), Verb.TAKE, by)
    with pytest.raises(OperationalError):
        engine.run_once()
    assert {row.pk: row.state for row in BulkRun.objects.all()} == {stuck.pk: "running", other.pk: "finished"}


def test_a_page_whose_run_meets_a_busy_database_leaves_it_to_a_worker(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has begun by then: to say that nothing was done would not be true."""
    by, hold = by_person(scenes.owner), scenes.hold(scenes.unknown())
    run = begun(selected([hold], by), Verb.NOTE, by, reason="Asked.")
    monkeypatch.setitem(engine.DEEDS, Verb.NOTE, engine.Deed(busy, 200))
    rung: list[str] = []
    monkeypatch.setattr("opsledger.engine.bell.ring", rung.append)
    assert engine.carry_at_once(run).state == "running"
    assert rung == ["bulk"]
    monkeypatch.setitem(engine.DEEDS, Verb.NOTE, engine.Deed(bulk_verbs.note, 200))
    assert engine.run_once() == 1


# Lists, proposals and other people at the same holds


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Each in a thread of its own, begun together; what they answered, or how they failed."""
    gate, found = threading.Barrier(len(calls)), dict[int, Any]()

    def run(number: int, call: Callable[[], Any]) -> None:
        gate.wait()
        try:
            found[number] = call()
        except Exception as why:
            found[number] = why
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=one) for one in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in sorted(found)]


def listed(scenes: Scenes, references: dict[Hold, str], by: By) -> BulkRun:
    """A list that names these, applied: its run, with nothing of it done."""
    rows = [f"{reference},{hold.step.identity}" for hold, reference in references.items() if hold.step]
    kept = keep_list(selected(references, by), "\n".join(["reference,identity", *rows]).encode(), by)
    line = list_of(kept.pk, [scenes.desk.team.pk])
    assert line is not None
    seen = look(line, remaining(groups_of(line.selection_id)))
    return begin_happened(seen, seen.shown, "Their export.", by, once=uuid4()).run


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The destination can't be asked for a record: its list is all there is."""
    monkeypatch.setattr("opsledger.engine.lists.can_be_read", lambda _action: False)


def test_what_a_list_settles_takes_its_proposals_along_and_leaves_what_changed_hands(
    scenes: Scenes, maria: Person, unreadable: None
) -> None:
    omar, by = scenes.member("Omar", Role.OPERATOR), by_person(scenes.owner)
    first, passed_on = (scenes.hold(scenes.unknown()) for _ in range(2))
    for hold in (first, passed_on):
        decision = Decision(Answer.HAPPENED, "Their log names it.", hold.version, reference="T-9")
        open_proposal(hold.pk, decision, by_person(omar), Thought(AuthorKind.PERSON))
    run = listed(scenes, {first: "T-1", passed_on: "T-2"}, by)
    Hold.objects.filter(pk=passed_on.pk).update(owner=maria)
    actions.set_roles(maria, scenes.desk.team, [])
    assert sweep.run_once().told > 0

    engine.carry(run.pk, Verb.HAPPENED, 30.0)

    assert {hold: result for hold, (result, _why) in results(run).items()} == {
        first.pk: "done", passed_on.pk: "skipped",
    }  # fmt: skip
    ended = dict(Proposal.objects.values_list("hold_id", "ended_how"))
    assert ended == {first.pk: "hold_ended", passed_on.pk: ""}
    call_command("verify_ledger")


def test_two_lists_at_one_moment_never_give_one_record_to_two_actions(
    scenes: Scenes, unreadable: None
) -> None:
    by = by_person(scenes.owner)
    runs = [listed(scenes, {scenes.hold(scenes.unknown()): "T-1"}, by) for _ in range(2)]
    at_once(*(partial(engine.carry, run.pk, Verb.HAPPENED, 30.0) for run in runs))
    found = [one for run in runs for one in results(run).values()]
    assert sorted(result for result, _why in found) == ["done", "refused"]
    assert next(why for result, why in found if result == "refused").startswith(
        "Reference T-1 already belongs to"
    )
    assert Step.objects.filter(reference="T-1", state="confirmed").count() == 1
    call_command("verify_ledger")


def test_a_run_and_a_person_at_one_moment_give_one_answer(scenes: Scenes) -> None:
    by = by_person(scenes.owner)
    hold = scenes.hold(scenes.rejected())
    run = begun(selected([hold], by), Verb.END_FAILED, by, reason="The queue is gone.")
    decision = Decision(Answer.SAME_AGAIN, "It is mended.", hold.version)
    at_once(
        partial(engine.carry, run.pk, Verb.END_FAILED, 30.0),
        partial(settle_hold, hold.pk, decision, by),
    )
    assert Entry.objects.filter(subject_id=str(hold.operation_id), kind="answered").count() == 1
    hold.refresh_from_db()
    assert (results(run)[hold.pk][0], hold.answer) in {("done", "end_failed"), ("skipped", "same_again")}
    call_command("verify_ledger")


def test_two_presses_of_accept_and_a_run_at_one_moment_end_a_proposal_once(
    scenes: Scenes, unreadable: None
) -> None:
    omar, by = scenes.member("Omar", Role.OPERATOR), by_person(scenes.owner)
    hold = scenes.hold(scenes.unknown())
    decision = Decision(Answer.HAPPENED, "Their log names it.", hold.version, reference="T-9")
    made = open_proposal(hold.pk, decision, by_person(omar), Thought(AuthorKind.PERSON))
    run = listed(scenes, {hold: "T-1"}, by)
    accepted = replace(decision, proposal=made.id)
    at_once(
        partial(settle_hold, hold.pk, accepted, by),
        partial(settle_hold, hold.pk, accepted, by),
        partial(engine.carry, run.pk, Verb.HAPPENED, 30.0),
    )
    assert Entry.objects.filter(subject_id=str(hold.operation_id), kind="answered").count() == 1
    step = Step.objects.get(pk=str(hold.step_id))
    ended = Proposal.objects.get().ended_how
    assert (step.state, step.reference, ended) in {
        ("confirmed", "T-9", "accepted"),
        ("confirmed", "T-1", "hold_ended"),
    }
    call_command("verify_ledger")


# A run whose worker came late


def test_a_next_check_that_has_passed_by_the_time_of_its_turn_is_refused(scenes: Scenes) -> None:
    """Kept open until a time that is over, a hold would be past its due time at once, and go to somebody else."""
    by, hold = by_person(scenes.owner), scenes.hold(scenes.unknown())
    facts = {"next_check_at": (timezone.now() - timedelta(minutes=1)).isoformat()}
    run = begun(selected([hold], by), Verb.NEXT_CHECK, by, reason="Ask them later.", facts=facts)
    engine.run_once()
    assert results(run) == {hold.pk: ("refused", "The chosen time has passed by now; nothing was changed.")}
    assert Hold.objects.get(pk=hold.pk).due_at == hold.due_at
    assert not Entry.objects.filter(subject_id=str(hold.operation_id), kind="answered").exists()


# A provider's statement, and a reply that comes at the same moment


def test_a_late_reply_and_the_turn_of_a_stated_absence_never_send_what_arrived(desk: Desk) -> None:
    """Laws 4 and 9: whichever comes first, the request that arrived is not sent again, and nothing heard is lost."""
    arrived = [unknown(desk, acted=True) for _ in range(3)]
    opened_by(desk, plan_by(desk, stated(desk, arrived)))
    attempts = {one.id: Attempt.objects.get(operation_id=one.id) for one in arrived}
    sent = []
    for one in arrived:
        (effect,) = desk.sandbox.effects(identity=step_identity(one.id, 1))
        finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=str(effect["reference"]))
        late = late_reply(attempts[one.id])
        sent.append(Sent(one.id, 1, attempts[one.id].pk, finding, late, f"destination:{late.origin}"))

    failed = at_once(replays.run_once, *(partial(record_sends, [one]) for one in sent))

    assert [one for one in failed if isinstance(one, Exception)] == []
    for one in arrived:
        disputed = Hold.objects.filter(operation_id=one.id, reason="disputed", closed_at=None).exists()
        assert desk.step(one).state == "confirmed" or disputed
    desk.hurry()
    Destination.objects.update(send_tokens=5.0)
    desk.send()
    assert [effects(desk, one) for one in arrived] == [1, 1, 1]
    call_command("verify_ledger")

"""Attacks on triage where its parts meet: bulk runs, lists, proposals, escalation, notices and who may do what by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError

from opsledger.accounts import actions
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import bulk as engine
from opsledger.engine import sweep
from opsledger.journal.models import Entry
from opsledger.ledger.actions import bulk_verbs
from opsledger.ledger.actions.assignment import NewRule, add_rule, apply_rules
from opsledger.ledger.actions.bulk import Batch, Said
from opsledger.ledger.actions.settle import By, settle_assign
from opsledger.ledger.models import BulkRun, Hold, Notice
from opsledger.rules.bulk import Verb
from tests.bulk import begun, counts, ran, results, selected
from tests.console.scenes import Scenes

SYSTEM = By("token:flow", "flow")


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
    assert sweep.record_owners_gone(10) == 1


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
    jon = scenes.member("Jon", Role.OPERATOR)
    hold = make(scenes)
    give(scenes, hold, maria if kind == "disputed" else jon)
    sweep.run_once()
    whom = [scenes.owner] if give is when_the_owner_left and kind == "disputed" else [maria]
    assert [kind in told(one) for one in whom] == [True]


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
    monkeypatch.setattr(engine.bell, "ring", rung.append)
    assert engine.carry_at_once(run).state == "running"
    assert rung == ["bulk"]
    monkeypatch.setitem(engine.DEEDS, Verb.NOTE, engine.Deed(bulk_verbs.note, 200))
    assert engine.run_once() == 1

"""Attacks on triage where its parts meet: bulk runs, lists, proposals, escalation, notices and who may do what by then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opsledger.accounts import actions
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.engine import sweep
from opsledger.ledger.actions.assignment import NewRule, add_rule, apply_rules
from opsledger.ledger.actions.settle import By, settle_assign
from opsledger.ledger.models import Hold, Notice
from opsledger.rules.bulk import Verb
from tests.bulk import counts, ran, selected
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

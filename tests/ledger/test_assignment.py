"""Rules give holds to people when they open and when they are applied by hand; what somebody has stays theirs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from people import person

from opsledger.accounts import actions
from opsledger.accounts.absences import add_absence
from opsledger.accounts.models import Membership, Person
from opsledger.accounts.permissions import Role
from opsledger.journal.models import Entry
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.assignment import (
    NewRule,
    RuleChanged,
    _give,
    add_rule,
    apply_rules,
    change_rule,
    move_rule,
    remove_rule,
)
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.open import open_operations
from opsledger.ledger.actions.settle import Decision, settle_hold
from opsledger.ledger.models import AssignmentRule, Hold
from opsledger.ledger.queries.assignment import rules_of
from opsledger.rules.answers import Answer
from opsledger.rules.content import AuthorKind
from opsledger.rules.states import HoldReason
from tests.console.scenes import UNKNOWN, Scenes
from tests.desk import AUTOMATION


@pytest.fixture
def olga(scenes: Scenes) -> By:
    return by(scenes.owner)


def by(who: Person) -> By:
    return By(f"person:{who.pk}", who.display_name, who.pk)


def lines(kind: str) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in Entry.objects.filter(kind=kind).order_by("at", "seq")]


def add(scenes: Scenes, who: Person, **more: str) -> Any:
    return add_rule(scenes.desk.team.pk, NewRule(who.pk, **more), by(scenes.owner))


def test_a_hold_that_opens_goes_to_whom_the_first_rule_names_and_its_line_says_so(scenes: Scenes) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    add(scenes, jon, reason="disputed")
    rule_id = add(scenes, maria, workflow="classic_follow_up", destination="crm_classic")
    add(scenes, jon)
    hold = scenes.hold(scenes.unknown())
    assert hold.owner_id == maria.pk
    told = lines("attempt_ended")[-1]["given"]
    assert told == {str(hold.pk): {"owner": str(maria.pk), "rule": str(rule_id), "position": 2}}
    assert scenes.hold(scenes.expired()).owner_id == jon.pk  # another workflow: the next rule


def test_a_hold_that_opens_with_its_operation_goes_by_the_rules(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    add(scenes, maria, reason=HoldReason.DATA_MISSING.value)
    opened = scenes.missing()
    assert scenes.hold(opened).owner_id == maria.pk
    line = json.loads(Entry.objects.get(subject_id=opened.id, seq=1).body)
    assert [one["owner"] for one in line["given"].values()] == [str(maria.pk)]


def test_holds_at_destinations_and_events_go_by_the_rules(scenes: Scenes) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    add(scenes, jon, workflow="classic_follow_up")
    add(scenes, maria, destination="mail")
    add(scenes, jon, reason=HoldReason.EVENT_CONFLICT.value)
    assert scenes.stopped("mail").owner_id == maria.pk
    assert scenes.stopped("crm").owner_id is None
    assert scenes.event_conflict().owner_id == jon.pk
    assert [one["owner"] for one in lines("sending_stopped")[0]["given"].values()] == [str(maria.pk)]
    assert "given" not in lines("sending_stopped")[1]
    assert [one["owner"] for one in lines("event_held")[0]["given"].values()] == [str(jon.pk)]


def test_an_operation_s_own_owner_comes_before_every_rule(scenes: Scenes) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    add(scenes, maria)
    wanted = scenes.desk.wanted("classic_follow_up")._replace(owner_id=jon.pk)
    opened = open_operations([wanted])[0]
    scenes.send(UNKNOWN)
    assert scenes.hold(opened).owner_id == jon.pk


GONE: dict[str, Callable[[Person], Any]] = {
    "deactivated": actions.deactivate_person,
    "no role left": lambda who: Membership.objects.filter(person=who).delete(),
    "a viewer only": lambda who: Membership.objects.filter(person=who).update(role=Role.VIEWER.value),
}


@pytest.mark.parametrize("goes", GONE.values(), ids=GONE.keys())
def test_a_rule_whose_person_is_gone_is_passed_over(scenes: Scenes, goes: Callable[[Person], Any]) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    add(scenes, maria)
    add(scenes, jon)
    goes(maria)
    assert scenes.hold(scenes.unknown()).owner_id == jon.pk


# Requests that ask for an approval


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
def test_what_asks_for_an_approval_passes_over_whoever_is_no_owner(scenes: Scenes, role: Role) -> None:
    maria, jon = scenes.member("Maria", role), scenes.member("Jon", Role.OWNER)
    Membership.objects.get_or_create(person=maria, team=scenes.desk.team, role=Role.OPERATOR.value)
    add(scenes, maria)
    last = add(scenes, jon)
    opened = scenes.unapproved()
    hold = scenes.hold(opened)
    assert hold.owner_id == jon.pk
    line = json.loads(Entry.objects.get(subject_id=opened.id, seq=1).body)
    assert line["given"] == {str(hold.pk): {"owner": str(jon.pk), "rule": str(last), "position": 2}}
    assert scenes.hold(scenes.unknown()).owner_id == maria.pk  # another question is theirs


def recorded(scenes: Scenes, maria: Person) -> None:
    scenes.desk.propose(AUTOMATION, kind=AuthorKind.MODEL, author="draft-writer-2")
    scenes.desk.letter(by=by(maria))


def asked_for(scenes: Scenes, maria: Person) -> None:
    scenes.desk.propose(by(maria), kind=AuthorKind.MODEL, author="draft-writer-2")
    scenes.desk.letter()


def wrote(scenes: Scenes, maria: Person) -> None:
    scenes.desk.propose(by(maria), author=maria.email)
    scenes.desk.letter()


def changed(scenes: Scenes, maria: Person) -> None:
    hold = scenes.hold(scenes.rejected())
    asks = Decision(Answer.REVISE, "Their queue moved.", hold.version, params={"queue": "launch-desk"})
    settle_hold(hold.pk, asks, by(maria))


BARRED = [recorded, asked_for, wrote, changed]


@pytest.mark.parametrize("makes", BARRED, ids=[one.__name__ for one in BARRED])
def test_rules_applied_by_hand_pass_over_whoever_may_not_give_that_approval(
    scenes: Scenes, olga: By, makes: Callable[[Scenes, Person], None]
) -> None:
    maria, jon = scenes.member("Maria", Role.OWNER), scenes.member("Jon", Role.OWNER)
    makes(scenes, maria)
    scenes.unknown()
    Hold.objects.update(owner=None)
    first, second = add(scenes, maria), add(scenes, jon)

    counted = {one.id: one.count for one in rules_of(scenes.desk.team.pk).lines}
    assert apply_rules(scenes.desk.team.pk, olga).given_count == 2

    open_ones = Hold.objects.filter(closed_at__isnull=True)
    owners = {one.reason: one.owner_id for one in open_ones}
    assert owners == {"approval_needed": jon.pk, "outcome_unknown": maria.pk}
    assert counted == {first: 1, second: 1}


@pytest.mark.parametrize("makes", BARRED, ids=[one.__name__ for one in BARRED])
def test_what_opens_passes_over_whoever_may_not_give_that_approval(
    scenes: Scenes, makes: Callable[[Scenes, Person], None]
) -> None:
    maria, jon = scenes.member("Maria", Role.OWNER), scenes.member("Jon", Role.OWNER)
    add(scenes, maria)
    last = add(scenes, jon)
    makes(scenes, maria)
    hold = Hold.objects.get(reason="approval_needed", closed_at=None)
    assert hold.owner_id == jon.pk
    given = {"owner": str(jon.pk), "rule": str(last), "position": 2}
    assert given in [one for entry in Entry.objects.all() for one in given_in(entry) if one["position"] == 2]


def given_in(entry: Entry) -> list[dict[str, Any]]:
    return list((json.loads(entry.body).get("given") or {}).values())


def test_what_the_only_owner_changed_says_that_nobody_may_approve_it(scenes: Scenes) -> None:
    changed(scenes, scenes.owner)
    hold = Hold.objects.get(reason="approval_needed", closed_at=None)
    assert (json.loads(hold.facts)["nobody_may_approve"], hold.owner) == (True, scenes.owner)
    jon = scenes.member("Jon", Role.OWNER)
    Hold.objects.filter(pk=hold.pk).update(closed_at=timezone.now(), closed_by="superseded")
    changed(scenes, jon)
    hold = Hold.objects.get(reason="approval_needed", closed_at=None)
    assert (json.loads(hold.facts)["nobody_may_approve"], hold.owner) == (False, None)


def test_a_rule_for_approvals_alone_names_an_owner(scenes: Scenes) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    with pytest.raises(Refused, match="Only an owner of the team approves") as why:
        add(scenes, maria, reason=HoldReason.APPROVAL_NEEDED.value)
    assert why.value.field == "person"
    add(scenes, jon, reason=HoldReason.APPROVAL_NEEDED.value)
    Membership.objects.filter(person=jon).update(role=Role.OPERATOR.value)  # and is none any more
    (line,) = rules_of(scenes.desk.team.pk).lines
    assert (line.taker, line.approves) == ("Jon", False)


def test_somebody_who_is_away_is_stood_in_for(scenes: Scenes) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OPERATOR)
    now = timezone.now()
    add_absence(
        maria, scenes.desk.team, jon, begins_at=now - timedelta(hours=1), ends_at=now + timedelta(hours=1)
    )
    rule = add(scenes, maria)  # one may be made for somebody who is away
    hold = scenes.hold(scenes.unknown())
    assert hold.owner_id == jon.pk
    assert lines("attempt_ended")[-1]["given"][str(hold.pk)] == {
        "owner": str(jon.pk), "rule": str(rule), "position": 1,
    }  # fmt: skip


def test_a_change_of_the_rules_counts_from_the_next_hold_on(scenes: Scenes, olga: By) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    team, first = scenes.desk.team.pk, add(scenes, maria)
    before = scenes.hold(scenes.unknown())
    change_rule(first, team, 1, NewRule(jon.pk), olga)
    assert scenes.hold(scenes.unknown()).owner_id == jon.pk
    change_rule(first, team, 2, NewRule(jon.pk), olga, active=False)
    assert scenes.hold(scenes.unknown()).owner_id is None
    before.refresh_from_db()
    assert before.owner_id == maria.pk


def test_rules_of_another_team_give_nothing(scenes: Scenes) -> None:
    rita = person("Rita")
    other = actions.add_team(slug="other", name="Other", fallback_owner=rita)
    add_rule(other.pk, NewRule(rita.pk), by(rita))
    assert scenes.hold(scenes.unknown()).owner_id is None


# Rules


def test_each_change_is_one_line_of_the_team_and_moves_the_version(scenes: Scenes, olga: By) -> None:
    maria, team = scenes.member("Maria", Role.OPERATOR), scenes.desk.team.pk
    first, second = add(scenes, maria, reason="disputed"), add(scenes, maria)
    move_rule(second, team, 1, olga, up=True)
    change_rule(second, team, 2, NewRule(maria.pk, destination="crm"), olga)
    remove_rule(second, team, 3, olga)
    kinds = ["rule_added", "rule_added", "rule_moved", "rule_changed", "rule_removed"]
    rows = Entry.objects.filter(subject_id=team, kind__startswith="rule_").order_by("seq")
    assert [row.kind for row in rows] == kinds
    assert {row.actor for row in rows} == {olga.actor}
    assert json.loads(rows[3].body)["destination"] == "crm"
    left = AssignmentRule.objects.get()
    assert (left.pk, left.position) == (first, 1)


def test_a_rule_moves_up_and_down_and_stays_at_the_ends(scenes: Scenes, olga: By) -> None:
    maria, team = scenes.member("Maria", Role.OPERATOR), scenes.desk.team.pk
    made = [add(scenes, maria) for _ in range(3)]

    def order() -> list[int]:
        return [
            made.index(one)
            for one in AssignmentRule.objects.order_by("position").values_list("pk", flat=True)
        ]

    def version(index: int) -> int:
        return AssignmentRule.objects.get(pk=made[index]).version

    move_rule(made[0], team, version(0), olga, up=True)
    move_rule(made[2], team, version(2), olga, up=False)
    assert order() == [0, 1, 2]
    move_rule(made[2], team, version(2), olga, up=True)
    assert order() == [0, 2, 1]
    move_rule(made[0], team, version(0), olga, up=False)
    assert order() == [2, 0, 1]


@pytest.mark.parametrize("what", ["change", "move", "remove"])
def test_a_change_on_an_older_version_changes_nothing(scenes: Scenes, olga: By, what: str) -> None:
    maria, team = scenes.member("Maria", Role.OPERATOR), scenes.desk.team.pk
    add(scenes, maria)
    rule = add(scenes, maria, reason="disputed")
    change_rule(rule, team, 1, NewRule(maria.pk, reason="rejected_by_destination"), olga)
    entries = Entry.objects.count()
    acts: dict[str, Callable[[], None]] = {
        "change": lambda: change_rule(rule, team, 1, NewRule(maria.pk), olga),
        "move": lambda: move_rule(rule, team, 1, olga, up=True),
        "remove": lambda: remove_rule(rule, team, 1, olga),
    }
    with pytest.raises(RuleChanged):
        acts[what]()
    row = AssignmentRule.objects.get(pk=rule)
    assert (row.reason, row.position, row.version) == ("rejected_by_destination", 2, 2)
    assert Entry.objects.count() == entries


WRONG = {
    "a workflow that the team lacks": ({"workflow": "nonsense"}, "workflow"),
    "a destination that the team lacks": ({"destination": "nonsense"}, "destination"),
    "a reason that there is not": ({"reason": "nonsense"}, "reason"),
    "a workflow for what has none": ({"workflow": "classic_follow_up", "reason": "paused"}, "workflow"),
}


@pytest.mark.parametrize(("named", "field"), WRONG.values(), ids=WRONG.keys())
def test_a_rule_that_could_give_nothing_is_refused(scenes: Scenes, named: dict[str, str], field: str) -> None:
    with pytest.raises(Refused) as why:
        add(scenes, scenes.owner, **named)
    assert why.value.field == field
    assert not AssignmentRule.objects.exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN, None])
def test_a_rule_for_somebody_who_does_not_work_on_holds_is_refused(scenes: Scenes, role: Role | None) -> None:
    who = scenes.member("Vera", role) if role else person("Vera")
    with pytest.raises(Refused) as why:
        add(scenes, who)
    assert why.value.field == "person"


def test_the_table_refuses_a_place_beyond_the_hundredth_and_one_that_is_taken(scenes: Scenes) -> None:
    add(scenes, scenes.owner)
    row = AssignmentRule.objects.get()
    for position, name in ((101, "team_has_a_hundred_rules_at_most"), (1, "rule_has_a_place_of_its_own")):
        with pytest.raises(IntegrityError, match=name):  # a place that is taken is refused at the end of it
            _write(position, scenes)
    assert list(AssignmentRule.objects.all()) == [row]


@transaction.atomic
def _write(position: int, scenes: Scenes) -> None:
    AssignmentRule.objects.create(
        team=scenes.desk.team, position=position, person=scenes.owner, made_by=scenes.owner
    )


# Applied by hand


def test_applied_by_hand_open_unowned_holds_go_and_others_stay(scenes: Scenes, olga: By) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    mine, free, other = scenes.unknown(), scenes.unknown(), scenes.expired()
    settle_assign([scenes.hold(mine).pk], jon.pk, olga)
    stop = scenes.stopped("crm_classic")
    rule = add(scenes, maria, destination="crm_classic")
    done = apply_rules(scenes.desk.team.pk, olga, batch=1)
    assert (done.given_count, done.more) == (2, False)
    assert scenes.hold(mine).owner_id == jon.pk
    assert scenes.hold(other).owner_id is None
    given = scenes.hold(free)
    assert (given.owner_id, given.version) == (maria.pk, 2)
    assert Hold.objects.get(pk=stop.pk).owner_id == maria.pk
    told = [one for one in lines("assigned") if one.get("rule") == str(rule)]
    assert {one["hold"] for one in told} == {str(given.pk), str(stop.pk)}
    assert apply_rules(scenes.desk.team.pk, olga).given_count == 0  # twice changes nothing


def test_applied_by_hand_it_stops_after_so_many_and_says_so(scenes: Scenes, olga: By) -> None:
    for _ in range(3):
        scenes.unknown()
    add(scenes, scenes.owner)
    done = apply_rules(scenes.desk.team.pk, olga, batch=1, looked_through_max=2)
    assert (done.given_count, done.more) == (2, True)


def test_a_hold_that_somebody_took_after_it_was_read_stays_theirs(scenes: Scenes, olga: By) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    taken, free = scenes.hold(scenes.unknown()), scenes.hold(scenes.unknown())
    told = {"owner": str(maria.pk), "rule": str(add(scenes, maria)), "position": 1}
    settle_assign([taken.pk], jon.pk, by(jon))
    assert _give({taken.pk: told, free.pk: told}, olga) == 1
    taken.refresh_from_db()
    free.refresh_from_db()
    assert (taken.owner_id, taken.version, free.owner_id) == (jon.pk, 2, maria.pk)


def test_a_hold_that_somebody_takes_at_the_same_moment_has_one_owner_and_one_line_each(
    scenes: Scenes, olga: By
) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    holds = [scenes.hold(scenes.unknown()) for _ in range(8)]
    add(scenes, maria)
    barrier, failed = threading.Barrier(2), []

    def run(act: Callable[[], Any]) -> None:
        try:
            barrier.wait(10)
            act()
        except Exception as why:
            failed.append(why)
        finally:
            connection.close()

    acts = [
        lambda: apply_rules(scenes.desk.team.pk, olga),
        lambda: settle_assign([hold.pk for hold in reversed(holds)], jon.pk, by(jon)),
    ]
    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    for hold in holds:
        hold.refresh_from_db()
        chain = Entry.objects.filter(subject_id=hold.operation_id, kind="assigned").order_by("seq")
        told = [json.loads(one.body)["owner"] for one in chain]
        assert hold.version == 1 + len(told)
        assert str(hold.owner_id) == told[-1]


def test_the_chains_still_verify_and_the_states_equal_their_fold(scenes: Scenes) -> None:
    add(scenes, scenes.owner)
    scenes.unknown()
    scenes.missing()
    scenes.stopped("mail")
    scenes.event_conflict()
    call_command("verify_ledger")

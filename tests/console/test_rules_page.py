"""The page of assignment rules: who may read and change them, what each would take, and what is said when it can't."""

from __future__ import annotations

import html as markup
import re
from typing import Any

import pytest
from people import client_of, person
from scenes import Scenes, path_of

from opsledger.accounts.actions import add_team, deactivate_person
from opsledger.accounts.models import Person
from opsledger.accounts.roles import Role
from opsledger.journal.models import Entry
from opsledger.ledger.models import AssignmentRule
from opsledger.lib.ids import public
from opsledger.local.postgres import Urls
from tests.by_hand import change_by_hand

PAGE = "/settings/rules/"


def shown(who: Person, path: str = PAGE) -> str:
    return markup.unescape(client_of(who).get(path).content.decode())


def add(scenes: Scenes, who: Person, **more: str) -> AssignmentRule:
    response = client_of(scenes.owner).post(f"{PAGE}add/", {"person": str(who.pk), **more})
    assert response.status_code == 303, markup.unescape(response.content.decode())
    return AssignmentRule.objects.order_by("position").last()  # type: ignore[return-value]


def address(rule: AssignmentRule, what: str = "") -> str:
    return f"{PAGE}{public('rule', rule.pk)}/{what}"


def row_of(html: str, rule: AssignmentRule) -> str:
    return re.search(rf'<tr data-row id="{public("rule", rule.pk)}">.*?</tr>', html, re.DOTALL).group(0)  # type: ignore[union-attr]


def would_take(html: str, rule: AssignmentRule) -> int:
    return int(re.search(r'data-label="would take">(\d+)<', row_of(html, rule)).group(1))  # type: ignore[union-attr]


def test_each_rule_says_how_many_open_unowned_holds_it_would_take(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    scenes.unknown()
    scenes.unknown()
    scenes.stopped("mail")
    scenes.expired()
    first = add(scenes, maria, destination="crm_classic")
    second = add(scenes, maria, workflow="classic_follow_up")  # the first takes them all
    third = add(scenes, maria, destination="mail")
    html = shown(scenes.owner)
    assert [would_take(html, one) for one in (first, second, third)] == [2, 0, 1]
    assert "4 open holds have no owner; no rule takes 1 of them." in html


def test_apply_gives_them_away_and_says_how_many(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    opened = scenes.unknown()
    scenes.stopped("mail")
    add(scenes, maria, destination="crm_classic")
    client = client_of(scenes.owner)
    response = client.post(f"{PAGE}apply/", follow=True)
    assert "One hold was given away." in markup.unescape(response.content.decode())
    assert scenes.hold(opened).owner_id == maria.pk
    story = markup.unescape(client.get(path_of(opened)).content.decode())
    assert "Test owner gave the hold to Maria" in story
    assert "By assignment rule 1." in story


def test_the_story_says_which_rule_gave_a_hold_when_it_opened(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    add(scenes, scenes.owner, reason="disputed")
    add(scenes, maria)
    opened = scenes.unknown()
    assert "Step 1. Given to Maria by assignment rule 2." in shown(scenes.owner, path_of(opened))


def test_a_rule_says_when_it_is_passed_over_and_why(scenes: Scenes, database_urls: Urls) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OPERATOR)
    first, second, third = add(scenes, maria), add(scenes, jon), add(scenes, scenes.owner, destination="mail")
    scenes.unknown()
    AssignmentRule.objects.update(active=True)
    deactivate_person(maria)
    jon.memberships.update(role=Role.VIEWER.value)
    change_by_hand(database_urls, "UPDATE ledger_definition SET slug = 'post' WHERE slug = 'mail'")
    html = shown(scenes.owner)
    assert "Passed over: Maria is deactivated" in row_of(html, first)
    assert "Passed over: Jon does not work on holds here" in row_of(html, second)
    assert "Takes nothing: mail is gone" in row_of(html, third)
    client_of(scenes.owner).post(
        address(first), {"version": "1", "person": str(scenes.owner.pk)}
    )  # without `active`: switched off
    assert "Switched off" in row_of(shown(scenes.owner), first)


def test_a_rule_says_where_approvals_pass_it_over(scenes: Scenes) -> None:
    maria, jon = scenes.member("Maria", Role.OPERATOR), scenes.member("Jon", Role.OWNER)
    first, second = add(scenes, maria), add(scenes, jon, reason="approval_needed")
    third = add(scenes, scenes.owner)
    jon.memberships.update(role=Role.OPERATOR.value)
    html = shown(scenes.owner)
    assert "In use; not for approvals, which only owners give" in row_of(html, first)
    assert "Passed over: Jon may not approve here" in row_of(html, second)
    assert "not for approvals" not in row_of(html, third)
    assert (
        "What needs an approval goes to an owner who may give it; for others the next rule is asked." in html
    )
    refused = client_of(scenes.owner).post(
        f"{PAGE}add/", {"person": str(maria.pk), "reason": "approval_needed"}
    )
    assert refused.status_code == 422
    assert "Only an owner of the team approves" in refused.content.decode()


def test_a_rule_is_changed_moved_and_removed(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    first, second = add(scenes, maria, destination="mail"), add(scenes, maria)
    client = client_of(scenes.owner)
    assert 'value="1"' in shown(scenes.owner, address(first))
    changed = {"version": "1", "person": str(scenes.owner.pk), "reason": "disputed", "active": "on"}
    assert client.post(address(first), changed).status_code == 303
    assert client.post(address(second, "move/"), {"version": "1", "to": "up"}).status_code == 303
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.position, first.reason, first.destination_slug, first.active) == (2, "disputed", "", True)
    assert client.post(address(second, "remove/"), {"version": "2"}).status_code == 303
    first.refresh_from_db()
    assert first.position == 1


def test_a_change_on_a_stale_page_changes_nothing_and_shows_the_rules_as_they_are(scenes: Scenes) -> None:
    maria = scenes.member("Maria", Role.OPERATOR)
    rule = add(scenes, maria)
    client = client_of(scenes.owner)
    now = {"version": "1", "person": str(scenes.owner.pk), "active": "on"}
    assert client.post(address(rule), now).status_code == 303
    for what in ("", "move/", "remove/"):
        response = client.post(address(rule, what), now | {"person": str(maria.pk), "to": "up"})
        assert response.status_code == 409
        assert "Nothing was changed by you" in response.content.decode()
    rule.refresh_from_db()
    assert (rule.person_id, rule.version) == (scenes.owner.pk, 2)


@pytest.mark.parametrize(
    ("posted", "said"),
    [
        ({}, "Choose who gets the holds."),
        ({"person": "nonsense"}, "Choose who gets the holds."),
        ({"destination": "nonsense"}, "This team has no destination “nonsense”."),
        ({"workflow": "classic_follow_up", "reason": "paused"}, "belongs to no workflow"),
    ],
    ids=["nobody", "no person", "no destination", "no workflow there"],
)
def test_what_a_rule_lacks_is_said_and_what_was_chosen_stays(
    scenes: Scenes, posted: dict[str, str], said: str
) -> None:
    person_id = {"person": str(scenes.owner.pk)} if posted and "person" not in posted else {}
    response = client_of(scenes.owner).post(f"{PAGE}add/", {**person_id, "reason": "disputed", **posted})
    html = markup.unescape(response.content.decode())
    assert response.status_code == 422
    assert said in html
    assert f'<option value="{posted.get("reason", "disputed")}" selected>' in html
    assert not AssignmentRule.objects.exists()


WRITES = ["add/", "apply/", "{rule}/", "{rule}/move/", "{rule}/remove/"]


@pytest.mark.parametrize("role", Role)
def test_everybody_of_the_team_reads_and_owners_and_admins_change(scenes: Scenes, role: Role) -> None:
    rule = add(scenes, scenes.owner)
    who = scenes.member("Somebody", role)
    html = shown(who)
    assert "Every hold" in html
    may = role in {Role.OWNER, Role.ADMIN}
    assert ("Add rule" in html) is may
    entries = Entry.objects.count()
    for what in WRITES:
        path = PAGE + what.format(rule=public("rule", rule.pk))
        response = client_of(who).post(path, {"version": "0"})
        if may:
            assert response.status_code in {303, 409, 422}, what
        else:
            assert response.status_code == 403, what
            assert "To set assignment rules, you need the role owner or admin" in markup.unescape(
                response.content.decode()
            )
    assert Entry.objects.count() == entries


def test_other_teams_see_nothing_of_the_rules(scenes: Scenes) -> None:
    rita = person("Rita")
    add_team(slug="other", name="Other", fallback_owner=rita, also=[Role.ADMIN])
    rule = add(scenes, scenes.owner, destination="crm_classic")
    html = shown(rita)
    assert "crm_classic" not in html
    assert "There is no rule yet" in html
    client: Any = client_of(rita)
    assert client.get(address(rule)).status_code == 404
    for what in ("", "move/", "remove/"):
        assert client.post(address(rule, what), {"version": "1"}).status_code == 404
    assert "Assignment rule added" not in shown(rita, "/audit/").split("<tbody>")[-1]
    assert AssignmentRule.objects.get() == rule


def test_the_audit_tells_of_the_rules(scenes: Scenes) -> None:
    add(scenes, scenes.owner)
    assert "Assignment rule added" in shown(scenes.owner, "/audit/").split("<tbody>")[-1]

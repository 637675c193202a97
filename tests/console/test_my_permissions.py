"""My permissions, team by team: roles and who gave them, what I may, whom to ask, who stands in for whom."""

from __future__ import annotations

import html as markup
import re
from datetime import timedelta

from django.utils import timezone
from people import Cast, client_of, person

from opsledger.accounts import actions
from opsledger.accounts.absences import add_absence
from opsledger.accounts.models import Membership, Person
from opsledger.accounts.roles import Role
from opsledger.journal.actor import acting_as

PATH = "/settings/permissions/"


def shown(who: Person) -> str:
    return markup.unescape(client_of(who).get(PATH).content.decode())


def row_of(html: str, words: str) -> str:
    return re.search(rf'<tr><td>(?:(?!</tr>).)*<th scope="row">{words}</th>.*?</tr>', html, re.DOTALL).group(
        0
    )  # type: ignore[union-attr]


def test_it_says_which_roles_i_have_since_when_and_by_whom(cast: Cast) -> None:
    jon = person("Jon")
    with acting_as(f"person:{cast.adam.pk}"):
        actions.grant_role(jon, cast.launch, Role.OPERATOR)
    with acting_as(f"person:{cast.rita.pk}"):
        actions.grant_role(jon, cast.returns, Role.VIEWER)
    html = shown(jon)
    assert re.search(r"role <b>operator</b> since <time.*?given by Adam<", html)
    assert re.search(r"role <b>viewer</b> since <time.*?given by Rita<", html)
    Membership.objects.create(
        person=jon, team=cast.launch, role=Role.VIEWER.value
    )  # without an action, as long ago
    assert "it is not recorded by whom" in shown(jon)


def test_a_role_taken_and_given_again_names_who_gave_it_last(cast: Cast) -> None:
    jon = person("Jon")
    for who, roles in (
        (cast.adam, [Role.OPERATOR]),
        (cast.adam, [Role.VIEWER]),
        (cast.olga, [Role.OPERATOR]),
    ):
        with acting_as(f"person:{who.pk}"):
            actions.set_roles(jon, cast.launch, roles)
    html = shown(jon)
    assert re.search(r"role <b>operator</b> since <time.*?given by Olga<", html)
    assert "role <b>viewer</b>" not in html


def test_each_team_has_its_own_answers_and_other_teams_have_none(cast: Cast) -> None:
    with acting_as(f"person:{cast.rita.pk}"):
        actions.grant_role(cast.omar, cast.returns, Role.VIEWER)
    html = shown(cast.omar)
    launch, returns = html.split("<details")[0], html.split("<details")[1]
    assert "Spring launch" in launch
    assert "may</span>" in row_of(launch, "add notes")
    assert "may not</span>" in row_of(returns, "add notes")
    assert "Olga" in row_of(launch, "settle a hold")
    assert "Rita" in row_of(returns, "settle a hold")
    assert "Returns" not in shown(cast.vera)


def test_whom_to_ask_leaves_me_out_and_who_is_deactivated(cast: Cast) -> None:
    assert "only you" in row_of(shown(cast.olga), "settle a hold")
    jon = person("Jon")
    actions.grant_role(jon, cast.launch, Role.OWNER)
    assert "Jon" in row_of(shown(cast.olga), "settle a hold")
    actions.deactivate_person(jon)
    assert "Jon" not in row_of(shown(cast.omar), "settle a hold")


def test_it_says_who_stands_in_for_me_and_for_whom_i_do(cast: Cast, transactional_db: None) -> None:
    jon, now = person("Jon"), timezone.now()
    actions.grant_role(jon, cast.launch, Role.OPERATOR)
    assert "Nobody stands in for you" in shown(jon)
    add_absence(jon, cast.launch, cast.omar, begins_at=now, ends_at=now + timedelta(days=2))
    assert "<b>Omar</b> stands in for you from" in shown(jon)
    assert "You stand in for <b>Jon</b> from" in shown(cast.omar)
    assert "stand in" not in shown(cast.vera).replace("Nobody stands in for you", "")


def test_the_fallback_owner_is_told_so(cast: Cast) -> None:
    assert "You are the fallback owner" in shown(cast.olga)
    assert "You are the fallback owner" not in shown(cast.omar)

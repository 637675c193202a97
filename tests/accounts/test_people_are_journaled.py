"""Changes of people, roles, teams and tokens leave a line in their team's journal, without names or addresses."""

from __future__ import annotations

import json

import pytest

from opsledger.accounts import actions
from opsledger.accounts.permissions import Role, Scope
from opsledger.journal.actor import acting_as
from opsledger.journal.models import Entry
from tests.people import make_cast

pytestmark = pytest.mark.django_db


def lines(team: object) -> list[tuple[str, str]]:
    return list(Entry.objects.filter(subject_id=team.pk).order_by("seq").values_list("kind", "actor"))  # type: ignore[attr-defined]


def test_each_change_is_a_line_with_its_author() -> None:
    cast = make_cast()
    before, neighbour = len(lines(cast.launch)), lines(cast.returns)

    with acting_as(f"person:{cast.adam.pk}"):
        actions.grant_role(cast.vera, cast.launch, Role.OPERATOR)
        actions.grant_role(cast.vera, cast.launch, Role.OPERATOR)  # changes nothing
        actions.set_roles(cast.vera, cast.launch, [Role.VIEWER])
        token = actions.create_token(team=cast.launch, name="shop", scopes=[Scope.RECORD]).token
        actions.revoke_token(token)
        actions.revoke_token(token)  # changes nothing
        actions.set_temporary_password(cast.vera)
        actions.deactivate_person(cast.vera)
        actions.reactivate_person(cast.vera)

    kinds = ["role_granted", "roles_taken", "token_made", "token_revoked", "temporary_password_set"]
    kinds += ["person_deactivated", "person_reactivated"]
    assert lines(cast.launch)[before:] == [(kind, f"person:{cast.adam.pk}") for kind in kinds]
    assert lines(cast.returns) == neighbour


def test_no_name_and_no_address_is_in_a_line() -> None:
    cast = make_cast()
    actions.add_member(
        email="new@example.test", display_name="Somebody New", team=cast.launch, roles=[Role.VIEWER]
    )

    for text in Entry.objects.filter(subject_id=cast.launch.pk).values_list("body", flat=True):
        assert "@" not in text
        assert "Somebody" not in text
        json.loads(text)

"""A request that nobody may approve any more, because people left or lost a role, goes to the fallback owner at once."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from people import client_of
from scenes import Scenes

from opsledger.accounts.models import Membership, Person
from opsledger.accounts.roles import Role
from opsledger.console.forms import by_person
from opsledger.journal.models import Entry
from opsledger.ledger.models import Approval, Hold
from opsledger.ledger.queries.content import approvals_waiting
from opsledger.rules.content import AuthorKind
from tests.desk import AUTOMATION, Desk


@pytest.fixture
def admin(scenes: Scenes) -> Person:
    return scenes.member("Ada", Role.ADMIN)


def of_the_fallback_owner(desk: Desk) -> Hold:
    """A letter that the team's fallback owner wrote."""
    author = desk.team.fallback_owner.email
    opened = desk.letter(content_id="own", by=AUTOMATION, author_kind=AuthorKind.PERSON, author=author)
    return Hold.objects.get(operation_id=opened.id)


def takes_the_role(admin: Person, person: Person) -> None:
    answer = client_of(admin).post(f"/settings/people/{person.pk}/", {"roles": ["viewer"]})
    assert answer.status_code == 303, answer.content.decode()


def deactivates(admin: Person, person: Person) -> None:
    answer = client_of(admin).post(f"/settings/people/{person.pk}/deactivate/")
    assert answer.status_code == 303, answer.content.decode()


@pytest.mark.parametrize("leaves", [takes_the_role, deactivates])
def test_when_the_last_who_may_approve_leaves_the_fallback_owner_has_it(
    scenes: Scenes, admin: Person, leaves: Callable[[Person, Person], None]
) -> None:
    olga = scenes.member("Olga", Role.OWNER)
    held = of_the_fallback_owner(scenes.desk)
    neighbour = Hold.objects.get(operation_id=scenes.desk.letter().id)  # a model's: the fallback owner may
    assert (held.owner_id, "true" in held.facts) == (None, False)

    leaves(admin, olga)

    held.refresh_from_db()
    neighbour.refresh_from_db()
    assert (held.owner_id, held.closed_at, Approval.objects.count()) == (scenes.owner.pk, None, 0)
    assert '"nobody_may_approve": true' in held.facts or '"nobody_may_approve":true' in held.facts
    assert (neighbour.owner_id, neighbour.version) == (None, 1)
    assert {one.version.content_id: one.nobody_may_approve for one in waiting(scenes)} == {
        "own": True,
        "spring-launch:letter": False,
    }
    told = (
        Entry.objects.filter(subject_id=held.operation_id or "")
        .order_by("seq")
        .values_list("kind", flat=True)
    )
    assert list(told)[-2:] == ["approvers_changed", "assigned"]
    assert client_of(scenes.owner).get("/approvals/").status_code == 200
    call_command("verify_ledger")


def waiting(scenes: Scenes) -> list:  # type: ignore[type-arg]
    return approvals_waiting([scenes.desk.team.pk]).versions


def test_when_somebody_may_approve_again_the_question_says_so(scenes: Scenes, admin: Person) -> None:
    olga = scenes.member("Olga", Role.VIEWER)
    held = of_the_fallback_owner(scenes.desk)
    assert held.owner_id == scenes.owner.pk

    client_of(admin).post(f"/settings/people/{olga.pk}/", {"roles": ["owner"]})

    assert Membership.objects.filter(person=olga, role="owner").exists()
    held.refresh_from_db()
    assert "true" not in held.facts
    assert held.owner_id == scenes.owner.pk, "whoever has a question keeps it"
    call_command("verify_ledger")


def names_fallback(admin: Person, desk: Desk, person: Person) -> None:
    form = {"name": desk.team.name, "fallback_owner": str(person.pk)}
    answer = client_of(admin).post("/settings/teams/change/", form)
    assert answer.status_code == 303, answer.content.decode()


def of_both(desk: Desk, content_id: str, author: Person, recorder: Person) -> Hold:
    """A letter that one wrote and the other recorded."""
    opened = desk.letter(
        content_id=content_id, by=by_person(recorder), author_kind=AuthorKind.PERSON, author=author.email
    )
    return Hold.objects.get(operation_id=opened.id)


def test_a_new_fallback_owner_takes_over_what_nobody_may_approve(scenes: Scenes, admin: Person) -> None:
    """Of what nobody may approve: all that the former one had, and nothing that was given to somebody else."""
    olga = scenes.member("Olga", Role.OWNER)
    flagged, given = (of_both(scenes.desk, name, scenes.owner, olga) for name in ("one", "two"))
    own = Hold.objects.get(operation_id=scenes.desk.letter().id)  # a model's: both may approve it
    Hold.objects.filter(pk=given.pk).update(owner=admin)
    Hold.objects.filter(pk=own.pk).update(owner=scenes.owner)
    assert Hold.objects.get(pk=flagged.pk).owner_id == scenes.owner.pk

    names_fallback(admin, scenes.desk, olga)

    owners = dict(Hold.objects.values_list("pk", "owner"))
    assert owners == {flagged.pk: olga.pk, given.pk: admin.pk, own.pk: scenes.owner.pk}
    line = Entry.objects.filter(subject_id=flagged.operation_id).latest("seq")  # type: ignore[misc]
    assert (line.kind, line.actor, str(olga.pk) in line.body) == ("assigned", f"person:{admin.pk}", True)
    assert Entry.objects.filter(kind="assigned").count() == 1
    call_command("verify_ledger")


def test_an_owner_made_by_the_command_may_approve_what_nobody_could(scenes: Scenes) -> None:
    held = of_the_fallback_owner(scenes.desk)
    assert '"nobody_may_approve": true' in held.facts

    call_command(
        "create_person", "olga@test.example", "--name=Olga", f"--team={scenes.desk.team.slug}", "--role=owner",
        stdout=StringIO(), stderr=StringIO(),
    )  # fmt: skip

    held.refresh_from_db()
    assert '"nobody_may_approve": false' in held.facts
    line = Entry.objects.get(kind="approvers_changed")
    assert line.actor.startswith("command:")
    assert not any(one.nobody_may_approve for one in waiting(scenes))

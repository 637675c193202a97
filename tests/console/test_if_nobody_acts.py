"""Each hold says what happens if nobody acts, with names and times; on pages in the viewer's zone, in the API in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from people import client_of
from scenes import Scenes, path_of

from opsledger.accounts import actions, tokens
from opsledger.accounts.absences import add_absence
from opsledger.accounts.models import Person
from opsledger.accounts.permissions import Scope
from opsledger.accounts.roles import Role
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.destinations import settle_pause
from opsledger.ledger.models import Destination, Hold
from opsledger.ledger.queries.if_nobody import outlooks
from opsledger.lib.ids import public

NOW = datetime(2026, 7, 1, 13, 0, tzinfo=UTC)
DUE = datetime(2026, 7, 1, 14, 0, tzinfo=UTC)


@pytest.fixture
def maria(scenes: Scenes) -> Person:
    return scenes.member("Maria", Role.OWNER)


def said(hold: Hold, now: datetime = NOW) -> str:
    version = hold.operation.workflow_version_id if hold.operation else None
    [outlook] = outlooks(hold.team_id, [(hold, version)], now)
    return outlook.sentence(lambda at: f"{at:%H:%M}")


def held(scenes: Scenes, owner: Person | None, **more: object) -> Hold:
    scenes.unknown()
    hold = Hold.objects.latest("id")
    Hold.objects.filter(pk=hold.pk).update(owner=owner, due_at=DUE, **more)
    return Hold.objects.get(pk=hold.pk)


def test_the_owner_then_the_fallback(scenes: Scenes, maria: Person) -> None:
    assert said(held(scenes, maria)) == "At 14:00 Maria is reminded; at 15:00 it goes to Test owner."


def test_an_unowned_one(scenes: Scenes, maria: Person) -> None:
    assert (
        said(held(scenes, None))
        == "At 14:00 every owner of the team is reminded; at 15:00 it goes to Test owner."
    )


def test_the_fallbacks_own(scenes: Scenes, maria: Person) -> None:
    text = "At 14:00 Test owner is reminded; at 15:00 Test owner is told again and keeps it."
    assert said(held(scenes, scenes.owner)) == text


def test_who_stands_in_is_named_with_whom(scenes: Scenes, maria: Person) -> None:
    jon = scenes.member("Jon", Role.OWNER)
    soon = datetime.now(UTC) + timedelta(days=1)
    add_absence(maria, scenes.desk.team, jon, begins_at=NOW - timedelta(days=1), ends_at=soon)
    assert said(held(scenes, maria)).startswith("At 14:00 Jon is reminded, who stands in for Maria;")


def test_an_owner_who_is_gone(scenes: Scenes, maria: Person) -> None:
    hold = held(scenes, maria)
    actions.deactivate_person(maria)
    assert said(hold) == (
        "Within seconds it goes to Test owner, as Maria is gone; at 14:00 Test owner is reminded; "
        "at 15:00 Test owner is told again and keeps it."
    )


def test_when_everything_has_happened_it_waits(scenes: Scenes, maria: Person) -> None:
    done = {"reminded_at": DUE, "escalate_at": DUE, "escalated_at": DUE}
    hold = held(scenes, scenes.owner, **done)
    assert said(hold, DUE) == "Everybody who is told has been told; it waits for Test owner."


def test_pages_say_it_in_the_viewers_zone_and_the_api_in_utc(scenes: Scenes, maria: Person) -> None:
    opened = scenes.unknown()
    due_at = datetime(2030, 7, 1, 14, 0, tzinfo=UTC)
    Hold.objects.update(owner=maria, due_at=due_at)
    Person.objects.filter(pk=maria.pk).update(time_zone="Asia/Tokyo")
    page = unescape(client_of(Person.objects.get(pk=maria.pk)).get(path_of(opened)).content.decode())
    text = "at 1\u00a0Jul\u00a02030, 23:00 Maria is reminded; at 2\u00a0Jul\u00a02030, 00:00 it goes to Test owner."
    assert text.capitalize()[:2] + text[2:] in page
    assert "Nothing is sent meanwhile." in page

    made = actions.create_token(team=scenes.desk.team, name="reads", scopes=[Scope.READ])
    tokens.forget_all()
    path = f"/api/v1/holds/{public('hold', Hold.objects.get().pk)}"
    answer = client_of(maria).get(path, headers={"Authorization": f"Bearer {made.text}"}).json()
    said = "At 2030-07-01 14:00 UTC Maria is reminded; at 2030-07-01 15:00 UTC it goes to Test owner."
    assert said in answer["if_nobody"]


def test_a_stopped_destination_says_it_too_but_not_that_nothing_is_sent(
    scenes: Scenes, maria: Person
) -> None:
    """Its own sentence says what happens to sending: an open circuit tries again by itself."""
    row = Destination.objects.filter(team=scenes.desk.team).earliest("definition_id")
    settle_pause(
        row.pk, row.version, "Maintenance.", By("token:00000000-0000-0000-0000-000000000003", "flow")
    )
    page = client_of(maria).get("/destinations/").content.decode()
    assert "every owner of the team is reminded;" in page
    assert "Nothing is sent meanwhile" not in page

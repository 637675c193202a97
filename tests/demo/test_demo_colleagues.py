"""What colleagues leave to a newcomer: a dispute and proposed answers. And the demo waits for nothing that never comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from opsledger.accounts.actions import create_token, grant_role
from opsledger.accounts.permissions import Role, Scope
from opsledger.demo import colleagues, play
from opsledger.demo.colleagues import Hands, work
from opsledger.demo.play import Doors, Played
from opsledger.demo.scenario import CHANGED, DUPLICATED, ENDED
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import Hold, Operation, Proposal, Step
from tests.desk import Desk
from tests.people import person

SECRET = b"the demo's shop signs with this."


@pytest.fixture
def hands(desk: Desk) -> Hands:
    until = timezone.now() + timedelta(minutes=5)

    def own(name: str, role: Role, *scopes: Scope) -> str:
        one = person(name)
        grant_role(one, desk.team, role)
        return create_token(team=desk.team, name=name, scopes=scopes, person=one, expires_at=until).text

    scopes = [Scope.RECORD, Scope.READ, Scope.REPORT, Scope.PROPOSE]
    return Hands(
        automation=create_token(team=desk.team, name="demo", scopes=scopes).text,
        operator=own("Omar", Role.OPERATOR, Scope.READ, Scope.PROPOSE),
        owner=own("Olga", Role.OWNER, Scope.READ, Scope.DECIDE),
    )


@pytest.fixture
def doors(desk: Desk, hands: Hands, live_server: Any) -> Doors:
    return Doors(live_server.url, hands.automation, SECRET, desk.sandbox)


@pytest.fixture
def played(desk: Desk, doors: Doors) -> list[Played]:
    """One of each part that colleagues work on, sent, and looked up until a person is asked about each."""
    switch_sending(False, reason="the demo is being laid out", by="command:test")
    played = play.play(doors, [DUPLICATED, CHANGED, ENDED])
    switch_sending(True, reason="the demo is laid out", by="command:test")
    desk.sandbox.mode(mail_delivery_seconds=0.0)
    _until(lambda: not Step.objects.filter(attempts=None).exists(), desk.send)
    play.interfere(doors, played)
    _until(lambda: Hold.objects.filter(closed_at=None).count() == len(played), desk.hurry, desk.look)
    return played


def _until(done: Callable[[], bool], *turns: Callable[[], object]) -> None:
    for _ in range(30):
        if done():
            return
        for turn in turns:
            turn()
    raise AssertionError(list(Step.objects.values_list("state", flat=True)))


def test_what_an_owner_ended_is_disputed_when_it_is_delivered_after_all(
    played: list[Played], doors: Doors, hands: Hands
) -> None:
    work(doors, played, hands)

    (ended,) = [one for one in played if one.part is ENDED]
    open_holds = {hold.operation.operation_id: hold for hold in Hold.objects.filter(closed_at=None)}
    reasons = {one.public_id: open_holds[_text_id(one)].reason for one in played}
    assert reasons.pop(ended.public_id) == "disputed"
    assert sorted(reasons.values()) == ["duplicate_found"] * 2 + ["record_differs"] * 2  # nothing else moved


def test_a_model_and_an_operator_propose_answers_and_settle_nothing(
    played: list[Played], doors: Doors, hands: Hands
) -> None:
    work(doors, played, hands)

    found = {one.hold.reason: one for one in Proposal.objects.select_related("hold")}
    assert set(found) == {"duplicate_found", "record_differs"}
    assert (found["duplicate_found"].answer, found["duplicate_found"].author_kind) == ("keep_one", "model")
    assert (found["record_differs"].answer, found["record_differs"].author_kind) == ("ours", "person")
    assert all(one.hold.closed_at is None for one in found.values())


def test_a_hold_that_does_not_come_is_passed_over(
    doors: Doors, hands: Hands, played: list[Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(colleagues, "HOLD_SECONDS_MAX", 0.1)
    elsewhere = [replace(one, public_id="op_01m8mr7jscf8msy3mbz8fkp63z") for one in played]
    work(doors, elsewhere, hands)
    assert Proposal.objects.count() == 0


def test_letters_are_known_by_what_the_sandbox_knows_them_by(desk: Desk, doors: Doors, hands: Hands) -> None:
    sent = play.write_letters(doors, hands.owner)
    _until(lambda: not Step.objects.filter(attempts=None).exists(), desk.send)
    assert [len(play.effects_of(doors, identity)) for identity in sent] == [1] * play.SENT

    began = time.monotonic()
    play.leave_to_be_approved(doors, sent)
    assert time.monotonic() - began < 20  # an unknown name would be waited for, 30 s each


def _text_id(one: Played) -> str:
    return str(Operation.objects.get(steps__identity=one.identities[0]).operation_id)

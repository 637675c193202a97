"""The demo's troubles are real: what the sandbox was told to do to a request befalls that request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opsledger.accounts.actions import create_token
from opsledger.accounts.permissions import Scope
from opsledger.demo.play import Doors, Played, play
from opsledger.demo.scenario import CHANGED, DUPLICATED, PARTS
from opsledger.ledger.actions.sending import switch_sending
from opsledger.ledger.models import Attempt, Destination, Step
from opsledger.rules.states import Outcome
from tests.desk import Desk

SECRET = b"the demo's shop signs with this."
ONE_OF_EACH = [replace(part, count=1) for part in (*PARTS, DUPLICATED, CHANGED) if part.prepare is not None]
WELL = {Outcome.CONFIRMED, Outcome.ACCEPTED}


@pytest.fixture
def played(desk: Desk, live_server: Any) -> list[Played]:
    """One operation of each troubled kind, recorded through the product's own doors; each step sent at most once."""
    token = create_token(team=desk.team, name="demo", scopes=[Scope.RECORD, Scope.READ]).text
    switch_sending(False, reason="the demo is being laid out", by="command:test")
    played = play(Doors(live_server.url, token, SECRET, desk.sandbox), ONE_OF_EACH)
    switch_sending(True, reason="the demo is laid out", by="command:test")
    for _ in range(30):
        if not Step.objects.filter(state="ready", attempts__isnull=True).exists():
            break
        Destination.objects.update(send_tokens=100)  # no waiting for the destinations' rates
        desk.send()
    return played


def test_every_request_that_is_to_meet_trouble_meets_it(played: list[Played]) -> None:
    spared = [one.part.name for one in played if _outcomes(one) <= WELL]
    assert spared == []


def _outcomes(one: Played) -> set[str]:
    ended = Attempt.objects.filter(step__identity__in=one.identities, outcome__isnull=False)
    return set(ended.values_list("outcome", flat=True))

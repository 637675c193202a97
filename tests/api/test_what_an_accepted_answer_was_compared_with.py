"""What a reference was compared with stands beside the answer, whichever call gave it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from api_world import Api
from django.utils import timezone

from opsledger.accounts import actions, tokens
from opsledger.accounts.permissions import PERSONAL_SCOPES
from opsledger.engine.wire import installed_wire
from opsledger.journal.models import Entry
from opsledger.ledger.models import Hold
from opsledger.lib.ids import public
from tests.desk import Desk, desk, sandbox, step_identity, turn_recovery
from tests.replaying import unknown

__all__ = ["desk", "sandbox"]


@pytest.fixture
def owner(desk: Desk, settings: Any) -> Iterator[Api]:
    """A person of the desk, whose sandbox can be read from here."""
    settings.ALLOWED_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    installed_wire.cache_clear()
    tokens.forget_all()
    turn_recovery(on=False)
    made = actions.create_token(
        team=desk.team, name="owner", scopes=PERSONAL_SCOPES, person=desk.team.fallback_owner,
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    yield Api(made.text)
    installed_wire.cache_clear()


@pytest.mark.parametrize("by", ["settle", "accept"])
def test_what_was_compared_is_kept_with_the_answer(desk: Desk, owner: Api, by: str) -> None:
    opened = unknown(desk)
    reference = desk.sandbox.effects(identity=step_identity(opened.id, 1))[0]["reference"]
    hold = Hold.objects.get(operation_id=opened.id)
    path, version = f"/holds/{public('hold', hold.pk)}", hold.version
    answer = {"answer": "happened", "reference": reference, "reason": "Found in the CRM."}

    if by == "settle":
        done = owner.post(f"{path}/settle", answer, if_match=version)
    else:
        proposal = owner.post(f"{path}/propose", answer, if_match=version).json()["proposal"]["id"]
        done = owner.post(f"/proposals/{proposal}/accept", {}, if_match=version)

    assert (done.status_code, done.json()["reading"]["compared"]) == (200, True)
    assert json.loads(Entry.objects.get(kind="answered").body)["compared"]

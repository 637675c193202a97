"""A number in a form is read whole: what only begins like one that fits is refused, however long it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from people import client_of
from scenes import Scenes, hold_path

from opsledger.console.views.replays import _rates
from opsledger.journal.models import Entry
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.models import Hold
from opsledger.lib.ids import public
from opsledger.rules.states import HoldReason

LONG = "0" * 5_000  # Python converts no text of so many digits
NEXT: dict[str, Any] = {"answer": "unknown"}
TRIES: dict[str, Any] = {"answer": "more_tries"}


@pytest.mark.parametrize(
    ("make", "form", "said"),
    [
        pytest.param(Scenes.exhausted, TRIES | {"tries": "000001" + LONG}, "between 1 and 20", id="tries"),
        pytest.param(Scenes.exhausted, TRIES | {"tries": "0000201"}, "between 1 and 20", id="tries, 201"),
        pytest.param(Scenes.exhausted, TRIES | {"tries": "²"}, "between 1 and 20", id="tries, no digit"),
        pytest.param(
            Scenes.unknown, NEXT | {"next_check": "000060" + LONG}, "Choose when to check", id="minutes"
        ),
        pytest.param(
            Scenes.unknown, NEXT | {"next_check": "000060" + "9" * 9}, "Choose when to check", id="too far"
        ),
        pytest.param(Scenes.unknown, NEXT | {"next_check": "0001990"}, "", id="that many minutes"),
        pytest.param(Scenes.expired, {"answer": "close", "keep": "00002" + LONG}, "", id="a step to be kept"),
    ],
)
def test_a_number_is_read_whole(
    scenes: Scenes, make: Callable[[Scenes], Any], form: dict[str, str], said: str
) -> None:
    hold = scenes.hold(make(scenes))
    fields = {"version": str(hold.version), "reason": "I looked at the destination."} | form

    answer = client_of(scenes.owner).post(hold_path(hold, "settle"), fields)

    assert answer.status_code == (422 if said else 303)
    assert said in answer.content.decode()
    assert Entry.objects.filter(kind="answered").exists() is not bool(said)


def test_a_next_check_is_within_thirty_days(scenes: Scenes) -> None:
    """The limit that the field has is the limit of what is kept, with any number of noughts before it."""
    opened = scenes.unknown()
    hold = scenes.hold(opened)
    fields = {"version": str(hold.version), "answer": "unknown", "reason": "They look tomorrow."}
    for minutes in ("43201", "00000043201", "0000043200999"):
        answer = client_of(scenes.owner).post(hold_path(hold, "settle"), fields | {"next_check": minutes})
        assert answer.status_code == 422, minutes
    assert Hold.objects.get(pk=hold.pk).due_at < timezone.now() + timedelta(days=30)


NO_RATE = ["", "nan", "inf", "1e2", "-1", "+1", "1_0", "\u0663", "0x1", "1.2.3", "1,000.5", ".", "9" * 400]


@pytest.mark.parametrize("rate", NO_RATE, ids=lambda text: text[:7] or "nothing")
def test_a_destination_goes_on_at_a_rate_as_people_write_it(scenes: Scenes, rate: str) -> None:
    hold = scenes.stopped("crm_classic", HoldReason.ACCESS_REFUSED)
    path = f"/destinations/holds/{public('hold', hold.pk)}/resume"
    form = {"version": str(hold.version), "rate": rate, "reason": "A new key is in place."}
    answer = client_of(scenes.owner).post(path, form)
    assert answer.status_code == 422
    assert "Write how many sends a second" in answer.content.decode()
    assert client_of(scenes.owner).post(path, form | {"rate": " 12,5 "}).status_code == 303


@pytest.mark.parametrize("rate", [text for text in NO_RATE if text], ids=lambda text: text[:7])
def test_a_replay_goes_at_a_rate_as_people_write_it(rate: str) -> None:
    with pytest.raises(Refused) as refused:
        _rates({"rate:crm": rate})
    assert refused.value.field == "per_second.crm"
    assert _rates({"rate:crm": "0,5", "rate:mail": "1000", "rate:post": ""}) == {"crm": 0.5, "mail": 1000.0}

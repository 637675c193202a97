"""Every reason that a person gives is kept whole, so it is asked for and it has a limit; nothing happens without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import uuid4

import pytest

from opsledger.journal.models import Entry
from opsledger.ledger.actions import destinations, event_questions, interventions, sending
from opsledger.ledger.actions.deciding import REASON_LENGTH_MAX, By, Refused

BY = By("person:00000000-0000-0000-0000-000000000001", "Owner")
ASKED = {
    "cancel": lambda why: interventions.settle_cancel(uuid4(), why, BY, version=1),
    "take an answer back": lambda why: interventions.settle_withdraw(uuid4(), 1, why, BY, version=1),
    "pause a destination": lambda why: destinations.settle_pause(uuid4(), 1, why, BY),
    "let a destination go on": lambda why: destinations.settle_resume(uuid4(), 1, 1.0, why, BY),
    "sending off": lambda why: sending.switch_sending(
        False, reason=why, by="person:00000000-0000-0000-0000-000000000001"
    ),
    "a question about an event": lambda why: event_questions.settle_event_hold(
        uuid4(), "dismiss", 1, why, BY
    ),
}
WRITTEN_WRONG = {"none": "", "blank": " \n", "too long": "x" * (REASON_LENGTH_MAX + 1)}


@pytest.mark.parametrize("reason", WRITTEN_WRONG.values(), ids=WRITTEN_WRONG)
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_without_a_reason_of_its_length_nothing_happens(
    transactional_db: None, ask: Callable[[str], object], reason: str
) -> None:
    lines = Entry.objects.count()
    with pytest.raises(Refused) as refused:
        partial(ask, reason)()
    assert refused.value.field == "reason"
    assert Entry.objects.count() == lines

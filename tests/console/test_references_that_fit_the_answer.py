"""A reference goes with answers that name a record, and is the record that the question is about, where it is about one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scenes import Scenes

from opsledger.journal.models import Entry
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.open import Opened
from opsledger.rules.answers import Answer

CHECKED = {"checked_how": "Asked their support."}
WHY = {"no_reference_why": "They gave none."}


@pytest.mark.parametrize(
    ("make", "answer", "more", "said"),
    [
        pytest.param(Scenes.differs, Answer.OURS, {"reference": "T-1"}, "T-58300", id="ours, another record"),
        pytest.param(Scenes.differs, Answer.OURS, WHY, "T-58300", id="ours, without the record"),
        pytest.param(
            Scenes.differs, Answer.NOT_OURS, {"reference": "T-1"}, "T-58300", id="not ours, another record"
        ),
        pytest.param(
            Scenes.unknown, Answer.ABSENT_END, {"reference": "T-1"} | CHECKED, "no reference", id="absent, end"
        ),
        pytest.param(
            Scenes.unknown, Answer.ABSENT_SEND_AGAIN, {"reference": "T-1"} | CHECKED, "no reference",
            id="absent, send again",
        ),
        pytest.param(
            Scenes.unknown, Answer.CLOSE_UNKNOWN, {"reference": "T-1"}, "no reference", id="never known"
        ),
        pytest.param(
            Scenes.rejected, Answer.END_FAILED, {"reference": "T-1"}, "no reference", id="end as failed"
        ),
        pytest.param(
            Scenes.rejected, Answer.SAME_AGAIN, {"reference": "T-1"}, "no reference", id="the same again"
        ),
    ],
)  # fmt: skip
def test_a_reference_that_does_not_fit_is_refused(
    scenes: Scenes, make: Callable[[Scenes], Opened], answer: Answer, more: dict[str, Any], said: str
) -> None:
    opened = make(scenes)
    hold = scenes.hold(opened)

    with pytest.raises(Refused, match=said) as refused:
        scenes.settle(opened, answer, **more)

    assert refused.value.field == "reference"
    assert scenes.hold(opened).version == hold.version
    assert not Entry.objects.filter(kind="answered").exists()


@pytest.mark.parametrize(
    ("make", "answer", "more"),
    [
        pytest.param(Scenes.differs, Answer.OURS, {"reference": "T-58300"}, id="ours"),
        pytest.param(Scenes.differs, Answer.NOT_OURS, {"reference": "T-58300"}, id="not ours"),
        pytest.param(Scenes.differs, Answer.NOT_OURS, {}, id="not ours, not named again"),
        pytest.param(Scenes.unknown, Answer.HAPPENED, {"reference": "T-1"}, id="happened"),
        pytest.param(Scenes.unknown, Answer.HAPPENED, WHY, id="happened, without one"),
        pytest.param(Scenes.unknown, Answer.HAPPENED_ACCEPTED, {"reference": "T-1"}, id="taken over"),
        pytest.param(Scenes.not_proven, Answer.DELIVERED, {"reference": "M-1"}, id="delivered"),
    ],
)
def test_one_that_fits_is_taken(
    scenes: Scenes, make: Callable[[Scenes], Opened], answer: Answer, more: dict[str, Any]
) -> None:
    scenes.settle(make(scenes), answer, **more)
    assert Entry.objects.filter(kind="answered").exists()

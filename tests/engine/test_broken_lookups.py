"""A lookup that breaks in our own code is no answer, and is counted as one that was made: a person is asked in the end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from opsledger.destinations.transport import SendLimits, WireRequest
from opsledger.engine import reconcile
from opsledger.ledger.models import Evidence, Hold
from opsledger.rules.facts import SendFact
from opsledger.rules.states import HoldReason, StepState
from tests.desk import WIRE, Desk, step_identity


@dataclass(frozen=True)
class Breaking:
    """Reaches the world, but breaks over one identity."""

    identity: str

    def send(self, request: WireRequest, limits: SendLimits) -> SendFact:
        if self.identity in request.url:
            raise RuntimeError("a fault of ours, with words of a customer in it")
        return WIRE.send(request, limits)


def test_a_lookup_that_breaks_is_no_answer_and_keeps_no_step_unknown_for_ever(
    desk: Desk,
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened, neighbour = desk.open("classic_follow_up"), desk.open("classic_follow_up")
    for one in (opened, neighbour):
        desk.sandbox.script("lose_reply_after_acting", 1, method="POST", identity=step_identity(one.id, 1))
    desk.send()
    assert {desk.step(one).state for one in (opened, neighbour)} == {StepState.UNKNOWN}

    for _ in range(12):  # more than its profile plans
        desk.hurry()
        reconcile.run_once(wire=Breaking(step_identity(opened.id, 1)), threads=2, look_for_seconds=0.5)  # type: ignore[arg-type]
        desk.sweep()

    assert desk.step(opened).state == StepState.UNKNOWN
    assert Hold.objects.get(step__operation_id=opened.id).reason == HoldReason.OUTCOME_UNKNOWN
    looked = Evidence.objects.filter(operation_id=opened.id, kind="lookup")
    assert {one.says for one in looked} == {"lookup_failed"}
    assert "customer" not in " ".join(one.sentence for one in looked)
    assert desk.step(neighbour).state == StepState.CONFIRMED

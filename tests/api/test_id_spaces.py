"""A reference belongs to one create step among the records that its destination counts together."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from api_world import World, read
from test_holds import settle
from test_references import MORE, report

from opsledger.engine.sending import sent_of
from opsledger.ledger import definitions
from opsledger.ledger.actions.claim import ClaimedSend, claim_sends
from opsledger.ledger.actions.definitions import forget_current, load
from opsledger.ledger.actions.ordinary import record_replies
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.ledger.models import HeldReference, Step
from opsledger.rules.facts import Phase, SendFact
from opsledger.rules.outcomes import classify

ACTION = """
[destination.counted.actions.{name}]
title = "Open one"
effect = "create"
[destination.counted.actions.{name}.request]
method = "POST"
path = "/{name}"
[destination.counted.actions.{name}.request.body]
subject = "{{params.subject}}"
[destination.counted.actions.{name}.reply]
reference = "id"
{space}
"""
HEAD = '[destination.counted]\nname = "Counted"\nbase_url = "http://127.0.0.1:9"\n'
SPACES = {"task": "tasks", "copied_task": "tasks", "note": "notes", "thing": "", "other_thing": ""}
FLOW = MORE[MORE.index("[workflow.dealt]") : MORE.index("[workflow.ticketed]")]
PAIRS = [
    pytest.param("task", "note", True, id="tasks and notes are counted apart"),
    pytest.param("task", "copied_task", False, id="two ways to one kind of record"),
    pytest.param("thing", "other_thing", False, id="nothing is said of either"),
    pytest.param("task", "thing", True, id="something is said of one"),
]


def _definitions(performer: str) -> str:
    actions = [
        ACTION.format(name=name, space=f'id_space = "{space}"' if space else "")
        for name, space in SPACES.items()
    ]
    flow = FLOW.replace('performer = "automation"', f'performer = "{performer}"').replace(
        "pipeline", "counted"
    )
    flows = [flow.replace("dealt", name).replace('action = "open"', f'action = "{name}"') for name in SPACES]
    return "\n".join([HEAD, *actions, *flows])


def _by_automation(world: World, own: str) -> None:
    report(world, _attempt(world, own), "confirmed", reference="101")


def _by_a_person(world: World, own: str) -> None:
    report(world, _attempt(world, own), "unknown")
    hold = next(one for one in world.auto.get("/holds").json()["items"] if one["operation_id"] == own)
    settle(world, hold, "happened", reference="101")


def _by_a_reply(world: World, own: str) -> None:
    record_sends([_sent(own)[1]])


def _by_an_ordinary_reply(world: World, own: str) -> None:
    record_replies([_sent(own)])


def _attempt(world: World, own: str) -> str:
    attempt: str = world.auto.post(f"/operations/{own}/steps/create_task/claim").json()["attempt_id"]
    return attempt


def _sent(own: str) -> tuple[ClaimedSend, Sent]:
    step = Step.objects.get(operation__operation_id=own)
    claimed = next(one for one in claim_sends(50, worker="w") if one.step_id == step.pk)
    fact = SendFact(
        True, Phase.DONE, status=201, headers=(("content-type", "application/json"),), body=b'{"id": "101"}'
    )
    profile = definitions.destination(claimed.destination_version_id).actions[claimed.action].profile
    return claimed, sent_of(claimed, fact, classify(fact, profile), id_space=profile.reply.id_space)


WRITERS = [
    pytest.param("automation", _by_automation, id="an automation's report"),
    pytest.param("automation", _by_a_person, id="a person's answer"),
    pytest.param("engine", _by_a_reply, id="a reply"),
    pytest.param("engine", _by_an_ordinary_reply, id="an ordinary reply"),
]


@pytest.mark.parametrize(("first", "second", "apart"), PAIRS)
@pytest.mark.parametrize(("performer", "write"), WRITERS)
def test_a_reference_is_shared_only_by_records_that_are_counted_apart(
    live_world: World,
    performer: str,
    write: Callable[[World, str], None],
    first: str,
    second: str,
    apart: bool,
) -> None:
    load(live_world.cast.launch.pk, read(_definitions(performer)), actor="command:test")
    forget_current()
    live_world.record("order:1", first)
    write(live_world, "order:1")
    live_world.record("order:2", second)
    write(live_world, "order:2")
    states = dict(Step.objects.values_list("operation__operation_id", "state"))
    assert states == {"order:1": "confirmed", "order:2": "confirmed" if apart else "unknown"}
    assert HeldReference.objects.count() == (2 if apart else 1)

"""What tests do with replays: operations that wait for one, plans, starts, and turns of the engine until all is at rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opsledger.accounts.models import Person
from opsledger.engine import replays
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.open import Opened
from opsledger.ledger.actions.replays import Opened as OpenedReplay
from opsledger.ledger.actions.replays import Start, open_replay
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Destination, Replay, ReplayItem
from opsledger.ledger.queries.replay_plans import plan, scope_of_ids
from opsledger.ledger.replay_plan import FrozenPlan, Plan, freeze, thaw
from tests.desk import Desk, step_identity, turn_recovery

CLASSIC = "classic_follow_up"


def by_owner(desk: Desk) -> By:
    person = Person.objects.get(email="owner@test.example")
    return By(f"person:{person.pk}", person.display_name, person.pk)


def done(desk: Desk, workflow: str = CLASSIC) -> Opened:
    opened = desk.open(workflow)
    desk.send()
    assert desk.step(opened).state == "confirmed"
    return opened


def rejected(desk: Desk, workflow: str = CLASSIC) -> Opened:
    """Held: its first step was refused by the destination."""
    opened = desk.open(workflow)
    desk.sandbox.script("invalid", 1, method="POST", identity=step_identity(opened.id, 1))
    desk.send()
    assert desk.step(opened).state == "ready"
    return opened


def unknown(desk: Desk, workflow: str = CLASSIC, *, acted: bool = True) -> Opened:
    """Held: nobody knows whether its first step happened, and nothing recovers by itself."""
    turn_recovery(on=False)
    opened = desk.open(workflow)
    word = "after" if acted else "before"
    identity = step_identity(opened.id, 1)
    desk.sandbox.script(f"lose_reply_{word}_acting", 1, method="POST", identity=identity)
    desk.send()
    assert desk.step(opened).state == "unknown"
    return opened


def planned(desk: Desk, operations: Iterable[Opened], **extra: Any) -> Plan:
    scope = scope_of_ids(desk.team.pk, [one.id for one in operations])
    return plan(desk.team.pk, scope, database_now(), **extra)


def frozen(desk: Desk, made: Plan) -> FrozenPlan:
    person_id = by_owner(desk).person_id
    return thaw(freeze(made, person_id), desk.team.pk, person_id)


def start_of(made: Plan, **changes: Any) -> Start:
    values: dict[str, Any] = {
        "name": "after the incident",
        "reason": "The queue was closed from 14:02 to 14:20.",
        "plan_digest": made.digest(),
        "touches": frozenset(one.slug for one in made.destinations),
        "per_second": {one.slug: 100.0 for one in made.destinations},
        "mended": True,
    }
    return Start(**(values | changes))


def started(desk: Desk, operations: Iterable[Opened], **changes: Any) -> Replay:
    made = planned(desk, operations)
    return opened_by(desk, made, **changes).replay


def opened_by(desk: Desk, made: Plan, **changes: Any) -> OpenedReplay:
    return open_replay(frozen(desk, made), start_of(made, **changes), by_owner(desk))


def carry(desk: Desk, replay: Replay, *, rounds: int = 12) -> Replay:
    """Turns of all engines until the replay has ended, with time going by in between."""
    for _ in range(rounds):
        replays.run_once()
        replay.refresh_from_db()
        if replay.ended_at is not None:
            break
        desk.hurry()
        Destination.objects.update(send_tokens=5.0)  # no waiting for a destination's own rate
        desk.send()
        desk.look()
        desk.sweep()
    return replay


def items(replay: Replay) -> dict[tuple[Any, int], tuple[str, str, str]]:
    rows = ReplayItem.objects.filter(replay=replay).order_by("position")
    return {(row.operation_id, row.number): (row.state, row.result, row.said) for row in rows}


def effects(desk: Desk, opened: Opened, number: int = 1) -> int:
    return len(desk.sandbox.effects(identity=step_identity(opened.id, number)))


def writes(desk: Desk) -> int:
    return sum(1 for one in desk.sandbox.requests() if one["method"] == "POST")

"""Starting, pausing and aborting a replay: what people decide about it. What the engine does is in `replay_items`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.deciding import By, Refused, check_length, check_reason
from opsledger.ledger.actions.notices import News, tell_here
from opsledger.ledger.actions.replay_stops import STOP_AFTER_MAX
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Replay, ReplayDestination
from opsledger.ledger.models.replays import COUNTED
from opsledger.ledger.queries.replay_plans import plan_again
from opsledger.ledger.replay_plan import Difference, FrozenPlan, Plan, PlanItem, differences
from opsledger.ledger.sql import statement
from opsledger.rules.notice_words import NoticeKind
from opsledger.rules.replay_words import ItemState, ReplayState
from opsledger.rules.replays import Reason, VerdictKind

NAME_LENGTH_MAX = 200
RATE_MIN, RATE_MAX = 0.1, 1000.0
INSERT_BATCH = 5_000


class PlanMoved(Exception):
    """What was planned is not what would happen now; nothing was started. Carries what moved, and the plan as it is now."""

    def __init__(self, moved: list[Difference], plan: Plan) -> None:
        super().__init__(f"{len(moved)} steps are not as they were planned. Nothing was started.")
        self.moved, self.plan = moved, plan


class ReplayMoved(Exception):
    """The decision was made on an older version of the replay; nothing was changed. Carries it as it is now."""

    def __init__(self, replay: Replay) -> None:
        super().__init__("This replay changed while you were reading it. Nothing was changed.")
        self.replay = replay


@dataclass(frozen=True, slots=True)
class Start:
    """What a person says with the start."""

    name: str
    reason: str
    plan_digest: str
    touches: frozenset[str]  # the destinations that were ticked
    per_second: Mapping[str, float] = field(default_factory=dict)  # by destination; else its own rate
    stop_after: int | None = None  # unknown outcomes, at which it pauses by itself
    mended: bool = False  # the cause of each rejection was mended at the destination


@dataclass(frozen=True, slots=True)
class Opened:
    replay: Replay
    created: bool  # False: the same start again


def open_replay(frozen: FrozenPlan, start: Start, by: By) -> Opened:
    """Starts a planned replay; nothing is sent here.

    1. The same plan a second time is the replay that it started.
    2. The digest must be the plan's own, and the plan must still be true: else PlanMoved with the differences. A plan of
       which only the operations' versions moved is still true.
    3. Every destination that it touches must be ticked (Refused names the first that is not).
    4. Replay, items and journal line are written together. A step that another open replay took meanwhile is PlanMoved.
    """
    _check(start)
    if frozen.digest != start.plan_digest:
        raise Refused(
            "This digest belongs to another plan. Plan again, and start what you see.", field="plan_digest"
        )
    known = _started_before(frozen, by)
    if known is not None:
        return Opened(known, False)
    try:
        plan = _still_true(frozen)
        paces = _paces(plan, start)
        with transaction.atomic(durable=True):
            return _written(plan, frozen, start, by, paces)
    except PlanMoved:
        known = _started_before(frozen, by)  # the same start, a moment ago
        if known is None:
            raise
        return Opened(known, False)
    except IntegrityError:
        known = _started_before(frozen, by)
        if known is not None:
            return Opened(known, False)
        _still_true(frozen)  # another replay took one of its steps a moment ago: PlanMoved names both
        raise Refused("Another replay was started at the same moment. Plan again.") from None


def _check(start: Start) -> None:
    if not start.name.strip():
        raise Refused(
            "Give the batch a name: it stands in the list and in every operation’s history.", field="name"
        )
    if len(start.name) > NAME_LENGTH_MAX or not start.name.isprintable():
        raise Refused(f"The name must be one line of at most {NAME_LENGTH_MAX} characters.", field="name")
    if not start.reason.strip():
        raise Refused("Write the reason; it is kept with the replay.", field="reason")
    if start.stop_after is not None and not 1 <= start.stop_after <= STOP_AFTER_MAX:
        raise Refused(
            f"It can stop after 1 to {STOP_AFTER_MAX} unknown outcomes.", field="stop_after_unknown"
        )
    check_length(start.reason, "The reason", "reason")


def _started_before(frozen: FrozenPlan, by: By) -> Replay | None:
    known = Replay.objects.filter(pk=frozen.id, team_id=frozen.team_id).first()
    if known is not None and (known.plan_digest, known.actor) != (frozen.digest, by.actor):
        raise Refused("Another plan was started under this id. Plan again.", field="plan_digest")
    return known


def _still_true(frozen: FrozenPlan) -> Plan:
    plan = plan_again(frozen, database_now())
    moved = differences(frozen, plan.items)
    if moved:
        raise PlanMoved(moved, plan)
    return plan


def _paces(plan: Plan, start: Start) -> dict[UUID, float]:
    if not _running(plan, start):
        raise Refused("Nothing in this plan can run.")
    _only_of_the_plan({one.slug for one in plan.destinations}, start)
    paces = {}
    for destination in plan.destinations:
        if destination.slug not in start.touches:
            raise Refused(
                f"This touches another system: {destination.slug}. Tick it, or plan without it.",
                field=f"touches.{destination.slug}",
            )
        rate = start.per_second.get(destination.slug, destination.sends_per_second)
        if not RATE_MIN <= rate <= RATE_MAX:
            raise Refused(
                f"The rate at {destination.slug} must be from {RATE_MIN:g} to {RATE_MAX:g} steps a second.",
                field=f"per_second.{destination.slug}",
            )
        paces[destination.id] = rate
    return paces


def _only_of_the_plan(slugs: set[str], start: Start) -> None:
    """A rate for a mistyped system would be no rate at all."""
    for field_name, named in (("per_second", start.per_second.keys()), ("touches", start.touches)):
        unknown = sorted(named - slugs)
        if unknown:
            raise Refused(
                f"This plan does not touch {unknown[0]}; it touches {', '.join(sorted(slugs))}.",
                field=f"{field_name}.{unknown[0]}",
            )


def _running(plan: Plan, start: Start) -> set[tuple[UUID, int]]:
    """The steps that run. Without the tick what was rejected stays, and what follows it stays behind it."""
    runs: set[tuple[UUID, int]] = set()
    for item in plan.items:  # an operation's steps in their order
        verdict = item.verdict
        if verdict.kind is VerdictKind.BEHIND:
            if verdict.runs and (item.operation_id, int(verdict.detail)) in runs:
                runs.add(item.key)
        elif verdict.runs and (start.mended or verdict.reason is not Reason.REJECTED):
            runs.add(item.key)
    return runs


def _written(plan: Plan, frozen: FrozenPlan, start: Start, by: By, paces: Mapping[UUID, float]) -> Opened:
    now = database_now()
    runs = _running(plan, start)
    states = Counter(_state(item, runs) for item in plan.items)
    counts = {f"{state.value}_count": count for state, count in states.items()}
    Replay.objects.bulk_create(
        [
            Replay(
                id=plan.id, team_id=plan.team_id, name=start.name.strip(), scope=plan.scope, reason="",
                statement_id=plan.statement.id if plan.statement else None, plan_digest=frozen.digest,
                actor=by.actor, started_by_id=by.person_id, started_at=now,
                item_count=len(plan.items), stop_after=start.stop_after, **counts,
            )
        ],
        ignore_conflicts=True,
    )  # fmt: skip
    replay = Replay.objects.select_for_update(no_key=True).get(pk=plan.id)
    if replay.reason:  # the same start, a moment ago
        return Opened(replay, False)
    reason = keep_text(plan.id, start.reason)
    replay.reason = json.dumps(reason)
    replay.save(update_fields=["reason"])
    _write_destinations(plan, runs, paces, now)
    _write_items(plan, runs)
    facts = {
        "name": keep_text(plan.id, replay.name),
        "reason": reason,
        "plan_digest": frozen.digest,
        "items": len(plan.items),
        "counts": counts,
        "mended": start.mended,
        "stop_after": start.stop_after,
        "newest": sorted(plan.newest),
        "per_second": {one.slug: paces[one.id] for one in plan.destinations},
        **_stated(plan),
    }
    append([Line("replay", plan.id, "replay_started", by.actor, body(facts))])
    return Opened(replay, True)


def _stated(plan: Plan) -> dict[str, str]:
    if plan.statement is None:
        return {}
    return {"statement": str(plan.statement.id), "statement_digest": plan.statement.digest}


def _state(item: PlanItem, runs: set[tuple[UUID, int]]) -> ItemState:
    if item.key in runs:
        return ItemState.WAITING
    return ItemState.KEPT if item.verdict.kind is VerdictKind.KEEP else ItemState.REFUSED


def _write_destinations(
    plan: Plan, runs: set[tuple[UUID, int]], paces: Mapping[UUID, float], now: Any
) -> None:
    leading = Counter(item.destination_id for item in plan.items if item.key in runs and item.leads)
    ReplayDestination.objects.bulk_create(
        ReplayDestination(
            replay_id=plan.id, destination_id=one.id, slug=one.slug, per_second=paces[one.id],
            tokens=max(paces[one.id], 1.0), tokens_at=now, waiting_count=leading[one.id],
        )
        for one in plan.destinations
    )  # fmt: skip


def _write_items(plan: Plan, runs: set[tuple[UUID, int]]) -> None:
    with connection.cursor() as cursor:
        for start in range(0, len(plan.items), INSERT_BATCH):
            batch = enumerate(plan.items[start : start + INSERT_BATCH], start=start + 1)
            rows = [_item_row(position, item, runs) for position, item in batch]
            cursor.execute(statement("replay_items"), [plan.id, json.dumps(rows)])


def _item_row(position: int, item: PlanItem, runs: set[tuple[UUID, int]]) -> dict[str, Any]:
    verdict = item.verdict
    return {
        "position": position,
        "operation_id": str(item.operation_id),
        "operation_version": item.operation_version,
        "step_id": str(item.step_id),
        "number": item.number,
        "destination_id": str(item.destination_id),
        "rebound_to_id": str(item.destination_version_id) if item.rebound else None,
        "verdict": verdict.kind.value,
        "reason": verdict.reason.value,
        "detail": verdict.detail,
        "until": verdict.until.isoformat() if verdict.until else None,
        "mark": item.mark.hex(),
        "leads": item.leads,
        "state": _state(item, runs).value,
    }


# While it is open


def settle_pause_replay(replay_id: UUID, version: int, reason: str, by: By) -> Replay:
    """Starts nothing more until it is resumed. What was started goes on; what the engine sends by itself it still sends."""
    return _decide(replay_id, version, reason, by, "replay_paused", ReplayState.PAUSED, {ReplayState.RUNNING})


def settle_resume_replay(replay_id: UUID, version: int, reason: str, by: By) -> Replay:
    """Goes on where it was paused. The bucket did not fill meanwhile beyond one second's worth."""
    return _decide(
        replay_id, version, reason, by, "replay_resumed", ReplayState.RUNNING, {ReplayState.PAUSED}
    )


def settle_abort_replay(replay_id: UUID, version: int, reason: str, by: By) -> Replay:
    """Ends what has not been started. What was started is finished by itself, and counted; nothing is taken back."""
    open_states = {ReplayState.RUNNING, ReplayState.PAUSED}
    return _decide(replay_id, version, reason, by, "replay_aborting", ReplayState.ABORTING, open_states)


def _decide(
    replay_id: UUID,
    version: int,
    reason: str,
    by: By,
    kind: str,
    to: ReplayState,
    come_from: Iterable[ReplayState],
) -> Replay:
    check_reason(reason)
    with transaction.atomic(durable=True):
        replay = Replay.objects.select_for_update(no_key=True).get(pk=replay_id)
        if replay.version != version or replay.state not in {state.value for state in come_from}:
            raise ReplayMoved(replay)
        replay.state, replay.version, replay.changed_by = to.value, version + 1, by.name
        replay.stopped_after = None  # a person has decided since
        if to is ReplayState.RUNNING:
            replay.running_since = database_now()
        replay.save(update_fields=["state", "version", "changed_by", "stopped_after", "running_since"])
        append([Line("replay", replay_id, kind, by.actor, body({"reason": keep_text(replay_id, reason)}))])
        end_if_over(replay)
        return replay


# Counting: shared with what the engine does


_MOVE = "UPDATE ledger_replay SET {moves} WHERE id = %s"


def count_moves(replay_id: UUID, moves: Mapping[str, int]) -> None:
    """Adds to the counters of a replay whose row is locked, and ends it when nothing is open any more."""
    changed = {f"{word}_count": count for word, count in sorted(moves.items()) if count}
    if not changed:
        return
    assert changed.keys() <= set(COUNTED) and sum(changed.values()) == 0
    with connection.cursor() as cursor:
        setting = ", ".join(f"{column} = {column} + %s" for column in changed)
        cursor.execute(_MOVE.format(moves=setting), [*changed.values(), replay_id])
    end_if_over(Replay.objects.get(pk=replay_id))


def end_if_over(replay: Replay) -> None:
    """Finished or aborted, with its journal's last line, once every item has ended."""
    if replay.waiting_count or replay.started_count or replay.ended_at is not None:
        return
    aborted = replay.state == ReplayState.ABORTING
    replay.state = (ReplayState.ABORTED if aborted else ReplayState.FINISHED).value
    replay.ended_at, replay.version = database_now(), replay.version + 1
    replay.save(update_fields=["state", "ended_at", "version"])
    counts = {name: getattr(replay, name) for name in COUNTED if getattr(replay, name)}
    append([Line("replay", replay.pk, f"replay_{replay.state}", "engine", body({"counts": counts}))])
    starter = frozenset({replay.started_by_id})
    tell_here([News(NoticeKind.REPLAY_ENDED, replay.team_id, starter, replay_id=replay.pk)])

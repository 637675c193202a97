"""What the engine does with the items of open replays: starts those whose turn has come, ends those whose step is at rest.

Each function does one bounded batch and commits. Any number may run at once, any may be killed at any point, and all may run
twice: an item's own state decides, under the lock of its operation and of its replay.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection, transaction

from opsledger.ledger.actions.binding import bind
from opsledger.ledger.actions.change import Change, NewEvidence, change_here
from opsledger.ledger.actions.record import statement_evidence
from opsledger.ledger.actions.replay_stops import paused_without_right_here
from opsledger.ledger.actions.replays import count_moves
from opsledger.ledger.models import Replay
from opsledger.ledger.queries.replay_plans import besides_of, bound_to
from opsledger.ledger.records import Loaded
from opsledger.ledger.replay_plan import StatementRef
from opsledger.ledger.sql import statement
from opsledger.lib.ids import public
from opsledger.lib.named_rows import named_rows
from opsledger.rules.record import Operation
from opsledger.rules.replay_words import ItemResult, ReplayState
from opsledger.rules.replays import Beside, Reason, Verdict, VerdictKind, begun, mark_of, verdict_of
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import StepState

log = logging.getLogger(__name__)

START_BATCH = 100  # operations in one transaction
END_BATCH = 500
ABORT_BATCH = 2_000


# Starting


@dataclass(frozen=True, slots=True)
class _Room:
    id: int
    replay_id: UUID
    destination_id: UUID
    count: int


def record_items_started() -> int:
    """Starts items whose turn has come, at most START_BATCH per replay and destination. Returns how many moved.

    1. Room is taken at the rate of each replay and destination.
    2. The operations of the first waiting items are locked in order; those that are busy wait for the next turn.
    3. Each item is compared with the plan: what moved is skipped, and says so.
    4. The others begin, as their verdict says, in the same transaction; what was not used of the room is given back.
    """
    moved = 0
    for room in _take_room():
        used, count = _start(room)
        _give_back(room, used)
        moved += count
    return moved


def _take_room() -> list[_Room]:
    with connection.cursor() as cursor:
        cursor.execute(statement("replay_room"), {"most": START_BATCH})
        return [_Room(*row) for row in cursor.fetchall()]


def _give_back(room: _Room, used: int) -> None:
    if used < room.count:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE ledger_replaydestination SET tokens = tokens + %s WHERE id = %s",
                [room.count - used, room.id],
            )


_NEXT = """
SELECT operation_id FROM ledger_replayitem
 WHERE replay_id = %s AND destination_id = %s AND state = 'waiting' AND leads ORDER BY position LIMIT %s
"""
_LOCK_FREE = "SELECT id FROM ledger_operation WHERE id = ANY(%s) ORDER BY id FOR UPDATE SKIP LOCKED"
_REPLAY = """
SELECT r.id, r.name, coalesce('person:' || r.resumed_by_id::text, r.actor) AS actor, r.actor AS starter, r.reason, r.state,
       r.statement_id, encode(s.digest, 'hex') AS statement_digest, s.how
  FROM ledger_replay r LEFT JOIN ledger_providerstatement s ON s.id = r.statement_id
 WHERE r.id = %s FOR NO KEY UPDATE OF r
"""
_ITEMS = """
SELECT id, operation_id, step_id, number, destination_id, rebound_to_id, verdict, detail, mark, leads FROM ledger_replayitem
 WHERE replay_id = %s AND operation_id = ANY(%s) AND state = 'waiting' ORDER BY operation_id, number
"""
_WRITE_ITEMS = """
UPDATE ledger_replayitem i
   SET state = x.state, said = x.said, started_at = CASE WHEN x.state = 'started' THEN now() END,
       ended_at = CASE WHEN x.state = 'skipped' THEN now() END
  FROM json_to_recordset(%s::json) AS x(id bigint, state text, said text)
 WHERE i.id = x.id AND i.state = 'waiting'
"""
_FEWER_WAIT = """
UPDATE ledger_replaydestination SET waiting_count = waiting_count - %s WHERE replay_id = %s AND destination_id = %s
"""


def _start(room: _Room) -> tuple[int, int]:
    """How much of the room was used, and how many items moved. One operation that breaks does not stop the others."""
    wanted = [
        row.operation_id for row in named_rows(_NEXT, [room.replay_id, room.destination_id, room.count])
    ]
    try:
        return _begin_batch(room, wanted)
    except (OperationalError, InterfaceError):  # the database is away, or too busy: the next turn goes on
        raise
    except Exception:
        log.exception("items of replay %s could not be begun together; one by one", room.replay_id)
    used = moved = 0
    for operation_id in wanted:
        try:
            counts = _begin_batch(room, [operation_id])
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("operation %s could not be begun; its items are skipped", operation_id)
            counts = _skip(room, operation_id)
        used, moved = used + counts[0], moved + counts[1]
    return used, moved


def _begin_batch(room: _Room, wanted: Sequence[UUID]) -> tuple[int, int]:
    with transaction.atomic(durable=True):
        free = [row.id for row in named_rows(_LOCK_FREE, [sorted(set(wanted))])]
        replay = named_rows(_REPLAY, [room.replay_id])[0]
        if replay.state != ReplayState.RUNNING or not free:
            return 0, 0
        if paused_without_right_here(Replay.objects.get(pk=room.replay_id)):
            return 0, 0
        turns = _turns(named_rows(_ITEMS, [room.replay_id, free]))
        statement = (
            StatementRef(replay.statement_id, replay.statement_digest) if replay.statement_id else None
        )
        besides = besides_of(free, own=room.replay_id, statement=statement)
        for turn in turns.values():
            turn.replay, turn.statement = replay, statement
            turn.beside = besides.get(turn.operation_id, Beside())
        _rebind(turns.values())
        change_here({turn.operation_id: turn.change() for turn in turns.values()})
        _bind_back(turns.values())
        return _write_moves(room, [move for turn in turns.values() for move in turn.moves])


def _skip(room: _Room, operation_id: UUID) -> tuple[int, int]:
    with transaction.atomic(durable=True):
        named_rows(_LOCK_FREE, [[operation_id]])
        named_rows(_REPLAY, [room.replay_id])
        items = named_rows(_ITEMS, [room.replay_id, [operation_id]])
        return _write_moves(room, [_Move(item, "skipped", "moved:could_not_be_begun") for item in items])


@dataclass(frozen=True, slots=True)
class _Move:
    item: Any
    state: str
    said: str = ""


@dataclass(slots=True)
class _Turn:
    """All waiting items of one operation in one replay: those with a turn of their own, and those that follow them."""

    operation_id: UUID
    items: list[Any]
    replay: Any = None
    beside: Beside = field(default_factory=Beside)
    statement: StatementRef | None = None
    rebound: dict[int, int] = field(default_factory=dict)  # step number: the definition's version number
    bound_before: dict[UUID, UUID] = field(default_factory=dict)  # step: the definition's version that it had
    moves: list[_Move] = field(default_factory=list)

    def change(self) -> Change:
        """What this turn makes of its operation. Which items moved is known once it was decided."""

        def decide(loaded: Loaded, moment: Moment) -> Operation:
            verdicts = {one.number: self._verdict(loaded, moment, one.number) for one in self.items}
            after = loaded.record.copy()
            begun_steps: set[int] = set()
            said: list[NewEvidence] = []
            for item in self.items:
                verdict = verdicts[item.number]
                why, after = self._begin(loaded, after, item, verdict, begun_steps, moment)
                self.moves.append(_Move(item, "skipped" if why else "started", why))
                if not why:
                    begun_steps.add(item.number)
                    said += self._said(loaded, item, verdict)
            made.evidence, made.quiet = tuple(said), not begun_steps
            made.answer = said[0].says if said else made.answer
            begun_ones = [verdicts[number] for number in sorted(begun_steps)]
            rebound = {str(one): number for one, number in self.rebound.items() if one in begun_steps}
            made.facts = {
                **made.facts,
                "steps_begun": sorted(begun_steps),
                **({"rebound": rebound} if rebound else {}),
                **self._stated(begun_ones),
            }
            return after

        facts = {
            "replay": str(self.replay.id),
            "reason": json.loads(self.replay.reason),
            **({"started_by": self.replay.starter} if self.replay.starter != self.replay.actor else {}),
        }
        made = Change(
            kind="replayed",
            actor=self.replay.actor,
            decide=decide,
            facts=facts,
            closed_by=self.replay.actor,
            answer="replayed",
        )
        return made

    def _stated(self, begun_ones: Sequence[Verdict]) -> dict[str, Any]:
        """What the line says of the statement that a step of this turn rests on, and how it was asked for."""
        if self.statement is None or all(one.reason is not Reason.STATED_ABSENT for one in begun_ones):
            return {}
        return {
            "statement": str(self.statement.id),
            "statement_digest": self.statement.digest,
            "checked_how": json.loads(self.replay.how),
        }

    def _verdict(self, loaded: Loaded, moment: Moment, number: int) -> Verdict:
        return verdict_of(loaded.record, loaded.record.step(number), loaded.policies, moment.now, self.beside)

    def _begin(
        self,
        loaded: Loaded,
        after: Operation,
        item: Any,
        verdict: Verdict,
        begun_steps: set[int],
        moment: Moment,
    ) -> tuple[str, Operation]:
        """Why the item is skipped ("" = it has begun), and the record."""
        step = loaded.record.step(item.number)
        runs_with = loaded.destination_version_ids[item.number]
        bound = bound_to(verdict, loaded.workflow_version_id, runs_with, self.statement)
        hold = loaded.record.hold_on(item.number)
        if mark_of(step, verdict, *bound, hold=hold) != bytes(item.mark):
            return f"moved:{verdict.reason.value}", after
        if verdict.kind is VerdictKind.BEHIND:
            return ("" if int(verdict.detail) in begun_steps else "moved:earlier_step"), after
        try:
            return "", begun(after, item.number, verdict, moment)
        except NotNow:
            return "moved:not_now", after

    def _said(self, loaded: Loaded, item: Any, verdict: Verdict) -> list[NewEvidence]:
        """The starter's statement, where the start answered a question."""
        hold = loaded.record.hold_on(item.number)
        if hold is None or verdict.kind is VerdictKind.LOOK_FIRST:
            return []
        says = verdict.answer.value if verdict.answer else "send_protected"
        sentence = f"Replay {public('rpl', self.replay.id)}: {verdict.sentence}"
        said = statement_evidence(item.number, self.replay.actor, says, sentence)
        if verdict.reason is Reason.STATED_ABSENT and self.statement is not None:
            facts = {"statement": self.statement.name}
            said = replace(said, digest=bytes.fromhex(self.statement.digest), facts=facts)
        return [said]


def _turns(items: Iterable[Any]) -> dict[UUID, _Turn]:
    turns: dict[UUID, _Turn] = {}
    for item in items:
        turns.setdefault(item.operation_id, _Turn(item.operation_id, [])).items.append(item)
    return turns


_BOUND = """
SELECT s.number, s.destination_version_id, o.workflow_version_id
  FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id WHERE s.id = %s
"""


def _rebind(turns: Iterable[_Turn]) -> None:
    """Steps whose request is not frozen yet take the definition that was chosen; the operation's line says so."""
    for turn in turns:
        for item in turn.items:
            if item.rebound_to_id is None:
                continue
            before = named_rows(_BOUND, [item.step_id])[0]
            if bind(item.step_id, before.number, before.workflow_version_id, item.rebound_to_id):
                turn.rebound[item.number] = _number_of(item.rebound_to_id)
                turn.bound_before[item.step_id] = before.destination_version_id


def _bind_back(turns: Iterable[_Turn]) -> None:
    """What turned out to have moved keeps the definition that it had: its item is skipped, and nothing of it is changed."""
    for turn in turns:
        for move in turn.moves:
            before = turn.bound_before.get(move.item.step_id)
            if move.state == "skipped" and before is not None:
                now = named_rows(_BOUND, [move.item.step_id])[0]
                bind(move.item.step_id, now.number, now.workflow_version_id, before)


def _number_of(version_id: UUID) -> int:
    return int(
        named_rows("SELECT number FROM ledger_definitionversion WHERE id = %s", [version_id])[0].number
    )


def _write_moves(room: _Room, moves: Sequence[_Move]) -> tuple[int, int]:
    """How many of them had their turn at the room's destination, and how many moved."""
    rows = [{"id": move.item.id, "state": move.state, "said": move.said} for move in moves]
    leading = Counter(move.item.destination_id for move in moves if move.item.leads)
    with connection.cursor() as cursor:
        cursor.execute(_WRITE_ITEMS, [json.dumps(rows)])
        for destination_id, count in sorted(leading.items()):
            cursor.execute(_FEWER_WAIT, [count, room.replay_id, destination_id])
    count_moves(room.replay_id, {"waiting": -len(moves), **Counter(move.state for move in moves)})
    return leading[room.destination_id], len(moves)


# Ending


def record_items_ended() -> int:
    """Ends items whose step has come to rest, and says how. Returns how many."""
    rows = named_rows(statement("replay_at_rest"), [END_BATCH])
    by_replay: dict[UUID, list[Any]] = {}
    for row in rows:
        by_replay.setdefault(row.replay_id, []).append(row)
    return sum(_end(replay_id, ended) for replay_id, ended in sorted(by_replay.items()))


_END = """
UPDATE ledger_replayitem i SET state = 'ended', result = x.result, said = x.said, ended_at = now()
  FROM json_to_recordset(%s::json) AS x(id bigint, result text, said text)
 WHERE i.id = x.id AND i.state = 'started'
RETURNING i.result
"""


def _end(replay_id: UUID, rows: Sequence[Any]) -> int:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        named_rows(_REPLAY, [replay_id])
        wanted = [{"id": row.id, "result": result_of(row).value, "said": _said_of(row)} for row in rows]
        cursor.execute(_END, [json.dumps(wanted)])
        results = Counter(row[0] for row in cursor.fetchall())
        count_moves(replay_id, {"started": -results.total(), **results})
        return results.total()


_RESULTS: Mapping[StepState, ItemResult] = {
    StepState.CONFIRMED: ItemResult.RECOVERED,
    StepState.ACCEPTED: ItemResult.ACCEPTED,
    StepState.FAILED: ItemResult.FAILED,
    StepState.CANCELLED: ItemResult.CANCELLED,
    StepState.SKIPPED: ItemResult.CANCELLED,
    StepState.UNKNOWN: ItemResult.HELD,
    StepState.READY: ItemResult.HELD,
    StepState.WAITING: ItemResult.BEHIND,
}


def result_of(row: Any) -> ItemResult:
    """How a step came to rest. Only a proven effect is a recovery; whatever a person is asked about is held."""
    state = StepState(row.state)
    if row.reason is not None and state in {StepState.WAITING, StepState.UNKNOWN, StepState.READY}:
        return ItemResult.HELD
    if row.never_known and state is StepState.UNKNOWN:
        return ItemResult.CLOSED_UNKNOWN
    return _RESULTS[state]


def _said_of(row: Any) -> str:
    if row.reason is not None:
        return str(row.reason)
    return "never_known" if row.never_known else ""


# Aborting


_ABORT = """
UPDATE ledger_replayitem SET state = 'aborted', ended_at = now()
 WHERE id = ANY(ARRAY(
       SELECT id FROM ledger_replayitem WHERE replay_id = %s AND state = 'waiting' ORDER BY position LIMIT %s))
   AND state = 'waiting'
RETURNING destination_id, leads
"""


def record_items_aborted() -> int:
    """Ends waiting items of replays that are being aborted, a batch of each. Returns how many."""
    count = 0
    for row in named_rows("SELECT id FROM ledger_replay WHERE state = 'aborting' ORDER BY id", []):
        count += _abort(row.id)
    return count


def _abort(replay_id: UUID) -> int:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if named_rows(_REPLAY, [replay_id])[0].state != ReplayState.ABORTING:
            return 0
        cursor.execute(_ABORT, [replay_id, ABORT_BATCH])
        rows = cursor.fetchall()
        for destination_id, count in sorted(Counter(row[0] for row in rows if row[1]).items()):
            cursor.execute(_FEWER_WAIT, [count, replay_id, destination_id])
        count_moves(replay_id, {"waiting": -len(rows), "aborted": len(rows)})
        return len(rows)

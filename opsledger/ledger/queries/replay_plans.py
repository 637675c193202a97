"""Planning a replay: reads the operations of a scope as they stand and gives each of their steps its verdict.

Nothing is written and nothing locked. Operations are read in batches, each a few short statements of their own: what moves
meanwhile is found again when the replay starts, and once more when an item's turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions, records
from opsledger.ledger.queries import inbox, operations
from opsledger.ledger.queries.looks import words_in_sql
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.records import Loaded
from opsledger.ledger.replay_plan import (
    ITEMS_MAX,
    OPERATIONS_MAX,
    FrozenPlan,
    Plan,
    PlanDestination,
    PlanItem,
    PlanWorkflow,
    StatementRef,
)
from opsledger.lib import collector
from opsledger.lib.ids import new_id, public
from opsledger.lib.named_rows import named_rows
from opsledger.rules.matching import FOUND_NOTHING, GAVE_NO_ANSWER
from opsledger.rules.next_step import protection_of
from opsledger.rules.record import Step
from opsledger.rules.replays import Beside, Reason, Stated, Verdict, VerdictKind, mark_of, verdict_of

BATCH = 1_000


class EmptyScope(ValueError):
    """Nothing was chosen, or nothing matches. An empty scope never means *all*. The message is for people."""


class ScopeTooLarge(ValueError):
    """More than one replay takes. The message is for people."""


class UnknownOperations(LookupError):
    """Ids that do not exist in this team. The message names the first."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Operations as they were chosen, and how that is said."""

    operation_ids: tuple[UUID, ...]
    words: str


def scope_of_ids(team_id: UUID, operation_ids: Sequence[UUID], words: str = "") -> Scope:
    """These operations, each once. UnknownOperations when one is not the team's."""
    wanted = sorted(set(operation_ids))
    known = {
        row.id
        for row in named_rows(
            "SELECT id FROM ledger_operation WHERE team_id = %s AND id = ANY(%s)", [team_id, wanted]
        )
    }
    missing = [one for one in wanted if one not in known]
    if missing:
        raise UnknownOperations(f"There is no operation {public('op', missing[0])} in this team.")
    count = len(wanted)
    return _checked(wanted, words or f"{count:,} chosen operation{'s' if count != 1 else ''}")


def scope_of_filter(team_id: UUID, asked: OperationFilter, words: str) -> Scope:
    """Every operation that a filter of the list finds now."""
    return _checked(operations.every_id(team_id, asked, OPERATIONS_MAX + 1), words)


def scope_of_inbox(wanted: inbox.Wanted, words: str) -> Scope:
    """The operations of every open hold that a view of the inbox shows now."""
    return _checked(sorted(set(inbox.every_operation(wanted, OPERATIONS_MAX + 1))), words)


def _checked(ids: Sequence[UUID], words: str) -> Scope:
    if not ids:
        raise EmptyScope("The scope is empty: choose operations. An empty scope is never read as “all”.")
    if len(ids) > OPERATIONS_MAX:
        raise ScopeTooLarge(
            f"More than {OPERATIONS_MAX:,} operations match; one replay takes at most that many. Narrow it down."
        )
    return Scope(tuple(sorted(ids)), words)


def plan(
    team_id: UUID,
    scope: Scope,
    now: datetime,
    *,
    newest: frozenset[str] = frozenset(),
    plan_id: UUID | None = None,
    statement: StatementRef | None = None,
) -> Plan:
    """One verdict for every step of the scope, as of `now`. `newest`: destinations whose newest definition is chosen;
    `statement`: of a provider, that some of them did not happen."""
    if not scope.operation_ids:
        raise EmptyScope("The scope is empty: choose operations. An empty scope is never read as “all”.")
    known = _Known.of(team_id, newest, statement)
    with collector.put_off():
        items = list(_items(team_id, scope.operation_ids, now, known))
    if len(items) > ITEMS_MAX:
        raise ScopeTooLarge(f"The scope has {len(items):,} steps; one replay takes at most {ITEMS_MAX:,}.")
    return Plan(
        id=plan_id or new_id(),
        team_id=team_id,
        scope=scope.words,
        newest=newest,
        items=items,
        destinations=_destinations(items, known),
        workflows=_workflows(items, known),
        statement=statement,
    )


def plan_again(frozen: FrozenPlan, now: datetime) -> Plan:
    """The same operations, as they stand at `now`."""
    scope = Scope(tuple(operation_id for operation_id, _ in frozen.operations), frozen.scope)
    return plan(
        frozen.team_id, scope, now, newest=frozen.newest, plan_id=frozen.id, statement=frozen.statement
    )


# Items


def _items(team_id: UUID, operation_ids: Sequence[UUID], now: datetime, known: _Known) -> Iterator[PlanItem]:
    for start in range(0, len(operation_ids), BATCH):
        ids = list(operation_ids[start : start + BATCH])
        loaded = records.load(ids)
        besides = besides_of(ids, statement=known.statement)
        for operation_id in ids:
            whole = loaded.get(operation_id)
            if whole is not None and whole.team_id == team_id:
                beside = besides.get(operation_id, Beside())
                for step in whole.record.steps:
                    yield _item(whole, step, beside, now, known)
                whole.policies.clear()  # they refer to it and it to them


def _item(whole: Loaded, step: Step, beside: Beside, now: datetime, known: _Known) -> PlanItem:
    number = step.number
    verdict = verdict_of(whole.record, step, whole.policies, now, beside)
    recorded_with = whole.destination_version_ids[number]
    newer = None
    if verdict.kind is VerdictKind.BEHIND and verdict.runs:
        newer = newer_version(
            step, whole.workflow_version_id, whole.destination_ids[number], recorded_with, known.current
        )
    rebound = newer is not None and step.destination in known.newest
    runs_with = newer if newer is not None and rebound else recorded_with
    hold = whole.record.hold_on(number)
    sends = verdict.runs and verdict.kind is not VerdictKind.LOOK_FIRST
    words = definitions.workflow(whole.workflow_version_id).steps[number - 1]
    return PlanItem(
        operation_id=whole.id,
        operation_text_id=whole.operation_id,
        operation_version=whole.version,
        attempt_count=len(step.attempts),
        title=whole.title,
        step_id=whole.step_ids[number],
        number=number,
        step_title=words.title,
        destination_id=whole.destination_ids[number],
        destination=step.destination,
        action=step.action,
        verdict=verdict,
        request_digest=step.request_digest or "",
        workflow_version_id=whole.workflow_version_id,
        destination_version_id=runs_with,
        rebound=rebound,
        newer_version_id=newer,
        mark=mark_of(
            step,
            verdict,
            *bound_to(verdict, whole.workflow_version_id, runs_with, known.statement),
            hold=hold,
        ),
        protected=protection_of(whole.record, step, whole.policies[number], now) if sends else None,
        hold_id=UUID(hold.id) if hold else None,
    )


def bound_to(
    verdict: Verdict, workflow_version_id: UUID, runs_with: UUID, statement: StatementRef | None
) -> tuple[str, ...]:
    """What a step would run with, for its mark: the definitions' versions, and the statement where it rests on that."""
    rests = verdict.reason is Reason.STATED_ABSENT and statement is not None
    return workflow_version_id.hex, runs_with.hex, *((statement.digest,) if rests and statement else ())


def newer_version(
    step: Step,
    workflow_version_id: UUID,
    destination_id: UUID,
    recorded_with: UUID,
    current: Mapping[UUID, UUID],
) -> UUID | None:
    """The newest version of the step's destination, where it is another one, knows the action, and can still be taken.

    One whose request shows content where the other shows none, or the other way round, is for new operations only: which
    content is shown, and who approves it, is settled when an operation is recorded.
    """
    newest = current.get(destination_id, recorded_with)
    if newest == recorded_with or step.request_digest is not None or step.attempts:
        return None
    if step.action not in definitions.destination(newest).actions:
        return None
    asks, would_ask = (
        definitions.asks_for(workflow_version_id, step.number, one) for one in (recorded_with, newest)
    )
    return newest if asks == would_ask else None


_REPLACED = "SELECT replaces_id, operation_id FROM ledger_operation WHERE replaces_id = ANY(%s)"
_IN_REPLAYS = """
SELECT i.operation_id, i.number, i.replay_id FROM ledger_replayitem i
 WHERE i.operation_id = ANY(%s) AND i.state IN ('waiting', 'started') AND i.replay_id IS DISTINCT FROM %s
"""


# Looks that found nothing say nothing against a statement. All else that was kept since, a person's word among it, was not
# known to whoever kept it.
_STATED = f"""
SELECT c.operation_id, c.number, c.hold_id, c.attempt_count,
       EXISTS (SELECT 1 FROM ledger_evidence v
                WHERE v.operation_id = c.operation_id AND v.step_id = h.step_id AND v.received_at > s.made_at
                  AND v.says NOT IN ({words_in_sql(FOUND_NOTHING | GAVE_NO_ANSWER)})) AS learnt_since
  FROM ledger_statementcover c JOIN ledger_providerstatement s ON s.id = c.statement_id
  JOIN ledger_hold h ON h.id = c.hold_id
 WHERE c.statement_id = %s AND s.digest = decode(%s, 'hex') AND c.operation_id = ANY(%s)
"""


def besides_of(
    operation_ids: Sequence[UUID], *, own: UUID | None = None, statement: StatementRef | None = None
) -> dict[UUID, Beside]:
    """What the verdicts need beside the records. `own`: the replay that asks, whose items do not stand in its own way."""
    ids = list(operation_ids)
    replaced = {row.replaces_id: row.operation_id for row in named_rows(_REPLACED, [ids])}
    others: dict[UUID, dict[int, str]] = {}
    for row in named_rows(_IN_REPLAYS, [ids, own]):
        others.setdefault(row.operation_id, {})[row.number] = public("rpl", row.replay_id)
    stated = _stated(ids, statement) if statement is not None else {}
    return {
        one: Beside(replaced.get(one, ""), others.get(one), stated.get(one))
        for one in replaced.keys() | others.keys() | stated.keys()
    }


def _stated(ids: list[UUID], statement: StatementRef) -> dict[UUID, dict[int, Stated]]:
    found: dict[UUID, dict[int, Stated]] = {}
    for row in named_rows(_STATED, [statement.id, statement.digest, ids]):
        stated = Stated(statement.name, str(row.hold_id), row.attempt_count, row.learnt_since)
        found.setdefault(row.operation_id, {})[row.number] = stated
    return found


# What the plan touches and runs with


@dataclass(frozen=True, slots=True)
class _Known:
    """The team's definitions as they are now."""

    newest: frozenset[str]
    current: Mapping[UUID, UUID]  # definition: its newest version
    current_of: Mapping[tuple[str, str], UUID]  # kind and slug: the same
    rows: Mapping[UUID, Any]  # destinations
    statement: StatementRef | None = None

    @classmethod
    def of(cls, team_id: UUID, newest: frozenset[str], statement: StatementRef | None) -> _Known:
        found = named_rows(
            "SELECT id, kind, slug, current_id FROM ledger_definition WHERE team_id = %s AND current_id IS NOT NULL",
            [team_id],
        )
        destinations = named_rows(_DESTINATIONS, [team_id])
        return cls(
            newest,
            {row.id: row.current_id for row in found},
            {(row.kind, row.slug): row.current_id for row in found},
            {row.id: row for row in destinations},
            statement,
        )


_DESTINATIONS = """
SELECT d.definition_id AS id, d.slug, d.sends_per_second,
       CASE WHEN d.paused_at IS NOT NULL THEN 'paused' WHEN d.access_refused_at IS NOT NULL THEN 'access refused'
            WHEN d.circuit_opened_at IS NOT NULL THEN 'circuit open' ELSE '' END AS stopped
  FROM ledger_destination d WHERE d.team_id = %s ORDER BY d.slug
"""


def _destinations(items: Sequence[PlanItem], known: _Known) -> list[PlanDestination]:
    numbers = _numbers({*known.current.values(), *(item.destination_version_id for item in items)})
    running = [item for item in items if item.verdict.runs]
    found = []
    for row in known.rows.values():
        here = [item for item in running if item.destination_id == row.id]
        newest = known.current.get(row.id)
        if here and newest is not None:
            older = [item for item in here if item.destination_version_id != newest or item.rebound]
            can_take = [item for item in here if item.newer_version_id is not None]
            found.append(
                PlanDestination(
                    id=row.id,
                    slug=row.slug,
                    step_count=len(here),
                    sends_per_second=row.sends_per_second,
                    stopped=row.stopped,
                    runs_with=tuple(sorted({numbers[item.destination_version_id] for item in here})),
                    version_number=numbers[newest],
                    frozen_older_count=len(older) - len(can_take),
                    open_older_count=len(can_take),
                    takes_newest=row.slug in known.newest,
                )
            )
    return found


def _workflows(items: Sequence[PlanItem], known: _Known) -> list[PlanWorkflow]:
    """Those that have a newer version than their operations were recorded with; operations keep theirs."""
    used: dict[str, set[UUID]] = {}
    for item in items:
        if item.verdict.runs:
            used.setdefault(definitions.workflow(item.workflow_version_id).slug, set()).add(
                item.workflow_version_id
            )
    numbers = _numbers({*(one for versions in used.values() for one in versions), *known.current.values()})
    return [
        PlanWorkflow(slug, tuple(sorted(numbers[one] for one in versions)), numbers[newest])
        for slug, versions in sorted(used.items())
        if (newest := known.current_of.get(("workflow", slug))) is not None
    ]


def _numbers(version_ids: set[UUID]) -> dict[UUID, int]:
    rows = named_rows(
        "SELECT id, number FROM ledger_definitionversion WHERE id = ANY(%s)", [list(version_ids)]
    )
    return {row.id: row.number for row in rows}

"""Selections and bulk runs: what was chosen is frozen, one verb begins over it, and its items are done in batches.

A run's row is locked before any operation's, and by nothing that holds one already; then operations, then holds, as every
writer does. An item's act and its result are written in one transaction: it is done once, whoever is killed where.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction

from opsledger.accounts.roles import Permission, allowed, roles_of
from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.deciding import By, Refused, check_reason
from opsledger.ledger.actions.references import once_more
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import BulkItem, BulkRun, Hold, Selection, Step
from opsledger.ledger.queries import inbox
from opsledger.ledger.queries.bulk import text_of
from opsledger.ledger.records import lock
from opsledger.lib.ids import new_id
from opsledger.rules.bulk import HOLDS_MAX, BulkResult, BulkState, Verb

PERMISSIONS: Mapping[Verb, Permission] = {
    Verb.TAKE: Permission.ASSIGN,
    Verb.ASSIGN: Permission.ASSIGN,
    Verb.CHECK_NOW: Permission.CHECK_NOW,
    Verb.NEXT_CHECK: Permission.STILL_UNKNOWN,
    Verb.NOTE: Permission.NOTE,
    Verb.END_FAILED: Permission.SETTLE,
    Verb.PLAN_REPLAY: Permission.PLAN_REPLAY,
    Verb.HAPPENED: Permission.SETTLE,
    Verb.ABSENT: Permission.PLAN_REPLAY,
    Verb.CANCEL: Permission.CANCEL,
}
CHANGED = "It changed after it was selected."
ABORTED = "The run was aborted before its turn."
NOT_ALLOWED = "{name} may not do this any more."
BROKEN = "It could not be done because of a fault of OpsLedger’s own; nothing was changed, and the fault is logged."

# Selections


_FREEZE = """
INSERT INTO ledger_selectionitem (selection_id, position, hold_id, version)
SELECT %s, row_number() OVER (ORDER BY h.due_at, h.id), h.id, w.version
  FROM unnest(%s::uuid[], %s::int[]) AS w(id, version)
  JOIN ledger_hold h ON h.id = w.id AND h.team_id = %s
"""
_FREEZE_VIEW = """
INSERT INTO ledger_selectionitem (selection_id, position, hold_id, version)
SELECT %s, row_number() OVER (ORDER BY h.due_at, h.id), h.id, h.version FROM ({picked}) h
"""


def freeze(
    team_id: UUID, person_id: Any, versions: Mapping[UUID, int], *, words: str, query: str = ""
) -> Selection:
    """Keeps these holds of the team, each at the version that was seen. Refused when none or more than HOLDS_MAX.

    A hold that was closed or changed since is kept too: its item says so later.
    """
    if len(versions) > HOLDS_MAX:
        raise Refused(_too_many())
    wanted = sorted(versions)
    parameters = [wanted, [versions[hold_id] for hold_id in wanted], team_id]
    selection = Selection(team_id=team_id, person_id=person_id, words=words, query=query)
    return freeze_rows(selection, _FREEZE, parameters, NO_HOLD)


def freeze_view(wanted: inbox.Wanted, *, words: str, query: str = "", up_to: UUID | None = None) -> Selection:
    """Keeps every open hold that a view shows now, at its version now. `up_to`: none that was opened after this one."""
    picked, parameters = inbox.picked(wanted, database_now(), limit=HOLDS_MAX + 1, up_to=up_to)
    selection = Selection(team_id=wanted.team_id, person_id=wanted.person_id, words=words, query=query)
    return freeze_rows(selection, _FREEZE_VIEW.format(picked=picked), parameters, NO_HOLD)


def freeze_rows(selection: Selection, query: str, parameters: Sequence[Any], none: str) -> Selection:
    """Keeps the rows that `query` inserts for this selection, whose id is its first parameter. `none`: why none is."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(query, [selection.pk, *parameters])
        selection.item_count, selection.made_at = cursor.rowcount, database_now()
        if not selection.item_count:
            raise Refused(f"Nothing is selected: {none}. An empty selection never means “all”.")
        if selection.item_count > HOLDS_MAX:
            raise Refused(_too_many())
        selection.save(force_insert=True)
    return selection


NO_HOLD = "no hold matches any more"


def _too_many() -> str:
    return f"More than {HOLDS_MAX:,} holds match; one selection takes at most that many. Narrow the view."


def lock_selection(selection_id: UUID) -> None:
    """FOR NO KEY UPDATE on ledger_selection: it is used from now on. Refused where it went away, unused for long."""
    if not Selection.objects.select_for_update(no_key=True).filter(pk=selection_id).exists():
        raise Refused("This selection was removed, because nothing was done with it for long. Select again.")


# Beginning


@dataclass(frozen=True, slots=True)
class Begun:
    run: BulkRun
    created: bool  # False: the same press again


@dataclass(frozen=True, slots=True)
class Press:
    """What a form asks for, as far as it is known before anything is frozen. None: whatever it was."""

    verb: Verb
    selection_id: UUID | None = None
    reason: str | None = None
    facts: Mapping[str, Any] | None = None


def begun_before(person_id: Any, once: UUID, press: Press) -> BulkRun | None:
    """The run that this person's form began already; Refused where it asks for something else now."""
    known = BulkRun.objects.filter(person_id=person_id, once=once).first()
    if known is not None and not _is_same(known, press):
        raise Refused(
            "This form began another run before, so nothing was begun now. Open the page anew and choose again."
        )
    return known


def _is_same(run: BulkRun, press: Press) -> bool:
    facts = json.loads(run.facts)
    said = text_of(facts["reason"]) if "reason" in facts else ""
    return (
        run.verb == press.verb.value
        and press.selection_id in {None, run.selection_id}
        and (press.reason is None or said is None or said.strip() == press.reason.strip())
        and all(facts.get(name) == value for name, value in (press.facts or {}).items())
    )


def begin(
    selection: Selection,
    verb: Verb,
    by: By,
    *,
    once: UUID,
    reason: str = "",
    facts: Mapping[str, Any] | None = None,
    texts: Mapping[str, str] | None = None,
    given: Mapping[UUID, Mapping[str, Any]] | None = None,
    left: Mapping[UUID, str] | None = None,
) -> Begun:
    """Begins one verb over a selection; nothing of it is done here.

    1. The same person's same form again is the run that it began; Refused where it asks for something else by now.
    2. While another run of this selection is under way: Refused.
    3. Run, items and the team's line are written together. `facts`: for the doer and the line, without free text; `texts`:
       free text by name, kept outside the line like the reason; `given`: what is said of one hold alone; `left`: holds
       that are left alone, each with its sentence.
    """
    check_reason(reason, asked="")
    kept = {"reason": reason, **(texts or {})}
    try:
        with transaction.atomic(durable=True):
            return _begin(selection, verb, by, once, dict(facts or {}), kept, given or {}, left or {})
    except IntegrityError:
        known = begun_before(by.person_id, once, Press(verb, reason=reason))  # a moment ago
        if known is None:
            raise
        return Begun(known, False)


_ITEMS = """
INSERT INTO ledger_bulkitem (run_id, position, hold_id, step_id, version, operation_id, given, result, why, said_at)
SELECT %(run)s, s.position, s.hold_id, s.step_id, s.version, coalesce(h.operation_id, w.operation_id), coalesce(x.given, ''),
       CASE WHEN x.why <> '' THEN 'left' ELSE '' END, coalesce(x.why, ''), CASE WHEN x.why <> '' THEN now() END
  FROM ledger_selectionitem s
  LEFT JOIN ledger_hold h ON h.id = s.hold_id
  LEFT JOIN ledger_step w ON w.id = s.step_id
  LEFT JOIN json_to_recordset(%(said)s::json) AS x(hold_id uuid, given text, why text) ON x.hold_id = s.hold_id
 WHERE s.selection_id = %(selection)s ORDER BY s.position
"""


def _begin(
    selection: Selection,
    verb: Verb,
    by: By,
    once: UUID,
    facts: dict[str, Any],
    texts: Mapping[str, str],
    given: Mapping[UUID, Mapping[str, Any]],
    left: Mapping[UUID, str],
) -> Begun:
    lock_selection(selection.pk)
    known = begun_before(by.person_id, once, Press(verb, reason=texts["reason"]))
    if known is not None:
        return Begun(known, False)
    if BulkRun.objects.filter(selection=selection, state=BulkState.RUNNING.value).exists():
        raise Refused(
            "Another run of this selection is under way. Nothing was begun; begin again when it has ended."
        )
    facts |= {name: keep_text(selection.team_id, text) for name, text in texts.items() if text.strip()}
    run = BulkRun(
        id=new_id(), team_id=selection.team_id, selection=selection, person_id=by.person_id, actor=by.actor,
        verb=verb.value, facts=json.dumps(facts), once=once, item_count=selection.item_count, made_at=database_now(),
    )  # fmt: skip
    run.save(force_insert=True)
    said = [
        {
            "hold_id": str(one),
            "given": json.dumps(given[one]) if one in given else "",
            "why": left.get(one, ""),
        }
        for one in given.keys() | left.keys()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_ITEMS, {"run": run.pk, "said": json.dumps(said), "selection": selection.pk})
    line: dict[str, Any] = {
        "run": str(run.pk),
        "selection": str(selection.pk),
        "verb": verb.value,
        "size": run.item_count,
    }
    if left:
        run.left_count = line["left"] = run.items.filter(result=BulkResult.LEFT.value).count()
        run.save(update_fields=["left_count"])
    append([Line("team", run.team_id, "bulk_begun", by.actor, body({**facts, **line}))])
    _end_if_over(run)
    return Begun(run, True)


# Doing


@dataclass(frozen=True, slots=True)
class AtHand:
    """One item of a batch; its hold is open, and at the version that was decided on."""

    position: int
    hold: Hold  # with its step
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepAtHand:
    """One item of a batch that is about a step; its operation is at the version that was decided on."""

    step: Step
    version: int  # of the operation


@dataclass(frozen=True, slots=True)
class Said:
    """What became of an item; where it was not done, a sentence."""

    result: BulkResult
    why: str = ""


DONE = Said(BulkResult.DONE)


@dataclass(frozen=True, slots=True)
class Batch:
    run: BulkRun
    by: By
    items: Sequence[AtHand]
    steps: Sequence[StepAtHand]
    now: datetime  # the transaction's
    prepared: Mapping[UUID, Any] = field(
        default_factory=dict
    )  # by hold: what was found out before the transaction

    @property
    def facts(self) -> dict[str, Any]:
        """What was said with the verb."""
        return dict(json.loads(self.run.facts))


# Writes what the verb does to these holds and steps, inside the batch's transaction, and says of each what became of it.
Doer = Callable[[Batch], Mapping[UUID, Said]]


def open_items(run_id: UUID, size: int) -> list[BulkItem]:
    """The next items that are still to come; nothing is locked."""
    return list(BulkItem.objects.filter(run_id=run_id, result="").order_by("position")[:size])


def record_batch(
    run_id: UUID,
    do: Doer,
    size: int,
    prepared: Mapping[UUID, Any] | None = None,
    *,
    only: Collection[int] | None = None,
) -> int | None:
    """Does the next items, at most `size`. How many; None when somebody else carries the run, or it has ended.

    `only`: of these rows, such as those that something was prepared for; others may have done them meanwhile.

    1. The run is locked, or left to whoever has it. It ends where its person may not do this any more.
    2. The items' operations are locked, ordered by id, then their holds.
    3. A hold, or a step whose operation is, at another version than the one decided on is skipped.
    4. The others are done; results, counters and the selection's versions are written with what was done.
    """
    return once_more(lambda: _record_batch(run_id, do, size, prepared or {}, only))


def record_broken(run_id: UUID, position: int) -> None:
    """An item that can't be done whenever it is tried: it says so, and no longer stands in the others' way."""
    with transaction.atomic(durable=True):
        run = _take(run_id)
        if run is not None:
            items = BulkItem.objects.filter(run_id=run_id, position=position, result="")
            _write(run, list(items), {one.thing_id: Said(BulkResult.REFUSED, BROKEN) for one in items})


def _take(run_id: UUID) -> BulkRun | None:
    runs = BulkRun.objects.select_for_update(skip_locked=True, no_key=True, of=("self",)).select_related(
        "person"
    )
    return runs.filter(pk=run_id, state=BulkState.RUNNING.value).first()


def _record_batch(
    run_id: UUID, do: Doer, size: int, prepared: Mapping[UUID, Any], only: Collection[int] | None
) -> int | None:
    with transaction.atomic(durable=True):
        run = _take(run_id)
        if run is None or _ended_without_rights(run):
            return None
        items = [one for one in open_items(run_id, size) if only is None or one.pk in only]
        lock(one.operation_id for one in items if one.operation_id is not None)
        holds = Hold.objects.select_for_update(no_key=True, of=("self",)).select_related("step")
        wanted = {one.hold_id: one for one in items if one.hold_id is not None}
        at_hand = [
            AtHand(wanted[hold.pk].position, hold, json.loads(wanted[hold.pk].given or "{}"))
            for hold in holds.filter(pk__in=list(wanted)).order_by("pk")
            if hold.closed_at is None and hold.version == wanted[hold.pk].version
        ]
        steps = _steps_at_hand(items)
        by = By(run.actor, run.person.display_name, run.person_id)
        batch = Batch(run, by, sorted(at_hand, key=lambda one: one.position), steps, database_now(), prepared)
        said = dict(do(batch)) if at_hand or steps else {}
        ready = {one.hold.pk for one in at_hand} | {one.step.pk for one in steps}
        assert said.keys() <= ready  # what was not prepared in time has its turn later
        changed = {
            one.thing_id: Said(BulkResult.SKIPPED, CHANGED) for one in items if one.thing_id not in ready
        }
        _write(run, items, said | changed)
        return len(items)


def _steps_at_hand(items: Sequence[BulkItem]) -> list[StepAtHand]:
    """The steps among these whose operation, locked by now, is as it was decided on."""
    versions = {one.step_id: one.version for one in items if one.step_id is not None}
    if not versions:
        return []
    rows = Step.objects.filter(pk__in=list(versions)).select_related("operation").order_by("pk")
    return [
        StepAtHand(row, row.operation.version) for row in rows if row.operation.version == versions[row.pk]
    ]


def _ended_without_rights(run: BulkRun) -> bool:
    """Whoever was deactivated, or lost the role, acts no longer, through no worker either: the rest is left alone."""
    if allowed(roles_of(run.person, run.team_id), PERMISSIONS[Verb(run.verb)]):
        return False
    _end_early(run, NOT_ALLOWED.format(name=run.person.display_name), "engine", cause="not_allowed_any_more")
    return True


_RESULTS = """
UPDATE ledger_bulkitem i SET result = x.result, why = x.why, said_at = now()
  FROM json_to_recordset(%s::json) AS x(id bigint, result text, why text)
 WHERE i.id = x.id AND i.result = ''
"""
# One's own act does not make one's own selection stale.
_VERSIONS = """
UPDATE ledger_selectionitem s SET version = h.version FROM ledger_hold h
 WHERE s.selection_id = %s AND s.hold_id = ANY(%s) AND h.id = s.hold_id AND s.version <> h.version
"""
_COUNT = "UPDATE ledger_bulkrun SET {moves} WHERE id = %s"


def _write(run: BulkRun, items: Sequence[BulkItem], said: Mapping[UUID, Said]) -> None:
    results = [(item.pk, said[item.thing_id]) for item in items if item.thing_id in said]
    rows = [{"id": item_id, "result": one.result, "why": one.why} for item_id, one in results]
    done = [thing_id for thing_id, one in said.items() if one.result is BulkResult.DONE]
    with connection.cursor() as cursor:
        cursor.execute(_RESULTS, [json.dumps(rows)])
        cursor.execute(_VERSIONS, [run.selection_id, done])
    _count(run, Counter(one.result for one in said.values()))


def _count(run: BulkRun, results: Mapping[BulkResult, int]) -> None:
    """Adds to the counters of a run whose row is locked, and ends it when nothing is to come any more."""
    changed = {f"{result.value}_count": count for result, count in sorted(results.items()) if count}
    for name, count in changed.items():
        setattr(run, name, getattr(run, name) + count)
    run.save(update_fields=sorted(changed))
    _end_if_over(run)


def _end_if_over(run: BulkRun) -> None:
    if run.done_count + run.skipped_count + run.refused_count + run.left_count < run.item_count:
        return
    run.state, run.ended_at, run.version = BulkState.FINISHED.value, database_now(), run.version + 1
    run.save(update_fields=["state", "ended_at", "version"])


# Aborting


class RunMoved(Exception):
    """The decision was made on an older version of the run; nothing was changed."""

    def __init__(self, run: BulkRun) -> None:
        super().__init__("This run has ended meanwhile. Nothing was changed.")
        self.run = run


_LEAVE = """
UPDATE ledger_bulkitem SET result = 'left', why = %s, said_at = now() WHERE run_id = %s AND result = ''
"""


def abort(run_id: UUID, version: int, reason: str, by: By) -> BulkRun:
    """Leaves alone what had no turn yet; what was done stays done. Waits for the batch that is under way."""
    check_reason(reason)
    with transaction.atomic(durable=True):
        run = BulkRun.objects.select_for_update(no_key=True).get(pk=run_id)
        if run.version != version or run.state != BulkState.RUNNING.value:
            raise RunMoved(run)
        _end_early(run, ABORTED, by.actor, reason=keep_text(run.team_id, reason))
        return run


def _end_early(run: BulkRun, why: str, actor: str, **facts: Any) -> None:
    """Leaves alone every item that had no turn yet, each with the sentence `why`. The run's row is locked."""
    with connection.cursor() as cursor:
        cursor.execute(_LEAVE, [why, run.pk])
        run.left_count += cursor.rowcount
    counts = {result.value: getattr(run, f"{result.value}_count") for result in BulkResult}
    line = body({"run": str(run.pk), "counts": counts, **facts})
    append([Line("team", run.team_id, "bulk_aborted", actor, line)])
    run.state, run.ended_at, run.version = BulkState.ABORTED.value, database_now(), run.version + 1
    run.save(update_fields=["left_count", "state", "ended_at", "version"])

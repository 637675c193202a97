"""From a change to the lines of a journal entry, and from the journal back to the state.

`difference` says what a change made of a record, as plain JSON values; `apply` does it again. Folding all entries of an
operation gives the record that its rows must equal (`manage.py verify_ledger`). The plan (`act`, `act_at`, `send_until`)
follows from the rest and is left out; so is what is known of a hold (`Hold.facts`), of which lines have a digest beside;
and so is that another operation replaces it, which the first line of that one tells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any

from opsledger.rules.record import Attempt, Hold, KnownBy, Operation, Performer, Step
from opsledger.rules.states import (
    STEP_MOVES,
    HoldReason,
    NoChange,
    OperationState,
    Outcome,
    StepState,
)

Patch = dict[str, Any]

_STEP_FIXED = ("name", "destination", "action", "performer")
_STEP_PLANNED = ("act", "act_at", "send_until", "not_before", "looked_at", "look_at")
_STEP_KEPT = tuple(
    field.name
    for field in dataclasses.fields(Step)
    if field.name not in (*_STEP_FIXED, *_STEP_PLANNED, "number", "attempts")
)
_ATTEMPT_KEPT = tuple(field.name for field in dataclasses.fields(Attempt) if field.name != "id")
_DEFAULTS = Step(number=0, name="", destination="", action="")


class BrokenFold(Exception):
    """An entry that can't follow from the entries before it. The message says which and why."""


def opened(operation: Operation) -> Patch:
    """A new operation, whole."""
    patch = difference(Operation(operation.id, operation.created_at, []), operation)
    patch["created_at"] = _plain(operation.created_at)
    for step in operation.steps:
        fixed = {name: _plain(getattr(step, name)) for name in _STEP_FIXED}
        patch.setdefault("steps", {}).setdefault(str(step.number), {}).update(fixed)
    return patch


def difference(before: Operation, after: Operation) -> Patch:
    """What changed, and nothing else. Keys are step numbers, attempt ids and hold ids, as text."""
    patch: Patch = {}
    if before.state is not after.state:
        patch["state"] = after.state.value
    if before.cancelled != after.cancelled:
        patch["cancelled"] = after.cancelled
    if before.not_after != after.not_after:
        patch["not_after"] = _plain(after.not_after)
    old_steps = {step.number: step for step in before.steps}
    steps, attempts = {}, {}
    for step in after.steps:
        old = old_steps.get(step.number, _DEFAULTS)
        changed = _changed(_STEP_KEPT, old, step)
        if changed or old is _DEFAULTS:
            steps[str(step.number)] = changed
        attempts.update(_attempt_changes(old, step))
    holds = _hold_changes(before, after)
    patch.update(
        {name: value for name, value in (("steps", steps), ("attempts", attempts), ("holds", holds)) if value}
    )
    return patch


def _attempt_changes(old: Step, step: Step) -> Patch:
    known = {attempt.id: attempt for attempt in old.attempts}
    changes: Patch = {}
    for attempt in step.attempts:
        before = known.get(attempt.id)
        if before is None:
            whole = {
                name: _plain(getattr(attempt, name))
                for name in _ATTEMPT_KEPT
                if getattr(attempt, name) is not None
            }
            changes[attempt.id] = {"step": step.number, **whole}
        else:
            changed = _changed(_ATTEMPT_KEPT, before, attempt)
            if changed:
                changes[attempt.id] = {"step": step.number, **changed}
    return changes


def _hold_changes(before: Operation, after: Operation) -> Patch:
    old, new = {hold.id for hold in before.holds}, {hold.id for hold in after.holds}
    changes: Patch = dict.fromkeys(sorted(old - new))
    for hold in after.holds:
        if hold.id not in old:
            changes[hold.id] = {
                "step": hold.step,
                "reason": hold.reason.value,
                "opened_at": _plain(hold.opened_at),
            }
    return changes


def _changed(names: tuple[str, ...], before: object, after: object) -> Patch:
    values = _values_of(names)
    old, new = values(before), values(after)
    if old == new:  # most often: compared at once, not name by name
        return {}
    return {
        name: _plain(value)
        for name, known, value in zip(names, old, new, strict=True)
        if known is not value and known != value
    }


@cache
def _values_of(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    return attrgetter(*names)


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


# Back


def begin(operation_id: str, patch: Mapping[str, Any]) -> Operation:
    """The record that an operation's first entry opens."""
    if "created_at" not in patch:
        raise BrokenFold("the first entry does not open the operation")
    operation = Operation(operation_id, datetime.fromisoformat(patch["created_at"]), [])
    for number in sorted(map(int, patch.get("steps", {}))):
        fixed = patch["steps"][str(number)]
        operation.steps.append(
            Step(
                number=number,
                name=fixed["name"],
                destination=fixed["destination"],
                action=fixed["action"],
                performer=Performer(fixed["performer"]),
                state=StepState(fixed.get("state", StepState.WAITING.value)),
            )
        )
    apply(operation, {**patch, "steps": {k: _without_fixed(v) for k, v in patch.get("steps", {}).items()}})
    return operation


def _without_fixed(fields: Mapping[str, Any]) -> Patch:
    return {name: value for name, value in fields.items() if name not in (*_STEP_FIXED, "state")}


def apply(operation: Operation, patch: Mapping[str, Any]) -> None:
    """Changes the record as the entry says; a move that does not exist is a BrokenFold."""
    for number, fields in patch.get("steps", {}).items():
        _apply_step(operation.step(int(number)), fields)
    for attempt_id, fields in patch.get("attempts", {}).items():
        _apply_attempt(operation.step(fields["step"]), attempt_id, fields)
    for hold_id, fields in patch.get("holds", {}).items():
        _apply_hold(operation, hold_id, fields)
    if "state" in patch:
        operation.state = OperationState(patch["state"])
    operation.cancelled = patch.get("cancelled", operation.cancelled)
    if "not_after" in patch:
        operation.not_after = _time(patch["not_after"])


def _apply_step(step: Step, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if name not in _STEP_KEPT:
            raise BrokenFold(f"step {step.number} has no {name}")
        if name == "state":
            move = (step.state, StepState(value))
            if move not in STEP_MOVES:
                raise BrokenFold(f"step {step.number} can't move from {move[0].value} to {move[1].value}")
            step.state = move[1]
        elif name.endswith(("_at", "_until")):
            setattr(step, name, _time(value))
        else:
            setattr(step, name, tuple(value) if name == "not_ours" else value)


def _apply_attempt(step: Step, attempt_id: str, fields: Mapping[str, Any]) -> None:
    strange = fields.keys() - {"step", *_ATTEMPT_KEPT}
    if strange:
        raise BrokenFold(f"an attempt has no {', '.join(sorted(strange))}")
    values = {name: _attempt_value(name, value) for name, value in fields.items() if name != "step"}
    known = next((attempt for attempt in step.attempts if attempt.id == attempt_id), None)
    if known is None:
        if step.open_attempt is not None and "outcome" not in values:
            raise BrokenFold(f"step {step.number} has two open attempts")
        step.attempts.append(Attempt(id=attempt_id, **values))
        return
    for name, value in values.items():
        setattr(known, name, value)


def _attempt_value(name: str, value: Any) -> Any:
    if value is None:
        return None
    kinds = {"outcome": Outcome, "no_change": NoChange, "known_by": KnownBy}
    if name in kinds:
        return kinds[name](value)
    return _time(value) if name.endswith("_at") else value


def _apply_hold(operation: Operation, hold_id: str, fields: Mapping[str, Any] | None) -> None:
    known = next((hold for hold in operation.holds if hold.id == hold_id), None)
    if fields is None:
        if known is None:
            raise BrokenFold(f"hold {hold_id} is closed but was not open")
        operation.holds.remove(known)
        return
    if known is not None:
        raise BrokenFold(f"hold {hold_id} is opened twice")
    opened_at = datetime.fromisoformat(fields["opened_at"])
    operation.holds.append(Hold(hold_id, fields["step"], HoldReason(fields["reason"]), opened_at))


def _time(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None

"""What a new operation of one kind looks like when it is recorded, all but its own values.

The rules bring the first operation of a kind to rest; nearly all others come to rest as it did and differ by ids, times,
parameters and requests only. A mould keeps what the rules decided, and `cast` fills in what is an operation's own: the same
row, byte for byte, as the rules would give (`new_operations`). Where something else could come out it is left to the rules:
content, a latest moment, a request that can't be rendered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.actions.new_operations import (
    NewOperation,
    Row,
    begin,
    common_of,
    first_line,
    named,
    title_of,
)
from opsledger.ledger.rendering import Whose, render_for
from opsledger.lib.ids import new_id
from opsledger.rules.definition_types import ActionDefinition
from opsledger.rules.identity import canonical_json, operation_digest, step_identity
from opsledger.rules.next_step import Rendered
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import Missing

# What stands for own values while a mould is made. No text that a line holds can be mistaken for one: a name has no NUL.
_AT = datetime(1, 1, 1, tzinfo=UTC)
_DIGEST, _REQUEST = "\0digest\0", "\0request\0"


@dataclass(frozen=True, slots=True)
class _Kind:
    team_id: UUID
    workflow_version_id: UUID
    destinations: tuple[tuple[int, tuple[UUID, UUID]], ...]
    actor: str


@dataclass(frozen=True, slots=True)
class _StepMould:
    number: int
    name: str
    action: ActionDefinition
    destination_version_id: UUID
    ready: bool  # since the operation was recorded
    frozen: bool  # its request is rendered
    act_after: timedelta | None


@dataclass(frozen=True, slots=True)
class _Mould:
    common: str
    state: str
    slug: str
    title: str  # its template
    line: str  # the journal's, with %(at)s, %(digest)s and %(request)s
    steps: tuple[_StepMould, ...]


def cast(one: NewOperation, now: datetime, *, ids: Callable[[], UUID] = new_id) -> Row | None:
    """The operation's row; None where only the rules can tell."""
    if one.content is not None or one.not_after is not None:
        return None
    mould = _mould(_Kind(one.team_id, one.workflow_version_id, tuple(one.destinations.items()), one.actor))
    if mould is None:
        return None
    operation_id, at, params = ids(), now.isoformat(), canonical_json(one.params)
    digest = operation_digest(mould.slug, params, b"").hex()
    steps: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    for part in mould.steps:
        identity = step_identity(one.team_id.bytes, one.operation_id, part.name)
        step: dict[str, Any] = {"id": str(ids()), "number": part.number, "identity": identity}
        if part.frozen:
            whose = Whose(one.team_id, one.operation_id, operation_id, part.name, identity)
            outgoing = render_for(whose, part.destination_version_id, part.action, one.params)
            if isinstance(outgoing, Missing):
                return None
            requests.append({"step_id": step["id"], **outgoing.row()})
            step["request_digest"] = outgoing.request.digest
        if part.ready:
            step["ready_at"] = at
        if part.act_after is not None:
            step["act_at"] = (now + part.act_after).isoformat() if part.act_after else at
        steps.append(step)
    own = {
        "id": str(operation_id),
        "operation_id": one.operation_id,
        "title": title_of(mould.title, one.params),
        "created_at": at,
        "digest": digest,
        **named(one),
        "params": params,
        "body": mould.line
        % {"at": at, "digest": digest, "request": requests[0]["digest"] if requests else ""},
        "steps": steps,
        "requests": requests,
    }
    return Row(operation_id, mould.state, mould.common, own)


@lru_cache(maxsize=1024)  # of versions, which never change
def _mould(kind: _Kind) -> _Mould | None:
    """None where a person is asked at once, or where more than one request is rendered."""
    destinations = dict(kind.destinations)
    one = NewOperation(kind.team_id, "", kind.workflow_version_id, destinations, {}, kind.actor)
    loaded = begin(one, _AT, render=_rendered)
    record = loaded.record
    if record.holds or sum(step.request_digest is not None for step in record.steps) > 1:
        return None
    return _Mould(
        common=common_of(one, loaded),
        state=record.state,
        slug=loaded.workflow_slug,
        title=definitions.workflow(kind.workflow_version_id).title,
        line=_pattern(first_line(one, record, _DIGEST)),
        steps=tuple(_step_mould(step, destinations[step.number][1]) for step in record.steps),
    )


def _rendered(operation: Operation, step: Step) -> Rendered:
    return Rendered(_REQUEST, _REQUEST)


def _step_mould(step: Step, version_id: UUID) -> _StepMould:
    return _StepMould(
        number=step.number,
        name=step.name,
        action=definitions.destination(version_id).actions[step.action],
        destination_version_id=version_id,
        ready=step.ready_at is not None,
        frozen=step.request_digest is not None,
        act_after=step.act_at - _AT if step.act_at is not None else None,
    )


def _pattern(line: str) -> str:
    """The line with places in it that `%` fills."""
    pattern = line.replace("%", "%%").replace(_AT.isoformat(), "%(at)s")
    for mark, place in ((_DIGEST, "%(digest)s"), (_REQUEST, "%(request)s")):
        pattern = pattern.replace(mark.replace("\0", "\\u0000"), place)
    return pattern

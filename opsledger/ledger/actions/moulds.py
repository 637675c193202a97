"""What a new operation of one kind looks like when it is recorded, all but its own values.

The rules bring the first operation of a kind to rest; nearly all others come to rest as it did and differ by ids, times,
parameters and requests only. A mould keeps what the rules decided, and `cast` fills in what is an operation's own: the same
row, byte for byte, as the rules would give (`new_operations`). Where something else could come out it is left to the rules:
content, a latest moment, a request that can't be rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.actions.new_operations import (
    NewOperation,
    NewStep,
    Row,
    begin,
    common_of,
    first_line,
    title_of,
)
from opsledger.ledger.rendering import Whose, render_for
from opsledger.lib.ids import new_id
from opsledger.rules.identity import canonical_json, operation_digest, step_identity
from opsledger.rules.next_step import Rendered
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import CompiledRequest, Missing

# What stands for own values while a mould is made. No text that a line holds can be mistaken for one: a name has no NUL.
_AT = datetime(1, 1, 1, tzinfo=UTC)
_DIGEST, _REQUEST = "\0digest\0", "\0request\0"
_NAMED = {"event": "\0event\0", "replaces": "\0replaces\0"}
_MARKED = re.compile(r"\\u0000(-?[0-9]+)\\u0000", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)


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
    request: CompiledRequest | None  # where it is rendered when the operation is recorded


@dataclass(frozen=True, slots=True)
class _Mould:
    common: str  # with %(…)s for each time
    times: dict[str, timedelta]  # after the operation was recorded
    state: str
    slug: str
    title: str  # its template
    line: str  # the journal's, with %(at)s, %(digest)s, %(request)s, and %(event)s and %(replaces)s as whole parts
    steps: tuple[_StepMould, ...]

    def common_at(self, now: datetime) -> str:
        return self.common % {name: (now + after).isoformat() for name, after in self.times.items()}


@dataclass(frozen=True, slots=True)
class _Found:
    destinations: Mapping[int, tuple[UUID, UUID]]  # kept, so that no other mapping has its place in memory
    mould: _Mould | None
    common: str


class Casting:
    """What is cast at one moment: every kind's mould is looked for once."""

    def __init__(self, now: datetime, *, ids: Callable[[], UUID] = new_id) -> None:
        self._now, self._at, self._ids = now, now.isoformat(), ids
        self._found: dict[tuple[UUID, int, str], _Found] = {}

    def cast(self, one: NewOperation) -> Row | None:
        """The operation's row; None where only the rules can tell."""
        if one.content is not None or one.not_after is not None:
            return None
        found = self._found_for(one)
        mould = found.mould
        if mould is None:
            return None
        operation_id, params = self._ids(), canonical_json(one.params)
        digest = operation_digest(mould.slug, params, b"")
        steps: list[NewStep] = []
        sent = ""
        for part in mould.steps:
            identity = step_identity(one.team_id.bytes, one.operation_id, part.name)
            step_id = self._ids()
            if part.request is None:
                steps.append(NewStep(step_id, part.number, identity, None))
                continue
            whose = Whose(one.team_id, one.operation_id, operation_id, part.name, identity)
            outgoing = render_for(whose, part.request, one.params)
            if isinstance(outgoing, Missing):
                return None
            sent = outgoing.request.digest
            steps.append(NewStep(step_id, part.number, identity, outgoing))
        return Row(
            id=operation_id,
            state=mould.state,
            common=found.common,
            operation_id=one.operation_id,
            title=title_of(mould.title, one.params),
            digest=digest,
            owner_id=one.owner_id,
            event_id=one.event_id,
            replaces=one.replaces,
            params=params,
            line=mould.line
            % {
                "at": self._at,
                "digest": digest.hex(),
                "request": sent,
                "event": f'"event":"{one.event_id}",' if one.event_id else "",
                "replaces": f'"replaces":"{one.replaces}",' if one.replaces else "",
            },
            steps=tuple(steps),
        )

    def _found_for(self, one: NewOperation) -> _Found:
        # By the mapping itself: those of one workflow that are recorded together have it from one look.
        key = (one.workflow_version_id, id(one.destinations), one.actor)
        found = self._found.get(key)
        if found is None:
            kind = _Kind(one.team_id, one.workflow_version_id, tuple(one.destinations.items()), one.actor)
            mould = _mould(kind)
            common = mould.common_at(self._now) if mould is not None else ""
            found = self._found[key] = _Found(one.destinations, mould, common)
        return found


@lru_cache(maxsize=1024)  # of versions, which never change
def _mould(kind: _Kind) -> _Mould | None:
    """None where a person is asked at once, or where more than one request is rendered."""
    destinations = dict(kind.destinations)
    one = NewOperation(kind.team_id, "", kind.workflow_version_id, destinations, {}, kind.actor)
    loaded = begin(one, _AT, render=_rendered)
    record = loaded.record
    if record.holds or sum(step.request_digest is not None for step in record.steps) > 1:
        return None
    common, times = _timed(common_of(one, loaded, written=_mark))
    return _Mould(
        common=common,
        times=times,
        state=record.state,
        slug=loaded.workflow_slug,
        title=definitions.workflow(kind.workflow_version_id).title,
        line=_pattern(first_line(one, record, _DIGEST, named=_NAMED)),
        steps=tuple(_step_mould(step, destinations[step.number][1]) for step in record.steps),
    )


def _rendered(operation: Operation, step: Step) -> Rendered:
    return Rendered(_REQUEST, _REQUEST)


def _step_mould(step: Step, version_id: UUID) -> _StepMould:
    frozen = step.request_digest is not None
    return _StepMould(
        step.number, step.name, definitions.request(version_id, step.action) if frozen else None
    )


def _mark(time: datetime) -> str:
    """A time as so many microseconds after the recording."""
    return f"\0{(time - _AT) // _MICROSECOND}\0"


def _timed(common: str) -> tuple[str, dict[str, timedelta]]:
    """What is shared, with places for its times that `%` fills, and each time by the name of its place."""
    pattern = _MARKED.sub(r"%(\1)s", common.replace("%", "%%"))
    return pattern, {name: int(name) * _MICROSECOND for name in _MARKED.findall(common)}


def _pattern(line: str) -> str:
    """The line with places in it that `%` fills."""
    pattern = line.replace("%", "%%").replace(_AT.isoformat(), "%(at)s")
    for mark, place in ((_DIGEST, "%(digest)s"), (_REQUEST, "%(request)s")):
        pattern = pattern.replace(mark.replace("\0", "\\u0000"), place)
    for name, mark in _NAMED.items():  # never last: what follows is parted from it by its comma
        part = f'"{name}":"{mark}",'.replace("\0", "\\u0000")
        pattern = pattern.replace(part, f"%({name})s")
    return pattern

"""A replay's plan as a value: its items, its digest, and the frozen form that goes out with it and comes back at the start.

Planning writes nothing, so a plan lives in nobody's table: whoever planned it holds it, signed for this team and person.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from uuid import UUID

from django.core.signing import BadSignature, Signer

from opsledger.lib.ids import public
from opsledger.rules.protection import Protected
from opsledger.rules.replays import Reason, Verdict, VerdictKind

OPERATIONS_MAX = 10_000
ITEMS_MAX = 40_000  # so that a frozen plan stays below a megabyte


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One step with its verdict, and what it would run with."""

    operation_id: UUID
    operation_text_id: str
    operation_version: int
    attempt_count: int
    title: str  # of the operation
    step_id: UUID
    number: int
    step_title: str
    destination_id: UUID
    destination: str
    action: str
    verdict: Verdict
    request_digest: str  # "" = not frozen yet
    workflow_version_id: UUID
    destination_version_id: UUID
    rebound: bool  # to a newer definition than it was recorded with, by choice
    # that its definition has, and that it could take: its request is not frozen yet
    newer_version_id: UUID | None
    mark: bytes
    protected: Protected | None = None  # of what would be sent
    hold_id: UUID | None = None

    @property
    def key(self) -> tuple[UUID, int]:
        return self.operation_id, self.number

    @property
    def leads(self) -> bool:
        """Whether it has a turn of its own; what runs behind an earlier step follows that."""
        return self.verdict.runs and self.verdict.kind is not VerdictKind.BEHIND


@dataclass(frozen=True, slots=True)
class PlanDestination:
    """A system that the plan touches."""

    id: UUID
    slug: str
    step_count: int
    sends_per_second: float  # its own rate
    stopped: str  # paused, access refused or circuit open; "" = it is sent to
    runs_with: tuple[int, ...]  # numbers of the versions of its definition
    version_number: int  # the newest
    frozen_older_count: int  # steps that keep an older definition: their requests are frozen
    open_older_count: int  # steps that could take the newest: a choice
    takes_newest: bool  # chosen


@dataclass(frozen=True, slots=True)
class PlanWorkflow:
    slug: str
    version_numbers: tuple[int, ...]  # that its operations were recorded with, and run with
    newest_number: int


@dataclass(frozen=True, slots=True)
class StatementRef:
    """A provider's statement that a plan rests on; by its digest it is exactly the one that was read."""

    id: UUID
    digest: str  # in hex

    @property
    def name(self) -> str:
        return public("stm", self.id)


@dataclass(frozen=True, slots=True)
class Plan:
    id: UUID
    team_id: UUID
    scope: str  # what was asked for, in words
    newest: frozenset[str]  # destinations whose newest definition was chosen
    items: list[PlanItem]  # by operation and step
    destinations: list[PlanDestination] = field(default_factory=list)
    workflows: list[PlanWorkflow] = field(default_factory=list)
    statement: StatementRef | None = None

    @property
    def running(self) -> list[PlanItem]:
        return [item for item in self.items if item.verdict.runs]

    @property
    def kept(self) -> list[PlanItem]:
        return [item for item in self.items if item.verdict.kind is VerdictKind.KEEP]

    @property
    def refused(self) -> list[PlanItem]:
        return [
            item for item in self.items if not (item.verdict.runs or item.verdict.kind is VerdictKind.KEEP)
        ]

    @property
    def not_touched(self) -> list[str]:
        """What was said to be taken in its newest definition, and is no destination of these steps."""
        return sorted(self.newest - {one.slug for one in self.destinations})

    @property
    def asks_whether_mended(self) -> bool:
        return any(item.verdict.reason is Reason.REJECTED for item in self.items)

    def digest(self) -> str:
        return digest_of(self.items, self.statement)


def digest_of(items: Iterable[PlanItem], statement: StatementRef | None = None) -> str:
    """SHA-256 in hex over the items in their order, each part with its length in front, and the statement before them."""
    fed = hashlib.sha256(b"opsledger-replay-plan-1")
    if statement is not None:
        fed.update(f"statement:{statement.id.hex}:{statement.digest}".encode())
    for item in items:
        verdict = item.verdict
        parts = (
            item.step_id.hex,
            str(item.operation_version),
            verdict.kind.value,
            verdict.reason.value,
            verdict.detail,
            verdict.until.isoformat() if verdict.until else "",
            item.request_digest,
            item.workflow_version_id.hex,
            item.destination_version_id.hex,
        )
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            fed.update(b"%d:" % len(raw))
            fed.update(raw)
    return fed.hexdigest()


# Frozen


class UnreadablePlan(ValueError):
    """The frozen text is not one of ours, or another person's or team's. The message is for people."""


@dataclass(frozen=True, slots=True)
class FrozenPlan:
    """What a plan promised: which steps of which operations, with which verdict and mark."""

    id: UUID
    team_id: UUID
    digest: str
    scope: str
    newest: frozenset[str]
    statement: StatementRef | None
    operations: list[tuple[UUID, int]]  # with their versions
    items: dict[tuple[UUID, int], tuple[Verdict, bytes]]


def freeze(plan: Plan, person_id: Any) -> str:
    """The plan as signed text of URL-safe characters: column by column, compressed; about 50 bytes an operation."""
    steps: dict[UUID, list[PlanItem]] = {}
    for item in plan.items:
        steps.setdefault(item.operation_id, []).append(item)
    codes: dict[tuple[str, str, str], int] = {}
    coded = [codes.setdefault(_code(item.verdict), len(codes)) for item in plan.items]
    header = {
        "id": plan.id.hex,
        "digest": plan.digest(),
        "scope": plan.scope,
        "newest": sorted(plan.newest),
        "statement": [plan.statement.id.hex, plan.statement.digest] if plan.statement else None,
        "codes": list(codes),
        "operations": len(steps),
        "items": len(plan.items),
    }
    columns = (
        json.dumps(header).encode(),
        b"\n",
        b"".join(operation_id.bytes for operation_id in steps),
        struct.pack(f">{len(steps)}I", *(items[0].operation_version for items in steps.values())),
        bytes(len(items) for items in steps.values()),
        struct.pack(f">{len(coded)}H", *coded),
        b"".join(item.mark for item in plan.items),
    )
    packed = base64.urlsafe_b64encode(zlib.compress(b"".join(columns), 6)).decode()
    return _signer(plan.team_id, person_id).sign(packed)


def thaw(text: str, team_id: UUID, person_id: Any) -> FrozenPlan:
    """The plan that was given to this person in this team; anything else is an UnreadablePlan."""
    try:
        packed = _signer(team_id, person_id).unsign(text)
        head, _, rest = zlib.decompress(base64.urlsafe_b64decode(packed)).partition(b"\n")
        return _read(json.loads(head), rest, team_id)
    except (BadSignature, binascii.Error, zlib.error, ValueError, struct.error) as why:
        raise UnreadablePlan(
            "The plan can’t be read: it is cut, or it was made for another person or team. Plan again."
        ) from why


def _read(header: Mapping[str, Any], columns: bytes, team_id: UUID) -> FrozenPlan:
    operations, items = header["operations"], header["items"]
    ends = list(accumulate((16 * operations, 4 * operations, operations, 2 * items, 8 * items)))
    ids, versions, counts, coded, marks = (
        columns[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)
    )
    known = [UUID(bytes=ids[place : place + 16]) for place in range(0, len(ids), 16)]
    verdicts = [
        Verdict(VerdictKind(kind), Reason(reason), detail) for kind, reason, detail in header["codes"]
    ]
    codes = struct.unpack(f">{items}H", coded)
    keys = [
        (operation_id, number)
        for operation_id, count in zip(known, counts, strict=True)
        for number in range(1, count + 1)
    ]
    return FrozenPlan(
        id=UUID(header["id"]),
        team_id=team_id,
        digest=header["digest"],
        scope=header["scope"],
        newest=frozenset(header["newest"]),
        statement=_statement(header.get("statement")),
        operations=list(zip(known, struct.unpack(f">{operations}I", versions), strict=True)),
        items={
            key: (verdicts[codes[place]], marks[8 * place : 8 * place + 8]) for place, key in enumerate(keys)
        },
    )


def _statement(written: Any) -> StatementRef | None:
    return StatementRef(UUID(written[0]), str(written[1])) if written else None


def _code(verdict: Verdict) -> tuple[str, str, str]:
    return verdict.kind.value, verdict.reason.value, verdict.detail


def _signer(team_id: UUID, person_id: Any) -> Signer:
    return Signer(salt=f"opsledger replay plan 1 team {team_id} person {person_id}")


# What moved since


@dataclass(frozen=True, slots=True)
class Difference:
    """A step whose verdict, or what it rests on, is not what the plan said."""

    item: PlanItem  # as it is
    was: Verdict

    @property
    def what(self) -> str:
        if (self.was.kind, self.was.reason, self.was.detail) != _of(self.item.verdict):
            return "verdict"
        return "record"


def _of(verdict: Verdict) -> tuple[VerdictKind, Reason, str]:
    return verdict.kind, verdict.reason, verdict.detail


def differences(frozen: FrozenPlan, now: Sequence[PlanItem]) -> list[Difference]:
    """The steps that are not as they were planned. That only the operation's version moved is none: see `mark_of`."""
    found = []
    for item in now:
        was, mark = frozen.items[item.key]
        if mark != item.mark:
            found.append(Difference(item, was))
    return found

"""Operations of a team, newest first, filtered and searched. One filter object reads what was asked, queries, and
makes the next cursor.

Pages go by id, downwards; there is no OFFSET and no COUNT. A filter follows an index, or is checked on the newest
WINDOW operations of a page: such a page may hold fewer items than asked for, and its cursor goes on from there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from psycopg.rows import namedtuple_row

from opsledger.lib.ids import parse
from opsledger.rules.building import Problem
from opsledger.rules.states import HoldReason, OperationState

PAGE = 50
PAGE_MAX = 200
WINDOW = 2_000  # operations of one page that are looked at for a filter which no index follows
MATCHES_MAX = 500  # of one kind of identifier; more is narrowed down by typing more of it
LOOK_BACK_SECONDS_MAX = 7 * 86_400  # of updated_since
TEXT_LENGTH_MAX = 2_000
OPEN_STATES = (
    OperationState.RUNNING,
    OperationState.RECONCILING,
    OperationState.AWAITING_APPROVAL,
    OperationState.HELD,
)


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """What was asked for. Identifiers are compared byte for byte; `search` takes their beginnings."""

    states: tuple[OperationState, ...] = ()
    owner: str = ""  # a sign-in name; finds open operations
    workflow: str = ""
    destination: str = ""
    operation_id: str = ""
    reference: str = ""
    event_id: str = ""
    search: str = ""  # beginning of an operation id or of a reference, an event id, or `op_…`
    updated_since: datetime | None = None
    limit: int = PAGE
    cursor: UUID | None = None  # the page begins below this id

    @classmethod
    def read(cls, given: Mapping[str, Sequence[str]]) -> tuple[OperationFilter, list[Problem]]:
        """The filter from a query string's fields, and what is wrong with them. Unknown fields are wrong, too."""
        problems: list[Problem] = []
        for name in given:
            if name not in _FIELDS:
                problems.append((name, f"is not a known filter; known are {', '.join(sorted(_FIELDS))}"))
            elif len(given[name]) > 1 and name != "state":
                problems.append((name, "is given more than once"))
        values = {name: given[name][-1] for name in given if name in _FIELDS and given[name]}
        for name, value in values.items():
            if "\x00" in value or len(value) > TEXT_LENGTH_MAX:
                problems.append((name, f"must be at most {TEXT_LENGTH_MAX} characters, without NUL"))
        texts: dict[str, Any] = {name: values.get(name, "") for name in _TEXTS}
        asked = cls(
            states=_states(given.get("state", ()), problems),
            search=values.get("q", ""),
            updated_since=_since(values.get("updated_since", ""), problems),
            limit=_limit(values.get("limit", ""), problems),
            **texts,
        )
        if asked.owner and not set(asked.states) <= set(OPEN_STATES):
            problems.append(("owner", "goes with open states only"))
        if values.get("cursor"):
            asked = replace(asked, cursor=asked._place(values["cursor"], problems))
        return asked, problems

    def cursor_after(self, last: UUID) -> str:
        """Opaque: where the next page begins, and a mark of the filters that it belongs to."""
        return base64.urlsafe_b64encode(last.bytes + self._mark()).decode().rstrip("=")

    def _place(self, text: str, problems: list[Problem]) -> UUID | None:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != 24:
            problems.append(("cursor", "can't be read; begin again without it"))
        elif raw[16:] != self._mark():
            problems.append(("cursor", "belongs to other filters; begin again without it"))
        else:
            return UUID(bytes=raw[:16])
        return None

    def _mark(self) -> bytes:
        return hashlib.sha256(
            repr(replace(self, cursor=None, limit=0)).encode("utf-8", "surrogatepass")
        ).digest()[:8]

    @property
    def by_identifier(self) -> bool:
        return bool(self.operation_id or self.reference or self.event_id or self.search)


_TEXTS = ("owner", "workflow", "destination", "operation_id", "reference", "event_id")
_FIELDS = frozenset({*_TEXTS, "state", "q", "updated_since", "limit", "cursor"})


def _states(given: Sequence[str], problems: list[Problem]) -> tuple[OperationState, ...]:
    words = [word for text in given for word in text.split(",") if word]
    known = {state.value for state in OperationState} | {"open"}
    if not known.issuperset(words):
        problems.append(("state", f"must be one of {', '.join(sorted(known))}"))
    found = {OperationState(word) for word in words if word in known - {"open"}}
    return tuple(sorted(found | set(OPEN_STATES if "open" in words else ())))


def _since(text: str, problems: list[Problem]) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(
            text.replace(" ", "+")
        )  # a plus that was not encoded arrives as a space
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        problems.append(("updated_since", "must be a time with its zone, such as 2026-03-01T09:00:00Z"))
        return None
    if moment < datetime.now(UTC) - timedelta(seconds=LOOK_BACK_SECONDS_MAX):
        days = LOOK_BACK_SECONDS_MAX // 86_400
        problems.append(("updated_since", f"may lie {days} days back; list everything once, then follow"))
    return moment


def _limit(text: str, problems: list[Problem]) -> int:
    if not text:
        return PAGE
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= PAGE_MAX):
        problems.append(("limit", f"must be a whole number from 1 to {PAGE_MAX}"))
        return PAGE
    return int(text)


# Lines


@dataclass(frozen=True, slots=True)
class StepLine:
    number: int
    name: str
    title: str
    destination: str
    action: str
    performer: str
    state: str
    reference: str | None
    act: str
    act_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenHold:
    id: UUID
    step: int
    reason: HoldReason
    version: int
    due_at: datetime
    owner_name: str


@dataclass(frozen=True, slots=True)
class NextDecision:
    """What must happen next, and who does it: a person, the engine, an automation, or nobody any more."""

    by: str
    what: str
    at: datetime | None = None  # when it happens, or is due
    step: int | None = None
    hold_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class OperationLine:
    id: UUID
    operation_id: str
    title: str
    workflow: str
    state: OperationState
    version: int
    owner_name: str  # "" = not taken
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    not_after: datetime | None
    step_count: int
    confirmed_count: int
    attempt_count: int
    event_count: int
    steps: list[StepLine] = field(default_factory=list)
    holds: list[OpenHold] = field(default_factory=list)

    @property
    def references(self) -> list[str]:
        return [step.reference for step in self.steps if step.reference]

    @property
    def next(self) -> NextDecision:
        return next_decision(self.steps, self.holds)


@dataclass(frozen=True, slots=True)
class Page:
    lines: list[OperationLine]
    next: str | None  # the cursor; None when nothing is left


_ACTS = {
    "send": ("engine", "sends {title} to {destination}"),
    "offer": ("automation", "claims {title}"),
    "look": ("engine", "looks up {title} at {destination}"),
    "await": ("engine", "waits for the final effect of {title}"),
}


def next_decision(steps: Sequence[StepLine], holds: Sequence[OpenHold]) -> NextDecision:
    """The first question to a person, else the first planned act."""
    if holds:
        hold = min(holds, key=lambda one: (one.due_at, one.id))
        title = steps[hold.step - 1].title
        what = f"answers: {hold.reason.value.replace('_', ' ')} ({title})"
        return NextDecision("person", what, hold.due_at, hold.step, hold.id)
    planned = [step for step in steps if step.act != "none"]
    if not planned:
        return NextDecision("nobody", "nothing is left to do")
    step = min(planned, key=lambda one: (one.act_at or datetime.max.replace(tzinfo=UTC), one.number))
    if step.act == "lease":
        who = "automation" if step.performer == "automation" else "engine"
        return NextDecision(who, f"ends its attempt at {step.title}", step.act_at, step.number)
    who, words = _ACTS[step.act]
    what = words.format(title=step.title, destination=step.destination)
    return NextDecision(who, what, step.act_at, step.number)


# Querying


def page_of(team_id: UUID, asked: OperationFilter) -> Page:
    """One page: the ids, then the lines of these ids; a fixed number of statements."""
    ids, following = _pick(team_id, asked)
    return Page(lines_of(team_id, ids), asked.cursor_after(following) if following else None)


def find_id(team_id: UUID, *, own: str = "", number: UUID | None = None) -> UUID | None:
    """The operation of this own id, or of this number, if it is the team's."""
    column, value = ("id", number) if number else ("operation_id", own)
    rows = _rows(f"SELECT id FROM ledger_operation WHERE team_id = %s AND {column} = %s", [team_id, value])
    return rows[0].id if rows else None


_IDS = """
SELECT id, id AS number, NULL AS own FROM ledger_operation WHERE team_id = %s AND id = ANY(%s)
 UNION ALL
SELECT id, NULL, operation_id FROM ledger_operation WHERE team_id = %s AND operation_id = ANY(%s)
"""


def find_ids(team_id: UUID, named: Collection[UUID | str]) -> dict[UUID | str, UUID]:
    """The same for many at once, by number or by own id; what the team does not have is left out."""
    numbers = [one for one in named if isinstance(one, UUID)]
    owns = [one for one in named if isinstance(one, str)]
    rows = _rows(_IDS, [team_id, numbers, team_id, owns])
    return {row.number or row.own: row.id for row in rows}


def every_id(team_id: UUID, asked: OperationFilter, most: int) -> list[UUID]:
    """The ids of all operations that match, newest first, page by page; no more than `most`."""
    asked = replace(asked, limit=min(WINDOW - 1, most), cursor=None)
    found: list[UUID] = []
    while True:
        ids, following = _pick(team_id, asked)
        found += ids
        if following is None or len(found) >= most:
            return found[:most]
        asked = replace(asked, cursor=following)


def _pick(team_id: UUID, asked: OperationFilter) -> tuple[list[UUID], UUID | None]:
    residual, checked = _residual(asked)
    size = WINDOW if residual else asked.limit + 1
    query, parameters = _scan(team_id, asked, size)
    matches = " AND ".join(residual) or "true"
    rows = _rows(
        f"WITH scanned AS MATERIALIZED ({query}) SELECT o.id, ({matches}) AS matches FROM scanned o ORDER BY o.id DESC",
        [*parameters, *checked],
    )
    found = [row.id for row in rows if row.matches]
    if len(found) > asked.limit:
        return found[: asked.limit], found[asked.limit - 1]
    return found, rows[-1].id if residual and len(rows) == size else None


_COLUMNS = "o.id, o.state, o.workflow_slug"


def _scan(team_id: UUID, asked: OperationFilter, size: int) -> tuple[str, list[Any]]:
    """The newest `size` operations that the index of the leading filter gives."""
    parts: list[str] = ["o.team_id = %s"]
    parameters: list[Any] = [team_id]
    if asked.cursor is not None:
        parts.append("o.id < %s")
        parameters.append(asked.cursor)
    tail = f"ORDER BY o.id DESC LIMIT {size}"
    if asked.by_identifier:
        query, found = _by_identifier(team_id, asked)
        return (
            f"SELECT {_COLUMNS} FROM ledger_operation o WHERE {_all(parts)} AND o.id IN ({query}) {tail}",
            [
                *parameters,
                *found,
            ],
        )
    if asked.updated_since is not None:
        # Without the team in the innermost part only the index on updated_at fits.
        changed = "SELECT * FROM ledger_operation WHERE updated_at >= %s OFFSET 0"
        return f"SELECT {_COLUMNS} FROM ({changed}) o WHERE {_all(parts)} {tail}", [
            asked.updated_since,
            *parameters,
        ]
    if asked.owner:
        parts += ["o.ended_at IS NULL", "o.owner_id = (SELECT id FROM person WHERE email = %s)"]
        parameters.append(asked.owner.lower())
    elif asked.states:
        one = f"(SELECT {_COLUMNS} FROM ledger_operation o WHERE {_all(parts)} AND o.state = %s {tail})"
        branches = " UNION ALL ".join([one] * len(asked.states))
        values = [value for state in asked.states for value in (*parameters, state.value)]
        return f"SELECT {_COLUMNS} FROM ({branches}) o {tail}", values
    elif asked.workflow:
        parts.append("o.workflow_slug = %s")
        parameters.append(asked.workflow)
    return f"SELECT {_COLUMNS} FROM ledger_operation o WHERE {_all(parts)} {tail}", parameters


def _residual(asked: OperationFilter) -> tuple[list[str], list[Any]]:
    """What the scan's index does not say, checked row by row."""
    parts: list[str] = []
    values: list[Any] = []
    leads = asked.by_identifier or asked.updated_since is not None
    if asked.states and (leads or asked.owner):
        parts.append("o.state = ANY(%s)")
        values.append([state.value for state in asked.states])
    if asked.workflow and (leads or asked.owner or asked.states):
        parts.append("o.workflow_slug = %s")
        values.append(asked.workflow)
    if asked.owner and leads:
        parts.append(
            "EXISTS (SELECT 1 FROM ledger_operation w JOIN person p ON p.id = w.owner_id"
            " WHERE w.id = o.id AND p.email = %s)"
        )
        values.append(asked.owner.lower())
    if asked.updated_since is not None and asked.by_identifier:
        parts.append("EXISTS (SELECT 1 FROM ledger_operation w WHERE w.id = o.id AND w.updated_at >= %s)")
        values.append(asked.updated_since)
    if asked.destination:
        parts.append(
            "EXISTS (SELECT 1 FROM ledger_step s WHERE s.operation_id = o.id AND s.destination_slug = %s)"
        )
        values.append(asked.destination)
    return parts, values


def _by_identifier(team_id: UUID, asked: OperationFilter) -> tuple[str, list[Any]]:
    """The ids that every given identifier leads to; `search` takes any kind."""
    queries: list[str] = []
    values: list[Any] = []

    def also(query: str, *given: Any) -> None:
        queries.append(query)
        values.extend(given)

    if asked.operation_id:
        also(_OWN_ID, team_id, asked.operation_id)
    if asked.reference:
        also(_REFERENCE.format("= %s"), team_id, asked.reference)
    if asked.event_id:
        also(_EVENT, team_id, asked.event_id, asked.event_id)
    if asked.search:
        beginning = _escaped(asked.search) + "%"
        number = parse("op", asked.search)
        also(
            f"({_BEGINNING}) UNION ({_REFERENCE.format('LIKE %s')}) UNION ({_EVENT}) UNION (SELECT %s::uuid)",
            *(team_id, beginning, team_id, beginning, team_id, asked.search, asked.search, number),
        )
    return " INTERSECT ".join(f"({query})" for query in queries), values


_OWN_ID = "SELECT id FROM ledger_operation WHERE team_id = %s AND operation_id = %s"
_BEGINNING = (
    f"SELECT id FROM ledger_operation WHERE team_id = %s AND operation_id LIKE %s LIMIT {MATCHES_MAX}"
)
_REFERENCE = (
    "SELECT operation_id FROM ledger_step WHERE team_id = %s AND reference IS NOT NULL AND reference {}"
    f" LIMIT {MATCHES_MAX}"
)
_EVENT = (
    "SELECT l.operation_id FROM ledger_event e JOIN ledger_operationevent l ON l.event_id = e.id"
    f" WHERE e.team_id = %s AND left(e.event_id, 120) = left(%s, 120) AND e.event_id = %s LIMIT {MATCHES_MAX}"
)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts)


_LINES = """
SELECT o.id, o.operation_id, o.title, o.workflow_slug, o.state, o.version, coalesce(p.display_name, '') AS owner_name,
       o.created_at, o.updated_at, o.ended_at, o.not_after, o.step_count, o.confirmed_count, o.attempt_count, o.event_count
  FROM ledger_operation o LEFT JOIN person p ON p.id = o.owner_id
 WHERE o.team_id = %s AND o.id = ANY(%s) ORDER BY o.id DESC
"""
_STEPS = """
SELECT operation_id, number, name, title, destination_slug, action, performer, state, reference, act, act_at
  FROM ledger_step WHERE operation_id = ANY(%s) ORDER BY operation_id, number
"""
_HOLDS = """
SELECT h.operation_id, h.id, s.number, h.reason, h.version, h.due_at, coalesce(p.display_name, '') AS owner_name
  FROM ledger_hold h JOIN ledger_step s ON s.id = h.step_id LEFT JOIN person p ON p.id = h.owner_id
 WHERE h.operation_id = ANY(%s) AND h.closed_at IS NULL ORDER BY h.due_at, h.id
"""


def lines_of(team_id: UUID, ids: Sequence[UUID]) -> list[OperationLine]:
    """The lines of these operations, newest first; those of other teams are left out."""
    if not ids:
        return []
    lines = {
        row.id: OperationLine(
            row.id, row.operation_id, row.title, row.workflow_slug, OperationState(row.state), row.version,
            row.owner_name, row.created_at, row.updated_at, row.ended_at, row.not_after, row.step_count,
            row.confirmed_count, row.attempt_count, row.event_count,
        )
        for row in _rows(_LINES, [team_id, list(ids)])
    }  # fmt: skip
    known = list(lines)
    for row in _rows(_STEPS, [known]):
        lines[row.operation_id].steps.append(step_line(row))
    for row in _rows(_HOLDS, [known]):
        hold = OpenHold(row.id, row.number, HoldReason(row.reason), row.version, row.due_at, row.owner_name)
        lines[row.operation_id].holds.append(hold)
    return list(lines.values())


def step_line(row: Any) -> StepLine:
    return StepLine(
        row.number, row.name, row.title, row.destination_slug, row.action, row.performer, row.state,
        row.reference, row.act, row.act_at,
    )  # fmt: skip


def _rows(query: str, parameters: Sequence[Any]) -> list[Any]:
    connection.ensure_connection()
    with connection.connection.cursor(row_factory=namedtuple_row) as cursor:
        return list(cursor.execute(query, list(parameters)).fetchall())

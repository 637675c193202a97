"""The whole journal of a team, chain after chain, for a file that proves itself.

Subjects come in batches that follow an index, their entries by the chain's own order; each batch is a short statement of its
own, so that no snapshot stays open however long the reader takes. A chain is read from its first entry on: what was appended
meanwhile is at its end, or comes with the next export, and never leaves a gap. Free text stays where it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.hashing import GENESIS
from opsledger.ledger.models import SENDING_ID
from opsledger.ledger.queries.audit import Wanted

SUBJECTS = 200  # of one statement
ENTRIES = 100  # of one subject, while it is read with others
LONG = 1_000  # of one subject, read by itself
LINES = 200  # of one piece of the file

# The subjects of a team: for each kind its table, and the column that an index of the team is ordered by.
_KINDS = (
    ("ledger_definition", "id"),  # destinations among them
    ("ledger_content", "content_id"),
    ("ledger_replay", "id"),
    ("ledger_event", "id"),
    ("ledger_operation", "id"),
)
_SUBJECTS = "SELECT id, {key} FROM {table} WHERE team_id = %s {after} ORDER BY {key} LIMIT %s"
_ENTRIES = """
SELECT e.subject_kind, e.subject_id, e.seq, e.at, e.kind, e.actor, e.body, e.hash
  FROM unnest(%s::uuid[]) WITH ORDINALITY AS u(id, place)
 CROSS JOIN LATERAL (
       SELECT * FROM journal_entry j WHERE j.subject_id = u.id AND j.seq > %s ORDER BY j.seq LIMIT %s) e
 ORDER BY u.place, e.seq
"""


@dataclass(frozen=True, slots=True)
class ExportLine:
    """An entry as it is stored; with `previous`, its hash can be made again from the line alone."""

    subject_kind: str
    subject_id: UUID
    seq: int
    at: datetime
    kind: str
    actor: str
    body: str  # byte for byte
    hash: bytes
    previous: bytes


def lines_of(wanted: Wanted) -> Iterator[ExportLine]:
    """Every entry of the team's subjects, and of the switch for all sending, that the filter lets through."""
    for subjects in _subjects_of(wanted.team_id):
        for line in _entries_of(subjects):
            if _is_wanted(line, wanted):
                yield line


def _is_wanted(line: ExportLine, wanted: Wanted) -> bool:
    if wanted.kind and line.kind != wanted.kind:
        return False
    of_its_kind = ":" not in wanted.actor and line.actor.startswith(f"{wanted.actor}:")
    return not wanted.actor or line.actor == wanted.actor or of_its_kind


def _subjects_of(team_id: UUID) -> Iterator[list[UUID]]:
    yield [team_id, SENDING_ID]
    for table, key in _KINDS:
        last: Any = None
        while True:
            query, parameters = subjects_query(table, key, team_id, last)
            rows = _fetch(query, parameters)
            if not rows:
                break
            yield [row[0] for row in rows]
            last = rows[-1][1]


def subjects_query(table: str, key: str, team_id: UUID, last: Any) -> tuple[str, list[Any]]:
    """The statement of a batch of subjects, with its parameters."""
    after = f"AND {key} > %s" if last is not None else ""
    return _SUBJECTS.format(table=table, key=key, after=after), [
        team_id,
        *([last] if last is not None else []),
        SUBJECTS,
    ]


def _entries_of(subjects: list[UUID]) -> Iterator[ExportLine]:
    chains: dict[UUID, list[Any]] = {}
    for row in _fetch(_ENTRIES, [subjects, 0, ENTRIES]):
        chains.setdefault(row[1], []).append(row)
    for subject_id, rows in chains.items():
        previous = GENESIS
        for row in _with_the_rest(subject_id, rows):
            subject_kind, subject, seq, at, kind, actor, text, made = row
            line = ExportLine(subject_kind, subject, seq, at, kind, actor, text, bytes(made), previous)
            yield line
            previous = line.hash


def _with_the_rest(subject_id: UUID, rows: list[Any]) -> Iterator[Any]:
    """These first entries of a chain, and what follows where there were as many as were asked for."""
    yield from rows
    size = ENTRIES
    while len(rows) == size:
        rows, size = _fetch(_ENTRIES, [[subject_id], rows[-1][2], LONG]), LONG
        yield from rows


def _fetch(query: str, parameters: list[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


# As a file


def as_json_lines(wanted: Wanted) -> Iterator[bytes]:
    """One JSON object a line, in ASCII; the last says how many there were, so that a cut file is noticed.

    `body` is the stored text, not JSON made anew from it; `at` is UTC with microseconds, hashes are in hex.
    """
    count, waiting = 0, []
    for line in lines_of(wanted):
        count += 1
        waiting.append(_entry(line))
        if len(waiting) == LINES:
            yield _written(waiting)
            waiting = []
    filters = {"kind": wanted.kind, "actor": wanted.actor}
    chosen = {name: value for name, value in filters.items() if value}
    end = {"end": True, "lines": count, "team": str(wanted.team_id), "filters": chosen}
    yield _written([*waiting, end])


def _entry(line: ExportLine) -> dict[str, Any]:
    return {
        "subject_kind": line.subject_kind,
        "subject_id": str(line.subject_id),
        "seq": line.seq,
        "at": line.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "kind": line.kind,
        "actor": line.actor,
        "body": line.body,
        "hash": line.hash.hex(),
        "previous": line.previous.hex(),
    }


def _written(rows: Iterable[dict[str, Any]]) -> bytes:
    return "".join([f"{json.dumps(row, allow_nan=False)}\n" for row in rows]).encode("ascii")

"""Provider's statements: what they say, and which holds of their selection they cover."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger.queries.bulk import text_of
from opsledger.ledger.queries.lists import LISTS_MAX, Target, headings_for, identities_of, targets_of
from opsledger.ledger.queries.replay_plans import EmptyScope, Scope
from opsledger.ledger.replay_plan import StatementRef
from opsledger.lib.named_rows import named_rows
from opsledger.rules.bulk import Verb
from opsledger.rules.list_matching import COVER_SENTENCES, Cover, covered
from opsledger.rules.reference_list import read_list


@dataclass(frozen=True, slots=True)
class StatementLine:
    id: UUID
    team_id: UUID
    selection_id: UUID
    made_by: str
    made_at: datetime
    words: str
    file_name: str
    file_bytes: int
    covers_all: bool  # no list was given with it: it speaks of everything that was selected
    how: str | None  # None: erased
    ticket: str | None  # "" = none
    digest: str
    covered_count: int

    @property
    def ref(self) -> StatementRef:
        return StatementRef(self.id, self.digest)


_STATEMENT = """
SELECT s.id, s.team_id, s.selection_id, p.display_name AS made_by, s.made_at, s.words, s.file_name,
       length(s.file) AS file_bytes, s.listed IS NULL AS covers_all, s.how, s.ticket, encode(s.digest, 'hex') AS digest,
       s.covered_count
  FROM ledger_providerstatement s JOIN person p ON p.id = s.person_id
"""


def statement_of(statement_id: UUID, team_ids: Sequence[UUID]) -> StatementLine | None:
    """One statement; None when it does not exist for these teams."""
    rows = named_rows(f"{_STATEMENT} WHERE s.id = %s AND s.team_id = ANY(%s)", [statement_id, list(team_ids)])
    return _line(rows[0]) if rows else None


def statements_of(selection_id: UUID) -> list[StatementLine]:
    """The statements about a selection, newest first; at most LISTS_MAX."""
    query = f"{_STATEMENT} WHERE s.selection_id = %s ORDER BY s.id DESC LIMIT {LISTS_MAX}"
    return [_line(row) for row in named_rows(query, [selection_id])]


def _line(row: Any) -> StatementLine:
    return StatementLine(
        row.id, row.team_id, row.selection_id, row.made_by, row.made_at, row.words, row.file_name, row.file_bytes,
        row.covers_all, text_of(json.loads(row.how)), text_of(json.loads(row.ticket)) if row.ticket else "",
        row.digest, row.covered_count,
    )  # fmt: skip


def file_of(statement_id: UUID) -> bytes:
    return bytes(
        named_rows("SELECT file FROM ledger_providerstatement WHERE id = %s", [statement_id])[0].file
    )


@dataclass(frozen=True, slots=True)
class CoverLine:
    """One hold of the selection, and whether the statement covers it."""

    target: Target
    cover: Cover

    @property
    def sentence(self) -> str:
        return COVER_SENTENCES[self.cover]


def covers_of(line: StatementLine) -> list[CoverLine]:
    """Every hold of the selection: covered as it was kept; why the others are not, as they stand now."""
    targets = targets_of(line.selection_id, Verb.ABSENT)
    query = "SELECT hold_id FROM ledger_statementcover WHERE statement_id = %s"
    kept = {row.hold_id for row in named_rows(query, [line.id])}
    others = covered([one.sought for one in targets], _identities(line, targets))

    def cover(one: Target) -> Cover:
        if one.hold_id in kept:
            return Cover.COVERED
        found = others[one.sought.hold_id]
        return found if found is not Cover.COVERED else Cover.CHANGED  # since the statement was kept

    return [CoverLine(one, cover(one)) for one in targets]


def _identities(line: StatementLine, targets: Sequence[Target]) -> set[str] | None:
    listed = named_rows("SELECT listed FROM ledger_providerstatement WHERE id = %s", [line.id])[0].listed
    if listed is None:
        return None
    return read_list(
        bytes(listed), headings_for(targets), identities_of(targets), identities_alone=True
    ).identities


def scope_of_statement(line: StatementLine) -> Scope:
    """The operations of the holds that it covers."""
    query = "SELECT DISTINCT operation_id FROM ledger_statementcover WHERE statement_id = %s ORDER BY 1"
    found = tuple(row.operation_id for row in named_rows(query, [line.id]))
    if not found:
        raise EmptyScope("The statement covers no hold. An empty scope is never read as “all”.")
    count = line.covered_count
    return Scope(found, f"{count:,} step{'s' if count != 1 else ''} covered by the statement {line.ref.name}")

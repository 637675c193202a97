"""Which requests and operations name a record: found by the reference that a step holds, and by reading requests.

Requests have no index by what they name. Those of the operations that were recorded since are read, oldest first, up to a
limit; how many were read is part of the answer, so that nobody takes silence for proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from opsledger.ledger.models.operations import REFERENCE_START_LENGTH, reference_start
from opsledger.lib.named_rows import named_rows
from opsledger.rules.dependents import names_reference
from opsledger.rules.rendering import json_text

OPERATIONS_READ_MAX = 500
USES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Use:
    """A step that names a record, of the same operation or of another one."""

    operation_id: UUID
    own_id: str
    title: str  # the step's
    number: int
    same_operation: bool
    sent: bool  # an attempt of this request may have left
    holds_it: bool = False  # the record is its own reference


@dataclass(frozen=True, slots=True)
class Dependents:
    """`uses` by reference. What was read: so many operations of the team, and whether newer ones were left out."""

    uses: dict[str, list[Use]]
    operations_read: int
    more_exist: bool


_HOLDERS = f"""
SELECT s.reference, s.operation_id, o.operation_id AS own_id, s.title, s.number
  FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id
 WHERE s.team_id = %s AND {reference_start("s.reference")} = ANY(%s) AND s.reference = ANY(%s)
   AND NOT (s.operation_id = %s AND s.number <= %s)
 ORDER BY s.operation_id, s.number LIMIT {USES_SHOWN_MAX}
"""
_COUNT = """
SELECT count(*) AS read FROM (SELECT 1 FROM ledger_operation WHERE team_id = %s AND id > %s ORDER BY id LIMIT %s) newer
"""
# The texts are looked for as a body and an address would carry them; what is found is read again, value by value.
_NAMING = f"""
WITH searched AS MATERIALIZED (
    SELECT %(operation)s::uuid AS id
     UNION ALL
    (SELECT id FROM ledger_operation WHERE team_id = %(team)s AND id > %(operation)s ORDER BY id
      LIMIT {OPERATIONS_READ_MAX})
)
SELECT s.operation_id, o.operation_id AS own_id, s.title, s.number, q.url, q.body,
       EXISTS (SELECT 1 FROM ledger_attempt a WHERE a.step_id = s.id AND a.revision = q.revision
                  AND a.no_change IS DISTINCT FROM 'not_sent') AS sent
  FROM searched
  JOIN ledger_operation o ON o.id = searched.id
  JOIN ledger_step s ON s.operation_id = o.id
  JOIN ledger_steprequest q ON q.step_id = s.id AND q.revision = s.revision
 WHERE NOT (s.operation_id = %(operation)s AND s.number <= %(number)s)
   AND EXISTS (SELECT 1 FROM unnest(%(bodies)s::bytea[], %(urls)s::text[]) AS one(body, url)
                WHERE position(one.body IN q.body) > 0 OR strpos(q.url, one.url) > 0)
 ORDER BY s.operation_id, s.number
"""


def dependents_of(
    team_id: UUID, operation_id: UUID, step_number: int, references: Sequence[str]
) -> Dependents:
    """Later steps of the operation, and steps of the team's other operations, that name one of these references."""
    uses: dict[str, list[Use]] = {reference: [] for reference in references}
    seen: set[tuple[str, UUID, int]] = set()
    for reference, use in [
        *_holders(team_id, operation_id, step_number, references),
        *_naming(team_id, operation_id, step_number, references),
    ]:
        if (reference, use.operation_id, use.number) not in seen and len(uses[reference]) < USES_SHOWN_MAX:
            seen.add((reference, use.operation_id, use.number))
            uses[reference].append(use)
    newer = int(named_rows(_COUNT, [team_id, operation_id, OPERATIONS_READ_MAX + 1])[0].read)
    return Dependents(uses, min(newer, OPERATIONS_READ_MAX), newer > OPERATIONS_READ_MAX)


def _holders(
    team_id: UUID, operation_id: UUID, step_number: int, references: Sequence[str]
) -> list[tuple[str, Use]]:
    starts = [reference[:REFERENCE_START_LENGTH] for reference in references]
    rows = named_rows(_HOLDERS, [team_id, starts, list(references), operation_id, step_number])
    return [
        (
            row.reference,
            Use(
                row.operation_id,
                row.own_id,
                row.title,
                row.number,
                row.operation_id == operation_id,
                True,
                True,
            ),
        )
        for row in rows
    ]


def _naming(
    team_id: UUID, operation_id: UUID, step_number: int, references: Sequence[str]
) -> list[tuple[str, Use]]:
    asked = {
        "team": team_id,
        "operation": operation_id,
        "number": step_number,
        "bodies": [json_text(one)[1:-1].encode("ascii") for one in references],
        "urls": [quote(one, safe="", errors="surrogatepass") for one in references],
    }
    return [
        (
            reference,
            Use(
                row.operation_id,
                row.own_id,
                row.title,
                row.number,
                row.operation_id == operation_id,
                row.sent,
            ),
        )
        for row in named_rows(_NAMING, asked)
        for reference in references
        if names_reference(reference, row.url, bytes(row.body))
    ]

"""Assignment rules as their page shows them: in order, with people, and how many open unowned holds each would take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from opsledger.accounts.absences import owners_there
from opsledger.ledger.assignment import TeamRules, rules_now
from opsledger.lib.named_rows import named_rows
from opsledger.rules.assignment import Question

COUNT_MAX = 10_000  # open unowned holds that are looked through

_LINES = """
SELECT r.id, r.position, r.version, r.active, r.workflow_slug, r.destination_slug, r.reason, r.person_id,
       p.display_name AS person, p.is_active, m.display_name AS made_by, r.made_at,
       r.workflow_slug = '' OR EXISTS (SELECT FROM ledger_definition d
          WHERE d.team_id = r.team_id AND d.kind = 'workflow' AND d.slug = r.workflow_slug) AS workflow_there,
       r.destination_slug = '' OR EXISTS (SELECT FROM ledger_definition d
          WHERE d.team_id = r.team_id AND d.kind = 'destination' AND d.slug = r.destination_slug) AS destination_there
  FROM ledger_assignmentrule r JOIN person p ON p.id = r.person_id JOIN person m ON m.id = r.made_by_id
 WHERE r.team_id = %s ORDER BY r.position
"""
_UNOWNED = """
SELECT workflow_slug, destination_slug, reason, count(*) FROM (
       SELECT workflow_slug, destination_slug, reason FROM ledger_hold
        WHERE team_id = %s AND owner_id IS NULL AND closed_at IS NULL ORDER BY due_at, id LIMIT %s) h
 GROUP BY 1, 2, 3
"""


@dataclass(frozen=True, slots=True)
class RuleLine:
    id: UUID
    position: int
    version: int
    active: bool
    workflow: str
    destination: str
    reason: str
    person_id: UUID
    person: str
    is_active: bool  # the person
    made_by: str
    made_at: Any
    workflow_there: bool
    destination_there: bool
    works_on_holds: bool = False
    taker: str | None = None  # the name of who takes its holds now; None: it is passed over
    count: int = 0  # of open unowned holds that it would take now


@dataclass(frozen=True, slots=True)
class RuleList:
    lines: list[RuleLine]
    unowned_count: int
    untaken_count: int  # open unowned holds that no rule takes
    counted_all: bool


def rules_of(team_id: UUID) -> RuleList:
    rules = rules_now(team_id)
    groups = [(Question(*row[:3]), int(row[3])) for row in named_rows(_UNOWNED, [team_id, COUNT_MAX])]
    taken, there = _taken(rules, groups), owners_there(team_id)
    names = _names(owner for owner in rules.takers.values() if owner)
    lines = [
        replace(
            RuleLine(*row),
            works_on_holds=row.person_id in there,
            taker=names.get(rules.takers.get(str(row.person_id)) or ""),
            count=taken[str(row.id)],
        )
        for row in named_rows(_LINES, [team_id])
    ]
    unowned = sum(count for _, count in groups)
    return RuleList(lines, unowned, unowned - taken.total(), unowned < COUNT_MAX)


def _taken(rules: TeamRules, groups: list[tuple[Question, int]]) -> Counter[str]:
    taken: Counter[str] = Counter()
    for question, count in groups:
        if given := rules.given(question):
            taken[given.rule.id] += count
    return taken


def _names(people: Any) -> dict[str, str]:
    rows = named_rows(
        "SELECT id, display_name FROM person WHERE id = ANY(%s)", [sorted({UUID(one) for one in people})]
    )
    return {str(row.id): row.display_name for row in rows}

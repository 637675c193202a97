"""Whom a hold is given to when it opens, by the team's rules. Asked with every hold, so kept for two seconds per team."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.accounts.absences import stand_ins_for
from opsledger.ledger.clock import database_now
from opsledger.lib.named_rows import named_rows
from opsledger.lib.recent import Recent
from opsledger.rules.assignment import Given, Question, Rule, given_by

KEEP_SECONDS = 2.0

_RULES = """
SELECT id, position, person_id, workflow_slug, destination_slug, reason, active
  FROM ledger_assignmentrule WHERE team_id = %s ORDER BY position
"""


@dataclass(frozen=True, slots=True)
class TeamRules:
    """The rules of a team in their order, and who takes the holds of each person in them now."""

    rules: tuple[Rule, ...]
    takers: Mapping[str, str | None]

    def given(self, question: Question) -> Given | None:
        return given_by(self.rules, question, self.takers)


def rules_now(team_id: UUID) -> TeamRules:
    """Read anew: for pages, and for what is applied by hand."""
    rules = tuple(
        Rule(str(row.id), row.position, str(row.person_id), *row[3:]) for row in named_rows(_RULES, [team_id])
    )
    if not rules:
        return TeamRules((), {})
    return TeamRules(rules, takers_of({rule.person for rule in rules}, team_id, database_now()))


def takers_of(people: Iterable[str], team_id: UUID, now: datetime) -> dict[str, str | None]:
    """Who takes each person's holds at `now`: themselves, while they are away whoever stands in, or nobody."""
    found = stand_ins_for([UUID(person) for person in people], team_id, now)
    return {str(person): str(taker) if taker else None for person, taker in found.items()}


def given_to(team_id: UUID, workflow: str, destination: str, reason: str) -> Given | None:
    """The owner that the team's rules give to a hold that opens now; None where none of them does."""
    return _recent.get(team_id).given(Question(workflow, destination, reason))


def told(given: Given | None) -> dict[str, Any] | None:
    """The same for the journal."""
    if given is None:
        return None
    return {"owner": given.owner, "rule": given.rule.id, "position": given.rule.position}


def told_of(hold_rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """For a journal line that opens holds: those that a rule gave to somebody, by the hold's id."""
    given = {row["id"]: row["given"] for row in hold_rows if row["given"]}
    return {"given": given} if given else {}


def forget_rules() -> None:
    """In this process at once, elsewhere within two seconds; called where rules change, when that has committed."""
    _recent.forget()


def forget_on_commit() -> None:
    transaction.on_commit(forget_rules)


_recent: Recent[UUID, TeamRules] = Recent(rules_now, keep_seconds=KEEP_SECONDS)

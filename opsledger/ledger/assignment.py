"""Whom a hold is given to when it opens, by the team's rules. Asked with every hold, so kept for two seconds per team."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.accounts.absences import stand_ins_for
from opsledger.ledger.approvals import approvers, barred_at
from opsledger.ledger.clock import database_now
from opsledger.lib.named_rows import named_rows
from opsledger.lib.recent import Recent
from opsledger.rules.assignment import Given, Question, Rule, given_by
from opsledger.rules.states import HoldReason

KEEP_SECONDS = 2.0

_RULES = """
SELECT id, position, person_id, workflow_slug, destination_slug, reason, active
  FROM ledger_assignmentrule WHERE team_id = %s ORDER BY position
"""


@dataclass(frozen=True, slots=True)
class TeamRules:
    """The rules of a team in their order, who takes each person's holds now, and who of the team may approve."""

    rules: tuple[Rule, ...]
    takers: Mapping[str, str | None]
    approvers: frozenset[str] = frozenset()

    def given(self, question: Question, unable: Collection[str] = ()) -> Given | None:
        """`unable`: people who may not approve this request, although their role lets them approve others."""
        if question.reason == HoldReason.APPROVAL_NEEDED:
            unable = {one for one in self.takers.values() if one and one not in self.approvers} | set(unable)
        return given_by(self.rules, question, self.takers, unable)


def rules_now(team_id: UUID) -> TeamRules:
    """Read anew: for pages, and for what is applied by hand."""
    rules = tuple(
        Rule(str(row.id), row.position, str(row.person_id), *row[3:]) for row in named_rows(_RULES, [team_id])
    )
    if not rules:
        return TeamRules((), {})
    able = frozenset(str(one) for one in approvers([team_id])[team_id])
    return TeamRules(rules, takers_of({rule.person for rule in rules}, team_id, database_now()), able)


def takers_of(people: Iterable[str], team_id: UUID, now: datetime) -> dict[str, str | None]:
    """Who takes each person's holds at `now`: themselves, while they are away whoever stands in, or nobody."""
    found = stand_ins_for([UUID(person) for person in people], team_id, now)
    return {str(person): str(taker) if taker else None for person, taker in found.items()}


def given_to(
    team_id: UUID, workflow: str, destination: str, reason: str, unable: Collection[UUID] = ()
) -> Given | None:
    """The owner that the team's rules give to a hold that opens now; None where none of them does.

    `unable`: who may not approve the request that the hold asks about.
    """
    return _recent.get(team_id).given(Question(workflow, destination, reason), [str(one) for one in unable])


def unable_at(rows: Iterable[tuple[Any, ...]]) -> dict[UUID, list[str]]:
    """Of open holds (id, workflow, destination, reason, …) that ask for an approval: who may not give it."""
    asking = [row[0] for row in rows if row[3] == HoldReason.APPROVAL_NEEDED]
    found = barred_at(asking) if asking else {}
    return {hold_id: [str(one) for one in people] for hold_id, people in found.items()}


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

"""Writers of assignment rules, and of owners that rules give to holds that are open already.

Each change of a rule locks its team's row (FOR NO KEY UPDATE), reads the rule again, compares the version it was made on,
and appends one line to the team's journal in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F

from opsledger.accounts.absences import owners_there
from opsledger.accounts.models import Team
from opsledger.journal.append import Line, append, body
from opsledger.ledger import assignment
from opsledger.ledger.actions.assign import tell_owner
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.hold_lines import TOLD_WITH_OWNER, line_of_hold
from opsledger.ledger.models import AssignmentRule, Definition
from opsledger.ledger.records import lock
from opsledger.lib.ids import new_id
from opsledger.rules.assignment import RULES_MAX, Question
from opsledger.rules.states import DESTINATION_REASONS, HoldReason

BATCH = 500
LOOKED_THROUGH_MAX = 5_000  # open unowned holds in one go


class RuleChanged(Exception):
    """The change was made on an older version of the rule, or it is gone; nothing was changed."""


@dataclass(frozen=True, slots=True)
class NewRule:
    """What a rule says; empty means any."""

    person_id: UUID
    workflow: str = ""
    destination: str = ""
    reason: str = ""


def add_rule(team_id: UUID, wanted: NewRule, by: By) -> UUID:
    """A rule after those that there are. Refused where it names what the team does not have."""
    with transaction.atomic(durable=True):
        _lock_team(team_id)
        _check(team_id, wanted)
        count = AssignmentRule.objects.filter(team_id=team_id).count()
        if count >= RULES_MAX:
            raise Refused(f"A team has {RULES_MAX} rules at most. Remove one first; nothing was added.")
        row = AssignmentRule(
            id=new_id(), team_id=team_id, position=count + 1, made_by_id=by.person_id, **_columns(wanted)
        )
        row.save(force_insert=True)
        _note(row, "rule_added", by)
        return row.pk


def change_rule(
    rule_id: UUID, team_id: UUID, version: int, wanted: NewRule, by: By, *, active: bool = True
) -> None:
    with _at_version(rule_id, team_id, version) as row:
        _check(team_id, wanted)
        changes: dict[str, Any] = {**_columns(wanted), "active": active}
        for name, value in changes.items():
            setattr(row, name, value)
        row.version += 1
        row.save(update_fields=[*changes, "version"])
        _note(row, "rule_changed", by)


def move_rule(rule_id: UUID, team_id: UUID, version: int, by: By, *, up: bool) -> None:
    """One place up or down: it and its neighbour change places. At the end of the list nothing moves."""
    with _at_version(rule_id, team_id, version) as row:
        place = row.position + (-1 if up else 1)
        other = AssignmentRule.objects.filter(team_id=team_id, position=place).first()
        if other is None:
            return
        for one, position in ((row, place), (other, row.position)):
            AssignmentRule.objects.filter(pk=one.pk).update(position=position, version=F("version") + 1)
        row.position = place
        _note(row, "rule_moved", by, changed_places_with=str(other.pk))


def remove_rule(rule_id: UUID, team_id: UUID, version: int, by: By) -> None:
    """The rule goes; those after it move up. Holds that it gave to somebody stay theirs."""
    with _at_version(rule_id, team_id, version) as row:
        AssignmentRule.objects.filter(pk=row.pk).delete()
        later = AssignmentRule.objects.filter(team_id=team_id, position__gt=row.position)
        later.update(position=F("position") - 1, version=F("version") + 1)
        _note(row, "rule_removed", by)


@contextmanager
def _at_version(rule_id: UUID, team_id: UUID, version: int) -> Iterator[AssignmentRule]:
    with transaction.atomic(durable=True):
        _lock_team(team_id)
        row = AssignmentRule.objects.filter(pk=rule_id, team_id=team_id).first()
        if row is None or row.version != version:
            raise RuleChanged
        yield row


def _lock_team(team_id: UUID) -> None:
    Team.objects.select_for_update(no_key=True).get(pk=team_id)


def _columns(wanted: NewRule) -> dict[str, Any]:
    return {
        "workflow_slug": wanted.workflow,
        "destination_slug": wanted.destination,
        "reason": wanted.reason,
        "person_id": wanted.person_id,
    }


def _check(team_id: UUID, wanted: NewRule) -> None:
    """Refused, with the field, where a rule could never give anything to anybody."""
    for kind, slug in (("workflow", wanted.workflow), ("destination", wanted.destination)):
        known = (
            "\x00" not in slug and Definition.objects.filter(team_id=team_id, kind=kind, slug=slug).exists()
        )
        if slug and not known:
            raise Refused(f"This team has no {kind} “{slug[:60]}”. Nothing was changed.", field=kind)
    if wanted.reason and wanted.reason not in {reason.value for reason in HoldReason}:
        raise Refused("Choose one of the reasons. Nothing was changed.", field="reason")
    if wanted.workflow and wanted.reason in {reason.value for reason in DESTINATION_REASONS}:
        why = "A hold for this reason is about a destination, and belongs to no workflow: leave the workflow open."
        raise Refused(why, field="workflow")
    if wanted.person_id not in owners_there(team_id):
        why = "A rule gives holds to an active operator or owner of the team. Nothing was changed."
        raise Refused(why, field="person")


def _note(row: AssignmentRule, kind: str, by: By, **more: str) -> None:
    facts = {
        "rule": str(row.pk),
        "position": row.position,
        "workflow": row.workflow_slug,
        "destination": row.destination_slug,
        "reason_of_hold": row.reason,
        "person": str(row.person_id),
        "active": row.active,
        **more,
    }
    append([Line("team", row.team_id, kind, by.actor, body(facts))])
    assignment.forget_on_commit()


# Holds that are open already


@dataclass(frozen=True, slots=True)
class Applied:
    given_count: int
    more: bool  # open unowned holds were left for another go


_UNOWNED = """
SELECT id, workflow_slug, destination_slug, reason, due_at FROM ledger_hold
 WHERE team_id = %s AND owner_id IS NULL AND closed_at IS NULL AND (due_at, id) > (%s, %s)
 ORDER BY due_at, id LIMIT %s
"""
_GIVE = f"""
UPDATE ledger_hold h SET owner_id = w.owner_id, version = h.version + 1, told_at = {TOLD_WITH_OWNER}
  FROM (SELECT h.id, w.owner_id FROM ledger_hold h
          JOIN unnest(%s::uuid[], %s::uuid[]) AS w(id, owner_id) ON w.id = h.id
         WHERE h.closed_at IS NULL AND h.owner_id IS NULL ORDER BY h.id FOR UPDATE OF h) w
 WHERE h.id = w.id
RETURNING h.id, h.operation_id, h.destination_id, h.event_id
"""


def apply_rules(
    team_id: UUID, by: By, *, batch: int = BATCH, looked_through_max: int = LOOKED_THROUGH_MAX
) -> Applied:
    """Gives the open unowned holds to whom the rules name now, soonest due first, in batches that commit.

    A hold that somebody takes meanwhile stays theirs.
    """
    rules = assignment.rules_now(team_id)
    place: tuple[Any, Any] = ("-infinity", UUID(int=0))
    given_count = looked_through = 0
    while looked_through < looked_through_max:
        found = _unowned(team_id, place, batch)
        given = {row[0]: one for row in found if (one := rules.given(Question(*row[1:4])))}
        given_count += _give({hold_id: assignment.told(one) or {} for hold_id, one in given.items()}, by)
        looked_through += len(found)
        if len(found) < batch:
            return Applied(given_count, more=False)
        place = (found[-1][4], found[-1][0])
    return Applied(given_count, more=True)


def _unowned(team_id: UUID, place: tuple[Any, Any], size: int) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_UNOWNED, [team_id, *place, size])
        return list(cursor.fetchall())


def _give(given: dict[UUID, dict[str, Any]], by: By) -> int:
    """Locks the operations, then the holds; writes each owner with its line."""
    if not given:
        return 0
    wanted = sorted(given)
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            "SELECT operation_id FROM ledger_hold WHERE id = ANY(%s) AND operation_id IS NOT NULL", [wanted]
        )
        lock(row[0] for row in cursor.fetchall())
        cursor.execute(_GIVE, [wanted, [given[hold_id]["owner"] for hold_id in wanted]])
        rows = cursor.fetchall()
        append(line_of_hold(*row, kind="assigned", actor=by.actor, facts=given[row[0]]) for row in rows)
        _tell_owners([row[0] for row in rows], given, by)
        return len(rows)


def _tell_owners(hold_ids: list[UUID], given: dict[UUID, dict[str, Any]], by: By) -> None:
    by_owner: dict[str, list[UUID]] = {}
    for hold_id in hold_ids:
        by_owner.setdefault(given[hold_id]["owner"], []).append(hold_id)
    for owner, theirs in by_owner.items():
        tell_owner(theirs, UUID(owner), by)

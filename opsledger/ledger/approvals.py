"""Approvals as the ledger reads them: what waits for one, and who may not give it (law 7).

An approval is another person's: neither the author nor the requester of what changed, nor whoever recorded the operation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.accounts.permissions import Permission, roles_with
from opsledger.ledger import records
from opsledger.ledger.records import Loaded
from opsledger.lib.named_rows import named_rows
from opsledger.rules.content import covered_digest

BATCH = 500


@dataclass(frozen=True, slots=True)
class WaitingStep:
    """A step with an open question *approval needed*."""

    operation_id: UUID
    step_id: UUID
    number: int
    hold_id: UUID


@dataclass(frozen=True, slots=True)
class CoveredStep:
    """What is to be approved of one step: its request as it is rendered now, with the key left out."""

    step_id: UUID
    operation_id: UUID
    operation_text_id: str
    title: str  # of the operation
    number: int
    step_name: str
    destination: str
    action: str
    revision: int
    content_digest: str
    hold_id: UUID


@dataclass(frozen=True, slots=True)
class ApprovedBefore:
    """An earlier request of a step that somebody approved, with what it was made of."""

    revision: int
    request_digest: str  # with the key left out
    params: str  # canonical JSON: those that differ from the operation's own
    content_number: int | None
    body: str | None  # of that content version, as it is stored
    version_id: UUID | None
    approved_by: str
    attempt_count: int  # of this request


# Step by step along the keys: OFFSET keeps the planner from joining whole tables while it knows little of them.
_OF_VERSION = """
SELECT o.id, s.id, s.number, h.id
  FROM ledger_operation o
 CROSS JOIN LATERAL (SELECT s.id, s.number, s.revision FROM ledger_step s
                      WHERE s.operation_id = o.id AND s.content_number = %s OFFSET 0) s
 CROSS JOIN LATERAL (SELECT h.id FROM ledger_hold h
                      WHERE h.step_id = s.id AND h.closed_at IS NULL AND h.reason = 'approval_needed' OFFSET 0) h
  LEFT JOIN LATERAL (SELECT r.kind FROM ledger_revision r
                      WHERE r.step_id = s.id AND r.number = s.revision OFFSET 0) r ON true
 WHERE o.content_id = %s AND o.ended_at IS NULL AND coalesce(r.kind, 'moved') = 'moved'
 ORDER BY o.id, s.number
"""
_OF_STEP = """
SELECT s.operation_id, s.id AS step_id, s.number, h.id AS hold_id
  FROM ledger_step s JOIN ledger_hold h ON h.step_id = s.id AND h.closed_at IS NULL AND h.reason = 'approval_needed'
  LEFT JOIN ledger_revision r ON r.step_id = s.id AND r.number = s.revision
 WHERE s.id = %s AND (s.content_number IS NULL OR r.kind = 'revised')
"""
# The first request has its parameters from the operation, and its content from the line that recorded it.
_APPROVED_BEFORE = """
SELECT x.revision, x.request_digest, x.params, x.content_number, v.body, v.id AS version_id,
       p.display_name AS approved_by,
       (SELECT count(*) FROM ledger_attempt t WHERE t.step_id = x.step_id AND t.revision = x.revision) AS attempt_count
  FROM (SELECT a.step_id, a.revision, a.request_digest, a.approval_id, o.content_id, coalesce(r.params, '{}') AS params,
               CASE WHEN a.revision > 1 THEN r.content_number
                    ELSE (SELECT (e.body::json #>> ARRAY['steps', s.number::text, 'content_number'])::integer
                            FROM journal_entry e WHERE e.subject_id = s.operation_id AND e.seq = 1) END AS content_number
          FROM ledger_step s
          JOIN ledger_operation o ON o.id = s.operation_id
          JOIN ledger_approvedrequest a ON a.step_id = s.id AND a.revision < s.revision
          LEFT JOIN ledger_revision r ON r.step_id = s.id AND r.number = a.revision
         WHERE s.id = %s ORDER BY a.revision DESC, a.id DESC LIMIT 1) x
  JOIN ledger_approval g ON g.id = x.approval_id
  JOIN person p ON p.id = g.approved_by_id
  LEFT JOIN ledger_contentversion v ON v.of_id = x.content_id AND v.number = x.content_number AND v.state = 'approved'
"""


def waiting_for_version(of_id: UUID, number: int) -> list[WaitingStep]:
    """Every step that waits for the approval of this content version. Revisions that people made are not among them."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_VERSION, [number, of_id])
        return [WaitingStep(*row) for row in cursor.fetchall()]


def waiting_for_itself(step_id: UUID) -> WaitingStep | None:
    """The step, if its request is approved by itself: a person revised it, or it shows no content."""
    found = named_rows(_OF_STEP, [step_id])
    return WaitingStep(*found[0]) if found else None


def approved_before(step_id: UUID) -> ApprovedBefore | None:
    """The newest earlier request of the step that somebody approved; None where there is none, or where the content that it
    shows is not approved any more."""
    found = named_rows(_APPROVED_BEFORE, [step_id])
    if not found or (found[0].content_number is not None and found[0].body is None):
        return None
    return ApprovedBefore(*found[0])


def batches(waiting: Sequence[WaitingStep]) -> Iterator[list[WaitingStep]]:
    """In the order of their operations; no operation is in two batches."""
    batch: list[WaitingStep] = []
    for one in waiting:
        if len(batch) >= BATCH and one.operation_id != batch[-1].operation_id:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def covered_steps(waiting: Sequence[WaitingStep]) -> list[CoveredStep]:
    """The same with their requests, rendered as they stand now."""
    found: list[CoveredStep] = []
    for batch in batches(waiting):
        loaded = records.load(one.operation_id for one in batch)
        found += [rendered(loaded[one.operation_id], one) for one in batch]
    return found


def rendered(loaded: Loaded, waiting: WaitingStep) -> CoveredStep:
    step = loaded.record.step(waiting.number)
    request = loaded.policies[step.number].render(loaded.record, step)
    return CoveredStep(
        step_id=waiting.step_id,
        operation_id=loaded.id,
        operation_text_id=loaded.operation_id,
        title=loaded.title,
        number=step.number,
        step_name=step.name,
        destination=step.destination,
        action=step.action,
        revision=step.revision,
        content_digest=request.content_digest or "",
        hold_id=waiting.hold_id,
    )


def digest_of(covered: Iterable[CoveredStep]) -> str:
    return covered_digest((one.step_id.bytes, one.revision, one.content_digest) for one in covered)


def replaced_by(operation_ids: Collection[UUID]) -> dict[UUID, str]:
    """Which of these operations are replaced, each with its replacement's own id. Read it under their locks."""
    rows = named_rows(
        "SELECT replaces_id, operation_id FROM ledger_operation WHERE replaces_id = ANY(%s)",
        [list(operation_ids)],
    )
    return {row.replaces_id: row.operation_id for row in rows}


# Who


# Whether a person may answer an open hold *approval needed*, as a condition on the row `ledger_hold`: the same people are
# barred as by `barred`.
_MAY_APPROVE = """
EXISTS (SELECT FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.team_id = ledger_hold.team_id AND m.person_id = %s AND m.role = ANY(%s) AND p.is_active)
AND NOT EXISTS (SELECT FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id
                 JOIN ledger_contentversion v ON v.of_id = o.content_id AND v.number = s.content_number
                WHERE s.id = ledger_hold.step_id AND %s IN (v.author_person_id, v.requested_by_person_id))
AND NOT EXISTS (SELECT FROM ledger_revision r
                 WHERE r.step_id = ledger_hold.step_id AND r.kind = 'revised' AND (r.author_person_id = %s OR r.author = %s))
AND NOT EXISTS (SELECT FROM journal_entry e
                 WHERE e.subject_id = ledger_hold.operation_id AND e.seq = 1 AND e.actor = %s)
"""


def may_approve(person_id: UUID) -> tuple[str, list[Any]]:
    """The condition and its parameters."""
    roles = [role.value for role in roles_with(Permission.APPROVE_CONTENT)]
    actor = f"person:{person_id}"
    return _MAY_APPROVE, [person_id, roles, person_id, person_id, actor, actor]


def approvers(team_ids: Collection[UUID]) -> dict[UUID, frozenset[UUID]]:
    """The active people of each team whose roles let them approve."""
    rows = named_rows(
        "SELECT DISTINCT m.team_id, m.person_id FROM membership m JOIN person p ON p.id = m.person_id"
        " WHERE m.team_id = ANY(%s) AND m.role = ANY(%s) AND p.is_active",
        [list(team_ids), [role.value for role in roles_with(Permission.APPROVE_CONTENT)]],
    )
    found: dict[UUID, set[UUID]] = {team_id: set() for team_id in team_ids}
    for row in rows:
        found[row.team_id].add(row.person_id)
    return {team_id: frozenset(people) for team_id, people in found.items()}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that waits for an approval, as far as it matters for who may give it."""

    team_id: UUID
    operation_id: UUID
    step_id: UUID
    of_id: UUID | None
    content_number: int | None
    recorder: str = ""  # who recorded the operation, where its journal does not say so yet
    revisers: tuple[str, ...] = ()  # who changed the request, where its revision is not written yet


class Bar(StrEnum):
    """What keeps somebody from approving a request: the end of “because you …”."""

    RECORDED = "recorded it"
    CHANGED = "changed its request"
    ASKED = "asked for it"
    WROTE = "wrote it"


def barred(asked: Sequence[Asked]) -> dict[UUID, dict[UUID, Bar]]:
    """Per step: the people who may not approve its request, each with what they had to do with it."""
    by_version = _barred_by_version({(one.of_id, one.content_number) for one in asked if one.of_id})
    by_revision = _revised_by([one.step_id for one in asked])
    recorded = _recorded_by({one.operation_id for one in asked if not one.recorder})
    recorded |= {one.operation_id: who for one in asked if (who := _person(one.recorder))}
    found: dict[UUID, dict[UUID, Bar]] = {}
    for one in asked:
        people = {recorded[one.operation_id]: Bar.RECORDED} if one.operation_id in recorded else {}
        people |= dict.fromkeys(by_revision.get(one.step_id, ()), Bar.CHANGED)
        people |= {who: Bar.CHANGED for actor in one.revisers if (who := _person(actor))}
        found[one.step_id] = people | by_version.get((one.of_id, one.content_number), {})
    return found


def barred_at(hold_ids: Collection[UUID]) -> dict[UUID, Collection[UUID]]:
    """Per open question *approval needed* among these holds: the people who may not approve its request."""
    rows = named_rows(
        "SELECT h.id, h.team_id, h.operation_id, h.step_id, CASE WHEN s.content_number IS NOT NULL THEN o.content_id END"
        " AS of_id, s.content_number FROM ledger_hold h JOIN ledger_operation o ON o.id = h.operation_id"
        " JOIN ledger_step s ON s.id = h.step_id"
        " WHERE h.id = ANY(%s) AND h.closed_at IS NULL AND h.reason = 'approval_needed'",
        [list(hold_ids)],
    )
    unable = barred([Asked(*row[1:]) for row in rows])
    return {row.id: unable[row.step_id].keys() for row in rows}


def without_approver(
    asked: Sequence[Asked], unable: Mapping[UUID, Mapping[UUID, str]] | None = None
) -> set[UUID]:
    """The steps whose request nobody of the team may approve as things stand. It is never approved silently.

    `unable`: what `barred` says of them, where it was asked already.
    """
    if not asked:
        return set()
    able, unable = approvers({one.team_id for one in asked}), unable or barred(asked)
    return {one.step_id for one in asked if able[one.team_id] <= unable[one.step_id].keys()}


def _barred_by_version(
    wanted: Collection[tuple[UUID | None, int | None]],
) -> dict[tuple[UUID | None, int | None], dict[UUID, Bar]]:
    if not wanted:
        return {}
    rows = named_rows(
        "SELECT v.of_id, v.number, v.author_person_id, v.requested_by_person_id FROM ledger_contentversion v"
        " JOIN unnest(%s::uuid[], %s::int[]) AS w(of_id, number) ON w.of_id = v.of_id AND w.number = v.number",
        [[of_id for of_id, _ in wanted], [number for _, number in wanted]],
    )
    return {(row.of_id, row.number): barred_by_version(*row[2:]) for row in rows}


def barred_by_version(author: UUID | None, requester: UUID | None) -> dict[UUID, Bar]:
    people = {requester: Bar.ASKED} if requester else {}
    return people | ({author: Bar.WROTE} if author else {})


def _revised_by(step_ids: list[UUID]) -> Mapping[UUID, list[UUID]]:
    found: dict[UUID, list[UUID]] = {}
    rows = named_rows(
        "SELECT step_id, author, author_person_id FROM ledger_revision WHERE step_id = ANY(%s) AND kind = 'revised'",
        [step_ids],
    )
    for row in rows:  # where one proposed it and another accepted it, both had a hand in it
        people = {row.author_person_id, _person(row.author)} - {None}
        found.setdefault(row.step_id, []).extend(people)
    return found


def _recorded_by(operation_ids: Collection[UUID]) -> dict[UUID, UUID]:
    rows = named_rows(
        "SELECT subject_id, actor FROM journal_entry"
        " WHERE subject_id = ANY(%s) AND seq = 1 AND actor LIKE 'person:%%'",
        [list(operation_ids)],
    )
    return {row.subject_id: who for row in rows if (who := _person(row.actor))}


def _person(actor: str) -> UUID | None:
    return UUID(actor.removeprefix("person:")) if actor.startswith("person:") else None

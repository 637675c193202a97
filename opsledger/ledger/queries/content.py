"""Content versions and approvals as pages and the API read them. Sensitive values are masked here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import approvals, definitions
from opsledger.ledger.approvals import Asked, CoveredStep
from opsledger.ledger.queries.record import Param
from opsledger.lib.named_rows import named_rows
from opsledger.lib.strict_json import loads_stored, projection
from opsledger.rules.content import VersionState
from opsledger.rules.definition_types import ParamDefinition
from opsledger.rules.rendering import mask

PAGE = 50


@dataclass(frozen=True, slots=True)
class Version:
    """One content version, with its decision."""

    id: UUID
    of_id: UUID  # the content: the subject of its journal
    team_id: UUID
    content_id: str
    workflow: str
    number: int
    version: int  # decisions carry it
    state: VersionState
    author_kind: str
    author: str
    author_person_id: UUID | None
    origin: str
    requested_by: str  # as the journal writes it
    requested_by_person_id: UUID | None
    created_at: datetime
    decided_by: str
    decided_at: datetime | None
    reason: str | None  # None: none was given, or it was erased
    digest: str
    fields: list[Param]


@dataclass(frozen=True, slots=True)
class WaitingVersion:
    version: Version
    operation_count: int
    opened_at: datetime
    due_at: datetime | None  # of the question that is due first; None while nothing waits for it
    nobody_may_approve: bool


@dataclass(frozen=True, slots=True)
class WaitingRevision:
    """A request that is approved by itself."""

    hold_id: UUID
    hold_version: int
    step_id: UUID
    operation_id: UUID
    operation_text_id: str
    title: str
    step: int
    step_title: str
    revision: int
    content_number: int | None
    author: str  # as the journal writes it; "" for a first request
    opened_at: datetime
    due_at: datetime
    nobody_may_approve: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    versions: list[WaitingVersion]
    revisions: list[WaitingRevision]


@dataclass(frozen=True, slots=True)
class Covered:
    """Everything that one approval would cover, and the digest over it that the decision carries."""

    digest: str
    steps: list[CoveredStep]

    @property
    def operation_count(self) -> int:
        return len({one.operation_id for one in self.steps})


# Versions

_VERSION = """
SELECT v.*, d.slug AS workflow, d.current_id, t.text AS reason
  FROM ledger_contentversion v JOIN ledger_definition d ON d.id = v.workflow_id
  LEFT JOIN journal_text t ON t.id = v.decision_text
"""


def version_of(version_id: UUID, team_ids: Collection[UUID]) -> Version | None:
    """The version, or None when it does not exist for these teams."""
    found = named_rows(f"{_VERSION} WHERE v.id = %s AND v.team_id = ANY(%s)", [version_id, list(team_ids)])
    return _version(found[0]) if found else None


def versions_of(
    team_id: UUID, content_id: str, *, before: int | None = None, size: int = PAGE
) -> list[Version]:
    """The versions of a content, newest first; those below the number `before`."""
    rows = named_rows(
        f"{_VERSION} WHERE v.team_id = %s AND v.content_id = %s AND v.number < %s ORDER BY v.number DESC LIMIT %s",
        [team_id, content_id, 2**31 - 1 if before is None else before, size],
    )
    return [_version(row) for row in rows]


def version_shown(step_id: UUID) -> UUID | None:
    """The id of the content version that a step shows."""
    rows = named_rows(
        "SELECT v.id FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id"
        " JOIN ledger_contentversion v ON v.of_id = o.content_id AND v.number = s.content_number WHERE s.id = %s",
        [step_id],
    )
    return rows[0].id if rows else None


def _version(row: Any) -> Version:
    return Version(
        id=row.id,
        of_id=row.of_id,
        team_id=row.team_id,
        content_id=row.content_id,
        workflow=row.workflow,
        number=row.number,
        version=row.version,
        state=VersionState(row.state),
        author_kind=row.author_kind,
        author=row.author,
        author_person_id=row.author_person_id,
        origin=row.origin,
        requested_by=row.requested_by,
        requested_by_person_id=row.requested_by_person_id,
        created_at=row.created_at,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        reason=row.reason,
        digest=bytes(row.digest).hex(),
        fields=_fields(row),
    )


def _fields(row: Any) -> list[Param]:
    """In the order of the workflow as it is now. What it does not know any more is shown masked."""
    given = loads_stored(row.body)
    known: Sequence[ParamDefinition] = definitions.workflow(row.current_id).content if row.current_id else ()
    shown = [
        Param(
            one.name,
            one.label,
            mask(given[one.name]) if one.sensitive else projection(given[one.name]),
            one.sensitive,
        )
        for one in known
        if one.name in given
    ]
    names = {one.name for one in known}
    return shown + [
        Param(name, name, mask(value), True) for name, value in given.items() if name not in names
    ]


# What waits for an approval; joined along the keys, as in ledger.approvals

_WAITING = """
SELECT o.content_id, s.content_number, count(DISTINCT o.id) AS operation_count, min(h.opened_at) AS opened_at,
       min(h.due_at) AS due_at, bool_and(coalesce(h.facts::json ->> 'nobody_may_approve', 'false') = 'true') AS nobody
  FROM ledger_hold h
 CROSS JOIN LATERAL (SELECT * FROM ledger_step s WHERE s.id = h.step_id OFFSET 0) s
 CROSS JOIN LATERAL (SELECT * FROM ledger_operation o WHERE o.id = h.operation_id OFFSET 0) o
  LEFT JOIN LATERAL (SELECT * FROM ledger_revision r WHERE r.step_id = s.id AND r.number = s.revision OFFSET 0) r ON true
 WHERE h.team_id = ANY(%s) AND h.reason = 'approval_needed' AND h.closed_at IS NULL
   AND s.content_number IS NOT NULL AND coalesce(r.kind, 'moved') = 'moved'
 GROUP BY o.content_id, s.content_number
"""
_WAITING_ALONE = """
SELECT h.id AS hold_id, h.version AS hold_version, s.id AS step_id, o.id AS operation_id,
       o.operation_id AS operation_text_id, o.title, o.team_id, o.content_id, s.number AS step, s.title AS step_title,
       s.revision, s.content_number, coalesce(r.author, '') AS author, h.opened_at, h.due_at
  FROM ledger_hold h
 CROSS JOIN LATERAL (SELECT * FROM ledger_step s WHERE s.id = h.step_id OFFSET 0) s
 CROSS JOIN LATERAL (SELECT * FROM ledger_operation o WHERE o.id = h.operation_id OFFSET 0) o
  LEFT JOIN LATERAL (SELECT * FROM ledger_revision r WHERE r.step_id = s.id AND r.number = s.revision OFFSET 0) r ON true
 WHERE h.team_id = ANY(%s) AND h.reason = 'approval_needed' AND h.closed_at IS NULL
   AND (s.content_number IS NULL OR r.kind = 'revised')
 ORDER BY h.due_at, h.id LIMIT %s
"""


def approvals_waiting(team_ids: Collection[UUID], *, size: int = 200) -> Waiting:
    """What waits for an approval: content versions, what is due first at the top, then proposals that nothing waits for yet;
    and requests that are approved one by one. At most `size` of each."""
    teams = list(team_ids)
    waiting = {(row.content_id, row.content_number): row for row in named_rows(_WAITING, [teams])}
    asked = f"""{_VERSION} WHERE v.team_id = ANY(%s) AND (v.state = 'proposed'
        OR (v.of_id, v.number) IN (SELECT * FROM unnest(%s::uuid[], %s::int[])))
        ORDER BY v.created_at DESC"""
    versions = [
        _version(row)
        for row in named_rows(asked, [teams, [key[0] for key in waiting], [key[1] for key in waiting]])
    ]
    able = approvals.approvers(teams)
    found = []
    for version in versions:
        row = waiting.get((version.of_id, version.number))
        unable = approvals.barred_by_version(version.author_person_id, version.requested_by_person_id)
        found.append(
            WaitingVersion(
                version,
                row.operation_count if row else 0,
                row.opened_at if row else version.created_at,
                row.due_at if row else None,
                able[version.team_id] <= unable.keys() or bool(row and row.nobody),
            )
        )
    found.sort(key=lambda one: (one.due_at is None, one.due_at or one.opened_at, one.version.id))
    return Waiting(found[:size], _revisions(teams, size))


def _revisions(teams: list[UUID], size: int) -> list[WaitingRevision]:
    rows = named_rows(_WAITING_ALONE, [teams, size])
    nobody = approvals.without_approver([_asked(row) for row in rows])
    return [
        WaitingRevision(
            row.hold_id, row.hold_version, row.step_id, row.operation_id, row.operation_text_id, row.title, row.step,
            row.step_title, row.revision, row.content_number, row.author, row.opened_at, row.due_at,
            row.step_id in nobody,
        )
        for row in rows
    ]  # fmt: skip


def _asked(row: Any) -> Asked:
    of_id = row.content_id if row.content_number is not None else None
    return Asked(row.team_id, row.operation_id, row.step_id, of_id, row.content_number)


def covered(version: Version) -> Covered:
    """Every step that waits for this version with its request as it would be sent, and the digest over all of them."""
    steps = approvals.covered_steps(approvals.waiting_for_version(version.of_id, version.number))
    return Covered(approvals.digest_of(steps), steps)


def covered_revision(step_id: UUID) -> Covered | None:
    """The same for one request that is approved by itself; None when it does not wait for that."""
    waiting = approvals.waiting_for_itself(step_id)
    if waiting is None:
        return None
    steps = approvals.covered_steps([waiting])
    return Covered(approvals.digest_of(steps), steps)


def may_not_approve(version: Version, person_id: UUID | None) -> str:
    """Why this person may not approve this version, as a sentence; "" when they may."""
    if person_id is None or person_id not in approvals.approvers([version.team_id])[version.team_id]:
        return "To approve, you need the role owner in this team."
    unable = approvals.barred_by_version(version.author_person_id, version.requested_by_person_id)
    return f"You {unable[person_id]}, so somebody else has to approve it." if person_id in unable else ""


def left_out(version: Version, steps: Sequence[CoveredStep], person_id: UUID) -> dict[UUID, str]:
    """The steps among these that this person may not approve, each with the reason as the end of “you …”."""
    asked = [
        Asked(version.team_id, one.operation_id, one.step_id, version.of_id, version.number) for one in steps
    ]
    return {
        step_id: people[person_id]
        for step_id, people in approvals.barred(asked).items()
        if person_id in people
    }


def may_not_approve_revision(step_id: UUID, person_id: UUID | None) -> str:
    """The same for one request that is approved by itself."""
    rows = named_rows(
        "SELECT s.id AS step_id, s.team_id, s.operation_id, o.content_id, s.content_number"
        " FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id WHERE s.id = %s",
        [step_id],
    )
    if (
        not rows
        or person_id is None
        or person_id not in approvals.approvers([rows[0].team_id])[rows[0].team_id]
    ):
        return "To approve, you need the role owner in this team."
    unable = approvals.barred([_asked(rows[0])])[step_id]
    return f"You {unable[person_id]}, so somebody else has to approve it." if person_id in unable else ""

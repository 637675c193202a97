"""Approvals for pages: how many wait for a person, who may give one, what was decided lately, what approves a step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger import approvals, definitions
from opsledger.ledger.rendering import read_params
from opsledger.lib.named_rows import named_rows
from opsledger.rules.definitions import WorkflowDefinition

COUNT_MAX = 1000  # of open questions that are looked through for the number beside the navigation
DECIDED = 20

# How many decisions wait for a person who may approve: nothing that they wrote, asked for, changed or recorded.
# One per content version that something waits for or that nobody decided, and one per request that is approved by itself.
# What the person recorded is left out, one by one: a version counts while anything that waits for it is somebody else's.
WAITING_FOR = """
WITH holds AS (
    SELECT h.operation_id, h.step_id FROM ledger_hold h
     WHERE h.team_id = ANY(%(teams)s) AND h.closed_at IS NULL AND h.reason = 'approval_needed' LIMIT %(most)s
), asking AS (
    SELECT o.content_id, s.content_number, s.id AS step_id, r.author_person_id, r.author,
           s.content_number IS NULL OR coalesce(r.kind = 'revised', false) AS alone,
           EXISTS (SELECT FROM journal_entry e
                    WHERE e.subject_id = o.id AND e.seq = 1 AND e.actor = 'person:' || %(person)s::text) AS own
      FROM holds h
      JOIN ledger_operation o ON o.id = h.operation_id
      JOIN ledger_step s ON s.id = h.step_id
      LEFT JOIN ledger_revision r ON r.step_id = s.id AND r.number = s.revision
), versions AS (
    SELECT content_id, content_number, bool_and(own) AS own FROM asking WHERE NOT alone GROUP BY 1, 2
)
SELECT (SELECT count(*) FROM versions w
          JOIN ledger_contentversion v ON v.of_id = w.content_id AND v.number = w.content_number
         WHERE NOT w.own AND v.state IN ('proposed', 'approved')
           AND v.author_person_id IS DISTINCT FROM %(person)s AND v.requested_by_person_id IS DISTINCT FROM %(person)s)
     + (SELECT count(*) FROM ledger_contentversion v
         WHERE v.team_id = ANY(%(teams)s) AND v.state = 'proposed'
           AND NOT EXISTS (SELECT FROM versions w WHERE w.content_id = v.of_id AND w.content_number = v.number)
           AND v.author_person_id IS DISTINCT FROM %(person)s AND v.requested_by_person_id IS DISTINCT FROM %(person)s)
     + (SELECT count(*) FROM asking a
          LEFT JOIN ledger_contentversion v ON v.of_id = a.content_id AND v.number = a.content_number
         WHERE a.alone AND NOT a.own AND a.author_person_id IS DISTINCT FROM %(person)s
           AND a.author IS DISTINCT FROM 'person:' || %(person)s::text
           AND v.author_person_id IS DISTINCT FROM %(person)s AND v.requested_by_person_id IS DISTINCT FROM %(person)s)
"""
_DECIDED = """
SELECT * FROM (
    (SELECT a.approved_at AS at, 'approved' AS state, a.content_version_id AS version_id, v.content_id, v.number,
            a.step_id, a.revision, o.title, a.covered_count AS count, p.display_name AS name
       FROM ledger_approval a JOIN person p ON p.id = a.approved_by_id
       LEFT JOIN ledger_contentversion v ON v.id = a.content_version_id
       LEFT JOIN ledger_step s ON s.id = a.step_id LEFT JOIN ledger_operation o ON o.id = s.operation_id
      WHERE a.team_id = ANY(%(teams)s) ORDER BY a.approved_at DESC LIMIT %(size)s)
    UNION ALL
    (SELECT v.decided_at, 'rejected', v.id, v.content_id, v.number, NULL, NULL, NULL, NULL,
            coalesce((SELECT display_name FROM person p WHERE 'person:' || p.id = v.decided_by), v.decided_by)
       FROM ledger_contentversion v
      WHERE v.team_id = ANY(%(teams)s) AND v.state = 'rejected' ORDER BY v.decided_at DESC LIMIT %(size)s)
    UNION ALL
    (SELECT j.rejected_at, 'rejected', j.content_version_id, v.content_id, v.number, j.step_id, j.revision, o.title,
            j.rejected_count, p.display_name
       FROM ledger_rejection j JOIN person p ON p.id = j.rejected_by_id
       LEFT JOIN ledger_contentversion v ON v.id = j.content_version_id
       LEFT JOIN ledger_step s ON s.id = j.step_id LEFT JOIN ledger_operation o ON o.id = s.operation_id
      WHERE j.team_id = ANY(%(teams)s) ORDER BY j.rejected_at DESC LIMIT %(size)s)
) x ORDER BY at DESC LIMIT %(size)s
"""
_OF_OPERATION = """
SELECT s.number, s.id AS step_id, s.content_number, s.approval_needed, s.approved_until, v.id AS version_id,
       v.state AS version_state, a.approved_at, p.display_name AS approved_by, p.id AS approved_by_id,
       s.content_number IS NULL OR coalesce(r.kind = 'revised', false) AS alone
  FROM ledger_step s
  JOIN ledger_operation o ON o.id = s.operation_id
  LEFT JOIN ledger_contentversion v ON v.of_id = o.content_id AND v.number = s.content_number
  LEFT JOIN ledger_revision r ON r.step_id = s.id AND r.number = s.revision
  LEFT JOIN ledger_approvedrequest q ON q.step_id = s.id AND q.revision = s.revision AND q.voided_at IS NULL
  LEFT JOIN ledger_approval a ON a.id = q.approval_id
  LEFT JOIN person p ON p.id = a.approved_by_id
 WHERE s.operation_id = %s AND (s.approval_needed OR s.content_number IS NOT NULL) ORDER BY s.number
"""
_PEOPLE = """
SELECT p.id, p.display_name AS name, t.fallback_owner_id = p.id AS is_fallback
  FROM person p JOIN team t ON t.id = %s WHERE p.id = ANY(%s) ORDER BY p.display_name, p.id
"""
_GIVEN = """
SELECT a.approved_at, a.expires_at, a.covered_count, p.display_name
  FROM ledger_approval a JOIN person p ON p.id = a.approved_by_id
 WHERE a.content_version_id = %s ORDER BY a.approved_at DESC LIMIT 20
"""
_PLACE = """
SELECT s.team_id, o.id, o.operation_id, o.title, s.number, s.title AS step_title, s.destination_slug, s.revision,
       o.content_id,
       s.content_number, r.kind, coalesce(r.author, ''), o.version
  FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id
  LEFT JOIN ledger_revision r ON r.step_id = s.id AND r.number = s.revision
 WHERE s.id = %s AND s.team_id = ANY(%s)
"""
_REJECTED = """
SELECT (e.body::json ->> 'revision')::integer AS revision, (e.body::json ->> 'returned_to')::integer AS returned_to,
       e.at, e.actor, coalesce((SELECT display_name FROM person p WHERE 'person:' || p.id = e.actor), e.actor) AS name,
       t.text
  FROM journal_entry e LEFT JOIN journal_text t ON t.id = (e.body::json #>> '{reason,text}')::uuid
 WHERE e.subject_id = %s AND e.kind = 'request_rejected' AND (e.body::json ->> 'step')::integer = %s
 ORDER BY e.seq DESC LIMIT 1
"""
_VERSION = """
SELECT v.id, v.of_id, v.content_id, v.number, v.state, v.body, v.workflow_id, f.slug AS workflow, f.current_id,
       c.latest_number
  FROM ledger_contentversion v JOIN ledger_content c ON c.id = v.of_id JOIN ledger_definition f ON f.id = v.workflow_id
"""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of the last days: over a content version, or over one request."""

    at: datetime
    state: str  # approved or rejected
    version_id: UUID | None
    content_id: str | None
    number: int | None
    step_id: UUID | None
    revision: int | None
    title: str | None  # of the one operation
    count: int | None  # requests that it was made over; None for a version that is rejected itself
    name: str  # who decided


@dataclass(frozen=True, slots=True)
class StepApproval:
    """What a step shows and whether somebody approved it."""

    number: int
    step_id: UUID
    content_number: int | None
    approval_needed: bool
    approved_until: datetime | None
    version_id: UUID | None
    version_state: str | None
    approved_at: datetime | None
    approved_by: str | None
    approved_by_id: UUID | None
    alone: bool  # its request is approved by itself, not with its content version


@dataclass(frozen=True, slots=True)
class Approver:
    """Somebody whose role lets them approve here. `why_not` is the end of “because they …”, or empty."""

    id: UUID
    name: str
    is_fallback: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class Given:
    """One approval of a version."""

    at: datetime
    until: datetime
    count: int  # requests
    name: str


@dataclass(frozen=True, slots=True)
class RejectedOnce:
    """The newest rejection of a request of a step that is approved by itself."""

    revision: int
    returned_to: int | None  # None: the step was ended
    at: datetime
    actor: str  # as the journal writes it
    name: str
    reason: str | None  # None: it was erased


@dataclass(frozen=True, slots=True)
class Place:
    """A step in its operation, as the page of its one request names it."""

    team_id: UUID
    operation_id: UUID
    operation_text_id: str
    title: str
    number: int
    step_title: str
    destination: str
    revision: int
    of_id: UUID | None
    content_number: int | None
    kind: str | None  # of the present revision: moved or revised; None for the first request
    author: str  # of the present revision, as the journal writes it
    operation_version: int  # a rejection carries it


@dataclass(frozen=True, slots=True)
class Text:
    """A content version with its fields as they were brought. For forms; never shown as it is."""

    id: UUID
    of_id: UUID
    content_id: str
    number: int
    state: str
    fields: Mapping[str, Any]
    workflow: str
    definition: WorkflowDefinition  # as it is now: a new version is checked against it
    latest_number: int


def decided_lately(team_ids: Sequence[UUID], size: int = DECIDED) -> list[Decided]:
    """Newest first."""
    return [Decided(*row) for row in named_rows(_DECIDED, {"teams": list(team_ids), "size": size})]


def approvals_of(operation_id: UUID) -> dict[int, StepApproval]:
    """By step, for those that show content or need an approval."""
    found = [StepApproval(*row) for row in named_rows(_OF_OPERATION, [operation_id])]
    return {one.number: one for one in found}


def approvers(team_id: UUID, unable: Mapping[UUID, str]) -> list[Approver]:
    """Everybody of the team whose role lets them approve, each with why they may not, by `unable`."""
    people: Collection[UUID] = approvals.approvers([team_id])[team_id]
    return [
        Approver(row.id, row.name, bool(row.is_fallback), unable.get(row.id, ""))
        for row in named_rows(_PEOPLE, [team_id, list(people)])
    ]


def unable_for(step_ids: Collection[UUID]) -> dict[UUID, dict[UUID, approvals.Bar]]:
    """Per step that is approved by itself: who may not approve its request, each with what keeps them from it."""
    rows = named_rows(
        "SELECT s.team_id, s.operation_id, s.id, CASE WHEN s.content_number IS NOT NULL THEN o.content_id END,"
        " s.content_number FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id WHERE s.id = ANY(%s)",
        [list(step_ids)],
    )
    return approvals.barred([approvals.Asked(*row) for row in rows])


def given(version_id: UUID) -> list[Given]:
    """The approvals of a content version, newest first."""
    return [Given(*row) for row in named_rows(_GIVEN, [version_id])]


def rejected_last(operation_id: UUID, number: int) -> RejectedOnce | None:
    """The newest rejection of a request of this step."""
    rows = named_rows(_REJECTED, [operation_id, number])
    return RejectedOnce(*rows[0]) if rows else None


def place_of(step_id: UUID, team_ids: Sequence[UUID]) -> Place | None:
    """Where a step belongs; None when it does not exist for these teams."""
    rows = named_rows(_PLACE, [step_id, list(team_ids)])
    return Place(*rows[0]) if rows else None


def text_of(version_id: UUID, team_ids: Sequence[UUID]) -> Text | None:
    """The fields of a version, for a form; None when it does not exist for these teams."""
    return _text("v.id = %s AND v.team_id = ANY(%s)", [version_id, list(team_ids)])


def approved_text(of_id: UUID, *, other_than: int) -> Text | None:
    """The approved version of a content beside this number; where none is, the newest one that was approved before it."""
    where = "v.of_id = %s AND v.number <> %s AND (v.state = 'approved' OR v.decided_at IS NOT NULL AND v.state <> 'rejected'"
    return _text(
        f"{where} AND v.number < %s) ORDER BY v.state = 'approved' DESC, v.number DESC LIMIT 1",
        [of_id, other_than, other_than],
    )


def newest_text(of_id: UUID) -> Text:
    found = _text("v.of_id = %s ORDER BY v.number DESC LIMIT 1", [of_id])
    assert found is not None
    return found


def usable_numbers(of_id: UUID) -> list[tuple[int, str]]:
    """The versions that a changed request may show, newest first, each with its state."""
    rows = named_rows(
        "SELECT number, state FROM ledger_contentversion"
        " WHERE of_id = %s AND state IN ('proposed', 'approved') ORDER BY number DESC",
        [of_id],
    )
    return [(row.number, row.state) for row in rows]


def _text(where: str, parameters: list[Any]) -> Text | None:
    rows = named_rows(f"{_VERSION} WHERE {where}", parameters)
    if not rows:
        return None
    row = rows[0]
    return Text(
        row.id, row.of_id, row.content_id, row.number, row.state, read_params(row.body), row.workflow,
        definitions.workflow(row.current_id), row.latest_number,
    )  # fmt: skip

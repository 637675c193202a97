"""The journal of a team, newest first.

Entries carry no team; what they speak of does. The switch for all sending concerns every team. A page looks back in
windows of time that grow until it is full, so that a busy hour costs one small window and a quiet year costs a few large
ones. Looking for something rare stops after a while and says how far it came; the next page goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.verify import WHOLE
from opsledger.lib.named_rows import named_rows

PAGE = 50
FIRST_WINDOW_SECONDS = 60.0
GROWTH = 8.0
LOOK_BACK_SECONDS_MAX = 86_400 * 366.0  # of one page that looks for something rare

_ENTRIES = """
SELECT j.subject_id, j.seq, j.subject_kind, j.at, j.kind, j.actor, j.body,
       coalesce(o.operation_id, e.event_id, d.slug, f.slug, t.name, c.content_id, r.name,
                CASE WHEN j.subject_kind = 'sending' THEN 'all' ELSE '' END) AS subject_name,
       coalesce(f.kind, j.subject_kind) AS about,
       (SELECT v.id FROM ledger_contentversion v WHERE v.of_id = c.id ORDER BY v.number DESC LIMIT 1) AS content_version_id
  FROM journal_entry j
  LEFT JOIN ledger_operation o ON j.subject_kind = 'operation' AND o.id = j.subject_id
  LEFT JOIN ledger_event e ON j.subject_kind = 'event' AND e.id = j.subject_id
  LEFT JOIN ledger_destination d ON j.subject_kind = 'destination' AND d.definition_id = j.subject_id
  LEFT JOIN ledger_definition f ON j.subject_kind = 'definition' AND f.id = j.subject_id
  LEFT JOIN ledger_replay r ON j.subject_kind = 'replay' AND r.id = j.subject_id
  LEFT JOIN team t ON j.subject_kind = 'team' AND t.id = j.subject_id
  LEFT JOIN ledger_content c ON j.subject_kind = 'content' AND c.id = j.subject_id
 WHERE j.at > %(start)s AND j.at <= %(end)s
   AND (j.at, j.subject_id, j.seq) < (%(end)s, %(subject)s, %(seq)s)
   AND (j.subject_kind = 'sending'
        OR coalesce(o.team_id, e.team_id, d.team_id, f.team_id, t.id, c.team_id, r.team_id) = %(team)s)
   AND (%(kind)s = '' OR j.kind = %(kind)s)
   AND (%(actor)s = '' OR j.actor = %(actor)s OR (%(prefix)s AND starts_with(j.actor, %(actor)s || ':')))
 ORDER BY j.at DESC, j.subject_id DESC, j.seq DESC LIMIT %(limit)s
"""
_LAST_ID = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class Place:
    """The entry after which (that is: before which in time) a page begins."""

    at: datetime
    subject_id: UUID = _LAST_ID
    seq: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    team_id: UUID
    kind: str = ""
    actor: str = ""  # "person:…" exactly, or the part before the colon for all of a kind


@dataclass(frozen=True, slots=True)
class AuditLine:
    subject_kind: str
    subject_id: UUID
    subject_name: str
    about: str  # a definition’s own kind, else the subject’s
    seq: int
    at: datetime
    kind: str
    actor: str
    body: Mapping[str, Any]
    content_version_id: UUID | None = None  # the newest one of a content


@dataclass(frozen=True, slots=True)
class Page:
    lines: list[AuditLine]
    following: Place | None  # where the next page begins; None when nothing older is left
    looked_back_to: datetime | None = None  # set when the page stopped looking before it was full


def page_of(wanted: Wanted, *, before: Place | None = None, size: int = PAGE) -> Page:
    """At most `size` entries, newest first."""
    start_of_time, now = _bounds(wanted.team_id)
    place = before or Place(now + timedelta(seconds=1))
    if place.at <= start_of_time:
        return Page([], None)
    found: list[AuditLine] = []
    window = FIRST_WINDOW_SECONDS
    end, oldest = place, max(start_of_time, place.at - timedelta(seconds=LOOK_BACK_SECONDS_MAX))
    while True:
        start = max(oldest, end.at - timedelta(seconds=window))
        found += _entries(wanted, start, end, size + 1 - len(found))
        if len(found) > size:
            last = found[size - 1]
            return Page(found[:size], Place(last.at, last.subject_id, last.seq))
        if start <= start_of_time:
            return Page(found, None)
        if start <= oldest:
            return Page(found, Place(start), looked_back_to=start)
        end, window = Place(start), window * GROWTH


def _entries(wanted: Wanted, start: datetime, end: Place, limit: int) -> list[AuditLine]:
    parameters = {
        "start": start,
        "end": end.at,
        "subject": end.subject_id,
        "seq": end.seq,
        "team": wanted.team_id,
        "kind": wanted.kind,
        "actor": wanted.actor,
        "prefix": ":" not in wanted.actor,
        "limit": limit,
    }
    return [
        AuditLine(
            row.subject_kind, row.subject_id, row.subject_name, row.about, row.seq, row.at, row.kind, row.actor,
            json.loads(row.body), row.content_version_id,
        )
        for row in named_rows(_ENTRIES, parameters)
    ]  # fmt: skip


def _bounds(team_id: UUID) -> tuple[datetime, datetime]:
    """When the team began, and now: nothing of it is older or newer."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(created_at), now() FROM team WHERE id = %s", [team_id])
        began, now = cursor.fetchone()
    return (began or datetime(2000, 1, 1, tzinfo=UTC)) - timedelta(seconds=1), now


@dataclass(frozen=True, slots=True)
class Verification:
    """The newest proof of the whole ledger that ended, and one that goes on."""

    finished_at: datetime | None
    faults_count: int | None  # of the one that ended; 0 when everything held
    running_since: datetime | None


def verification() -> Verification:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT finished_at, faults_count,"
            " CASE WHEN finished_at IS NULL OR finished_at < started_at THEN started_at END"
            " FROM journal_verify_checkpoint WHERE name = %s",
            [WHOLE],
        )
        row = cursor.fetchone()
    return Verification(*row) if row else Verification(None, None, None)

"""Incidents: the sweep groups holds, people write notes about them, and who acted last is kept. No hold changes by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.deciding import By
from opsledger.ledger.actions.notes import check_note
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Incident as IncidentRow
from opsledger.ledger.models import IncidentNote
from opsledger.lib.ids import new_id
from opsledger.lib.named_rows import named_rows
from opsledger.rules.incidents import GAP_SECONDS, Group, Incident, Opening, group_holds
from opsledger.rules.states import HoldReason

GROUPING_LOCK = 7_301_845_112  # one sweep at a time groups; any number that no other advisory lock has
BATCH = 1_000

# A hold that somebody is changing is left for the next sweep: waiting here for it could end in a deadlock, as whoever
# changes it has the operation's row first, which grouping never takes.
_OPENINGS = """
SELECT id, team_id, destination_slug, action, reason, opened_at FROM ledger_hold
 WHERE closed_at IS NULL AND incident_id IS NULL AND step_id IS NOT NULL
 ORDER BY opened_at, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
# OFFSET keeps the planner from joining all incidents that ever were: each group looks into the index by itself.
_NEAR = """
SELECT i.*
  FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[])
       AS w(team_id, destination_slug, action, reason, first_at, last_at)
 CROSS JOIN LATERAL (
       SELECT i.id, i.team_id, i.destination_slug, i.action, i.reason, i.started_at, i.last_at FROM ledger_incident i
        WHERE i.team_id = w.team_id AND i.destination_slug = w.destination_slug AND i.action = w.action
          AND i.reason = w.reason AND i.last_at >= w.first_at AND i.started_at <= w.last_at OFFSET 0) i
"""
_GROWN = """
UPDATE ledger_incident i SET started_at = x.started_at, last_at = x.last_at, hold_count = i.hold_count + x.more
  FROM unnest(%s::uuid[], %s::timestamptz[], %s::timestamptz[], %s::int[]) AS x(id, started_at, last_at, more)
 WHERE i.id = x.id
"""
# IS TRUE: by the ids, and not by going through everything that is open for each batch.
_GIVEN = """
UPDATE ledger_hold h SET incident_id = x.incident_id FROM unnest(%s::uuid[], %s::uuid[]) AS x(id, incident_id)
 WHERE h.id = x.id AND (h.incident_id IS NULL AND h.closed_at IS NULL) IS TRUE
"""


def record_incidents(batch: int = BATCH, *, rounds: int = 10) -> int:
    """Gives the open holds about steps that have no incident to one each. Returns how many it gave.

    1. Whoever has the lock groups; a second one at the same time does nothing, and nothing is waited for.
    2. The oldest holds come first, so that a sweep after a long pause groups as the ones before it would have.
    3. `rules.incidents` decides; incidents and holds are written together.
    4. The version of a hold stays: belonging to a group is nothing that a decision is made on, and is not journaled.
    """
    given = 0
    for _ in range(rounds):
        with transaction.atomic(durable=True):
            count = _group_here(batch) if _alone() else 0
        given += count
        if count < batch:
            break
    return given


def _alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [GROUPING_LOCK])
        return bool(cursor.fetchone()[0])


def _group_here(batch: int) -> int:
    openings = _openings(batch)
    if not openings:
        return 0
    grown = group_holds(_near(openings), openings)
    _write(grown)
    return len(openings)


def _openings(batch: int) -> list[Opening]:
    return [Opening(row.id, _group(row), row.opened_at) for row in named_rows(_OPENINGS, [batch])]


def _near(openings: Sequence[Opening]) -> list[Incident]:
    """The recorded incidents that any of these holds may belong to."""
    times: dict[Group, list[Opening]] = {}
    for opening in openings:
        times.setdefault(opening.group, []).append(opening)
    gap = timedelta(seconds=GAP_SECONDS)
    wanted = [
        (group.team_id, group.destination, group.action, group.reason.value,
         min(one.opened_at for one in of_it) - gap, max(one.opened_at for one in of_it) + gap)
        for group, of_it in times.items()
    ]  # fmt: skip
    rows = named_rows(_NEAR, [list(column) for column in zip(*wanted, strict=True)])
    return [Incident(_group(row), row.started_at, row.last_at, row.id) for row in rows]


def _group(row: object) -> Group:
    return Group(row.team_id, row.destination_slug, row.action, HoldReason(row.reason))  # type: ignore[attr-defined]


def _write(grown: Iterable[Incident]) -> None:
    known, given = [], []
    fresh = []
    for one in grown:
        incident_id = one.id or new_id()
        given += [(hold_id, incident_id) for hold_id in one.joined]
        if one.id is None:
            fresh.append(_row(incident_id, one))
        else:
            known.append((one.id, one.started_at, one.last_at, len(one.joined)))
    IncidentRow.objects.bulk_create(fresh)
    with connection.cursor() as cursor:
        if known:
            cursor.execute(_GROWN, [list(column) for column in zip(*known, strict=True)])
        cursor.execute(_GIVEN, [list(column) for column in zip(*given, strict=True)])


def _row(incident_id: UUID, one: Incident) -> IncidentRow:
    return IncidentRow(
        pk=incident_id,
        team_id=one.group.team_id,
        destination_slug=one.group.destination,
        action=one.group.action,
        reason=one.group.reason.value,
        started_at=one.started_at,
        last_at=one.last_at,
        hold_count=len(one.joined),
    )


# What people do about an incident as a whole


def settle_note_on_incident(incident_id: UUID, text: str, by: By, newest_hold: UUID | None = None) -> None:
    """A note never changes a state. Its line stands in the team's journal, with the incident's id."""
    check_note(text)
    with transaction.atomic(durable=True):
        incident = IncidentRow.objects.get(pk=incident_id)
        kept = keep_text(incident.team_id, text)
        IncidentNote.objects.create(
            incident=incident, actor=by.actor, written_at=database_now(), note=body(kept)
        )
        line = body({"incident": str(incident.pk), "note": kept})
        append([Line("team", incident.team_id, "noted", by.actor, line)])
        _keep_act(incident_id, by, newest_hold)


def record_act(incident_id: UUID, by: By, newest_hold: UUID | None) -> None:
    """Remembers that this person has acted on an incident with holds up to `newest_hold` before them."""
    with transaction.atomic(durable=True):
        _keep_act(incident_id, by, newest_hold)


_ACT = """
INSERT INTO ledger_incidentact (incident_id, person_id, acted_at, newest_hold) VALUES (%s, %s, now(), %s)
ON CONFLICT (incident_id, person_id) DO UPDATE
   SET acted_at = now(), newest_hold = greatest(ledger_incidentact.newest_hold, EXCLUDED.newest_hold)
"""


def _keep_act(incident_id: UUID, by: By, newest_hold: UUID | None) -> None:
    if by.person_id is None or newest_hold is None:
        return
    with connection.cursor() as cursor:
        cursor.execute(_ACT, [incident_id, by.person_id, newest_hold])

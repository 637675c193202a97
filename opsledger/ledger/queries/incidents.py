"""Incidents: the open ones of a team as cards, and one as a page. Their figures come from the holds, through indexes only.

Open holds are counted exactly, in one pass over the team's open ones. What has ended is counted no further than COUNT_MAX
for each incident, so that a card costs the same however long an incident lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.ledger.models import Incident
from opsledger.lib.named_rows import named_rows
from opsledger.rules.incidents import CARD_HOLDS_MIN, interval_seconds
from opsledger.rules.states import HoldReason

CARDS = 6
CARDS_MAX = 60  # on a page of their own
COUNT_MAX = 10_000  # holds of one incident whose end is counted and drawn: the newest
LOOKS_MAX = 200  # of the team's planned lookups: the next one of an incident is named when it is among these
NOTES_MAX = 100
OWNERS_MAX = 3


@dataclass(frozen=True, slots=True)
class Note:
    id: UUID
    actor: str
    written_at: datetime
    text: str | None  # None: erased


@dataclass(frozen=True, slots=True)
class Ended:
    """How holds of an incident came to their end; of the newest COUNT_MAX."""

    by_evidence: int = 0  # a reply, a lookup or a report answered: nobody had to
    by_people: int = 0
    otherwise: int = 0  # another question took its place


@dataclass(frozen=True, slots=True)
class IncidentLine:
    id: UUID
    team_id: UUID
    destination: str
    action: str
    reason: HoldReason
    started_at: datetime
    last_at: datetime
    hold_count: int
    open_count: int
    unowned_count: int
    owners: tuple[tuple[str, int], ...]  # names and how many of the open holds; at most OWNERS_MAX
    owner_count: int
    first_due_at: datetime | None  # None: nothing of it is open any more
    newest_hold: UUID | None  # of the open ones
    acted_at: datetime | None  # the reader's own last act
    new_count: int  # opened since then; 0 without an act
    note: Note | None  # the newest
    next_look_at: datetime | None
    ended: Ended
    interval: int  # seconds
    bars: tuple[int, ...]  # holds opened in each interval from `started_at` on
    drawn_count: int  # holds that the bars show

    @property
    def drawn_in_part(self) -> bool:
        return self.drawn_count < self.hold_count


@dataclass(frozen=True, slots=True)
class Cards:
    lines: list[IncidentLine]
    more_count: int  # incidents with enough open holds for a card that are not among the lines


_LARGEST = f"""
SELECT incident_id, count(*) AS open_count, count(*) OVER () AS incident_count FROM ledger_hold
 WHERE team_id = %s AND closed_at IS NULL AND incident_id IS NOT NULL
 GROUP BY incident_id HAVING count(*) >= {CARD_HOLDS_MIN} ORDER BY open_count DESC, incident_id DESC LIMIT %s
"""

_LINES = """
SELECT i.id, i.team_id, i.destination_slug, i.action, i.reason, i.started_at, i.last_at, i.hold_count, a.acted_at,
       n.id AS note_id, n.actor, n.written_at, n.text
  FROM ledger_incident i
  LEFT JOIN ledger_incidentact a ON a.incident_id = i.id AND a.person_id = %(person)s
  LEFT JOIN LATERAL (
       SELECT m.id, m.actor, m.written_at, t.text FROM ledger_incidentnote m
         LEFT JOIN journal_text t ON t.id = (m.note::json ->> 'text')::uuid
        WHERE m.incident_id = i.id ORDER BY m.id DESC LIMIT 1) n ON true
 WHERE i.id = ANY(%(ids)s) AND i.team_id = ANY(%(teams)s)
"""
# A row for each owner of each incident. There is no max() of a uuid yet; its text sorts as it does.
_OPEN = """
SELECT i.id AS incident_id, x.*, p.display_name AS name
  FROM ledger_incident i
  LEFT JOIN ledger_incidentact a ON a.incident_id = i.id AND a.person_id = %(person)s
 CROSS JOIN LATERAL (
       SELECT owner_id, count(*) AS held, min(due_at) AS first_due_at,
              max(id::text COLLATE "C")::uuid AS newest_hold, count(*) FILTER (WHERE id > a.newest_hold) AS new_count
         FROM ledger_hold WHERE team_id = i.team_id AND incident_id = i.id AND closed_at IS NULL
        GROUP BY owner_id) x
  LEFT JOIN person p ON p.id = x.owner_id
 WHERE i.id = ANY(%(ids)s) AND i.team_id = ANY(%(teams)s)
 ORDER BY x.held DESC, p.display_name
"""
_BARS = f"""
SELECT w.id,
       least(greatest(floor(extract(epoch FROM h.opened_at - w.started_at)::float8 / w.width), 0), w.bars - 1)::int AS bar,
       count(*) AS opened, count(*) FILTER (WHERE h.closed_by = 'evidence') AS by_evidence,
       count(*) FILTER (WHERE h.closed_by LIKE 'person:%%' OR h.closed_by LIKE 'token:%%') AS by_people,
       count(*) FILTER (WHERE h.closed_by <> '') AS ended
  FROM unnest(%s::uuid[], %s::timestamptz[], %s::int[], %s::int[]) AS w(id, started_at, width, bars)
 CROSS JOIN LATERAL (SELECT opened_at, closed_by FROM ledger_hold
                      WHERE incident_id = w.id ORDER BY opened_at DESC LIMIT {COUNT_MAX}) h
 GROUP BY w.id, bar ORDER BY w.id, bar
"""
_LOOKS = f"""
SELECT h.incident_id, min(s.act_at) AS next_at
  FROM (SELECT id, act_at FROM ledger_step
         WHERE act = 'look' AND team_id = %s ORDER BY act_at LIMIT {LOOKS_MAX}) s
  JOIN ledger_hold h ON h.step_id = s.id AND h.closed_at IS NULL
 WHERE h.incident_id = ANY(%s) GROUP BY h.incident_id
"""


def cards(team_id: UUID, person_id: UUID, most: int = CARDS) -> Cards:
    """The incidents of a team with the most open holds, largest first."""
    largest = named_rows(_LARGEST, [team_id, most])
    if not largest:
        return Cards([], 0)
    lines = _lines([row.incident_id for row in largest], [team_id], person_id)
    return Cards(lines, largest[0].incident_count - len(largest))


def incident_of(incident_id: UUID, team_ids: Sequence[UUID], person_id: UUID) -> IncidentLine | None:
    """One incident, also when nothing of it is open any more; None when it does not exist for these teams."""
    found = _lines([incident_id], team_ids, person_id)
    return found[0] if found else None


def _lines(incident_ids: Sequence[UUID], team_ids: Sequence[UUID], person_id: UUID) -> list[IncidentLine]:
    wanted = {"ids": list(incident_ids), "teams": list(team_ids), "person": person_id}
    rows = {row.id: row for row in named_rows(_LINES, wanted)}
    there = [rows[one] for one in incident_ids if one in rows]
    if not there:
        return []
    opened, looks = _opened(there), _next_looks(there)
    held: dict[UUID, list[Any]] = {}
    for row in named_rows(_OPEN, wanted):
        held.setdefault(row.incident_id, []).append(row)
    return [_line(row, held.get(row.id, []), opened[row.id], looks.get(row.id)) for row in there]


@dataclass(frozen=True, slots=True)
class _Opened:
    interval: int
    bars: tuple[int, ...]
    ended: Ended


def _opened(rows: Sequence[Any]) -> dict[UUID, _Opened]:
    """When the holds of each incident were opened, and how those that ended did."""
    widths = {row.id: interval_seconds(row.started_at, row.last_at) for row in rows}
    counts = {
        row.id: int((row.last_at - row.started_at).total_seconds()) // widths[row.id] + 1 for row in rows
    }
    drawn = named_rows(
        _BARS,
        [
            [row.id for row in rows],
            [row.started_at for row in rows],
            [widths[row.id] for row in rows],
            [counts[row.id] for row in rows],
        ],
    )
    found = {}
    for row in rows:
        of_it = [one for one in drawn if one.id == row.id]
        bars = [0] * counts[row.id]
        for one in of_it:
            bars[one.bar] = one.opened
        found[row.id] = _Opened(widths[row.id], tuple(bars), _ended(of_it))
    return found


def _ended(rows: Iterable[Any]) -> Ended:
    evidence = people = ended = 0
    for row in rows:
        evidence, people, ended = evidence + row.by_evidence, people + row.by_people, ended + row.ended
    return Ended(evidence, people, ended - evidence - people)


def _next_looks(rows: Sequence[Any]) -> dict[UUID, datetime]:
    found = named_rows(_LOOKS, [rows[0].team_id, [row.id for row in rows]])
    return {row.incident_id: row.next_at for row in found}


def _line(row: Any, held: Sequence[Any], opened: _Opened, next_look_at: datetime | None) -> IncidentLine:
    """`held`: its open holds, by owner."""
    owners = [(one.name, one.held) for one in held if one.owner_id is not None]
    return IncidentLine(
        id=row.id,
        team_id=row.team_id,
        destination=row.destination_slug,
        action=row.action,
        reason=HoldReason(row.reason),
        started_at=row.started_at,
        last_at=row.last_at,
        hold_count=row.hold_count,
        open_count=sum(one.held for one in held),
        unowned_count=sum(one.held for one in held if one.owner_id is None),
        owners=tuple(owners[:OWNERS_MAX]),
        owner_count=len(owners),
        first_due_at=min((one.first_due_at for one in held), default=None),
        newest_hold=max((one.newest_hold for one in held), default=None),
        acted_at=row.acted_at,
        new_count=sum(one.new_count for one in held),
        note=Note(row.note_id, row.actor, row.written_at, row.text) if row.note_id else None,
        next_look_at=next_look_at,
        ended=opened.ended,
        interval=opened.interval,
        bars=opened.bars,
        drawn_count=sum(opened.bars),
    )


# One incident


def name_of(incident_id: UUID, team_ids: Sequence[UUID]) -> Incident | None:
    """What an incident is about, without its figures."""
    return Incident.objects.filter(pk=incident_id, team_id__in=team_ids).first()


def notes_of(incident_id: UUID) -> list[Note]:
    """Its newest notes, newest first; at most NOTES_MAX."""
    query = (
        "SELECT m.id, m.actor, m.written_at, t.text FROM ledger_incidentnote m"
        " LEFT JOIN journal_text t ON t.id = (m.note::json ->> 'text')::uuid"
        f" WHERE m.incident_id = %s ORDER BY m.id DESC LIMIT {NOTES_MAX}"
    )
    return [Note(row.id, row.actor, row.written_at, row.text) for row in named_rows(query, [incident_id])]


@dataclass(frozen=True, slots=True)
class Settled:
    """Holds of an incident that ended in the same way."""

    closed_by: str  # as the hold says: evidence, superseded, person:…, token:…
    answer: str
    count: int
    last_at: datetime


def settled_of(incident_id: UUID) -> list[Settled]:
    """Who or what settled its holds, and how; of the newest COUNT_MAX."""
    query = (
        "SELECT closed_by, answer, count(*) AS count, max(closed_at) AS last_at FROM"
        " (SELECT closed_by, answer, closed_at FROM ledger_hold WHERE incident_id = %s"
        f" ORDER BY opened_at DESC LIMIT {COUNT_MAX}) h"
        " WHERE closed_at IS NOT NULL GROUP BY closed_by, answer ORDER BY count DESC, closed_by, answer"
    )
    rows = named_rows(query, [incident_id])
    return [Settled(row.closed_by, row.answer, row.count, row.last_at) for row in rows]


def is_of(hold_id: UUID, incident_id: UUID) -> bool:
    """Whether this hold belongs to this incident, open or closed."""
    return bool(
        named_rows("SELECT 1 FROM ledger_hold WHERE id = %s AND incident_id = %s", [hold_id, incident_id])
    )

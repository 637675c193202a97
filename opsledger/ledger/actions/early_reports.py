"""Reports of a final effect that name a reference which no step has yet: quicker than the reply, or than a person.

Kept by whoever is told (`evidence.record_event_report_here`), read by whoever records the reference (`change.change_here`),
each in its own transaction. Both take a lock of the transaction for what is named, and then look in a statement of its own:
of two that cross, the second sees what the first one wrote. Several are locked in one order. Operations are locked before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from opsledger.ledger import definitions
from opsledger.ledger.records import Loaded
from opsledger.lib.ids import new_id
from opsledger.lib.named_rows import named_rows
from opsledger.rules.record import Operation


@dataclass(frozen=True, slots=True)
class Named:
    """A record that an action of a destination has made or changed, by its reference there."""

    destination_id: UUID
    action: str
    reference: str

    @property
    def key(self) -> bytes:
        return bytes.fromhex(definitions.reference_key(self.reference))

    @property
    def lock(self) -> int:
        """Of 64 bits; two that share one wait for each other, and nothing more."""
        parts = (
            b"early report",
            self.destination_id.bytes,
            hashlib.sha256(self.action.encode()).digest(),
            self.key,
        )
        return int.from_bytes(hashlib.sha256(b"".join(parts)).digest()[:8], signed=True)


@dataclass(frozen=True, slots=True)
class NewlyNamed:
    """A step that has its reference now, and had none or another before. Attempts began at `since` or later."""

    step_id: UUID
    named: Named
    since: datetime


def newly_named(loaded: Loaded, after: Operation) -> list[NewlyNamed]:
    """Those whose final effect events tell by the reference; nothing is asked of the database.

    Events are read, and what names nobody is kept, by the newest definition, so it is asked here too, and not the step's own
    alone: the same report counts before the reply as after it. By its own one what was kept before the newest is heard.
    """
    found = []
    for step in after.steps:
        reference = step.reference
        if reference is None or reference == loaded.record.step(step.number).reference or not step.attempts:
            continue
        own, newest = (
            loaded.destination_version_ids[step.number],
            loaded.newest_version_ids[step.number],
        )
        if is_told_of(own, step.action) or is_told_of(newest, step.action):
            named = Named(loaded.destination_ids[step.number], step.action, reference)
            found.append(NewlyNamed(loaded.step_ids[step.number], named, step.attempts[0].opened_at))
    return found


def is_told_of(destination_version_id: UUID, action: str) -> bool:
    """Whether events tell the final effect of this action, and name its record by the reference, by this version."""
    known = definitions.destination(destination_version_id).actions.get(action)
    return (
        known is not None
        and known.report is not None
        and known.report.reference != ""
        and known.profile.final_effect is not None
    )


def lock_here(named: Iterable[Named]) -> None:
    """Until the end of the transaction, in one order for all."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(wanted) FROM (SELECT unnest(%s::bigint[]) AS wanted ORDER BY 1) ordered",
            [sorted({one.lock for one in named})],
        )


@dataclass(frozen=True, slots=True)
class NewReport:
    team_id: UUID
    event_id: UUID
    named: Named
    says: str
    occurred_at: datetime | None


def keep_here(reports: Collection[NewReport]) -> None:
    """Keeps what found nobody, once for each event and action. Under `lock_here`."""
    if not reports:
        return
    rows = [
        (
            new_id(), one.team_id, one.event_id, one.named.destination_id, one.named.action, one.named.reference,
            one.named.key, one.says, one.occurred_at,
        )
        for one in reports
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO ledger_earlyreport (id, team_id, event_id, destination_id, action, reference, reference_key, says,"
            " occurred_at, told_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, now())"
            " ON CONFLICT (event_id, destination_id, action) DO NOTHING",
            rows,
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """A report that found nobody when it came."""

    id: UUID
    step_id: UUID  # whom it is about, as is known now
    event_id: UUID
    source: str
    says: str
    reference: str
    occurred_at: datetime | None


_TOLD = """
SELECT r.id, w.step_id, r.event_id, source.slug AS source, r.says, r.reference, r.occurred_at
  FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::bytea[], %s::timestamptz[])
         AS w(step_id, destination_id, action, key, since)
  JOIN ledger_earlyreport r ON r.destination_id = w.destination_id AND r.action = w.action AND r.reference_key = w.key
                           AND r.told_at >= w.since
  JOIN ledger_event e ON e.id = r.event_id
  JOIN ledger_definition source ON source.id = e.source_id
 ORDER BY r.id
"""


def told_before(wanted: Iterable[NewlyNamed]) -> list[Kept]:
    """What was told of these records before, oldest first. Under `lock_here`.

    What was told before the step's first attempt is of something else: another one's change of the same record.
    """
    asked = list(wanted)
    columns = [
        [one.step_id for one in asked],
        [one.named.destination_id for one in asked],
        [one.named.action for one in asked],
        [one.named.key for one in asked],
        [one.since for one in asked],
    ]
    return [Kept(*row) for row in named_rows(_TOLD, columns)]


def remove_here(heard: Iterable[UUID]) -> None:
    """Those that are evidence of a step now."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM ledger_earlyreport WHERE id = ANY(%s)", [list(heard)])

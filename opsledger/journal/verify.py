"""Proving chains: every entry's hash follows from the one before, and the head is the last of them.

Reads in keyset batches of subjects, each batch a short statement of its own; never one long snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from opsledger.journal.hashing import GENESIS, entry_hash

BATCH = 500
FIRST = UUID(int=0)
LAST = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class ChainRow:
    subject_id: UUID
    subject_kind: str
    length: int
    head: bytes


@dataclass(frozen=True, slots=True)
class EntryRow:
    seq: int
    at: datetime
    kind: str
    actor: str
    body: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """The first thing that does not hold about a subject, in words that name it."""

    subject_kind: str
    subject_id: UUID
    why: str

    def __str__(self) -> str:
        return f"{self.subject_kind} {self.subject_id}: {self.why}"


def chains(
    after: UUID = FIRST, until: UUID = LAST, *, changed_since: datetime | None = None
) -> Iterator[list[ChainRow]]:
    """Chains with `after` < subject <= `until`, in batches by subject."""
    since = " AND EXISTS (SELECT 1 FROM journal_entry e WHERE e.subject_id = c.subject_id AND e.at >= %s)"
    query = (
        "SELECT subject_id, subject_kind, length, head FROM journal_chain c WHERE subject_id > %s AND subject_id <= %s"
        f"{since if changed_since else ''} ORDER BY subject_id LIMIT %s"
    )
    while True:
        with connection.cursor() as cursor:
            parameters: list[UUID | datetime | int] = [
                after,
                until,
                *([changed_since] if changed_since else []),
                BATCH,
            ]
            cursor.execute(query, parameters)
            rows = [ChainRow(row[0], row[1], row[2], bytes(row[3])) for row in cursor.fetchall()]
        if not rows:
            return
        yield rows
        after = rows[-1].subject_id


def entries_of(subjects: list[UUID]) -> dict[UUID, list[EntryRow]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT subject_id, seq, at, kind, actor, body, hash FROM journal_entry"
            " WHERE subject_id = ANY(%s) ORDER BY subject_id, seq",
            [subjects],
        )
        found: dict[UUID, list[EntryRow]] = {}
        for row in cursor.fetchall():
            found.setdefault(row[0], []).append(
                EntryRow(row[1], row[2], row[3], row[4], row[5], bytes(row[6]))
            )
    return found


def chain_fault(chain: ChainRow, entries: list[EntryRow]) -> Fault | None:
    """The first entry that does not follow, or a head that is not the last entry's."""
    previous = GENESIS
    for place, entry in enumerate(entries, start=1):
        if entry.seq != place:
            return Fault(chain.subject_kind, chain.subject_id, f"entry {place} is missing")
        wanted = entry_hash(
            previous,
            chain.subject_kind,
            chain.subject_id,
            entry.seq,
            entry.at,
            entry.kind,
            entry.actor,
            entry.body,
        )
        if wanted != entry.hash:
            return Fault(chain.subject_kind, chain.subject_id, f"entry {place} ({entry.kind}) was changed")
        previous = entry.hash
    if len(entries) != chain.length or previous != chain.head:
        why = (
            f"the chain's head says {chain.length} entries, {len(entries)} are there or the last one differs"
        )
        return Fault(chain.subject_kind, chain.subject_id, why)
    return None


def orphans(limit: int = 10) -> list[Fault]:
    """Entries whose chain's head is gone."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT e.subject_kind, e.subject_id FROM journal_entry e WHERE e.seq = 1 AND NOT EXISTS"
            " (SELECT 1 FROM journal_chain c WHERE c.subject_id = e.subject_id) LIMIT %s",
            [limit],
        )
        return [
            Fault(kind, subject_id, "its chain's head is missing") for kind, subject_id in cursor.fetchall()
        ]

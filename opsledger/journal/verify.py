"""Proving chains: every entry's hash follows from the one before, the head is the last of them, and the texts that entries
name are those that were written.

Reads in keyset batches of subjects, each batch a short statement of its own; never one long snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.hashing import GENESIS, entry_hash, text_digest

BATCH = 500
FIRST = UUID(int=0)
LAST = UUID(int=2**128 - 1)
WHOLE = "everything"  # the checkpoint that tells of the newest proof of all chains


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


def entries_behind_heads(chains: list[ChainRow], entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """Subjects with more entries than their chain's head counts, also when the head is read after them.

    An entry and its head are written together: what stands behind a head that is read later was put there beside the chain.
    """
    longer = [chain for chain in chains if len(entries.get(chain.subject_id, ())) > chain.length]
    if not longer:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT subject_id, length FROM journal_chain WHERE subject_id = ANY(%s)",
            [[chain.subject_id for chain in longer]],
        )
        lengths: dict[UUID, int] = dict(cursor.fetchall())
    return [
        Fault(chain.subject_kind, chain.subject_id, f"entry {length + 1} stands behind its chain's head")
        for chain in longer
        if len(entries[chain.subject_id]) > (length := lengths.get(chain.subject_id, 0))
    ]


# Texts outside the chain


def text_faults(chains: Sequence[ChainRow], entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """Subjects of which a text is not the one that was written, or is gone. One that was erased is no fault."""
    wanted = {
        text_id: (chain, digest)
        for chain in chains
        for entry in entries.get(chain.subject_id, [])[: chain.length]
        if '"text":' in entry.body
        for text_id, digest in _texts_of(json.loads(entry.body))
    }
    if not wanted:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, nonce, text, erased_at FROM journal_text WHERE id = ANY(%s)", [list(wanted)]
        )
        kept = {row[0]: row[1:] for row in cursor.fetchall()}
    faults = {}
    for text_id, (chain, digest) in wanted.items():
        why = _text_fault(kept.get(text_id), digest)
        if why:
            faults[chain.subject_id] = Fault(chain.subject_kind, chain.subject_id, f"text {text_id} {why}")
    return list(faults.values())


def _text_fault(row: tuple[bytes | None, str | None, datetime | None] | None, digest: str) -> str:
    if row is None:
        return "is missing"
    nonce, text, erased_at = row
    if erased_at is not None:
        return ""
    return "" if text_digest(bytes(nonce or b""), text or "") == digest else "is not what was written"


def _texts_of(document: Any) -> Iterator[tuple[UUID, str]]:
    """What `append.keep_text` left in an entry's body, wherever it stands."""
    if isinstance(document, list):
        for inner in document:
            yield from _texts_of(inner)
    elif isinstance(document, dict):
        if document.keys() == {"text", "digest"}:
            yield UUID(document["text"]), document["digest"]
        else:
            for inner in document.values():
                yield from _texts_of(inner)


def orphans(limit: int = 10) -> list[Fault]:
    """Entries whose chain's head is gone."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT e.subject_kind, e.subject_id FROM journal_entry e WHERE NOT EXISTS"
            " (SELECT 1 FROM journal_chain c WHERE c.subject_id = e.subject_id) LIMIT %s",
            [limit],
        )
        return [
            Fault(kind, subject_id, "its chain's head is missing") for kind, subject_id in cursor.fetchall()
        ]

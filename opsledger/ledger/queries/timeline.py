"""What happened to an operation: its journal entries, newest first, with the texts and the evidence that they name."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.lib.named_rows import named_rows

PAGE = 200

_ENTRIES = """
SELECT seq, at, kind, actor, body FROM journal_entry
 WHERE subject_id = %s AND seq < %s ORDER BY seq DESC LIMIT %s
"""
_EVIDENCE = """
SELECT v.id, s.number AS step, v.attempt_id, v.kind, v.origin, v.received_at, v.occurred_at, v.says, v.sentence, v.facts,
       v.late, length(v.content) AS size, encode(v.digest, 'hex') AS digest
  FROM ledger_evidence v LEFT JOIN ledger_step s ON s.id = v.step_id
 WHERE v.operation_id = %s ORDER BY v.received_at DESC, v.id DESC LIMIT %s
"""
EVIDENCE_MAX = 500


@dataclass(frozen=True, slots=True)
class Told:
    """One entry of the journal. `texts` holds free texts by what they are; None stands for an erased one."""

    seq: int
    at: datetime
    kind: str
    actor: str
    body: Mapping[str, Any]
    texts: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    id: UUID
    step: int | None
    attempt_id: UUID | None
    kind: str
    origin: str
    received_at: datetime
    occurred_at: datetime | None
    says: str
    sentence: str
    late: bool
    size: int  # bytes kept
    digest: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Story:
    told: list[Told]  # newest first
    has_older: bool


def story_of(subject_id: UUID, *, before: int | None = None, size: int = PAGE) -> Story:
    """The newest `size` entries of a subject's chain, or those before the entry number `before`."""
    rows = named_rows(_ENTRIES, [subject_id, before if before is not None else 2**31 - 1, size + 1])
    bodies = [json.loads(row.body) for row in rows[:size]]
    texts = _texts(bodies)
    told = [
        Told(row.seq, row.at, row.kind, row.actor, body, _texts_in(body, texts))
        for row, body in zip(rows, bodies, strict=False)
    ]
    return Story(told, len(rows) > size)


def _texts(bodies: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """The kept texts of these entries by id; an erased one is None."""
    ids = [one["text"] for body in bodies for one in body.values() if _is_text(one)]
    if not ids:
        return {}
    rows = named_rows("SELECT id, text FROM journal_text WHERE id = ANY(%s)", [ids])
    return {str(row.id): row.text for row in rows}


def _texts_in(body: Mapping[str, Any], texts: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name: texts.get(one["text"]) for name, one in body.items() if _is_text(one)}


def _is_text(value: object) -> bool:
    return isinstance(value, Mapping) and set(value) == {"text", "digest"}


def evidence_of(operation_id: UUID) -> list[EvidenceLine]:
    """What was learnt, newest first, without the bytes; at most EVIDENCE_MAX."""
    return [
        EvidenceLine(
            row.id, row.step, row.attempt_id, row.kind, row.origin, row.received_at, row.occurred_at, row.says,
            row.sentence, row.late, row.size, row.digest, json.loads(row.facts),
        )
        for row in named_rows(_EVIDENCE, [operation_id, EVIDENCE_MAX])
    ]  # fmt: skip


def content_of(evidence_id: UUID, operation_id: UUID) -> bytes | None:
    """The bytes as they were received; None when the operation has no such evidence."""
    rows = named_rows(
        "SELECT content FROM ledger_evidence WHERE id = %s AND operation_id = %s", [evidence_id, operation_id]
    )
    return bytes(rows[0].content) if rows else None


# Who


def names_of(actors: Collection[str]) -> dict[str, str]:
    """Names of the people and tokens among these actors (`person:…`, `token:…`), by actor."""
    ids: dict[str, list[UUID]] = {"person": [], "token": []}
    for actor in actors:
        kind, _, number = actor.partition(":")
        if kind in ids and (found := _uuid(number)):
            ids[kind].append(found)
    names: dict[str, str] = {}
    for kind, query in (
        ("person", "SELECT id, display_name AS name FROM person WHERE id = ANY(%s)"),
        ("token", "SELECT id, name FROM api_token WHERE id = ANY(%s)"),
    ):
        if ids[kind]:
            names |= {f"{kind}:{row.id}": row.name for row in named_rows(query, [ids[kind]])}
    return names


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None

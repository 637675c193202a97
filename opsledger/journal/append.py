"""Appending to the journal, always inside the transaction of the change that it tells of."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.hashing import text_digest
from opsledger.lib.ids import new_id

# One statement for many lines: at most one line per subject, because a chain's head is taken by its UPDATE.
_APPEND = """
WITH line AS MATERIALIZED (
    SELECT subject_id, subject_kind, kind, actor, body
      FROM json_to_recordset(%s::json)
        AS x(subject_id uuid, subject_kind text, kind text, actor text, body text)
), opened AS (
    INSERT INTO journal_chain (subject_id, subject_kind, length, head)
    SELECT subject_id, subject_kind, 1,
           journal_hash('\\x0000000000000000000000000000000000000000000000000000000000000000'::bytea,
                        subject_kind, subject_id, 1, now(), kind, actor, body)
      FROM line ORDER BY subject_id
    ON CONFLICT (subject_id) DO UPDATE
       SET length = journal_chain.length + 1,
           head = journal_hash(journal_chain.head, journal_chain.subject_kind, journal_chain.subject_id,
                               journal_chain.length + 1, now(),
                               (SELECT kind FROM line WHERE line.subject_id = journal_chain.subject_id),
                               (SELECT actor FROM line WHERE line.subject_id = journal_chain.subject_id),
                               (SELECT body FROM line WHERE line.subject_id = journal_chain.subject_id))
    RETURNING subject_id, subject_kind, length, head
)
INSERT INTO journal_entry (subject_id, seq, subject_kind, at, kind, actor, body, hash)
SELECT opened.subject_id, opened.length, opened.subject_kind, now(), line.kind, line.actor, line.body, opened.head
  FROM opened JOIN line USING (subject_id)
"""


@dataclass(frozen=True, slots=True)
class Line:
    """What happened to one subject: `body` is JSON without free text and without personal data."""

    subject_kind: str
    subject_id: UUID
    kind: str
    actor: str
    body: str


def append(lines: Iterable[Line]) -> None:
    """Appends each line to its subject's chain. Several lines of one subject are appended in their order.

    Must run in the transaction of the change; the time of a line is the transaction's.
    """
    rounds: list[list[Line]] = []
    seen: dict[UUID, int] = {}
    for line in lines:
        turn = seen.get(line.subject_id, 0)
        seen[line.subject_id] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(line)
    with connection.cursor() as cursor:
        for batch in rounds:
            document = [
                {
                    "subject_id": str(line.subject_id),
                    "subject_kind": line.subject_kind,
                    "kind": line.kind,
                    "actor": line.actor,
                    "body": line.body,
                }
                for line in batch
            ]
            cursor.execute(_APPEND, [json.dumps(document)])


def keep_text(subject_id: UUID, text: str) -> dict[str, str]:
    """Keeps free text outside the chain; returns what the entry carries of it: id and digest."""
    text_id, nonce = new_id(), secrets.token_bytes(16)
    clean = text.replace("\x00", "␀").encode("utf-8", "replace").decode()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO journal_text (id, subject_id, nonce, text, written_at) VALUES (%s, %s, %s, %s, now())",
            [text_id, subject_id, nonce, clean],
        )
    return {"text": str(text_id), "digest": text_digest(nonce, clean)}


def body(facts: dict[str, Any]) -> str:
    """The text of an entry's body: compact JSON with sorted keys."""
    return _ENCODER.encode(facts)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)

"""The hash of an entry, format 1.

SHA-256 over `opsledger-journal-1` and then, each with its length in bytes in front (`12:operation_op`), the previous hash in
hex, the subject's kind and id, the number in the chain, the time in UTC with microseconds, the kind, the actor and the body.
The same is computed in SQL by `journal_hash` (migration 0002); a test holds both against each other.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from uuid import UUID

FORMAT = "opsledger-journal-1"
GENESIS = bytes(32)


def entry_hash(
    previous: bytes,
    subject_kind: str,
    subject_id: UUID,
    seq: int,
    at: datetime,
    kind: str,
    actor: str,
    body: str,
) -> bytes:
    """32 bytes. `at` is aware; only its instant counts."""
    parts = (
        previous.hex(),
        subject_kind,
        str(subject_id),
        str(seq),
        at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        kind,
        actor,
        body,
    )
    fed = hashlib.sha256(FORMAT.encode())
    for part in parts:
        raw = part.encode()
        fed.update(b"%d:" % len(raw))
        fed.update(raw)
    return fed.digest()


def text_digest(nonce: bytes, text: str) -> str:
    """What an entry carries of a free text: SHA-256 over a random nonce and the text, in hex."""
    return hashlib.sha256(nonce + text.encode()).hexdigest()

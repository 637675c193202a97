"""Proving that the rows of operations, and the switch for all sending, equal the fold of their journals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.hashing import text_digest
from opsledger.journal.verify import EntryRow, Fault
from opsledger.ledger import records, verify_recorded
from opsledger.ledger.actions.references import belongs_to_one, key_of, references_of
from opsledger.ledger.models import SENDING_ID
from opsledger.rules import fold, record
from opsledger.rules.absence import decisive_digest


def state_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each operation of these journals: what its rows say that its journal doesn't."""
    if not entries:
        return []
    told = {one: [json.loads(line.body) for line in lines] for one, lines in entries.items()}
    recorded, loaded = verify_recorded.read(told), records.load(entries)
    faults = []
    for operation_id, lines in entries.items():
        whole = loaded.get(operation_id)
        if whole is None:
            faults.append(Fault("operation", operation_id, "its row is missing"))
            continue
        why = _difference(recorded, whole, lines, told[operation_id])
        if why:
            faults.append(Fault("operation", operation_id, why))
    return faults + _approval_faults(list(entries)) + _reference_faults(list(loaded.values()))


_APPROVALS = """
SELECT s.operation_id, s.number, s.revision, s.approved_digest, a.request_digest, q.content_digest
  FROM ledger_step s
  LEFT JOIN ledger_approvedrequest a ON a.step_id = s.id AND a.revision = s.revision AND a.voided_at IS NULL
  LEFT JOIN ledger_steprequest q ON q.step_id = s.id AND q.revision = s.revision
 WHERE s.operation_id = ANY(%s)
   AND (s.approved_digest IS DISTINCT FROM a.request_digest
        OR (s.approval_needed AND q.id IS NOT NULL AND q.content_digest IS DISTINCT FROM s.approved_digest)
        OR EXISTS (SELECT 1 FROM ledger_approvedrequest o
                    WHERE o.step_id = s.id AND o.revision <> s.revision AND o.voided_at IS NULL))
"""


def _approval_faults(operation_ids: list[UUID]) -> list[Fault]:
    """Steps whose approval is not the live one of their revision, or not of the request that was frozen."""
    with connection.cursor() as cursor:
        cursor.execute(_APPROVALS, [operation_ids])
        rows = cursor.fetchall()
    return [
        Fault("operation", row[0], f"the approval of step {row[1]}, revision {row[2]}, is not of its request")
        for row in rows
    ]


_HOLDERS = """
SELECT w.step_id, w.key FROM unnest(%s::uuid[], %s::uuid[], %s::bytea[]) AS w(step_id, destination_id, key)
 WHERE NOT EXISTS (SELECT 1 FROM ledger_heldreference h
                    WHERE h.destination_id = w.destination_id AND h.reference_key = w.key AND h.step_id = w.step_id)
"""


def _reference_faults(loaded: Sequence[records.Loaded]) -> list[Fault]:
    """Create steps whose record is not held by them: another step could be confirmed by the same one (law 6)."""
    wanted = [
        (one, step.number, bytes.fromhex(key_of(one.policies[step.number].profile, reference)))
        for one in loaded
        for step in one.record.steps
        if belongs_to_one(one.policies[step.number].profile)
        for reference in references_of(step)
    ]
    if not wanted:
        return []
    columns: list[list[Any]] = [
        [one.step_ids[number] for one, number, _ in wanted],
        [one.destination_ids[number] for one, number, _ in wanted],
        [key for *_, key in wanted],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_HOLDERS, columns)
        free = {(row[0], bytes(row[1])) for row in cursor.fetchall()}
    return [
        Fault("operation", one.id, f"step {number} does not hold the reference that it has")
        for one, number, key in wanted
        if (one.step_ids[number], key) in free
    ]


def _difference(
    recorded: verify_recorded.Batch, rows: records.Loaded, lines: list[EntryRow], told: list[Any]
) -> str:
    try:
        folded = _folded(rows.record.id, told)
    except (fold.BrokenFold, KeyError, ValueError, StopIteration) as why:
        return f"its journal does not fold: {why}"
    # both ways: what the rows say more than the journal, and what they lack
    patch = fold.difference(folded, rows.record) or fold.difference(rows.record, folded)
    if patch:
        return f"its rows differ from its journal: {json.dumps(patch, sort_keys=True)}"
    return _hold_difference(rows.record, told) or verify_recorded.difference(recorded, rows, lines, told)


def _hold_difference(rows: record.Operation, told: list[Any]) -> str:
    """An open hold whose facts that are decided by are not those of the newest line that tells of them."""
    facts: dict[str, str] = {}
    for line in told:
        facts |= line.get("hold_facts", {})
    for hold in rows.holds:
        if hold.id in facts and facts[hold.id] != decisive_digest(hold.facts):
            return f"what was found, by its hold {hold.id} about step {hold.step}, is not as its journal says"
    return ""


def folded_record(operation_id: str, lines: list[EntryRow]) -> record.Operation:
    """The record that the journal tells of. BrokenFold where an entry can't follow."""
    return _folded(operation_id, [json.loads(line.body) for line in lines])


def _folded(operation_id: str, told: list[Any]) -> record.Operation:
    operation = fold.begin(operation_id, told[0])
    for line in told[1:]:
        fold.apply(operation, line)
    return operation


def operations_without_journal(limit: int = 10) -> list[Fault]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.id FROM ledger_operation o WHERE NOT EXISTS"
            " (SELECT 1 FROM journal_chain c WHERE c.subject_id = o.id) LIMIT %s",
            [limit],
        )
        return [Fault("operation", row[0], "it has no journal") for row in cursor.fetchall()]


# In one statement, so that nothing moves between the row and its chain.
_SWITCH = """
SELECT w.sending, w.reason, w.changed_by, w.changed_at, e.at, e.actor, e.body, t.nonce
  FROM ledger_sendingswitch w
  LEFT JOIN LATERAL (SELECT * FROM journal_entry WHERE subject_id = %s AND kind IN ('sending_on', 'sending_off')
                      ORDER BY seq DESC LIMIT 1) e ON true
  LEFT JOIN journal_text t ON t.id = (e.body::jsonb #>> '{reason,text}')::uuid
"""


def switch_faults() -> list[Fault]:
    """What the switch says that its chain doesn't: on until somebody turns it, then as the last line says."""
    with connection.cursor() as cursor:
        cursor.execute(_SWITCH, [SENDING_ID])
        row = cursor.fetchone()
    if row is None:
        return [Fault("sending", SENDING_ID, "the switch's row is missing")]
    sending, reason, changed_by, changed_at, at, actor, text, nonce = row
    if text is None:
        differs = (
            [] if sending and not changed_by and not reason else ["nobody turned the switch, by its journal"]
        )
        return [Fault("sending", SENDING_ID, why) for why in differs]
    said = json.loads(text)
    rows = [
        ("whether anything is sent", sending, said["sending"]),
        ("who turned it", changed_by, actor),
        ("when", changed_at, at),
        # an erased reason can't be compared any more
        (
            "why",
            text_digest(bytes(nonce), reason) if nonce else None,
            said["reason"]["digest"] if nonce else None,
        ),
    ]
    wrong = [name for name, ours, journal in rows if ours != journal]
    why = f"the switch differs from its journal: {', '.join(wrong)}"
    return [Fault("sending", SENDING_ID, why)] if wrong else []

"""Proving that the rows of operations and contents, and the switch for all sending, equal the fold of their journals."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID

from django.db import connection

from opsledger.journal.hashing import text_digest
from opsledger.journal.verify import EntryRow, Fault
from opsledger.ledger import records
from opsledger.ledger.models import SENDING_ID, Content, ContentVersion, Operation
from opsledger.rules import fold, record


def state_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each operation of these journals: what its rows say that its journal doesn't."""
    there = set(Operation.objects.filter(pk__in=list(entries)).values_list("pk", flat=True))
    loaded = records.load(there)
    faults = []
    for operation_id, lines in entries.items():
        whole = loaded.get(operation_id)
        if whole is None:
            faults.append(Fault("operation", operation_id, "its row is missing"))
            continue
        why = _difference(whole.record, lines)
        if why:
            faults.append(Fault("operation", operation_id, why))
    return faults + _approval_faults(list(entries))


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


def content_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each content of these journals: versions whose state or fields are not as its journal says."""
    there = set(Content.objects.filter(pk__in=list(entries)).values_list("pk", flat=True))
    rows: dict[UUID, dict[int, tuple[str, str, str]]] = {of_id: {} for of_id in entries}
    for version in ContentVersion.objects.filter(of_id__in=list(entries)):
        body = hashlib.sha256(version.body.encode()).hexdigest()
        rows[version.of_id][version.number] = (version.state, bytes(version.digest).hex(), body)
    return [
        Fault("content", of_id, why)
        for of_id, lines in entries.items()
        if (why := "its row is missing" if of_id not in there else _content_difference(rows[of_id], lines))
    ]


def _content_difference(rows: dict[int, tuple[str, str, str]], lines: list[EntryRow]) -> str:
    states: dict[int, str] = {}
    digests: dict[int, str] = {}
    for line in lines:
        told = json.loads(line.body)
        states |= {int(number): state for number, state in told.get("states", {}).items()}
        if line.kind == "content_proposed":
            digests[told["number"]] = told["digest"]
    wanted = {
        number: (state, digests.get(number, ""), digests.get(number, "")) for number, state in states.items()
    }
    differing = [number for number in sorted({*rows, *wanted}) if rows.get(number) != wanted.get(number)]
    return f"version {differing[0]} differs from its journal" if differing else ""


def _difference(rows: record.Operation, lines: list[EntryRow]) -> str:
    try:
        folded = folded_record(rows.id, lines)
    except (fold.BrokenFold, KeyError, ValueError, StopIteration) as why:
        return f"its journal does not fold: {why}"
    # both ways: what the rows say more than the journal, and what they lack
    patch = fold.difference(folded, rows) or fold.difference(rows, folded)
    if not patch:
        return ""
    return f"its rows differ from its journal: {json.dumps(patch, sort_keys=True)}"


def folded_record(operation_id: str, lines: list[EntryRow]) -> record.Operation:
    """The record that the journal tells of. BrokenFold where an entry can't follow."""
    operation = fold.begin(operation_id, json.loads(lines[0].body))
    for line in lines[1:]:
        fold.apply(operation, json.loads(line.body))
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
        differs = [] if sending and not changed_by else ["nobody turned the switch, by its journal"]
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

"""Recording what was learnt: replies, lookups, reports, and the silence after a lease.

What came too late is kept as evidence; `rules.learning` says what it changes (rules.md, table 6).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection

from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, Changed, NewEvidence, change
from opsledger.ledger.records import Loaded
from opsledger.lib.ids import new_id
from opsledger.rules import transitions
from opsledger.rules.learning import Finding
from opsledger.rules.record import Operation
from opsledger.rules.schedule import next_delay_seconds
from opsledger.rules.settling import Moment
from opsledger.rules.states import NoChange, Outcome


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of one send, or an automation's report of one."""

    operation_id: UUID
    step_number: int
    attempt_id: UUID
    finding: Finding
    evidence: NewEvidence
    seen: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the transport saw: left_house, phase, status, …
    retry_after_seconds: float | None = None
    access_refused: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one lookup."""

    operation_id: UUID
    step_number: int
    look: transitions.Look
    evidence: NewEvidence


def record_sends(results: Sequence[Sent]) -> dict[UUID, Changed]:
    """Records results, at most one per operation, in one transaction.

    When two operations claim one reference at the same moment, the unique constraint lets one through; the batch is then
    recorded one by one, and the other operation's record says whose reference it is.
    """
    try:
        return _record_sends(results)
    except IntegrityError:
        return {key: changed for one in results for key, changed in _record_sends([one]).items()}


def _record_sends(results: Sequence[Sent]) -> dict[UUID, Changed]:
    taken = _references_taken(results)
    return change({one.operation_id: _sent(one, taken.get(one.attempt_id)) for one in results})


def _sent(one: Sent, taken_by: str | None) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        finding = replace(one.finding, taken_by=taken_by, not_before=_next_try(one, loaded, moment.now))
        return transitions.attempt_ended(loaded.record, one.step_number, str(one.attempt_id), finding, moment)

    facts = {
        "attempt": str(one.attempt_id),
        "step": one.step_number,
        "says": one.evidence.says,
        "evidence": str(one.evidence.id),
    }
    return Change(
        kind="attempt_ended",
        actor=f"destination:{one.evidence.origin}",
        decide=decide,
        facts=facts,
        evidence=(one.evidence,),
        attempt_facts={one.attempt_id: {**one.seen, "sentence": one.evidence.sentence}},
    )


def _next_try(one: Sent, loaded: Loaded, now: datetime) -> datetime | None:
    if one.finding.outcome is not Outcome.NO_CHANGE or one.finding.no_change is NoChange.REJECTED:
        return None
    step = loaded.record.step(one.step_number)
    jitter = int.from_bytes(hashlib.sha256(one.attempt_id.bytes).digest()[:4], "big") / 2**32
    retries = loaded.policies[one.step_number].profile.retries
    return now + timedelta(
        seconds=next_delay_seconds(
            retries, attempts_so_far=step.tries_used, jitter=jitter, retry_after=one.retry_after_seconds
        )
    )


def _references_taken(results: Iterable[Sent]) -> dict[UUID, str]:
    """Which attempts' references another step holds already, and the operation that holds it."""
    wanted = {one.attempt_id: one.finding.reference for one in results if one.finding.reference}
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT a.id, o.operation_id FROM ledger_attempt a JOIN ledger_step s ON s.id = a.step_id"
            " JOIN unnest(%s::uuid[], %s::bytea[]) AS w(attempt_id, key) ON w.attempt_id = a.id"
            " JOIN ledger_heldreference h ON h.destination_id = s.destination_id AND h.reference_key = w.key"
            " JOIN ledger_step other ON other.id = h.step_id JOIN ledger_operation o ON o.id = other.operation_id"
            " WHERE h.step_id <> s.id",
            [list(wanted), [bytes.fromhex(definitions.reference_key(ref)) for ref in wanted.values()]],
        )
        return dict(cursor.fetchall())


def reference_holder(destination_id: UUID, reference: str, step_id: UUID) -> str | None:
    """The operation whose create step holds this reference, if it is another step's."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.operation_id FROM ledger_heldreference h JOIN ledger_step s ON s.id = h.step_id"
            " JOIN ledger_operation o ON o.id = s.operation_id"
            " WHERE h.destination_id = %s AND h.reference_key = %s AND h.step_id <> %s",
            [destination_id, bytes.fromhex(definitions.reference_key(reference)), step_id],
        )
        row = cursor.fetchone()
        return row[0] if row else None


def record_looks(results: Sequence[Looked]) -> dict[UUID, Changed]:
    """Records lookups' answers, at most one per operation, in one transaction."""
    try:
        return change({one.operation_id: _looked(one) for one in results})
    except IntegrityError:  # two operations found the same record at the same moment
        return {key: changed for one in results for key, changed in _looked_alone(one).items()}


def _looked_alone(one: Looked) -> dict[UUID, Changed]:
    try:
        return change({one.operation_id: _looked(one)})
    except IntegrityError:
        taken = replace(
            one.look, answer="no_answer", counted=False, facts={"reference_taken": one.look.reference}
        )
        return change({one.operation_id: _looked(replace(one, look=taken))})


def _looked(one: Looked) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        policy = loaded.policies[one.step_number]
        look = replace(one.look, applies=policy.automatic_recovery)
        return transitions.looked(loaded.record, one.step_number, look, moment)

    return Change(
        kind="lookup_ended",
        actor=f"destination:{one.evidence.origin}",
        decide=decide,
        facts={"step": one.step_number, "says": one.look.answer, "evidence": str(one.evidence.id)},
        evidence=(one.evidence,),
    )


def record_leases_ended(limit: int) -> int:
    """Attempts whose lease ended without a word: unknown, never failed. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.operation_id, s.number, a.id FROM ledger_step s"
            " JOIN ledger_attempt a ON a.step_id = s.id AND a.outcome IS NULL"
            " WHERE s.act = 'lease' AND s.act_at <= now() AND a.lease_ends_at <= now() ORDER BY s.act_at LIMIT %s",
            [limit],
        )
        rows = cursor.fetchall()
    changes = {operation_id: _lease_ended(number, attempt_id) for operation_id, number, attempt_id in rows}
    return len(change(changes)) if changes else 0


def _lease_ended(number: int, attempt_id: UUID) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        attempt = loaded.record.step(number).attempt(str(attempt_id))
        if attempt.outcome is not None or attempt.lease_ends_at > moment.now:
            return loaded.record.copy()  # its worker was quicker, or it asked for more time
        return transitions.lease_ended(loaded.record, number, str(attempt_id), moment)

    return Change(
        kind="lease_ended",
        actor="engine",
        decide=decide,
        facts={"attempt": str(attempt_id), "step": number},
        attempt_facts={attempt_id: {"sentence": "Nothing was heard before the lease ended."}},
        quiet=True,
    )


def record_time_passed(limit: int) -> int:
    """Deadlines that have come: unclaimed offers, final effects that are late, sends that may no longer be made."""
    with connection.cursor() as cursor:
        cursor.execute(_DEADLINES, [limit])
        ids = [row[0] for row in cursor.fetchall()]
    changes = {operation_id: _time_passed() for operation_id in ids}
    return len(change(changes)) if changes else 0


_DEADLINES = """
SELECT DISTINCT operation_id FROM (
    SELECT s.operation_id
      FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id
     WHERE s.act_at <= now()
       AND (s.act IN ('offer', 'await')
            OR (s.act = 'lease' AND s.act_at <= now() - interval '1 minute'
                AND NOT EXISTS (SELECT 1 FROM ledger_attempt a WHERE a.step_id = s.id AND a.outcome IS NULL))
            OR (s.act = 'send' AND (s.tries_used >= s.tries_max + s.tries_extra
                                    OR s.send_until <= now()
                                    OR (o.not_after <= now() AND o.attempt_count = 0))))
     ORDER BY s.act_at LIMIT %s) due
"""


def _time_passed() -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        return transitions.time_passed(loaded.record, moment)

    return Change(kind="deadline_came", actor="engine", decide=decide, quiet=True)


def statement_evidence(step: int, by: str, says: str, sentence: str, **facts: Any) -> NewEvidence:
    """A person's or an automation's statement, kept like any other evidence."""
    digest = hashlib.sha256(sentence.encode("utf-8", "replace")).digest()
    return NewEvidence(new_id(), step, None, "statement", by, says, sentence, digest, facts=facts)

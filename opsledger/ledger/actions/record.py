"""Recording what was learnt: replies, lookups, reports, and the silence after a lease.

What came too late is kept as evidence; `rules.learning` says what it changes (rules.md, table 6).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection

from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, Changed, NewEvidence, change
from opsledger.ledger.models import Step
from opsledger.ledger.records import Loaded
from opsledger.lib.ids import new_id
from opsledger.rules import transitions
from opsledger.rules.facts import LookupFact, LookupStatus
from opsledger.rules.learning import Finding
from opsledger.rules.matching import FieldRow, LookAnswer, LookupVerdict, judge, own_records
from opsledger.rules.record import Operation
from opsledger.rules.rendering import mask
from opsledger.rules.schedule import counts_as_look, next_delay_seconds
from opsledger.rules.settling import Moment
from opsledger.rules.states import NoChange, Outcome, StepState


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
    """The result of one lookup, before the rules have judged it."""

    operation_id: UUID
    step_number: int
    destination_id: UUID
    identity: str  # of the step, as the destination keeps it
    request_fields: Mapping[str, str]
    fact: LookupFact
    evidence: NewEvidence
    final: str = ""  # what the found record says of the final effect: confirmed, failed or nothing yet


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
    wanted = [(one, one.finding.reference) for one in results if one.finding.reference]
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            _TAKEN,
            [
                [one.attempt_id for one, _ in wanted],
                [one.operation_id for one, _ in wanted],
                [one.step_number for one, _ in wanted],
                [bytes.fromhex(definitions.reference_key(reference)) for _, reference in wanted],
            ],
        )
        return dict(cursor.fetchall())


# Step by step along the keys: OFFSET keeps the planner from joining whole tables while it knows little of them.
_TAKEN = """
SELECT w.attempt_id, o.operation_id
  FROM unnest(%s::uuid[], %s::uuid[], %s::smallint[], %s::bytea[]) AS w(attempt_id, operation_id, number, key)
 CROSS JOIN LATERAL (
       SELECT h.step_id, s.id AS own_id
         FROM ledger_step s
         JOIN ledger_heldreference h ON h.destination_id = s.destination_id AND h.reference_key = w.key
        WHERE s.operation_id = w.operation_id AND s.number = w.number
       OFFSET 0) held
  JOIN ledger_step other ON other.id = held.step_id
  JOIN ledger_operation o ON o.id = other.operation_id
 WHERE held.step_id <> held.own_id
"""


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
        return _record_looks(results)
    except IntegrityError:  # two operations found the same record at the same moment
        return {key: changed for one in results for key, changed in _record_looks([one]).items()}


def _record_looks(results: Sequence[Looked]) -> dict[UUID, Changed]:
    return change({one.operation_id: _looked(one, _found_reference_taken(one)) for one in results})


def _found_reference_taken(one: Looked) -> str | None:
    own = own_records(one.identity, one.fact)
    if len(own) != 1:
        return None
    step_id = Step.objects.values_list("pk", flat=True).get(
        operation_id=one.operation_id, number=one.step_number
    )
    return reference_holder(one.destination_id, own[0].reference, step_id)


def _looked(one: Looked, taken_by: str | None) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        look, says, sentence, shown = _judged(one, loaded, moment.now, taken_by)
        made.facts = {"step": one.step_number, "says": says, "evidence": str(one.evidence.id)}
        facts = {**one.evidence.facts, **shown}
        made.evidence = (replace(one.evidence, says=says, sentence=sentence, facts=facts),)
        return transitions.looked(loaded.record, one.step_number, look, moment)

    made = Change(kind="lookup_ended", actor=f"destination:{one.evidence.origin}", decide=decide)
    return made


def _judged(
    one: Looked, loaded: Loaded, now: datetime, taken_by: str | None
) -> tuple[transitions.Look, str, str, dict[str, Any]]:
    """The rules' reading of the answer: what follows, our word, the sentence, and what the page shows."""
    step, policy = loaded.record.step(one.step_number), loaded.policies[one.step_number]
    lookup = policy.profile.lookup
    if step.state is StepState.ACCEPTED:
        return _judged_final(one)
    if lookup is None:
        return transitions.Look("no_answer"), "no_answer", "This action has no lookup.", {}
    latest = step.latest_possible_at or now
    verdict = judge(
        one.identity,
        one.request_fields,
        lookup,
        one.fact,
        counted=counts_as_look(now, latest, lookup),
        counted_before=step.looks_none,
        reference_taken_by=taken_by,
        effect=policy.profile.effect,
        not_ours=step.not_ours,
    )
    answer = verdict.answer.value
    if verdict.answer is LookAnswer.CONFIRMED and policy.profile.final_effect is not None:
        answer = {"confirmed": "confirmed", "failed": "bounced"}.get(one.final, "accepted")
    shown = _shown(
        verdict, definitions.sensitive_fields(loaded.destination_version_ids[one.step_number], step.action)
    )
    look = transitions.Look(
        answer,
        reference=verdict.reference,
        counted=verdict.counted,
        applies=policy.automatic_recovery or step.look_applies,
        facts=shown,
    )
    return look, verdict.why, verdict.sentence, shown


def _judged_final(one: Looked) -> tuple[transitions.Look, str, str, dict[str, Any]]:
    if one.final == "confirmed":
        look = transitions.Look("confirmed", reference=one.fact.records[0].reference)
        return look, "delivered", "The destination says that it was delivered.", {}
    if one.final == "failed":
        facts = {"final": "failed"}
        return (
            transitions.Look("failed", facts=facts),
            "bounced",
            "The destination says that delivery failed.",
            facts,
        )
    if one.fact.status is LookupStatus.RECORDS and one.fact.records:
        return (
            transitions.Look("running"),
            "not_final_yet",
            "The destination has it; its final effect is not known yet.",
            {},
        )
    return transitions.Look("no_answer"), "no_answer", "The lookup gave no answer.", {}


def _shown(verdict: LookupVerdict, sensitive: Collection[str]) -> dict[str, Any]:
    """What the page shows of a lookup, with sensitive values masked."""
    shown: dict[str, Any] = {"looked": verdict.answer.value, "look_sentence": verdict.sentence}
    if verdict.reference:
        shown["reference"] = verdict.reference
    if verdict.references:
        shown["references"] = list(verdict.references)
    if verdict.rows:
        shown["rows"] = [_row(row, sensitive) for row in verdict.rows]
    if verdict.candidates:
        shown["candidates"] = [record.reference for record in verdict.candidates[:10]]
    if verdict.reference_taken_by:
        shown["taken_by"] = verdict.reference_taken_by
    return shown


def _row(row: FieldRow, sensitive: Collection[str]) -> list[Any]:
    hide = row.field in sensitive
    ours, theirs = (mask(value) if hide and value is not None else value for value in (row.ours, row.theirs))
    return [row.field, ours, theirs, row.match]


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

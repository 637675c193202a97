"""Recording what was learnt: replies, lookups, reports, and the silence after a lease.

What came too late is kept as evidence; `rules.learning` says what it changes (rules.md, table 6).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, connection

from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, Changed, NewEvidence, change
from opsledger.ledger.actions.references import belongs_to_one, once_more, taken_from
from opsledger.ledger.models import Evidence
from opsledger.ledger.records import Loaded
from opsledger.lib.ids import new_id
from opsledger.rules import transitions
from opsledger.rules.absence import FOUND_UNNAMED, found_for
from opsledger.rules.facts import FoundRecord, LookupFact
from opsledger.rules.learning import Finding
from opsledger.rules.matching import FieldRow, LookAnswer, LookupVerdict, judge, own_records
from opsledger.rules.profile import Lookup
from opsledger.rules.record import KnownBy, Operation, Step
from opsledger.rules.rendering import mask
from opsledger.rules.schedule import counts_as_look, next_delay_seconds
from opsledger.rules.settling import Moment
from opsledger.rules.states import NoChange, Outcome, StepState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of one send."""

    operation_id: UUID
    step_number: int
    attempt_id: UUID
    finding: Finding
    evidence: NewEvidence
    actor: str  # whose reply it is, as the journal writes it
    seen: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the transport saw: left_house, phase, status, …
    retry_after_seconds: float | None = None
    access_refused: bool = False
    id_space: str = ""  # of the reference, as the action's profile says


@dataclass(frozen=True, slots=True)
class Looked:
    """The result of one lookup, or a record that somebody tells of, before the rules have judged it."""

    operation_id: UUID
    step_number: int
    destination_id: UUID
    identity: str  # of the step, as the destination keeps it
    request_fields: Mapping[str, str]
    fact: LookupFact
    evidence: NewEvidence
    actor: str  # who says so, as the journal writes it: the destination, or whoever tells of the record
    known_by: KnownBy  # what is settled by it is known by: the lookup, or that report
    final: str = ""  # what the found record says of the final effect: confirmed, failed or nothing yet
    asked_at: datetime | None = None  # the database's time before it was asked; None: it can prove no absence
    planned: bool = True  # False: somebody told of a record, nobody looked


T = TypeVar("T", Sent, Looked)


def record_sends(results: Sequence[Sent]) -> dict[UUID, Changed]:
    """Records results, at most one per operation, in one transaction.

    When two operations claim one reference at the same moment, the unique constraint lets one through; the batch is then
    recorded one by one, and the other operation's record says whose reference it is.
    """
    try:
        return _record_sends(results)
    except IntegrityError:
        return _one_by_one(results, _record_sends)


def _record_sends(results: Sequence[Sent]) -> dict[UUID, Changed]:
    taken = _references_taken(results)
    return change({one.operation_id: _sent(one, taken.get(one.attempt_id)) for one in results})


def _sent(one: Sent, taken_by: str | None) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        alone = belongs_to_one(loaded.policies[one.step_number].profile)
        finding = replace(
            one.finding,
            taken_by=taken_by if alone else None,
            not_before=_next_try(one, loaded, moment.now),
        )
        return transitions.attempt_ended(loaded.record, one.step_number, str(one.attempt_id), finding, moment)

    facts = {
        "attempt": str(one.attempt_id),
        "step": one.step_number,
        "says": one.evidence.says,
        "evidence": str(one.evidence.id),
    }
    return Change(
        kind="attempt_ended",
        actor=one.actor,
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
                [
                    bytes.fromhex(definitions.reference_key(reference, one.id_space))
                    for one, reference in wanted
                ],
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


def record_looks(results: Sequence[Looked]) -> dict[UUID, Changed]:
    """Records lookups' answers, at most one per operation, in one transaction."""
    try:
        return _record_looks(results)
    except IntegrityError:  # two operations found the same record at the same moment
        return _one_by_one(results, _record_looks)


def _one_by_one(
    results: Sequence[T], record: Callable[[Sequence[T]], dict[UUID, Changed]]
) -> dict[UUID, Changed]:
    """Each in its own transaction, and once more where another writer named its reference at the same moment."""
    done: dict[UUID, Changed] = {}
    for one in results:
        done |= once_more(partial(_unless_recorded, one, record))
    return done


def _unless_recorded(one: T, record: Callable[[Sequence[T]], dict[UUID, Changed]]) -> dict[UUID, Changed]:
    """Nothing where its evidence is there: it was recorded, and the connection was lost before we heard of it."""
    return {} if Evidence.objects.filter(pk=one.evidence.id).exists() else record([one])


def _record_looks(results: Sequence[Looked]) -> dict[UUID, Changed]:
    return change({one.operation_id: _looked(one) for one in results})


def _looked(one: Looked) -> Change:
    def decide(loaded: Loaded, moment: Moment) -> Operation:
        named = _reference_named(one, loaded.record.step(one.step_number))
        taken_by = taken_from(loaded, one.step_number, named)
        look, says, sentence, shown = _judged(one, loaded, taken_by)
        made.facts = {"step": one.step_number, "says": says, "evidence": str(one.evidence.id)}
        facts = {**one.evidence.facts, **shown}
        made.evidence = (replace(one.evidence, says=says, sentence=sentence, facts=facts),)
        return transitions.looked(
            loaded.record, one.step_number, replace(look, known_by=one.known_by), moment
        )

    kind = "lookup_ended" if one.known_by is KnownBy.LOOKUP else "evidence_added"
    made = Change(kind=kind, actor=one.actor, decide=decide)
    return made


def _reference_named(one: Looked, step: Step) -> str | None:
    """The reference that the step would have by this answer."""
    if step.state is StepState.ACCEPTED and step.reference is not None:
        return None
    own = own_records(one.identity, one.fact, step.not_ours)
    return own[0].reference if len(own) == 1 else None


def _judged(
    one: Looked, loaded: Loaded, taken_by: str | None
) -> tuple[transitions.Look, str, str, dict[str, Any]]:
    """The rules' reading of the answer: what follows, our word, the sentence, and what the page shows."""
    step, policy = loaded.record.step(one.step_number), loaded.policies[one.step_number]
    lookup = policy.profile.lookup
    if lookup is None:
        return transitions.Look("no_answer"), "no_answer", "This action has no lookup.", {}
    if step.state is StepState.ACCEPTED and step.reference is not None:
        return _judged_final(one, step.reference)
    verdict = judge(
        one.identity,
        one.request_fields,
        lookup,
        one.fact,
        counted=_counts(one, step, lookup),
        counted_before=step.looks_none,
        reference_taken_by=taken_by,
        effect=policy.profile.effect,
        contradicted=found_for(step, loaded.record.hold_on(one.step_number)),
        not_ours=step.not_ours,
    )
    shown = _shown(
        verdict, definitions.sensitive_fields(loaded.destination_version_ids[one.step_number], step.action)
    )
    answer = verdict.answer.value
    if verdict.answer is LookAnswer.CONFIRMED and step.state is StepState.ACCEPTED:
        look, why, sentence, facts = _judged_final(one, verdict.reference)
        return replace(look, facts={**shown, **facts}), why, sentence, {**shown, **facts}
    if verdict.answer is LookAnswer.CONFIRMED and policy.profile.final_effect is not None:
        answer = {"confirmed": "confirmed", "failed": "bounced"}.get(one.final, "accepted")
    look = transitions.Look(
        answer,
        reference=verdict.reference,
        counted=verdict.counted,
        applies=policy.automatic_recovery or step.look_applies,
        planned=one.planned,
        facts=shown,
    )
    return look, verdict.why, verdict.sentence, shown


def _counts(one: Looked, step: Step, lookup: Lookup) -> bool:
    """Whether finding nothing counts: it was asked after the quiet period, and after the look before it had its answer."""
    latest = step.latest_possible_at
    if one.asked_at is None or latest is None:
        return False
    after_the_last = step.looked_at is None or one.asked_at >= step.looked_at
    return after_the_last and counts_as_look(one.asked_at, latest, lookup)


def _judged_final(one: Looked, reference: str | None) -> tuple[transitions.Look, str, str, dict[str, Any]]:
    """What the step's own record says of the final effect. A stranger's record says nothing of it."""
    own = (record.reference == reference or _carries_ours(record, one) for record in one.fact.records)
    if not any(own):
        look = transitions.Look("no_answer", planned=one.planned)
        return look, "no_answer", "The lookup gave no answer.", {}
    if one.final == "confirmed":
        look = transitions.Look("confirmed", reference=reference, planned=one.planned)
        return look, "delivered", "The destination says that it was delivered.", {}
    if one.final == "failed":
        facts = {"final": "failed"}
        look = transitions.Look("failed", facts=facts, planned=one.planned)
        return look, "bounced", "The destination says that delivery failed.", facts
    look = transitions.Look("running", planned=one.planned)
    return look, "not_final_yet", "The destination has it; its final effect is not known yet.", {}


def _carries_ours(record: FoundRecord, one: Looked) -> bool:
    """A record that is read by its reference need not repeat it; it then carries the step's identity."""
    return not record.reference and bool(one.identity) and record.identity == one.identity


RECORDS_SHOWN_MAX = 20  # of several records with one identity, those whose fields are kept for the page


def _shown(verdict: LookupVerdict, sensitive: Collection[str]) -> dict[str, Any]:
    """What the page shows of a lookup, with sensitive values masked."""
    shown: dict[str, Any] = {"looked": verdict.answer.value, "look_sentence": verdict.sentence}
    if verdict.reference:
        shown["reference"] = verdict.reference
    if verdict.references:
        shown["references"] = list(verdict.references)
        shown["records"] = [
            {"reference": reference, "rows": [_row(row, sensitive) for row in rows]}
            for reference, rows in verdict.compared[:RECORDS_SHOWN_MAX]
        ]
    if verdict.rows:
        shown["rows"] = [_row(row, sensitive) for row in verdict.rows]
    if verdict.candidates:
        shown["candidates"] = [record.reference for record in verdict.candidates[:10]]
    if verdict.why == "record_without_reference":
        shown[FOUND_UNNAMED] = True
    if verdict.reference_taken_by:
        shown["taken_by"] = verdict.reference_taken_by
    return shown


def _row(row: FieldRow, sensitive: Collection[str]) -> list[Any]:
    hide = row.field in sensitive
    ours, theirs = (mask(value) if hide and value is not None else value for value in (row.ours, row.theirs))
    return [row.field, ours, theirs, row.match]


def record_leases_ended(limit: int, *, rounds: int = 1) -> int:
    """Attempts whose lease ended without a word: unknown, never failed. Returns how many operations were gone through.

    Goes through what is due in batches of `limit`, each a transaction, at most so many `rounds`.
    """
    return _in_rounds(
        _LEASES, limit, rounds, lambda rows: {row[2]: _lease_ended(row[3], row[4]) for row in rows}
    )


_LEASES = """
SELECT s.act_at, s.id, s.operation_id, s.number, a.id
  FROM ledger_step s JOIN ledger_attempt a ON a.step_id = s.id AND a.outcome IS NULL
 WHERE s.act = 'lease' AND s.act_at <= now() AND a.lease_ends_at <= now()
   AND (s.act_at, s.id) > (%s::timestamptz, %s::uuid)
 ORDER BY s.act_at, s.id LIMIT %s
"""


def _in_rounds(
    query: str, limit: int, rounds: int, changes_of: Callable[[list[Any]], dict[UUID, Change]]
) -> int:
    """Batch after batch, each beginning behind the last one: what can't be written now is not in the way of the others."""
    count = 0
    place: tuple[Any, UUID] = ("-infinity", UUID(int=0))
    for _ in range(rounds):
        with connection.cursor() as cursor:
            cursor.execute(query, [*place, limit])
            rows = cursor.fetchall()
        if rows:
            count += change_what_can_be(changes_of(rows))
        if len(rows) < limit:
            break
        place = rows[-1][0], rows[-1][1]
    return count


def change_what_can_be(changes: dict[UUID, Change]) -> int:
    """All together; when that breaks one by one, so that one record that can't be changed holds up no other."""
    try:
        return len(change(changes))
    except (
        OperationalError,
        InterfaceError,
    ):  # the database is away or busy: nothing is wrong with the records
        raise
    except Exception:
        count = 0
        for operation_id, one in changes.items():
            try:
                count += len(change({operation_id: one}))
            except (OperationalError, InterfaceError):
                raise
            except Exception:
                log.exception("operation %s could not be brought up to date; the others were", operation_id)
        return count


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


def record_time_passed(limit: int, *, rounds: int = 1) -> int:
    """Deadlines that have come: unclaimed offers, final effects that are late, sends that may no longer be made.

    An offer at a destination that is stopped can't be claimed: its time begins anew, so that there is one hold at the
    destination and not one for each step (table 4, row 10). Returns how many operations were gone through.
    """
    return _in_rounds(_DEADLINES, limit, rounds, _deadlines)


def _deadlines(rows: list[Any]) -> dict[UUID, Change]:
    stopped: dict[UUID, set[int]] = {}
    for _, _, operation_id, number, is_stopped in rows:
        stopped.setdefault(operation_id, set()).update({number} if is_stopped else ())
    return {operation_id: time_passed_at(numbers) for operation_id, numbers in stopped.items()}


_DEADLINES = """
SELECT s.act_at, s.id, s.operation_id, s.number,
       s.act = 'offer' AND (coalesce(d.paused_at, d.access_refused_at, d.circuit_opened_at) IS NOT NULL
                            OR NOT (SELECT sending FROM ledger_sendingswitch)) AS is_stopped
  FROM ledger_step s
  JOIN ledger_operation o ON o.id = s.operation_id
  LEFT JOIN ledger_destination d ON d.definition_id = s.destination_id
 WHERE s.act_at <= now()
   AND (s.act IN ('offer', 'await')
        OR (s.act = 'lease' AND s.act_at <= now() - interval '1 minute'
            AND NOT EXISTS (SELECT 1 FROM ledger_attempt a WHERE a.step_id = s.id AND a.outcome IS NULL))
        OR (s.act = 'send' AND (s.tries_used >= s.tries_max + s.tries_extra
                                OR s.send_until <= now()
                                OR (o.not_after <= now() AND o.attempt_count = 0 AND NOT s.lateness_waived))))
   AND (s.act_at, s.id) > (%s::timestamptz, %s::uuid)
 ORDER BY s.act_at, s.id LIMIT %s
"""


def time_passed_at(stopped: Collection[int]) -> Change:
    """Table 4 once more; offers of the steps that are `stopped` begin anew."""

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        return transitions.time_passed(loaded.record, moment, stopped=stopped)

    return Change(kind="deadline_came", actor="engine", decide=decide, quiet=True)


def statement_evidence(step: int, by: str, says: str, sentence: str, **facts: Any) -> NewEvidence:
    """A person's or an automation's statement, kept like any other evidence."""
    digest = hashlib.sha256(sentence.encode("utf-8", "replace")).digest()
    return NewEvidence(new_id(), step, None, "statement", by, says, sentence, digest, facts=facts)

"""What automations that do the work themselves say: they claim a step, keep its lease, report its outcome.

The engine sends nothing for such a step; the same rules decide (table 4, row 11). What is told twice changes nothing twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import keep_text
from opsledger.ledger import definitions
from opsledger.ledger.actions.change import Change, Changed, NewEvidence, change_here
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.references import once_more, taken_by_other
from opsledger.ledger.actions.stops import CLAIM
from opsledger.ledger.models import Attempt, Evidence, Step, StepRequest
from opsledger.ledger.records import Loaded, lock
from opsledger.lib.ids import new_id, public
from opsledger.rules import transitions
from opsledger.rules.identity import canonical_json
from opsledger.rules.learning import Finding, lacks_reference
from opsledger.rules.record import KnownBy, Operation, Performer
from opsledger.rules.record import Step as StepRecord
from opsledger.rules.schedule import next_delay_seconds
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import NoChange, Outcome, StepState


class NoSuchThing(LookupError):
    """No such operation, step or attempt in this team."""


class NotClaimable(Exception):
    """The step is not to be done now: `reason` in one word, what is true, and what to do next."""

    def __init__(self, reason: str, state: str, reference: str | None, following: str) -> None:
        super().__init__(following)
        self.reason, self.state, self.reference, self.following = reason, state, reference, following


# Claims


@dataclass(frozen=True, slots=True)
class ClaimedWork:
    """An attempt that is committed: do exactly this request once, under this key, before the lease ends."""

    attempt_id: UUID
    step: str
    idempotency_key: str
    lease_ends_at: datetime
    longest_until: datetime  # how far heartbeats may stretch the lease
    method: str
    url: str
    headers: str  # JSON list of pairs, without credentials
    body: bytes
    digest: str


def claim_for_automation(team_id: UUID, operation_id: UUID, step_name: str, by: By) -> ClaimedWork:
    """Opens an attempt for an automation; it is committed when this returns, and only then may the work begin.

    The operation's row is locked before anything of the step is read: what it sends may be frozen meanwhile.
    NotClaimable says what is true instead; NoSuchThing when the team has no such operation or step.
    """
    attempt_id = new_id()
    with transaction.atomic(durable=True):
        lock([operation_id])
        row = step_row(team_id, operation_id, step_name)

        def decide(loaded: Loaded, moment: Moment) -> Operation:
            step = loaded.record.step(row.number)
            _refuse_claim(loaded, step)
            lease_ends_at = moment.now + timedelta(seconds=row.lease_seconds)
            try:
                return transitions.claimed(
                    loaded.record,
                    row.number,
                    attempt_id=str(attempt_id),
                    lease_ends_at=lease_ends_at,
                    moment=moment,
                )
            except NotNow as why:
                raise NotClaimable("not_now", step.state.value, step.reference, why.why) from why

        one = Change(
            kind="attempt_opened",
            actor=by.actor,
            decide=decide,
            facts={"digest": row.request_digest, "step": row.number},
            attempt_facts={attempt_id: {"worker": by.actor}},
        )
        changed = change_here({operation_id: one})[operation_id]
        return _claimed_work(changed, row, attempt_id)


def _claimed_work(changed: Changed, row: Step, attempt_id: UUID) -> ClaimedWork:
    attempt = changed.after.step(row.number).attempt(str(attempt_id))
    request = StepRequest.objects.get(step_id=row.pk, revision=attempt.revision)
    return ClaimedWork(
        attempt_id=attempt_id,
        step=row.name,
        idempotency_key=request.idempotency_key,
        lease_ends_at=attempt.lease_ends_at,
        longest_until=attempt.opened_at + timedelta(seconds=_longest_seconds(changed.loaded, row.number)),
        method=request.method,
        url=request.url,
        headers=request.headers,
        body=bytes(request.body),
        digest=request.digest,
    )


def _longest_seconds(loaded: Loaded, number: int) -> int:
    return definitions.workflow(loaded.workflow_version_id).steps[number - 1].longest_seconds


_DONE = {StepState.CONFIRMED, StepState.ACCEPTED, StepState.SKIPPED}


def _refuse_claim(loaded: Loaded, step: StepRecord) -> None:
    """Raises NotClaimable with the first thing that stands in the way."""
    hold = loaded.record.hold_on(step.number)
    reason, following = "", ""
    if step.performer is not Performer.AUTOMATION:
        reason, following = "not_yours", "The engine performs this step; don't do it yourself."
    elif step.state in _DONE:
        reason, following = "done", "It is done; use this reference and don't do it again."
    elif hold is not None:
        shown = public("hold", UUID(hold.id))
        reason, following = "held", f"A person has to answer {shown} ({hold.reason.value}) first."
    elif step.state is StepState.IN_FLIGHT:
        attempt = step.open_attempt
        until = attempt.lease_ends_at.isoformat() if attempt else "its lease ends"
        reason, following = (
            "in_flight",
            f"It was claimed; ask again when its outcome is reported, or after {until}.",
        )
    elif step.state is StepState.UNKNOWN:
        reason, following = (
            "not_protected",
            "An attempt may have had an effect; it is looked up or settled first.",
        )
    elif step.state in {StepState.FAILED, StepState.CANCELLED} or loaded.record.cancelled:
        reason, following = "ended", "This step has ended; a new action is a new operation."
    elif step.state is StepState.WAITING:
        reason, following = "waiting", "An earlier step or an approval is missing; ask again later."
    elif _is_stopped(loaded.destination_ids[step.number]):
        reason, following = "stopped", f"Sending to {step.destination} is stopped; ask again later."
    if reason:
        raise NotClaimable(reason, step.state.value, step.reference, following)


_STOPPED = """
SELECT coalesce(d.paused_at, d.access_refused_at, d.circuit_opened_at) IS NOT NULL OR NOT w.sending
  FROM ledger_destination d CROSS JOIN ledger_sendingswitch w
 WHERE d.definition_id = %s
"""


def _is_stopped(destination_id: UUID) -> bool:
    """Who stops it from now on returns when the claim has ended (as in claim_sends.sql)."""
    with connection.cursor() as cursor:
        cursor.execute(CLAIM)  # first, so that what is read then is what stands
        cursor.execute(_STOPPED, [destination_id])
        row = cursor.fetchone()
    return row is None or bool(row[0])


# Leases


@dataclass(frozen=True, slots=True)
class Lease:
    attempt_id: UUID
    lease_ends_at: datetime
    longest_until: datetime


def extend_lease(team_id: UUID, attempt_id: UUID, by: By) -> Lease:
    """A heartbeat: the lease lasts again as long as one claim, never beyond the step's longest.

    NotNow when the attempt has ended; its outcome is then reported as late evidence.
    """
    with transaction.atomic(durable=True):
        row = _attempt_row(team_id, attempt_id)
        longest: list[datetime] = []

        def decide(loaded: Loaded, moment: Moment) -> Operation:
            attempt = loaded.record.step(row.step.number).attempt(str(attempt_id))
            span = timedelta(seconds=_longest_seconds(loaded, row.step.number))
            longest.append(attempt.opened_at + span)
            wanted = min(moment.now + timedelta(seconds=row.step.lease_seconds), longest[0])
            return transitions.lease_extended(loaded.record, row.step.number, str(attempt_id), wanted, moment)

        one = Change("lease_extended", by.actor, decide, facts={"attempt": str(attempt_id)}, quiet=True)
        changed = change_here({row.operation_id: one})[row.operation_id]
        attempt = changed.after.step(row.step.number).attempt(str(attempt_id))
        return Lease(attempt_id, attempt.lease_ends_at, longest[0])


# Outcomes


@dataclass(frozen=True, slots=True)
class Report:
    """What an automation says an attempt did, and how that is known."""

    outcome: Outcome
    how: str
    reference: str | None = None
    no_change: NoChange | None = None
    status: int | None = None
    reply: str = ""  # the first characters of what came back
    occurred_at: datetime | None = None
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report made of its step. `repeated`: it had been told before, and nothing changed."""

    operation_id: UUID
    step: str
    state: str
    reference: str | None
    attempt_outcome: str | None
    operation_state: str
    late: bool = False
    repeated: bool = False


PROVABLE = (NoChange.NOT_SENT, NoChange.DEFERRED, NoChange.REJECTED)  # absence is a lookup's to prove


def report_outcome(team_id: UUID, attempt_id: UUID, report: Report, by: By) -> Reported:
    """An attempt's outcome, in time or late (rules.md, table 6). The same report again changes nothing.

    Refused when something is missing in it; NoSuchThing for an attempt that this team does not have.
    """
    _check_report(report)
    return once_more(lambda: _report(team_id, attempt_id, report, by))


def _check_report(report: Report) -> None:
    if not report.how.strip():
        raise Refused("Say how it is known.", field="evidence.how")
    if report.outcome is Outcome.NO_CHANGE and report.no_change is None:
        words = ", ".join(kind.value for kind in PROVABLE)
        raise Refused(f"`no_change` needs its kind: {words}.", field="no_change")
    if report.no_change is not None and report.no_change not in PROVABLE:
        raise Refused("Absence is proven by a lookup only; report `unknown`.", field="no_change")
    if report.no_change is not None and report.outcome is not Outcome.NO_CHANGE:
        raise Refused("A kind is given with the outcome `no_change` only.", field="no_change")
    if report.reference is not None and report.outcome in {Outcome.NO_CHANGE, Outcome.UNKNOWN}:
        raise Refused(
            f"`{report.outcome.value}` has no reference; put it into the evidence.", field="reference"
        )


def _report(team_id: UUID, attempt_id: UUID, report: Report, by: By) -> Reported:
    with transaction.atomic(durable=True):
        row = _attempt_row(team_id, attempt_id)
        lock([row.operation_id])
        row.refresh_from_db(fields=["outcome", "reference"])
        evidence, known = kept_evidence(row.operation_id, row.step, by, _report_facts(report), attempt=row)
        if known:
            return reported(row.operation_id, row.step, attempt=row, repeated=True)
        taken_by = taken_by_other(row.step, report.reference)

        def decide(loaded: Loaded, moment: Moment) -> Operation:
            finding = Finding(
                report.outcome, KnownBy.AUTOMATION, report.no_change, report.reference,
                not_before=_next_try(report, loaded, row, moment.now), taken_by=taken_by,
            )  # fmt: skip
            _check_reference(loaded, row, finding)
            return transitions.attempt_ended(loaded.record, row.step.number, str(attempt_id), finding, moment)

        seen = {"sentence": evidence.sentence, "status": report.status}
        one = Change(
            kind="attempt_ended",
            actor=by.actor,
            decide=decide,
            facts=journaled(evidence, row.step, attempt=str(attempt_id)),
            evidence=(evidence,),
            attempt_facts={attempt_id: {name: value for name, value in seen.items() if value is not None}},
        )
        change_here({row.operation_id: one})
        row.refresh_from_db(fields=["outcome"])
        return reported(row.operation_id, row.step, attempt=row, late=evidence.late)


def _check_reference(loaded: Loaded, row: Attempt, finding: Finding) -> None:
    """To the rules a success without its reference would be `unknown`; whoever reports it can still give it."""
    step = loaded.record.step(row.step.number)
    if lacks_reference(step.attempt(str(row.pk)), finding, loaded.policies[step.number].profile):
        raise Refused(
            f"{step.destination} answers {step.action} with a reference; give it, or report `unknown`.",
            field="reference",
        )


def _next_try(report: Report, loaded: Loaded, row: Attempt, now: datetime) -> datetime | None:
    if report.no_change not in {NoChange.NOT_SENT, NoChange.DEFERRED}:
        return None
    step = loaded.record.step(row.step.number)
    jitter = int.from_bytes(hashlib.sha256(row.pk.bytes).digest()[:4], "big") / 2**32
    delay_seconds = next_delay_seconds(
        loaded.policies[row.step.number].profile.retries,
        attempts_so_far=step.tries_used,
        jitter=jitter,
        retry_after=report.retry_after_seconds,
    )
    return now + timedelta(seconds=delay_seconds)


# Shared


def step_row(team_id: UUID, operation_id: UUID, name: str) -> Step:
    known = Step.objects.filter(team_id=team_id, operation_id=operation_id, name=name)
    row = None if "\x00" in name else known.first()  # an address may hold NUL, which no database is asked for
    if row is None:
        raise NoSuchThing(name)
    return row


def _attempt_row(team_id: UUID, attempt_id: UUID) -> Attempt:
    found = Attempt.objects.select_related("step").filter(pk=attempt_id, operation__team_id=team_id)
    row = found.first()
    if row is None:
        raise NoSuchThing(str(attempt_id))
    if row.step.performer != Performer.AUTOMATION.value:
        raise Refused("The engine made this attempt; what you know of it is added as evidence to its step.")
    return row


def _report_facts(report: Report) -> dict[str, Any]:
    return {
        "says": report.outcome.value,
        "no_change": report.no_change and report.no_change.value,
        "reference": report.reference,
        "how": report.how,
        "status": report.status,
        "reply": report.reply or None,
        "occurred_at": report.occurred_at and report.occurred_at.isoformat(),
    }


def kept_evidence(
    operation_id: UUID, step: Step, by: By, said: Mapping[str, Any], *, attempt: Attempt | None = None
) -> tuple[NewEvidence, bool]:
    """What is said as evidence, and whether exactly this has been kept before. Called under the operation's lock."""
    content = canonical_json({name: value for name, value in said.items() if value is not None}).encode()
    digest = hashlib.sha256(content).digest()
    about = {"attempt_id": attempt.pk} if attempt else {"step_id": step.pk, "attempt_id": None}
    known = Evidence.objects.filter(operation_id=operation_id, digest=digest, **about).exists()
    facts = {"reason": "" if known else keep_text(operation_id, said["how"])["text"]}
    if said.get("reference"):
        facts["reference"] = said["reference"]
    occurred_at = datetime.fromisoformat(said["occurred_at"]) if said.get("occurred_at") else None
    evidence = NewEvidence(
        id=new_id(),
        step=step.number,
        attempt_id=attempt.pk if attempt else None,
        kind="automation" if attempt else "report",
        origin=by.name,
        says=said["says"],
        sentence=f"{by.name} reports: {said['says'].replace('_', ' ')}.",
        digest=digest,
        content=content,
        facts=facts,
        occurred_at=occurred_at,
        late=attempt is not None and attempt.outcome is not None,
    )
    return evidence, known


def journaled(evidence: NewEvidence, step: Step, **more: str) -> dict[str, Any]:
    return {
        **more,
        "step": step.number,
        "says": evidence.says,
        "evidence": str(evidence.id),
        "known": evidence.digest.hex(),
    }


def reported(
    operation_id: UUID,
    step: Step,
    *,
    attempt: Attempt | None = None,
    late: bool = False,
    repeated: bool = False,
) -> Reported:
    row = (
        Step.objects.select_related("operation")
        .only("name", "state", "reference", "operation__state")
        .get(pk=step.pk)
    )
    return Reported(
        operation_id=operation_id,
        step=row.name,
        state=row.state,
        reference=row.reference,
        attempt_outcome=attempt.outcome if attempt else None,
        operation_state=row.operation.state,
        late=late,
        repeated=repeated,
    )

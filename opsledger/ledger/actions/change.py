"""Lock, re-read, decide, write: the shape of every write that `rules` decides on.

1. The operations' rows are locked, ordered by id.
2. Their records are read.
3. The caller's function takes each record and returns the changed one (rules.transitions, rules.answers).
4. The difference is written, one statement per table, together with one journal line per operation, in one transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger import assignment, definitions, records
from opsledger.ledger.actions.early_reports import newly_named
from opsledger.ledger.actions.hold_lines import facts_told
from opsledger.ledger.actions.references import belongs_to_one, key_of, references_of
from opsledger.ledger.approvals import Asked, barred, without_approver
from opsledger.ledger.records import Loaded
from opsledger.ledger.sql import statement
from opsledger.lib.ids import new_id
from opsledger.rules.fold import difference
from opsledger.rules.record import Hold, Operation, Step
from opsledger.rules.revisions import may_be_revised, moved_to_content
from opsledger.rules.settling import Moment
from opsledger.rules.states import HoldReason, OperationState, Outcome, StepState

log = logging.getLogger(__name__)

ENDED = frozenset(
    {OperationState.COMPLETED, OperationState.FAILED, OperationState.CANCELLED, OperationState.CLOSED_UNKNOWN}
)


@dataclass(slots=True)
class Change:
    """What one decision makes of one operation, with what the journal says about it."""

    kind: str  # of the journal's line: attempt_ended, lookup_ended, answered, …
    actor: str
    decide: Callable[[Loaded, Moment], Operation]
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the journal: no free text, no personal data
    evidence: tuple[NewEvidence, ...] = ()
    attempt_facts: Mapping[UUID, Mapping[str, Any]] = field(default_factory=dict)  # what the transport saw
    closed_by: str = "evidence"  # who ends the holds that this change ends
    answer: str = ""
    # where it begins revisions or approves: who changed the requests and how, and the approval that covers them
    revision_kind: str = "revised"
    author_person: UUID | None = None
    approval_id: UUID | None = None
    void_reason: str = "the request changed"
    quiet: bool = False  # nothing changed: write neither rows nor a line


@dataclass(frozen=True, slots=True)
class NewEvidence:
    """One thing learnt, as it is kept. `content` holds the first bytes as received."""

    id: UUID
    step: int | None
    attempt_id: UUID | None
    kind: str
    origin: str
    says: str
    sentence: str
    digest: bytes
    content: bytes = b""
    facts: Mapping[str, Any] = field(default_factory=dict)
    occurred_at: datetime | None = None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    loaded: Loaded
    after: Operation


def change(changes: Mapping[UUID, Change]) -> dict[UUID, Changed]:
    """Applies one change per operation, all in one transaction. Operations that don't exist are left out."""
    with transaction.atomic(durable=True):
        return change_here(changes)


def change_each_here(changes: Mapping[UUID, Change]) -> dict[UUID, Changed]:
    """The same as `change_here`; when that breaks one by one, so that one record that can't be changed holds up no other.

    Those that broke are left out, and logged.
    """
    try:
        with transaction.atomic():
            return change_here(changes)
    except _NOT_THE_RECORDS:
        raise
    except Exception:
        log.exception("%s operations could not be changed together; one by one", len(changes))
    done: dict[UUID, Changed] = {}
    for operation_id, one in changes.items():
        try:
            with transaction.atomic():
                done |= change_here({operation_id: one})
        except _NOT_THE_RECORDS:
            raise
        except Exception:
            log.exception("operation %s could not be changed; the others were", operation_id)
    return done


# The database is away or busy, or a referee has spoken: what was begun is begun again as a whole.
_NOT_THE_RECORDS = (OperationalError, InterfaceError, IntegrityError)


def change_here(changes: Mapping[UUID, Change]) -> dict[UUID, Changed]:
    """The same as `change` inside a transaction that the caller has opened."""
    loaded = records.load_locked(changes)
    done: dict[UUID, Changed] = {}
    writing: list[tuple[Change, Changed]] = []
    for operation_id, whole in loaded.items():
        one = changes[operation_id]
        moment = Moment(whole.now, whole.policies, lambda: str(new_id()))
        after = _follow_content(one, whole, one.decide(whole, moment), moment)
        _name_sources(one, whole, after)
        changed = Changed(whole, after)
        done[operation_id] = changed
        writing.append((one, changed))
    revising = {c.loaded.id: _revisers(one) for one, c in writing if one.revision_kind == "revised"}
    name_unapprovable([changed for _, changed in writing], revisers=revising)
    _write(writing)
    return _hear_early_reports(done)


def _hear_early_reports(done: dict[UUID, Changed]) -> dict[UUID, Changed]:
    """What was told of a record before it was known whose it is; asked only where events tell of it at all."""
    named = [one for changed in done.values() for one in newly_named(changed.loaded, changed.after)]
    if not named:
        return done
    from opsledger.ledger.actions.evidence import hear_early_reports_here  # which writes by what is here

    heard = hear_early_reports_here(named)
    return {one: replace(changed, after=heard.get(one, changed.after)) for one, changed in done.items()}


def _follow_content(one: Change, loaded: Loaded, after: Operation, moment: Moment) -> Operation:
    """What turned out to have changed nothing shows the version that its content is at by now; the same text would else
    go again although another took its place. A person's answer is for the request that was read, and stays so."""
    target = loaded.content_target
    if target is None or one.closed_by != "evidence" or not _freed(loaded.record, after, target):
        return after
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT body FROM ledger_contentversion WHERE of_id = %s AND number = %s",
            [loaded.content_id, target],
        )
        loaded.contents[target] = cursor.fetchone()[0]
    one.revision_kind, one.void_reason = "moved", f"its content is at version {target} now"
    return moved_to_content(after, target, moment)


def _freed(before: Operation, after: Operation, target: int) -> bool:
    """Whether a step with another version may be revised from now on, and could not be before."""
    return any(
        step.content_number not in {None, target}
        and may_be_revised(after, step)
        and not may_be_revised(before, before.step(step.number))
        for step in after.steps
    )


def _revisers(one: Change) -> tuple[str, ...]:
    """Who has a hand in the revision that is written with this change, as the journal writes them."""
    return (one.actor, *([f"person:{one.author_person}"] if one.author_person else []))


def name_unapprovable(
    written: Iterable[Changed],
    recorders: Mapping[UUID, str] | None = None,
    revisers: Mapping[UUID, tuple[str, ...]] | None = None,
) -> None:
    """Says in the new questions *approval needed* where nobody of the team may answer them; `hold_row` gives these to
    the team's fallback owner, and the others to nobody who may not answer.

    `recorders`, `revisers`: by operation, where its rows do not say so yet.
    """
    asking = [
        (
            c.loaded,
            hold,
            Asked(
                c.loaded.team_id,
                c.loaded.id,
                c.loaded.step_ids[hold.step],
                *_content_shown(c, hold),
                (recorders or {}).get(c.loaded.id, ""),
                (revisers or {}).get(c.loaded.id, ()) if _is_revised(c, hold) else (),
            ),
        )
        for c in written
        for hold in c.after.holds
        if hold.reason is HoldReason.APPROVAL_NEEDED and NOBODY_MAY not in hold.facts
    ]
    unable = barred([asked for *_, asked in asking]) if asking else {}
    nobody = without_approver([asked for *_, asked in asking], unable)
    for loaded, hold, asked in asking:
        hold.facts = {**hold.facts, NOBODY_MAY: asked.step_id in nobody}
        loaded.unable[hold.step] = frozenset(unable[asked.step_id])


def _is_revised(changed: Changed, hold: Hold) -> bool:
    return changed.after.step(hold.step).revision != changed.loaded.record.step(hold.step).revision


def _name_sources(one: Change, loaded: Loaded, after: Operation) -> None:
    """Says of a statement that was just heard in a dispute when it was, and which evidence it stands in."""
    before = {hold.id: hold.facts.get("statements") or [] for hold in loaded.record.holds}
    for hold in after.holds:
        statements = hold.facts.get("statements") or []
        was_said = max(len(before.get(hold.id, ())), 1)  # the first is what is contradicted
        if hold.reason is not HoldReason.DISPUTED or not one.evidence or len(statements) <= was_said:
            continue
        source = {"evidence": str(one.evidence[0].id), "at": loaded.now.isoformat()}
        hold.facts = {**hold.facts, "statements": [*statements[:-1], {**statements[-1], **source}]}


NOBODY_MAY = "nobody_may_approve"


def _content_shown(changed: Changed, hold: Hold) -> tuple[UUID | None, int | None]:
    number = changed.after.step(hold.step).content_number
    return (changed.loaded.content_id, number) if number is not None else (None, None)


def _write(writing: list[tuple[Change, Changed]]) -> None:
    lines: list[Line] = []
    documents = _Documents()
    for one, changed in writing:
        patch = difference(changed.loaded.record, changed.after)
        if one.quiet and not patch and not one.evidence:
            documents.plans(changed)
            continue
        told = documents.collect(one, changed)
        line = body({**one.facts, **told, **patch})
        lines.append(Line("operation", changed.loaded.id, one.kind, one.actor, line))
    with connection.wrap_database_errors, connection.connection.pipeline():  # one round trip, in this order
        documents.write()
        append(lines)


class _Documents:
    """Rows to write, one JSON document per table; each becomes one statement."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _ORDER}

    def plans(self, changed: Changed) -> None:
        """The plan may move although the state doesn't; it is not journaled."""
        for step in changed.after.steps:
            before = changed.loaded.record.step(step.number)
            if (before.act, before.act_at, before.send_until) != (step.act, step.act_at, step.send_until):
                self.rows["steps"].append(_step_row(changed, step))

    def collect(self, one: Change, changed: Changed) -> dict[str, Any]:
        """Every row of one change. Returns what its line tells of the holds that it opens or changes."""
        before, after = changed.loaded.record, changed.after
        self.rows["operations"].append(_operation_row(changed))
        for step in after.steps:
            old = before.step(step.number)
            if old != step:
                self.rows["steps"].append(_step_row(changed, step))
                self._revision(one, changed, old, step)
                self._approval(one, changed, old, step)
                self._request(changed, old, step)
                self._references(changed, old, step)
            self._attempts(one, changed, old, step)
        self.rows["evidence"].extend(_evidence_row(changed, kept) for kept in one.evidence)
        return self._holds(one, changed)

    def _revision(self, one: Change, changed: Changed, old: Step, step: Step) -> None:
        if step.revision == old.revision:
            return
        self.rows["revisions"].append(
            {
                "step_id": str(changed.loaded.step_ids[step.number]),
                "number": step.revision,
                "kind": one.revision_kind,
                "params": changed.loaded.revised.get(step.number, "{}"),
                "content_number": step.content_number,
                "author": one.actor,
                "author_person_id": str(one.author_person) if one.author_person else None,
            }
        )

    def _approval(self, one: Change, changed: Changed, old: Step, step: Step) -> None:
        """What was approved and is changed, or approved anew, is void; what is approved now is written down."""
        before = (old.revision, old.approved_digest, old.approved_until)
        if before == (step.revision, step.approved_digest, step.approved_until):
            return
        step_id = str(changed.loaded.step_ids[step.number])
        if old.approved_digest is not None:
            void = {"step_id": step_id, "revision": old.revision, "void_reason": one.void_reason}
            self.rows["voided_approvals"].append(void)
        if step.approved_digest is not None:
            self.rows["approved_requests"].append(
                {
                    "approval_id": str(one.approval_id),
                    "step_id": step_id,
                    "revision": step.revision,
                    "request_digest": step.approved_digest,
                    "approved_until": _time(step.approved_until),
                }
            )

    def _request(self, changed: Changed, old: Step, step: Step) -> None:
        before = (old.revision, old.request_digest)
        if step.request_digest and before != (step.revision, step.request_digest):
            outgoing = changed.loaded.renderings[step.number]
            self.rows["requests"].append(
                {
                    "step_id": str(changed.loaded.step_ids[step.number]),
                    "revision": step.revision,
                    **outgoing.row(),
                }
            )

    def _references(self, changed: Changed, old: Step, step: Step) -> None:
        before, after = references_of(old), references_of(step)
        profile = changed.loaded.policies[step.number].profile
        if not belongs_to_one(profile):
            return
        if before == after and old.reference == step.reference:
            return
        where = {
            "destination_id": str(changed.loaded.destination_ids[step.number]),
            "step_id": str(changed.loaded.step_ids[step.number]),
        }
        for reference in sorted(before - after):
            self.rows["freed_references"].append({**where, "key": key_of(profile, reference)})
        for reference in sorted(after):  # those that it holds already are left as they are
            self.rows["held_references"].append({**where, "key": key_of(profile, reference)})

    def _attempts(self, one: Change, changed: Changed, old: Step, step: Step) -> None:
        known = {attempt.id: attempt for attempt in old.attempts}
        for attempt in step.attempts:
            seen = one.attempt_facts.get(UUID(attempt.id), {})
            row = {
                "id": attempt.id,
                "operation_id": str(changed.loaded.id),
                "step_id": str(changed.loaded.step_ids[step.number]),
                "number": attempt.number,
                "revision": attempt.revision,
                "opened_at": attempt.opened_at.isoformat(),
                "lease_ends_at": attempt.lease_ends_at.isoformat(),
                "outcome": attempt.outcome,
                "no_change": attempt.no_change,
                "reference": attempt.reference,
                "known_by": attempt.known_by,
                **seen,
            }
            if attempt.id not in known:
                self.rows["new_attempts"].append(row)
            elif known[attempt.id] != attempt or seen:
                self.rows["attempts"].append(row)

    def _holds(self, one: Change, changed: Changed) -> dict[str, Any]:
        old = {hold.id: hold for hold in changed.loaded.record.holds}
        new = {hold.id: hold for hold in changed.after.holds}
        steps_with_new = {hold.step for hold_id, hold in new.items() if hold_id not in old}
        learnt = []
        for hold_id, hold in old.items():
            if hold_id not in new:
                closed_by = one.closed_by
                if closed_by == "evidence" and hold.step in steps_with_new:
                    closed_by = "superseded"
                self.rows["closed_holds"].append(
                    {"id": hold_id, "closed_by": closed_by, "answer": one.answer}
                )
            elif new[hold_id].facts != hold.facts:
                learnt.append({"id": hold_id, "facts": _text(new[hold_id].facts)})
        opened = [hold_row(changed, hold) for hold_id, hold in new.items() if hold_id not in old]
        self.rows["changed_holds"] += learnt
        self.rows["new_holds"] += opened
        return {**assignment.told_of(opened), **facts_told([*learnt, *opened])}

    def write(self) -> None:
        with connection.cursor() as cursor:
            for name in _ORDER:
                if self.rows[name]:
                    cursor.execute(statement(name), [json.dumps(self.rows[name])])


# Holds close before others open (one open hold per step); references are freed before they are held; approvals become void
# before others are given.
_ORDER = (
    "operations",
    "requests",
    "revisions",
    "voided_approvals",
    "approved_requests",
    "steps",
    "attempts",
    "new_attempts",
    "freed_references",
    "held_references",
    "closed_holds",
    "changed_holds",
    "new_holds",
    "evidence",
)


def _operation_row(changed: Changed) -> dict[str, Any]:
    after = changed.after
    became_unknown = changed.loaded.unknown_at is None and any(
        step.attempts_with(Outcome.UNKNOWN) for step in after.steps
    )
    return {
        "id": str(changed.loaded.id),
        "state": after.state,
        "cancelled": after.cancelled,
        "not_after": _time(after.not_after),
        "ended": after.state in ENDED,
        "became_unknown": became_unknown,
        "attempt_count": sum(len(step.attempts) for step in after.steps),
        "confirmed_count": sum(1 for step in after.steps if step.state is StepState.CONFIRMED),
    }


def _step_row(changed: Changed, step: Step) -> dict[str, Any]:
    return {
        "id": str(changed.loaded.step_ids[step.number]),
        "state": step.state,
        "revision": step.revision,
        "request_digest": step.request_digest,
        "reference": step.reference,
        "tries_extra": step.tries_extra,
        "not_before": _time(step.not_before),
        "ready_at": _time(step.ready_at),
        "accepted_at": _time(step.accepted_at),
        "unknown_at": _time(step.unknown_at),
        "looks": step.looks,
        "looks_none": step.looks_none,
        "looked_at": _time(step.looked_at),
        "look_at": _time(step.look_at),
        "rejection_waived": step.rejection_waived,
        "lateness_waived": step.lateness_waived,
        "final_waived": step.final_waived,
        "never_known": step.never_known,
        "go_on_after": step.go_on_after,
        "not_ours": list(step.not_ours),
        "integrity_alarm": step.integrity_alarm,
        "record_changed": step.record_changed,
        "answered_with_error": step.answered_with_error,
        "approval_needed": step.approval_needed,
        "content_number": step.content_number,
        "approved_digest": step.approved_digest,
        "approved_until": _time(step.approved_until),
        "resend_asked": step.resend_asked,
        "look_applies": step.look_applies,
        "act": step.act,
        "act_at": _time(step.act_at),
        "send_until": _time(step.send_until),
        "tries_used": step.tries_used,
        "attempt_count": len(step.attempts),
    }


def hold_row(changed: Changed, hold: Hold) -> dict[str, Any]:
    """A new hold with what the inbox shows and sorts by; its due time comes from the workflow's policy.

    Its owner is the operation's own; where there is none, the one that the team's rules give.
    """
    loaded, step = changed.loaded, changed.after.step(hold.step)
    workflow = definitions.workflow(loaded.workflow_version_id)
    falls_back = bool(hold.facts.get(NOBODY_MAY))
    given = None
    if loaded.owner_id is None and not falls_back:
        unable = loaded.unable.get(hold.step, frozenset())
        about = (loaded.workflow_slug, step.destination, hold.reason.value)
        given = assignment.given_to(loaded.team_id, *about, unable)
    owner = given.owner if given else loaded.owner_id
    return {
        "id": hold.id,
        "team_id": str(loaded.team_id),
        "operation_id": str(loaded.id),
        "step_id": str(loaded.step_ids[hold.step]),
        "reason": hold.reason,
        "due_seconds": workflow.due_seconds_for(hold.reason.value),
        "owner_id": str(owner) if owner else None,
        "given": assignment.told(given),  # by a rule; for the journal
        "falls_back": falls_back,  # to the team's fallback owner
        "facts": _text(hold.facts),
        "if_nobody": workflow.if_nobody,
        "title": loaded.title,
        "operation_text_id": loaded.operation_id,
        "destination_slug": step.destination,
        "action": step.action,
        "workflow_slug": loaded.workflow_slug,
    }


def _evidence_row(changed: Changed, kept: NewEvidence) -> dict[str, Any]:
    return {
        "id": str(kept.id),
        "operation_id": str(changed.loaded.id),
        "step_id": str(changed.loaded.step_ids[kept.step]) if kept.step else None,
        "attempt_id": str(kept.attempt_id) if kept.attempt_id else None,
        "kind": kept.kind,
        "origin": kept.origin,
        "occurred_at": _time(kept.occurred_at),
        "digest": kept.digest.hex(),
        "says": kept.says,
        "sentence": kept.sentence,
        "facts": _text(kept.facts),
        "content": kept.content.hex(),
        "late": kept.late,
    }


def _text(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True, default=str)


def _time(value: datetime | None) -> str | None:
    return value.isoformat() if value else None

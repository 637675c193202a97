"""Ordinary replies: the record is not read again, and all of a batch is written by one statement.

Nearly every send is answered in time, and its step is confirmed. What that makes of an operation to which nothing out of the
ordinary has happened (`claim.Plain`) is the same each time, all but its own values: the rules play it once for each kind
(`_pattern_of`), and what they decided is filled in for each reply, the same rows and the same journal line as they would
give. That the operation is still as its claim left it, its version says, in the statement that writes.

Everything else is left to the rules (`record.record_sends`): any other outcome, a step that waits for an approval, a request
that can't be rendered, an operation that has changed since, a reference that another step holds.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any
from uuid import UUID

from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connection

from opsledger.journal.append import body
from opsledger.ledger import definitions, rendering
from opsledger.ledger.actions.claim import ClaimedSend, Plain
from opsledger.ledger.actions.early_reports import is_told_of
from opsledger.ledger.actions.new_operations import NewOperation, begin
from opsledger.ledger.actions.record import Sent, record_sends
from opsledger.ledger.actions.references import belongs_to_one
from opsledger.ledger.sql import statement
from opsledger.rules import transitions
from opsledger.rules.fold import difference
from opsledger.rules.learning import Finding
from opsledger.rules.next_step import Rendered
from opsledger.rules.record import Act, KnownBy, Operation, Step
from opsledger.rules.rendering import Missing
from opsledger.rules.settling import Moment
from opsledger.rules.states import ENDED_STATES, OperationState, Outcome, StepState

log = logging.getLogger(__name__)

Reply = tuple[ClaimedSend, Sent]

# What stands for own values while a pattern is made. No text of a line can be mistaken for one: names have no NUL, and no
# operation was recorded on these days.
_BEGAN, _AT = datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC)
_ATTEMPT, _EVIDENCE, _SAYS, _REFERENCE, _REQUEST = (
    f"\0{name}\0" for name in ("attempt", "evidence", "says", "reference", "request")
)
_TIME = "\x01"  # where the statement that writes the line puts its time; JSON has no such character


def record_replies(replies: Sequence[Reply]) -> None:
    """Records what sends were answered, at most one per operation. Ordinary ones first, by themselves."""
    recorded = _recorded_at_once(replies)
    others = [sent for claimed, sent in replies if claimed.operation_id not in recorded]
    if others:
        record_sends(others)


def _recorded_at_once(replies: Sequence[Reply]) -> set[UUID]:
    """Which of these operations are recorded now. A fault of ours on the short way must lose no reply: the rules take it."""
    try:
        return _record([row for reply in replies if (row := _row(*reply)) is not None])
    except (OperationalError, InterfaceError):  # the database is away or busy
        raise
    except Exception:
        log.exception("replies could not be recorded as ordinary ones; they are left to the rules")
        return set()


def _record(rows: Sequence[dict[str, Any]]) -> set[UUID]:
    """Which of these operations were as their claims had left them, and are recorded now. One statement, which is a
    transaction of its own."""
    if not rows:
        return set()
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement("ordinary_replies"), {"replies": json.dumps(rows)})
            return {row[0] for row in cursor.fetchall()}
    except (IntegrityError, DataError):  # one of them is not ordinary after all: the rules say what it is
        return set()


def _key(reference: str | None, pattern: _Pattern) -> str | None:
    """Under which the reference is held; None where it may be shared."""
    return definitions.reference_key(reference, pattern.id_space) if reference and pattern.to_one else None


def _row(claimed: ClaimedSend, sent: Sent) -> dict[str, Any] | None:
    """What is written of one reply; None where only the rules can tell."""
    plain, finding = claimed.plain, sent.finding
    if plain is None or not _is_ordinary(sent) or is_told_of(claimed.newest_version_id, claimed.action):
        return None
    kind = _Kind(
        plain.workflow_version_id,
        tuple(plain.destination_version_ids),
        claimed.step_number,
        finding.reference is not None,
    )
    pattern = _pattern_of(kind)
    if pattern is None:
        return None
    following = _next_request(claimed, plain, finding.reference, pattern) if pattern.next_act else {}
    if following is None:
        return None
    evidence = sent.evidence
    values = {
        "attempt": str(sent.attempt_id),
        "evidence": str(evidence.id),
        "says": _text(evidence.says),
        "reference": _text(finding.reference or ""),
        "request": following.get("request_digest", ""),
    }
    return {
        "operation_id": str(claimed.operation_id),
        "version": plain.version,
        "step_id": str(claimed.step_id),
        "attempt_id": str(sent.attempt_id),
        "destination_id": str(claimed.destination_id),
        "reference": finding.reference,
        "key": _key(finding.reference, pattern),
        "state": pattern.state,
        "ended": pattern.ended,
        "body": pattern.line % values,
        **sent.seen,
        "sentence": evidence.sentence,
        "evidence_id": str(evidence.id),
        "origin": evidence.origin,
        "actor": sent.actor,
        "says": evidence.says,
        "facts": json.dumps(evidence.facts, sort_keys=True),
        "digest": evidence.digest.hex(),
        "content": evidence.content.hex(),
        **following,
    }


def _is_ordinary(sent: Sent) -> bool:
    """A reply that confirms, and says nothing else that the rules would weigh."""
    finding, evidence = sent.finding, sent.evidence
    expected = Finding(
        Outcome.CONFIRMED,
        KnownBy.REPLY,
        reference=finding.reference,
        settles_earlier=finding.settles_earlier,  # there is no earlier attempt
        facts=finding.facts,  # for those who are asked; nobody is
    )
    kept = (evidence.kind, evidence.step, evidence.attempt_id, evidence.occurred_at, evidence.late)
    return finding == expected and kept == ("reply", sent.step_number, sent.attempt_id, None, False)


def _next_request(
    claimed: ClaimedSend, plain: Plain, reference: str | None, pattern: _Pattern
) -> dict[str, Any] | None:
    """The next step, ready: its row and its frozen request. None when the request can't be rendered."""
    place = claimed.step_number  # in lists; the next step's number is one more
    workflow = definitions.workflow(plain.workflow_version_id)
    words, version_id = workflow.steps[place], plain.destination_version_ids[place]
    brought = [*plain.references[: place - 1], reference]
    names = [step.name for step in workflow.steps]
    whose = rendering.Whose(
        plain.team_id,
        plain.operation_id,
        claimed.operation_id,
        words.name,
        rendering.identity_of(plain.identities[place], claimed.operation_id, place + 1),
    )
    outgoing = rendering.render_for(
        whose,
        definitions.request(version_id, words.action),
        rendering.present(rendering.read_params(plain.params or "{}")),
        references={name: known for name, known in zip(names, brought, strict=False) if known},
    )
    if isinstance(outgoing, Missing):
        return None
    row = outgoing.row()
    return {
        "next_id": plain.step_ids[place],
        "next_act": pattern.next_act,
        "next_after": pattern.next_after,
        "request_body": row.pop("body"),
        "request_digest": row.pop("digest"),
        **row,
    }


def _text(value: str) -> str:
    """As it stands between the quotes of a line."""
    return encode_basestring(value)[1:-1]


@dataclass(frozen=True, slots=True)
class _Kind:
    workflow_version_id: UUID
    destination_version_ids: tuple[UUID, ...]
    number: int  # of the step that is confirmed
    named: bool  # the reply has a reference


@dataclass(frozen=True, slots=True)
class _Pattern:
    line: str  # the journal's, with places that `%` fills
    state: str  # the operation's
    ended: bool
    to_one: bool  # the reference belongs to one step
    id_space: str  # of the reference
    next_act: str  # of the step that becomes ready; empty where none follows
    next_after: float  # seconds from now until then


@lru_cache(maxsize=1024)  # of versions, which never change
def _pattern_of(kind: _Kind) -> _Pattern | None:
    """None where the rules decide on more than a pattern fills in, or differently as recovery is automatic or not."""
    found = {_played(kind, automatic_recovery) for automatic_recovery in (False, True)}
    return found.pop() if len(found) == 1 else None


def _played(kind: _Kind, automatic_recovery: bool) -> _Pattern | None:
    """What the rules make of such a reply: the operation is begun, and each step claimed and confirmed, up to this one."""
    ids = dict(enumerate(((UUID(int=0), one) for one in kind.destination_version_ids), start=1))
    loaded = begin(
        NewOperation(UUID(int=0), "", kind.workflow_version_id, ids, {}, ""), _BEGAN, render=_rendered
    )
    policies = {
        number: replace(policy, automatic_recovery=automatic_recovery)
        for number, policy in loaded.policies.items()
    }
    record, before, moment = loaded.record, loaded.record, Moment(_BEGAN, policies, lambda: "")
    for number in range(1, kind.number + 1):
        if not _is_plain(record, number) or is_told_of(
            kind.destination_version_ids[number - 1], record.step(number).action
        ):
            return None
        attempt = _ATTEMPT if number == kind.number else f"attempt {number}"
        before = transitions.claimed(record, number, attempt_id=attempt, lease_ends_at=_BEGAN, moment=moment)
        reference = _REFERENCE if kind.named else None
        finding = Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=reference)
        moment = replace(moment, now=_AT) if number == kind.number else moment
        record = transitions.attempt_ended(before, number, attempt, finding, moment)
    following = record.steps[kind.number] if kind.number < len(record.steps) else None
    if not _is_as_written(before, record, kind.number):
        return None
    return _Pattern(
        line=_line(kind.number, before, record),
        state=record.state.value,
        ended=record.state in ENDED_STATES,
        to_one=belongs_to_one(policies[kind.number].profile),
        id_space=policies[kind.number].profile.reply.id_space,
        next_act=following.act.value if following else "",
        next_after=(following.act_at - _AT).total_seconds() if following and following.act_at else 0.0,
    )


def _rendered(operation: Operation, step: Step) -> Rendered:
    return Rendered(_REQUEST, _REQUEST)


def _is_plain(operation: Operation, number: int) -> bool:
    """As the claim (claim_sends.sql) calls an operation plain whose step of this number is claimed."""
    states = [StepState.CONFIRMED] * (number - 1) + [StepState.READY]
    states += [StepState.WAITING] * (len(operation.steps) - number)
    return (
        operation.state is OperationState.RUNNING
        and [step.state for step in operation.steps] == states
        and not any(step.approval_needed for step in operation.steps)
    )


def _is_as_written(before: Operation, after: Operation, number: int) -> bool:
    """Whether the rules changed what the statement (ordinary_replies.sql) writes, and nothing else."""
    expected, step = before.copy(), after.step(number)
    own = expected.step(number)
    ended = own.attempts[0]
    ended.outcome, ended.known_by, ended.reference = Outcome.CONFIRMED, KnownBy.REPLY, step.reference
    own.state, own.reference = StepState.CONFIRMED, step.reference
    own.act, own.act_at, own.send_until = Act.NONE, None, None
    for following in expected.steps[number : number + 1]:
        known = after.step(number + 1)
        following.state, following.ready_at, following.request_digest = StepState.READY, _AT, _REQUEST
        following.act, following.act_at, following.send_until = known.act, known.act_at, None
    expected.state = after.state
    return expected == after and all(one.act_at is not None for one in after.steps[number : number + 1])


def _line(number: int, before: Operation, after: Operation) -> str:
    """The journal's line of such a reply, with places for its own values."""
    facts = {"attempt": _ATTEMPT, "step": number, "says": _SAYS, "evidence": _EVIDENCE}
    line = body({**facts, **difference(before, after)}).replace("%", "%%").replace(_AT.isoformat(), _TIME)
    for mark in (_ATTEMPT, _EVIDENCE, _SAYS, _REFERENCE, _REQUEST):
        line = line.replace(_text(mark), f"%({mark.strip(chr(0))})s")
    return line

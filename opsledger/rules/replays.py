"""What a replay makes of each step: exactly one verdict, with its reason (rules.md, table 7).

`verdict_of` reads and answers; `begun` is what the start of one item makes of its operation. A step that is proven to be
without effect stays *ready* here, and held, until a person ends it; starting a replay is such a person's answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opsledger.rules import settling
from opsledger.rules.absence import contradicts_absence, findings
from opsledger.rules.answers import Answer, Given, answered, answers_for, grant
from opsledger.rules.learning import begin_to_look
from opsledger.rules.next_step import (
    Policies,
    blocked_by,
    may_look,
    may_resend,
    planned_look_at,
    protection_of,
)
from opsledger.rules.record import Hold, KnownBy, Operation, Step
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import HoldReason, NoChange, StepState


class VerdictKind(StrEnum):
    KEEP = "keep"
    SEND = "send"
    SEND_PROTECTED = "send_protected"
    LOOK_FIRST = "look_first"
    REFUSE = "refuse"
    BEHIND = "behind"


class Reason(StrEnum):
    """Why; one word per sentence of `SENTENCES`."""

    CONFIRMED = "confirmed"
    ACCEPTED = "accepted"
    SKIPPED = "skipped"
    NEVER_SENT = "never_sent"
    NO_CHANGE = "no_change"
    REJECTED = "rejected"
    TRIES_USED_UP = "tries_used_up"
    NOBODY_CLAIMED = "nobody_claimed"
    TOO_LATE = "too_late"
    STATED_ABSENT = "stated_absent"
    PROTECTED = "protected"
    CAN_BE_ASKED = "can_be_asked"
    AFTER_A_STEP_THAT_RUNS = "after_a_step_that_runs"
    AFTER_A_STEP_THAT_STANDS = "after_a_step_that_stands"
    IN_FLIGHT = "in_flight"
    HELD = "held"
    OTHER_REPLAY = "other_replay"
    ENDED_BY_PERSON = "ended_by_person"
    NOT_DELIVERED = "not_delivered"
    NEVER_KNOWN = "never_known"
    CANCELLED = "cancelled"
    OPERATION_CANCELLED = "operation_cancelled"
    REPLACED = "replaced"
    DATA_MISSING = "data_missing"
    NEEDS_DECISION = "needs_decision"
    FOUND = "found"


# `{detail}`: the hold's reason, the other replay, the other operation, the earlier step, the missing fields, the statement,
# what was found.
SENTENCES: Mapping[Reason, str] = {
    Reason.CONFIRMED: "Its effect is proven; nothing is sent.",
    Reason.ACCEPTED: "The destination has taken it over; nothing is sent.",
    Reason.SKIPPED: "It was skipped; nothing is sent.",
    Reason.NEVER_SENT: "It was never sent. The engine sends it when its turn comes, replayed or not.",
    Reason.NO_CHANGE: "What was sent is proven to have changed nothing. The engine tries again, replayed or not.",
    Reason.REJECTED: "The destination refused it. The same request goes again if its cause was mended there.",
    Reason.TRIES_USED_UP: "Nothing took effect, and its tries are used up; one more is granted.",
    Reason.NOBODY_CLAIMED: "Nobody claimed it; it is offered again.",
    Reason.TOO_LATE: "It was never sent and its latest moment is past; it is sent late.",
    Reason.STATED_ABSENT: "The provider states that it did not happen (statement {detail}). The same request goes again.",
    Reason.PROTECTED: "Its outcome is unknown; the same request goes again under protection.",
    Reason.CAN_BE_ASKED: "Its outcome is unknown; the destination is asked first, and its answer decides.",
    Reason.AFTER_A_STEP_THAT_RUNS: "It follows when step {detail} is done.",
    Reason.AFTER_A_STEP_THAT_STANDS: "It waits for step {detail}, which does not run here.",
    Reason.IN_FLIGHT: "An attempt is under way; nobody knows its outcome yet.",
    Reason.HELD: "A person is asked about it: {detail}.",
    Reason.OTHER_REPLAY: "It is part of the open replay {detail}.",
    Reason.ENDED_BY_PERSON: "A person ended it as failed.",
    Reason.NOT_DELIVERED: "It was taken over and then not delivered; a new operation replaces it.",
    Reason.NEVER_KNOWN: "A person closed it as never known.",
    Reason.CANCELLED: "It was cancelled.",
    Reason.OPERATION_CANCELLED: "Its operation was cancelled.",
    Reason.REPLACED: "Operation {detail} replaces it; both would take effect.",
    Reason.DATA_MISSING: "Its request can’t be made: {detail} is missing.",
    Reason.NEEDS_DECISION: "Its outcome is unknown, not protected, and can’t be looked up. It needs a decision.",
    Reason.FOUND: "{detail} was found or named for it, against the statement. It needs a decision.",
}
RUNS = frozenset({VerdictKind.SEND, VerdictKind.SEND_PROTECTED, VerdictKind.LOOK_FIRST})
# The holds that starting a replay answers, and how.
_ANSWERED: Mapping[HoldReason, tuple[Reason, Answer]] = {
    HoldReason.REJECTED: (Reason.REJECTED, Answer.SAME_AGAIN),
    HoldReason.ATTEMPTS_EXHAUSTED: (Reason.TRIES_USED_UP, Answer.MORE_TRIES),
    HoldReason.NOBODY_CLAIMED: (Reason.NOBODY_CLAIMED, Answer.MORE_TRIES),
    HoldReason.TOO_LATE: (Reason.TOO_LATE, Answer.MORE_TRIES),
}
_OF_UNKNOWN = frozenset({HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED})
_ANSWERS: Mapping[Reason, Answer] = {
    **dict(_ANSWERED.values()),
    Reason.STATED_ABSENT: Answer.ABSENT_SEND_AGAIN,
}


@dataclass(frozen=True, slots=True)
class Stated:
    """What a provider's statement covers of one step: the question as it was then, and no later one."""

    statement: str  # by which name it goes
    hold_id: str
    attempt_count: int  # that had been made; of a later attempt the statement says nothing
    learnt_since: bool = False  # anything about the step; who kept the statement did not know it


@dataclass(frozen=True, slots=True)
class Beside:
    """What a verdict needs to know beside the record."""

    replaced_by: str = ""  # the operation that replaces this one
    other_replays: Mapping[int, str] | None = None  # by step number: the open replay that it is part of
    stated_absent: Mapping[int, Stated] | None = (
        None  # by step number: a provider says that it did not happen
    )


NOTHING_BESIDE = Beside()


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: VerdictKind
    reason: Reason
    detail: str = ""
    until: datetime | None = None  # the latest moment to start sending under protection; None: no end
    reference: str | None = None  # of what is kept

    @property
    def sentence(self) -> str:
        held = self.reason is Reason.HELD
        return SENTENCES[self.reason].format(detail=self.detail.replace("_", " ") if held else self.detail)

    @property
    def runs(self) -> bool:
        """Whether a start of the replay lets it happen, at once or after an earlier step."""
        return self.kind in RUNS or self.reason is Reason.AFTER_A_STEP_THAT_RUNS

    @property
    def answer(self) -> Answer | None:
        """What the start of the replay answers to the step's hold; None: the engine sends it by itself."""
        return _ANSWERS.get(self.reason)


def verdict_of(
    operation: Operation, step: Step, policies: Policies, now: datetime, beside: Beside = NOTHING_BESIDE
) -> Verdict:
    """The verdict on one step at `now`, in the order of table 7; the first that fits.

    1. Done, or skipped: it is kept.
    2. Ended, cancelled, replaced, in flight, held by another question, in another open replay: refused.
    3. Behind an earlier step: it waits, whatever it is.
    4. Never sent, or proven to have changed nothing: it is sent.
    5. Unknown: sent again where the provider states that it did not happen and nothing contradicts that; else under
       protection, by a lookup first, or not at all.
    """
    return _kept(step) or _refused(operation, step, beside) or _open(operation, step, policies, now, beside)


_KEPT = {
    StepState.CONFIRMED: Reason.CONFIRMED,
    StepState.ACCEPTED: Reason.ACCEPTED,
    StepState.SKIPPED: Reason.SKIPPED,
}


def _kept(step: Step) -> Verdict | None:
    reason = _KEPT.get(step.state)
    return Verdict(VerdictKind.KEEP, reason, reference=step.reference) if reason else None


def _refused(operation: Operation, step: Step, beside: Beside) -> Verdict | None:
    hold = operation.hold_on(step.number)
    other = (beside.other_replays or {}).get(step.number, "")
    if operation.cancelled:
        return _refuse(Reason.OPERATION_CANCELLED)
    if step.state is StepState.CANCELLED:
        return _refuse(Reason.CANCELLED)
    if step.state is StepState.FAILED:
        return _refuse(Reason.NOT_DELIVERED if _was_not_delivered(step) else Reason.ENDED_BY_PERSON)
    if step.never_known:
        return _refuse(Reason.NEVER_KNOWN)
    if beside.replaced_by:
        return _refuse(Reason.REPLACED, beside.replaced_by)
    if other:
        return _refuse(Reason.OTHER_REPLAY, other)
    if step.state is StepState.IN_FLIGHT:
        return _refuse(Reason.IN_FLIGHT)
    if step.integrity_alarm:
        return _refuse(Reason.HELD, HoldReason.INTEGRITY_ALARM.value)
    if hold is not None and not _may_be_answered(step, hold):
        return _refuse(Reason.HELD, hold.reason.value)
    return None


def _refuse(reason: Reason, detail: str = "") -> Verdict:
    return Verdict(VerdictKind.REFUSE, reason, detail)


def _may_be_answered(step: Step, hold: Hold) -> bool:
    return hold.reason in (_OF_UNKNOWN if step.state is StepState.UNKNOWN else _ANSWERED)


def _was_not_delivered(step: Step) -> bool:
    """Taken over first: a rejection by a reply does not fail a step, only a person or a bounce does."""
    last = step.last_attempt
    replied = {KnownBy.REPLY, KnownBy.AUTOMATION, KnownBy.TRANSPORT}
    return last is not None and last.no_change is NoChange.REJECTED and last.known_by not in replied


def _open(operation: Operation, step: Step, policies: Policies, now: datetime, beside: Beside) -> Verdict:
    earlier = blocked_by(operation, step, policies)
    if earlier is not None:
        runs = verdict_of(operation, earlier, policies, now, beside).runs
        reason = Reason.AFTER_A_STEP_THAT_RUNS if runs else Reason.AFTER_A_STEP_THAT_STANDS
        return Verdict(VerdictKind.BEHIND, reason, str(earlier.number))
    if step.state is StepState.UNKNOWN:
        return _of_stated(operation, step, beside) or _of_unknown(operation, step, policies, now)
    missing = policies[step.number].render(operation, step).missing if step.request_digest is None else ()
    if missing:
        return _refuse(Reason.DATA_MISSING, ", ".join(missing))
    return _of_ready(operation, step)


def _of_ready(operation: Operation, step: Step) -> Verdict:
    hold = operation.hold_on(step.number)
    if hold is not None:
        return Verdict(VerdictKind.SEND, _ANSWERED[hold.reason][0])
    return Verdict(VerdictKind.SEND, Reason.NO_CHANGE if step.attempts else Reason.NEVER_SENT)


def _of_stated(operation: Operation, step: Step, beside: Beside) -> Verdict | None:
    """Only the question that the statement was made on is answered by it, and only where a person could answer so.

    What was found or named contradicts the statement, whenever that came to be known: a person decides.
    """
    stated, hold = (beside.stated_absent or {}).get(step.number), operation.hold_on(step.number)
    if stated is None or hold is None or hold.reason not in _OF_UNKNOWN:
        return None
    if (hold.id, len(step.attempts)) != (stated.hold_id, stated.attempt_count):
        return None
    against = contradicts_absence(step, hold)
    if against:
        return _refuse(Reason.FOUND, against)
    if stated.learnt_since or Answer.ABSENT_SEND_AGAIN not in answers_for(operation, hold):
        return None
    return Verdict(VerdictKind.SEND, Reason.STATED_ABSENT, stated.statement)


def _of_unknown(operation: Operation, step: Step, policies: Policies, now: datetime) -> Verdict:
    policy = policies[step.number]
    protected = protection_of(operation, step, policy, now)
    if protected.protected and may_resend(step):
        return Verdict(VerdictKind.SEND_PROTECTED, Reason.PROTECTED, until=protected.until)
    if may_look(step, policy):
        return Verdict(VerdictKind.LOOK_FIRST, Reason.CAN_BE_ASKED)
    return _refuse(Reason.NEEDS_DECISION)


# Whether a step moved since a plan looked at it


def mark_of(step: Step, verdict: Verdict, *bound: str, hold: Hold | None = None) -> bytes:
    """Eight bytes over everything about a step that a plan's reader relies on. `bound`: what else it would run with.

    What was found is among it, also what decides nothing (`absence.findings`). The versions of the operation and of its
    hold are not: a colleague's note, another owner, or a lookup that found nothing, moves them and changes nothing about
    what will happen.
    """
    fed = hashlib.sha256()
    found = findings(step, hold)
    parts = (
        verdict.kind.value,
        verdict.reason.value,
        verdict.detail,
        verdict.until.isoformat() if verdict.until else "",
        verdict.reference or "",
        step.state.value,
        str(step.revision),
        str(len(step.attempts)),
        step.request_digest or "",
        *bound,
        *(("found", *found) if found else ()),
    )
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        fed.update(b"%d:" % len(raw))
        fed.update(raw)
    return fed.digest()[:8]


# Starting one item


def begun(operation: Operation, number: int, verdict: Verdict, moment: Moment) -> Operation:
    """What the start of an item makes of its operation; nothing is sent here. NotNow where its verdict sends nothing.

    1. Held without effect, or stated to be: the hold is answered, as a person would.
    2. Unknown and protected: the same request again, at once; what asked about it is answered by that.
    3. Unknown, can be asked: lookups are made, and settle it. Its hold stays open until they do.
    4. Else the engine sends it by itself, and nothing changes.
    """
    if verdict.kind is VerdictKind.SEND:
        return _answered(operation, number, verdict, moment)
    if verdict.kind is VerdictKind.SEND_PROTECTED:
        return _resend_asked(operation, number, moment)
    if verdict.kind is VerdictKind.LOOK_FIRST:
        return _looks_asked(operation, number, moment)
    raise NotNow(f"Nothing is sent for this step: {verdict.sentence}")


def _answered(operation: Operation, number: int, verdict: Verdict, moment: Moment) -> Operation:
    hold = operation.hold_on(number)
    if hold is None or verdict.answer is None:
        return settling.settled(operation.copy(), moment)
    return answered(operation, hold.id, Given(verdict.answer), moment)


def _resend_asked(operation: Operation, number: int, moment: Moment) -> Operation:
    after = operation.copy()
    step = after.step(number)
    settling.close_hold(after, step)
    step.resend_asked = True
    grant(step, moment.policies, 1)
    return settling.settled(after, moment)


def _looks_asked(operation: Operation, number: int, moment: Moment) -> Operation:
    after = operation.copy()
    step = after.step(number)
    if planned_look_at(step, moment.policies[number], moment.now) is None:
        begin_to_look(step, moment.now)
    else:
        step.look_at = moment.now
    step.look_applies = True
    grant(step, moment.policies, 1)
    return settling.settled(after, moment)

"""The laws of design.md, as far as the rules can keep or break them, asserted of each record and of each transition."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from opsledger.rules import fold, transitions
from opsledger.rules.absence import named
from opsledger.rules.answers import KEEPS_OPEN, Given
from opsledger.rules.learning import HAPPENED, Finding
from opsledger.rules.matching import LookAnswer
from opsledger.rules.next_step import Policies
from opsledger.rules.profile import Lookup, ProtectionKind, Settles
from opsledger.rules.record import Act, Attempt, KnownBy, Operation, Performer, Step
from opsledger.rules.settling import Moment
from opsledger.rules.states import (
    ENDED_STATES,
    FINAL_STATES,
    STEP_MOVES,
    HoldReason,
    NoChange,
    OperationState,
    Outcome,
    StepState,
)
from opsledger.rules.transitions import Look
from tests.rules.builders import QUIET_SECONDS, at
from tests.rules.peer import Peer

SENDING = frozenset({Act.SEND, Act.OFFER})
CONTRADICTIONS = frozenset({HoldReason.DISPUTED, HoldReason.DUPLICATE_FOUND, HoldReason.RECORD_DIFFERS})


class Broken(AssertionError):
    """A law does not hold. The message names it."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happens. What it carries decides which laws are looked at."""

    label: str
    kind: str
    step: int = 0
    attempt: int = 0
    finding: Finding | None = None
    look: Look | None = None
    asked_tick: int = 0
    given: Given | None = None
    hold_id: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    operation: Operation
    peers: tuple[Peer, ...]
    tick: int


def hold(law: str, holds: bool) -> None:
    if not holds:
        raise Broken(law)


# Of each record


def check_record(node: Node, policies: Policies, moment: Moment) -> None:
    """What is true of every record that was brought to rest at this moment."""
    operation = node.operation
    for step, peer in zip(operation.steps, node.peers, strict=True):
        _check_attempts(step)
        _check_plan(operation, step, policies, moment.now)
        hold("laws 4, 5, 8: no second effect", len(peer.effects) <= 1 or peer.denied)
    hold("one hold per step", len({one.step for one in operation.holds}) == len(operation.holds))
    hold("the operation's state is derived", operation.state is _derived(operation, policies))
    if operation.state not in ENDED_STATES:
        planned = any(step.act is not Act.NONE for step in operation.steps)
        hold("law 13: something or somebody will go on", bool(operation.holds) or planned)
    again = transitions.time_passed(operation, moment)
    hold("coming to rest twice changes nothing", again == operation)


def _check_attempts(step: Step) -> None:
    opened = [attempt for attempt in step.attempts if attempt.outcome is None]
    outcomes = {attempt.outcome for attempt in step.attempts}
    hold("law 2: one open attempt", len(opened) <= 1)
    hold("in flight is an open attempt", (step.state is StepState.IN_FLIGHT) == bool(opened))
    wanted = {
        StepState.UNKNOWN: Outcome.UNKNOWN,
        StepState.CONFIRMED: Outcome.CONFIRMED,
        StepState.ACCEPTED: Outcome.ACCEPTED,
    }.get(step.state)
    hold("a state rests on an attempt", wanted is None or wanted in outcomes)
    if step.state not in {StepState.IN_FLIGHT, StepState.UNKNOWN}:
        hold("law 3: a step is unknown while an attempt is", Outcome.UNKNOWN not in outcomes)
    if step.state in {StepState.WAITING, StepState.READY, StepState.FAILED, StepState.CANCELLED}:
        hold("nothing happened where a step says so", outcomes <= {Outcome.NO_CHANGE})
    for attempt in step.attempts:
        kind = attempt.no_change is not None
        hold("no change says how", kind == (attempt.outcome is Outcome.NO_CHANGE))
    with_effect = {StepState.ACCEPTED, StepState.CONFIRMED, StepState.FAILED}
    hold("a reference needs an effect", step.reference is None or step.state in with_effect)
    hold("never known is unknown", not step.never_known or step.state is StepState.UNKNOWN)
    hold("left as accepted is accepted", not step.final_waived or step.state is StepState.ACCEPTED)
    hold("what follows was said of an end", not step.go_on_after or step.never_known or step.final_waived)


def _check_plan(operation: Operation, step: Step, policies: Policies, now: datetime) -> None:
    held = operation.hold_on(step.number)
    hold("an act has a time", (step.act is Act.NONE) == (step.act_at is None))
    if step.act in SENDING:
        _check_sending(operation, step, policies, now)
    if step.act in {Act.OFFER, Act.AWAIT}:
        hold("law 13: a wait ends", step.act_at is not None and step.act_at > now)
    done = step.state in FINAL_STATES or step.never_known
    accepted_for_good = step.state is StepState.ACCEPTED and (
        policies[step.number].profile.final_effect is None or step.final_waived
    )
    behind = any(not _is_over(operation, earlier, policies) for earlier in operation.earlier(step))
    waits_behind = step.state in {StepState.WAITING, StepState.READY} and behind
    idle = step.act is Act.NONE and held is None
    hold("law 13: each step goes on", not idle or done or accepted_for_good or waits_behind)


def _is_over(operation: Operation, step: Step, policies: Policies) -> bool:
    if operation.hold_on(step.number) or step.act is not Act.NONE:
        return False
    return step.state in FINAL_STATES or step.never_known or step.state is StepState.ACCEPTED


def _check_sending(operation: Operation, step: Step, policies: Policies, now: datetime) -> None:
    hold("row 2: a cancelled operation sends nothing", not operation.cancelled)
    hold("what another operation replaces sends nothing", not operation.replaced)
    hold("row 3: nothing is sent under a hold", operation.hold_on(step.number) is None)
    hold("what is sent is frozen", step.request_digest is not None)
    hold("law 7: what is sent is approved", not step.approval_needed or step.approved_digest is not None)
    hold("laws 4 and 8: sent only when ready or unknown", step.state in {StepState.READY, StepState.UNKNOWN})
    outcomes = {attempt.outcome for attempt in step.attempts}
    hold("law 8: done stays done", not outcomes & HAPPENED)
    hold("a send has not run out", step.send_until is None or step.send_until > now)
    if step.state is StepState.UNKNOWN:
        protection = policies[step.number].profile.protection
        hold("law 4: unknown is sent again by the engine", step.act is Act.SEND)
        hold("law 4: only under protection", protection.kind is ProtectionKind.IDEMPOTENCY_KEY)
        hold("law 4: and while it is valid", step.send_until is not None)
        recovers = policies[step.number].automatic_recovery or step.resend_asked
        hold("row 18: and where that is enabled, or asked for", recovers)


def _derived(operation: Operation, policies: Policies) -> OperationState:
    """Said once more, in other words than `settling.derived_state`."""
    states = {step.state for step in operation.steps}
    asked = {one.reason for one in operation.holds}
    open_unknown = [
        step
        for step in operation.steps
        if not step.never_known and any(one.outcome is Outcome.UNKNOWN for one in step.attempts)
    ]
    going = [
        step
        for step in operation.steps
        if not step.never_known
        and step.state not in FINAL_STATES
        and not (
            step.state is StepState.ACCEPTED
            and (step.final_waived or policies[step.number].profile.final_effect is None)
        )
    ]
    table = (
        (asked == {HoldReason.APPROVAL_NEEDED}, OperationState.AWAITING_APPROVAL),
        (bool(asked), OperationState.HELD),
        (bool(open_unknown), OperationState.RECONCILING),
        (bool(going), OperationState.RUNNING),
        (any(step.never_known for step in operation.steps), OperationState.CLOSED_UNKNOWN),
        (StepState.FAILED in states, OperationState.FAILED),
        (StepState.CANCELLED in states, OperationState.CANCELLED),
    )
    return next((state for holds, state in table if holds), OperationState.COMPLETED)


# Of each transition


def check_transition(before: Node, event: Event, after: Node, policies: Policies, moment: Moment) -> None:
    old, new = before.operation, after.operation
    check_fold(old, new)
    for was, step in zip(old.steps, new.steps, strict=True):
        _check_move(old, new, was, step)
        came_back = was.state is StepState.IN_FLIGHT and step.state is StepState.UNKNOWN
        hold("law 4: a person asked for one attempt", not (came_back and step.resend_asked))
        _check_evidence(was, step, event, after.peers[step.number - 1], policies)
        opened = any(one.outcome is None for one in step.attempts[len(was.attempts) :])
        hold("only a claim opens an attempt", not opened or event.kind == "claim")
        _check_change(was, step, event)
    if event.kind not in {
        "answer",
        "withdraw",
        "version",
        "replay",
        "stated",
    }:  # another request is another question
        kept = {(one.step, one.reason): one.id for one in old.holds}
        moved = [one for one in new.holds if kept.get((one.step, one.reason), one.id) != one.id]
        hold("an open question stays the same one", not moved)
    check = _OF.get(event.kind)
    if check is not None:
        check(before, event, after, moment)


def _check_change(was: Step, step: Step, event: Event) -> None:
    """Law 7: an approval is given by a person, for one revision; nothing that may have had an effect changes its request."""
    if step.approved_digest is not None and event.kind != "approve":
        same = (was.revision, was.content_number) == (step.revision, step.content_number)
        hold("law 7: a change voids the approval", same)
        hold("law 7: only a person approves", was.approved_digest == step.approved_digest)
    if step.revision != was.revision:
        hold("law 7: revisions are numbered", step.revision == was.revision + 1)
        hold("law 7: a revision needs approval", step.approval_needed and step.request_digest is None)
        outcomes = {attempt.outcome for attempt in step.attempts}
        hold("law 7: only what had no effect is changed", outcomes <= {Outcome.NO_CHANGE})


def check_fold(old: Operation, new: Operation) -> None:
    """What a change leaves in the journal makes it again; the plan and the page's facts follow from the rest."""
    patch = fold.difference(old, new)
    folded = old.copy()
    try:
        fold.apply(folded, patch)
    except fold.BrokenFold as why:
        raise Broken(f"law 10: {why}") from why
    hold("law 10: the journal folds to the record", kept(folded) == kept(new))
    hold("law 10: also as text", json.loads(json.dumps(patch)) == patch)


def kept(operation: Operation) -> Operation:
    """What the journal keeps of a record: all of it but the plan, what only the page shows, and what another's tells."""
    bare = operation.copy()
    bare.replaced = False
    for step in bare.steps:
        step.act, step.act_at, step.send_until = Act.NONE, None, None
        step.not_before = step.looked_at = step.look_at = None
    for one in bare.holds:
        one.facts = {}
    return bare


def _check_move(old: Operation, new: Operation, was: Step, step: Step) -> None:
    if was.state is step.state:
        return
    hold(f"{was.state} to {step.state} is a move", (was.state, step.state) in STEP_MOVES)
    if was.state is StepState.CONFIRMED or (was.state, step.state) == (StepState.ACCEPTED, StepState.UNKNOWN):
        held = new.hold_on(step.number)
        hold("law 9: done is doubted by a dispute only", held is not None and held.reason in CONTRADICTIONS)


def _check_evidence(was: Step, step: Step, event: Event, peer: Peer, policies: Policies) -> None:
    _check_counting(was, step, event)
    old = {attempt.id: attempt for attempt in was.attempts}
    for attempt in step.attempts:
        before = old.get(attempt.id)
        if before is not None and (before.outcome, before.known_by) == (attempt.outcome, attempt.known_by):
            continue
        if attempt.outcome in HAPPENED and attempt.known_by is not KnownBy.PERSON:
            hold("law 6: what is proven to have happened did", bool(peer.happened))
        if attempt.no_change is NoChange.ABSENT and attempt.known_by is not KnownBy.PERSON:
            _check_absence(attempt, event, peer, policies[step.number].profile.lookup)
    if named(was) and event.given is None and not step.undelivered:
        happened = step.attempts_with(Outcome.CONFIRMED) or step.attempts_with(Outcome.ACCEPTED)
        known = bool(named(step) or happened)
        hold("laws 5 and 9: what was found or named is not absent by evidence, or by a statement", known)


def _check_absence(attempt: Attempt, event: Event, peer: Peer, lookup: Lookup | None) -> None:
    hold("law 5: absence is a lookup's to prove", event.look is not None and lookup is not None)
    hold("law 5: one that settles both ways", lookup is not None and lookup.settles is Settles.BOTH)
    over = attempt.lease_ends_at + timedelta(seconds=QUIET_SECONDS)
    hold("law 5: after the quiet period", at(event.asked_tick) >= over)
    hold("law 5: and it is true", not peer.happened or peer.denied)


def _check_counting(was: Step, step: Step, event: Event) -> None:
    """Looks that found nothing count towards absence one by one, each after the quiet period of all that is unknown."""
    if step.looks_none > was.looks_none:
        hold("law 5: only a look counts", event.look is not None and step.looks_none == was.looks_none + 1)
        over = was.latest_possible_at
        counted_from = over + timedelta(seconds=QUIET_SECONDS) if over else None
        hold(
            "law 5: counted after the quiet period",
            counted_from is None or at(event.asked_tick) >= counted_from,
        )
    old = {attempt.id for attempt in was.attempts_with(Outcome.UNKNOWN)}
    new = {attempt.id for attempt in step.attempts_with(Outcome.UNKNOWN)} - old
    if new and step.state is StepState.UNKNOWN:
        hold("law 5: looks begin anew when more is unknown", step.looks_none == 0)
    absent = {one.id for one in step.attempts if one.no_change is NoChange.ABSENT and one.id in old}
    if absent and event.look is not None:
        hold("law 5: twice", step.looks_none >= 2)


def _check_claim(before: Node, event: Event, after: Node, moment: Moment) -> None:
    was = before.operation.step(event.step)
    hold("law 4: claimed from ready or unknown", was.state in {StepState.READY, StepState.UNKNOWN})
    hold("row 2: never of a cancelled operation", not before.operation.cancelled)
    hold("never of what another operation replaces", not before.operation.replaced)
    hold("row 3: never under a hold", before.operation.hold_on(event.step) is None)
    hold("law 8: never after it happened", not {one.outcome for one in was.attempts} & HAPPENED)
    _check_approved(was, before, moment)
    if transitions.time_passed(before.operation, moment) == before.operation:
        patch = fold.difference(before.operation, after.operation)
        only = {"steps": {str(event.step): {"state": "in_flight"}}}
        attempts = patch.pop("attempts", {})
        hold("a claim changes its step and nothing else", patch == only and len(attempts) == 1)


def _check_approved(step: Step, before: Node, moment: Moment) -> None:
    earlier = {attempt.outcome for attempt in step.attempts if attempt.revision != step.revision}
    hold("law 7: the original and the changed request are never both sent", earlier <= {Outcome.NO_CHANGE})
    if not step.approval_needed:
        return
    peer = before.peers[step.number - 1]
    shown = moment.policies[step.number].render(before.operation, step)
    hold("law 7: a person approved this revision", step.revision in peer.approved)
    hold("law 7: and exactly what is sent", step.approved_digest == shown.content_digest)
    frozen = step.request_digest == shown.digest
    hold("law 7: the frozen bytes are those", frozen)
    good = step.approved_until is not None and moment.now < step.approved_until
    hold("law 7: a first send is made while the approval is good", good or not step.never_left)


def _check_lease(before: Node, event: Event, after: Node, moment: Moment) -> None:
    attempt = after.operation.step(event.step).attempts[event.attempt - 1]
    hold("law 3: a lease that ends means unknown", attempt.outcome is Outcome.UNKNOWN)
    hold("law 3: and never failed", after.operation.step(event.step).state is StepState.UNKNOWN)


def _check_late(before: Node, event: Event, after: Node, moment: Moment) -> None:
    """A reply that contradicts what stands: the step is held, and nothing of it will be sent."""
    assert event.finding is not None
    was, step = before.operation.step(event.step), after.operation.step(event.step)
    attempt = was.attempts[event.attempt - 1]
    if _contradicts(was, attempt, event.finding):
        held = after.operation.hold_on(event.step)
        hold("law 9: a contradiction is held", held is not None and held.reason in CONTRADICTIONS)
        hold("law 9: nothing more is sent", step.act not in SENDING)
        hold("law 9: nothing after it is sent", not _sends_after(after.operation, step))
    if event.finding.taken_by is not None and attempt.outcome not in HAPPENED:
        proven = step.attempts[event.attempt - 1].outcome in HAPPENED
        hold("law 6: one record never proves two creates", not proven)
    again = transitions.attempt_ended(after.operation, event.step, attempt.id, event.finding, replace(moment))
    changed = fold.difference(after.operation, again)
    hold(f"the same reply twice changes nothing: {changed}", not changed)


def _sends_after(operation: Operation, step: Step) -> bool:
    return any(later.act in SENDING for later in operation.later(step))


def _contradicts(step: Step, attempt: Attempt, finding: Finding) -> bool:
    if attempt.outcome in {None, Outcome.UNKNOWN} or finding.outcome is Outcome.UNKNOWN:
        outcomes = {one.outcome for one in step.attempts if one is not attempt}
        alone = finding.outcome in HAPPENED or not outcomes & {None, Outcome.UNKNOWN}
        return step.never_known and finding.outcome is not Outcome.UNKNOWN and alone
    if attempt.outcome is Outcome.NO_CHANGE:
        bounced = attempt.no_change is NoChange.REJECTED and finding.outcome is Outcome.ACCEPTED
        happened = [one for one in step.attempts if one.outcome in HAPPENED]
        same = any(one.reference == finding.reference for one in happened)
        return finding.outcome in HAPPENED and not bounced and not (same and finding.reference)
    if finding.outcome is Outcome.NO_CHANGE:
        others = [one for one in step.attempts if one is not attempt and one.outcome in HAPPENED]
        stands = any(one.reference == attempt.reference for one in others)
        return not stands
    return bool(attempt.reference and finding.reference and attempt.reference != finding.reference)


def _check_look(before: Node, event: Event, after: Node, moment: Moment) -> None:
    assert event.look is not None
    was, step = before.operation.step(event.step), after.operation.step(event.step)
    held = after.operation.hold_on(event.step)
    found = event.look.answer in {"confirmed", "accepted", "differs", "duplicate"}
    asked = held is not None and held.reason in CONTRADICTIONS
    nothing = {one.outcome for one in was.attempts} <= {Outcome.NO_CHANGE, None}
    bounced = any(one.no_change is NoChange.REJECTED for one in was.attempts)
    if found and was.attempts and nothing and not (bounced and event.look.answer == "accepted"):
        hold("law 9: a late lookup that finds something is held", asked)
        hold("law 9: and nothing more is sent", step.act not in SENDING)
    found_one = event.look.reference is not None and event.look.reference not in step.not_ours
    if found_one and was.attempts_with(Outcome.UNKNOWN) and not was.never_known:
        hold("law 9: what was found is remembered", bool(named(step) or step.reference or _happened(step)))
    if event.look.answer == LookAnswer.CONTRADICTED and step.state is StepState.UNKNOWN:
        hold("law 9: found, then not found, is asked about", asked)
    if event.look.answer == LookAnswer.DIFFERS:
        hold("law 6: a record that differs confirms nothing", _happened(was) == _happened(step))
    if event.look.answer == LookAnswer.DUPLICATE:
        hold("law 6: two records are held", asked)


def _happened(step: Step) -> set[str]:
    return {attempt.id for attempt in step.attempts if attempt.outcome in HAPPENED}


def _check_answer(before: Node, event: Event, after: Node, moment: Moment) -> None:
    assert event.given is not None
    closed = all(one.id != event.hold_id for one in after.operation.holds)
    hold("an answer ends its question", closed or event.given.answer in KEEPS_OPEN)


def _check_replay(before: Node, event: Event, after: Node, moment: Moment) -> None:
    was, step = before.operation.step(event.step), after.operation.step(event.step)
    hold(
        "law 8: a replay begins nothing that happened",
        was.state not in {StepState.CONFIRMED, StepState.ACCEPTED},
    )
    hold("row 2: nor anything of a cancelled operation", not before.operation.cancelled)
    hold("law 1: a replay sends nothing itself", len(step.attempts) == len(was.attempts))
    hold("a replay settles nothing itself", was.attempts == step.attempts)
    asked = before.operation.hold_on(event.step)
    hold(
        "law 9: a contradiction is not answered by a replay",
        asked is None or asked.reason not in CONTRADICTIONS,
    )
    others = [one for one in before.operation.holds if one.step != event.step]
    hold("a replay answers its own step's question only", all(one in after.operation.holds for one in others))


def _check_stated(before: Node, event: Event, after: Node, moment: Moment) -> None:
    """A provider's statement answers one open question about an unknown outcome, as a person would, and sends nothing."""
    was, step = before.operation.step(event.step), after.operation.step(event.step)
    asked = before.operation.hold_on(event.step)
    unknown = {HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED}
    hold("law 4: only an unknown step is stated", was.state is StepState.UNKNOWN)
    hold("law 4: that a person is asked about", asked is not None and asked.reason in unknown)
    hold("row 2: nothing of a cancelled operation", not before.operation.cancelled)
    hold("law 8: nothing that happened", not {one.outcome for one in was.attempts} & HAPPENED)
    hold("law 1: a statement sends nothing itself", len(step.attempts) == len(was.attempts))
    for old, new in zip(was.attempts, step.attempts, strict=True):
        said = (new.outcome, new.no_change, new.known_by)
        absent = (Outcome.NO_CHANGE, NoChange.ABSENT, KnownBy.PERSON)
        hold("law 3: it settles what is unknown, and nothing else", new == old or said == absent)
        hold("law 3: all of it", (new != old) == (old.outcome is Outcome.UNKNOWN))
    others = [one for one in before.operation.holds if one.step != event.step]
    hold(
        "a statement answers its own step's question only",
        all(one in after.operation.holds for one in others),
    )


_OF: Mapping[str, Callable[[Node, Event, Node, Moment], None]] = {
    "claim": _check_claim,
    "lease": _check_lease,
    "reply": _check_late,
    "look": _check_look,
    "answer": _check_answer,
    "replay": _check_replay,
    "stated": _check_stated,
}


def may_be_claimed_by_its_plan(operation: Operation, step: Step, tries_max: int, now: datetime) -> bool:
    """What `claim_sends.sql` reads of a step's row; it must agree with the rules."""
    return (
        step.performer is Performer.ENGINE
        and step.act is Act.SEND
        and step.act_at is not None
        and step.act_at <= now
        and (step.send_until is None or step.send_until > now)
        and step.tries_used < tries_max + step.tries_extra
        and not operation.cancelled
    )

"""Walks the reachable records of one operation with two steps, under every event of the rules, and asserts the laws.

    python -m tests.rules.explorer [TRANSITIONS | all] [NAME…]

Beside the record stands the peer: what really happened. Replies, lookups and reports follow from it; people may answer
anything, truthfully or not. Time moves in ticks: before and after a lease's end, after the quiet period, after the last
look, after the window or a deadline. Two states are the same when record and peer are, with times taken as spans from now
and only as far back as a rule looks; so there is an end to them. Each is visited once, nearest first, and a broken law
comes with a shortest path.

Bounds: two attempts a step, three revisions; and no further event is added once TRANSITIONS (3,000) were made in a scenario.
`all` walks to the end of every scenario, which takes hours.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from opsledger.rules import transitions
from opsledger.rules.absence import found_for, named
from opsledger.rules.answers import KEEPS_OPEN, REVISES, Answer, Given, answered, answers_for
from opsledger.rules.facts import LookupFact
from opsledger.rules.learning import Finding
from opsledger.rules.matching import LookAnswer, judge
from opsledger.rules.next_step import Policies, Policy, Rendered
from opsledger.rules.profile import ActionProfile, FinalEffectBy, ProtectionKind, ReplayMeaning, Retries
from opsledger.rules.record import Act, Hold, KnownBy, Operation, Performer, Step
from opsledger.rules.replays import RUNS, Beside, Reason, Stated, VerdictKind, begun, verdict_of
from opsledger.rules.revisions import Approval, approved, moved_to_content
from opsledger.rules.schedule import counts_as_look
from opsledger.rules.settling import Moment, NotNow, settled
from opsledger.rules.states import ENDED_STATES, HoldReason, NoChange, Outcome, StepState
from opsledger.rules.transitions import Look
from tests.rules.builders import (
    BY_LOOKUP,
    BY_REPORT,
    KEYED,
    LEASE_SECONDS,
    LOOKUP,
    PLAIN,
    POSITIVE_ONLY,
    TICK_SECONDS,
    WINDOW_SECONDS,
    World,
    at,
    policy,
    profile,
)
from tests.rules.laws import (
    Event,
    Node,
    check_record,
    check_transition,
    hold,
    may_be_claimed_by_its_plan,
)
from tests.rules.peer import FIELDS, IDENTITY, Peer, consumed, looks, may_arrive, sends

ATTEMPTS_MAX = 2
APPROVED_TICKS = 2  # how long an approval is good for a first send
LOOKS_MAX = 5  # beyond the planned ones that people ask for
_KEEPS_LATER = frozenset(
    {Answer.HAPPENED, Answer.ABSENT_SEND_AGAIN, Answer.CLOSE_UNKNOWN, Answer.LEAVE_ACCEPTED}
)
_DONE = frozenset({StepState.CONFIRMED, StepState.ACCEPTED, StepState.SKIPPED})
_DENIALS = frozenset({Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_END, Answer.ABSENT_REVISE, Answer.NOT_OURS})


@dataclass(frozen=True, slots=True)
class Scenario:
    """One destination's profile, and how its operation is run."""

    name: str
    shape: ActionProfile = PLAIN
    recovers: bool = True
    accepts: bool = False  # its replies only take the work over
    accepted_is_enough: bool = False
    continues_after_failure: bool = False
    performer: Performer = Performer.ENGINE
    steps: int = 2
    cancels: bool = False
    replaced: bool = False  # another operation may take its place, once nothing of it goes on
    withdraws: bool = False
    restores: bool = False
    replays: bool = False
    states: bool = False  # its replays come with a provider's statement that it did not happen, true or not
    vanishes: bool = False  # a record that a lookup found may be deleted by a colleague
    names: bool = False  # a reply may name the record that exists, and say nothing else (409)
    overlaps: bool = False  # lookups take time; things happen while one is under way
    taken: bool = False  # the references that its replies name belong to another operation
    not_after: float | None = None
    sends_few: bool = False  # step 1 acts or is lost, and nothing else
    second_in_full: bool = False  # step 2 may go in every way, too
    revises: int = 1  # the last revision that people's answers, or content versions, lead to
    content: bool = False  # step 1 shows content that needs approval; versions 1 and 2 are proposed in turn

    def policies(self) -> tuple[Policy, ...]:
        first = policy(
            self.shape,
            recovers=self.recovers,
            accepted_is_enough=self.accepted_is_enough,
            render=shown_content,
        )
        second = policy(PLAIN, recovers=False, continues_after_failure=self.continues_after_failure)
        return (first, second)[: self.steps]


def shown_content(operation: Operation, step: Step) -> Rendered:
    """What is sent depends on the content; its key on the revision."""
    return Rendered(f"bytes {step.content_number}/{step.revision}", f"shown {step.content_number}")


@dataclass(slots=True)
class Visited:
    """How a walk went."""

    scenario: Scenario
    states: int = 0
    transitions: int = 0
    events: int = 0  # the length of the longest path
    ended: bool = False  # nothing is left to visit within two attempts a step
    seconds: float = 0.0
    reasons: set[HoldReason] = field(default_factory=set)
    step_states: set[StepState] = field(default_factory=set)
    moves: set[tuple[StepState, StepState]] = field(default_factory=set)
    answers: set[tuple[HoldReason, Answer]] = field(default_factory=set)


class Violation(AssertionError):
    """A broken law with the shortest path of events to it."""

    def __init__(self, scenario: Scenario, why: str, path: list[str]) -> None:
        lines = [f"{scenario.name}: {why}", *(f"  {number}. {line}" for number, line in enumerate(path, 1))]
        super().__init__("\n".join(lines))


Step_ = tuple[Event, Node]


class Walk:
    """One scenario, walked to its bounds."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World(*scenario.policies())
        self.policies: Policies = self.world.policies
        self.parents: dict[Hashable, tuple[Hashable, str] | None] = {}
        self.visited = Visited(scenario)
        self._accepts = scenario.accepts or scenario.shape.final_effect is not None

    def run(self, transitions_max: int | None = None) -> Visited:
        """Layer by layer: all states that are one event away, two events away, and so on."""
        began, visited = time.monotonic(), self.visited
        first = self.first()
        layer = [(self._key(first), first)]
        self.parents[layer[0][0]] = None
        while layer and (transitions_max is None or visited.transitions < transitions_max):
            layer = [item for key, node in layer for item in self._expand(key, node)]
            visited.events += bool(layer)
        visited.states, visited.ended = len(self.parents), not layer
        visited.seconds = time.monotonic() - began
        return visited

    def first(self) -> Node:
        not_after = None if self.scenario.not_after is None else at(self.scenario.not_after)
        fields = {"approval_needed": True, "content_number": 1} if self.scenario.content else {}
        operation = self.world.opened(not_after=not_after, performer=self.scenario.performer, **fields)
        for step in operation.steps[1:]:
            step.performer = Performer.ENGINE
            step.approval_needed, step.content_number = False, None
        return Node(operation, tuple(Peer() for _ in operation.steps), 0)

    def _expand(self, key: Hashable, node: Node) -> Iterator[tuple[Hashable, Node]]:
        moment = self.world.at(node.tick)
        ending: set[str] = set()
        label = ""
        try:
            for event, after in self.events(node):
                label = event.label
                self.visited.transitions += 1
                new = self._key(after)
                if after.tick == node.tick:
                    check_transition(node, event, after, self.policies, moment)
                    self._note(node, event, after, ending)
                if new not in self.parents:
                    if after.tick == node.tick:
                        check_record(after, self.policies, moment)
                    self.parents[new] = (key, label)
                    yield new, after
                self.world.at(node.tick)
            label = "(here)"
            for one in node.operation.holds:
                hold(f"law 13: {one.reason.value} can be ended", one.id in ending)
        except (AssertionError, NotNow) as why:
            raise Violation(self.scenario, str(why) or repr(why), [*self._path(key), label]) from why

    def _note(self, node: Node, event: Event, after: Node, ending: set[str]) -> None:
        visited = self.visited
        visited.reasons |= {one.reason for one in after.operation.holds}
        for was, step in zip(node.operation.steps, after.operation.steps, strict=True):
            visited.step_states.add(step.state)
            if was.state is not step.state:
                visited.moves.add((was.state, step.state))
        if event.given is not None:
            visited.answers.add((node.operation.hold(event.hold_id).reason, event.given.answer))
            if event.given.answer not in KEEPS_OPEN:
                ending.add(event.hold_id)

    def _path(self, key: Hashable) -> list[str]:
        path: list[str] = []
        while (parent := self.parents[key]) is not None:
            key, label = parent
            path.append(label)
        return path[::-1]

    # Events

    def events(self, node: Node) -> Iterator[Step_]:
        """Everything that may happen next, with what it makes of the record and of the peer."""
        moment = self.world.at(node.tick)
        landed = tuple(peer.landed() for peer in node.peers)
        yield (
            Event(f"time comes to tick {node.tick + 1}", "time"),
            Node(node.operation, landed, node.tick + 1),
        )
        swept = transitions.time_passed(node.operation, moment)
        if swept != node.operation:
            yield Event("the sweep runs", "sweep"), Node(swept, node.peers, node.tick)
        for step in node.operation.steps:
            yield from self._attempt_events(node, step, moment)
            if step.number == 1:
                yield from self._look_events(node, step, moment)
                yield from self._report_events(node, step, moment)
                yield from self._request_events(node, step, moment)
                yield from self._version_events(node, step, moment)
        for one in node.operation.holds:
            yield from self._answer_events(node, one, moment)
        yield from self._operation_events(node, moment)

    def _attempt_events(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        yield from self._claims(node, step, moment)
        peer = node.peers[step.number - 1]
        opened = step.open_attempt
        if opened is not None and moment.now >= opened.lease_ends_at:
            after = transitions.lease_ended(node.operation, step.number, opened.id, moment)
            event = Event(f"step {step.number}: the lease ends", "lease", step.number, opened.number)
            yield event, self._moved(node, after)
        if opened is not None and step.performer is Performer.AUTOMATION and step.number == 1:
            yield from self._heartbeats(node, step, moment)
        for attempt in step.attempts:
            reply = may_arrive(peer, attempt.number) if attempt.number <= len(peer.replies) else ""
            if reply:
                finding = self._finding(reply, step, moment)
                after = transitions.attempt_ended(node.operation, step.number, attempt.id, finding, moment)
                label = f"step {step.number}: attempt {attempt.number} is answered: {reply}"
                event = Event(label, "reply", step.number, attempt.number, finding=finding)
                yield event, self._moved(node, after, step.number, consumed(peer, attempt.number))

    def _claims(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        number = step.number
        lease_ends_at = moment.now + timedelta(seconds=LEASE_SECONDS)
        attempt_id = f"s{number}a{len(step.attempts) + 1}"
        tries_max = self.policies[number].profile.retries.tries_max
        by_plan = may_be_claimed_by_its_plan(node.operation, step, tries_max, moment.now)
        try:
            after = transitions.claimed(
                node.operation, number, attempt_id=attempt_id, lease_ends_at=lease_ends_at, moment=moment
            )
        except NotNow:
            hold("the plan and the rules agree on what is sent", not by_plan)
            return
        hold(
            "the plan and the rules agree on what is sent",
            by_plan or step.act is not Act.SEND or self._stale(node, moment),
        )
        if len(step.attempts) >= ATTEMPTS_MAX:
            return
        few = self.scenario.sends_few if number == 1 else not self.scenario.second_in_full
        shape, before = self.policies[number].profile, node.peers[number - 1]
        if before.revision != step.revision:  # another key
            before = replace(before, revision=step.revision, key_seen=None)
        for how, peer in sends(before, shape, node.tick, few=few, names=self.scenario.names):
            event = Event(f"step {number} is sent: {how}", "claim", number)
            yield event, self._moved(node, after, number, peer)

    def _stale(self, node: Node, moment: Moment) -> bool:
        return transitions.time_passed(node.operation, moment) != node.operation

    def _heartbeats(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        attempt = step.open_attempt
        assert attempt is not None
        longest = attempt.opened_at + timedelta(seconds=LEASE_SECONDS + 100)
        if attempt.lease_ends_at < longest:
            after = transitions.lease_extended(node.operation, step.number, attempt.id, longest, moment)
            yield Event("step 1: the automation asks for more time", "heartbeat"), self._moved(node, after)

    def _finding(self, reply: str, step: Step, moment: Moment) -> Finding:
        by = KnownBy.AUTOMATION if step.performer is Performer.AUTOMATION else KnownBy.REPLY
        kind, _, reference = reply.partition(":")
        if kind == "done":
            outcome = Outcome.ACCEPTED if step.number == 1 and self._accepts else Outcome.CONFIRMED
            keyed = self.policies[step.number].profile.protection.kind is not ProtectionKind.NONE
            taken_by = "op-7" if self.scenario.taken and step.number == 1 else None
            return Finding(outcome, by, reference=reference, settles_earlier=keyed, taken_by=taken_by)
        if kind == "named":
            return Finding(Outcome.UNKNOWN, by, reference=reference)
        if kind == "error":
            return Finding(Outcome.UNKNOWN, by, answered_with_error=True)
        if kind == "not_sent":
            return Finding(Outcome.NO_CHANGE, KnownBy.TRANSPORT, no_change=NoChange.NOT_SENT)
        if kind == "rejected":
            return Finding(Outcome.NO_CHANGE, by, no_change=NoChange.REJECTED)
        later = moment.now + timedelta(seconds=50)
        return Finding(Outcome.NO_CHANGE, by, no_change=NoChange.DEFERRED, not_before=later)

    # Lookups, as `ledger.actions.record` judges them

    def _look_events(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        peer, shape = node.peers[0], self.scenario.shape
        if peer.asked is not None:
            label, fact, asked_tick = peer.asked
            answered_peer = replace(peer, asked=None)
            yield from self._answered_look(node, step, moment, answered_peer, label, fact, asked_tick)
        due = step.act is Act.LOOK and step.act_at is not None and step.act_at <= moment.now
        if not due or peer.asked is not None or shape.lookup is None:
            return
        differing = not self.scenario.overlaps
        for label, fact in looks(peer, shape, node.tick, differing=differing):
            yield from self._answered_look(node, step, moment, peer, label, fact, node.tick)
            if self.scenario.overlaps:
                asked = replace(peer, asked=(label, fact, node.tick))
                yield Event(f"a lookup begins ({label})", "ask"), self._moved(node, node.operation, 1, asked)

    def _answered_look(
        self,
        node: Node,
        step: Step,
        moment: Moment,
        peer: Peer,
        label: str,
        fact: LookupFact,
        asked_tick: int,
    ) -> Iterator[Step_]:
        for look, final in self._judged(node.operation, peer, fact, asked_tick):
            after = transitions.looked(node.operation, 1, look, moment)
            word = f"the lookup {label}" + (f", {final}" if final else "")
            event = Event(word, "look", 1, look=look, asked_tick=asked_tick)
            yield event, self._moved(node, after, 1, replace(peer, final=final or peer.final))

    def _judged(
        self, operation: Operation, peer: Peer, fact: LookupFact, asked_tick: int
    ) -> Iterator[tuple[Look, str]]:
        shape, finals, step = self.scenario.shape, self._finals(peer, fact), operation.step(1)
        assert shape.lookup is not None
        if step.state is StepState.ACCEPTED:
            for final in finals:
                reference = fact.records[0].reference if fact.records else None
                word = {"delivered": "confirmed", "bounced": "failed"}.get(final, "running")
                yield Look(word if fact.records else "no_answer", reference=reference), final
            return
        latest = step.latest_possible_at or at(asked_tick)
        verdict = judge(
            IDENTITY,
            FIELDS,
            shape.lookup,
            fact,
            counted=counts_as_look(at(asked_tick), latest, shape.lookup),
            counted_before=step.looks_none,
            reference_taken_by=None,
            effect=shape.effect,
            contradicted=found_for(step, operation.hold_on(1)),
            not_ours=step.not_ours,
        )
        facts: dict[str, Any] = {}
        if verdict.reference:
            facts["reference"] = verdict.reference
        if verdict.references:
            facts["references"] = list(verdict.references)
        for final in finals if verdict.answer is LookAnswer.CONFIRMED else [""]:
            answer = verdict.answer.value
            if verdict.answer is LookAnswer.CONFIRMED and shape.final_effect is not None:
                answer = {"delivered": "confirmed", "bounced": "bounced"}.get(final, "accepted")
            look = Look(
                answer,
                reference=verdict.reference,
                counted=verdict.counted,
                applies=self.scenario.recovers or step.look_applies,
                facts=facts,
            )
            yield look, final

    def _finals(self, peer: Peer, fact: LookupFact) -> list[str]:
        final = self.scenario.shape.final_effect
        if final is None or final.by is not FinalEffectBy.LOOKUP or not fact.records:
            return [""]
        return [peer.final] if peer.final else ["", "delivered", "bounced"]

    # Reports of the final effect

    def _report_events(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        peer, final = node.peers[0], self.scenario.shape.final_effect
        if final is None or final.by is not FinalEffectBy.REPORT or not peer.effects:
            return
        reference = peer.effects[0]
        same = step.reference is None or step.reference == reference
        for word in [peer.final] if peer.final else ["delivered", "bounced"]:
            finding = Finding(Outcome.NO_CHANGE, KnownBy.REPORT, no_change=NoChange.REJECTED)
            if word == "delivered":
                finding = Finding(Outcome.CONFIRMED, KnownBy.REPORT, reference=reference)
            after = transitions.reported(node.operation, 1, finding, final=same, moment=moment)
            event = Event(f"a report says: {word}", "report", 1, finding=finding)
            yield event, self._moved(node, after, 1, replace(peer, final=word))

    # People

    def _answer_events(self, node: Node, one: Hold, moment: Moment) -> Iterator[Step_]:
        step, peer = node.operation.step(one.step), node.peers[one.step - 1]
        reference = next(iter(peer.happened), "X1")
        later = frozenset({other.number for other in node.operation.later(step)})
        if one.reason is HoldReason.APPROVAL_NEEDED:
            yield self._approved(node, step, moment)
        for answer in answers_for(node.operation, one):
            if answer in REVISES and step.revision >= self.scenario.revises:
                continue
            for keep_later in {frozenset[int](), later} if answer in _KEEPS_LATER else [frozenset[int]()]:
                given = Given(
                    answer,
                    reference=reference if answer is not Answer.NOT_OURS else None,
                    next_check_at=at(node.tick + 1),
                    keep_later=keep_later,
                )
                after = answered(node.operation, one.id, given, moment)
                denied = peer.denied or (answer in _DENIALS and bool(peer.happened))
                kept = " and keeps what follows" if keep_later else ""
                label = f"step {step.number}: {one.reason.value} is answered: {answer.value}{kept}"
                event = Event(label, "answer", step.number, given=given, hold_id=one.id)
                yield event, self._moved(node, after, step.number, replace(peer, denied=denied))

    def _approved(self, node: Node, step: Step, moment: Moment) -> Step_:
        shown = self.policies[step.number].render(node.operation, step).content_digest or ""
        approval = Approval(shown, at(node.tick + APPROVED_TICKS))
        after = approved(node.operation, {step.number: approval}, moment)
        event = Event(f"step {step.number}: the request is approved", "approve", step.number)
        peer = node.peers[step.number - 1]
        known = tuple(sorted({*peer.approved, step.revision}))
        return event, self._moved(node, after, step.number, replace(peer, approved=known))

    def _version_events(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        if not self.scenario.content or step.revision >= self.scenario.revises:
            return
        other = 2 if step.content_number == 1 else 1
        after = moved_to_content(node.operation, other, moment)
        if after != node.operation:
            event = Event(f"content version {other} takes the place of the other", "version", 1)
            yield event, self._moved(node, after)

    def _request_events(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        if step.act is not Act.LOOK and step.looks < LOOKS_MAX and self.scenario.withdraws:
            try:
                after = transitions.look_requested(node.operation, 1, moment.now, moment)
                yield Event("a person asks for a look now", "check"), self._moved(node, after)
            except NotNow:
                pass
        if self.scenario.withdraws:
            try:
                after = transitions.withdrawn(node.operation, 1, moment, by="person:olga")
                yield Event("an owner withdraws the answer", "withdraw", 1), self._moved(node, after)
            except NotNow:
                pass

    def _replay_events(self, node: Node, moment: Moment) -> Iterator[Step_]:
        """A replay begins each step that its verdict lets run. That something happened, no verdict overlooks."""
        for step in node.operation.steps:
            if self.scenario.states:
                yield from self._stated_events(node, step, moment)
            verdict = verdict_of(node.operation, step, self.policies, moment.now)
            hold("law 8: done is kept", (step.state in _DONE) == (verdict.kind is VerdictKind.KEEP))
            if verdict.kind in RUNS:
                after = begun(node.operation, step.number, verdict, moment)
                label = f"step {step.number} is replayed: {verdict.kind.value} ({verdict.reason.value})"
                if after != node.operation and step.tries_extra < 2:
                    yield Event(label, "replay", step.number), self._moved(node, after)

    def _stated_events(self, node: Node, step: Step, moment: Moment) -> Iterator[Step_]:
        """A provider's statement about the question as it stands, or about an earlier one, which decides nothing."""
        held = node.operation.hold_on(step.number)
        if held is None:
            return
        for hold_id, attempts in ((held.id, len(step.attempts)), (held.id, 0), ("an earlier question", 1)):
            beside = Beside(stated_absent={step.number: Stated("stm", hold_id, attempts)})
            verdict = verdict_of(node.operation, step, self.policies, moment.now, beside)
            if verdict.reason is not Reason.STATED_ABSENT:
                continue
            hold("law 4: stated of this question", (hold_id, attempts) == (held.id, len(step.attempts)))
            after = begun(node.operation, step.number, verdict, moment)
            peer = node.peers[step.number - 1]
            denied = replace(peer, denied=peer.denied or bool(peer.happened))
            event = Event(f"step {step.number} is stated not to have happened", "stated", step.number)
            if step.tries_extra < 2:
                yield event, self._moved(node, after, step.number, denied)

    def _operation_events(self, node: Node, moment: Moment) -> Iterator[Step_]:
        operation = node.operation
        if self.scenario.replays:
            yield from self._replay_events(node, moment)
        if self.scenario.vanishes and named(operation.step(1)) and not node.peers[0].gone:
            gone = replace(node.peers[0], gone=True)
            yield Event("a colleague deletes the record", "deleted"), self._moved(node, operation, 1, gone)
        if self.scenario.cancels and not operation.cancelled and operation.state not in ENDED_STATES:
            after = transitions.cancel_requested(operation, moment)
            yield Event("the operation is cancelled", "cancel"), self._moved(node, after)
        if self.scenario.replaced and not operation.replaced and _may_be_replaced(operation):
            after = settled(replace(operation.copy(), replaced=True), moment)
            yield Event("another operation replaces it", "replaced"), self._moved(node, after)
        if self.scenario.restores and len(operation.step(1).attempts) < ATTEMPTS_MAX:
            yield from self._restored(node, moment)

    def _restored(self, node: Node, moment: Moment) -> Iterator[Step_]:
        """A restored backup forgets an attempt of step 1, and what a person may have said before it: also a revision, so
        what it did was done under another key."""
        after = transitions.restored(node.operation, moment.now + timedelta(seconds=10), moment)
        was, peer = node.operation.step(1), node.peers[0]
        if len(after.step(1).attempts) == len(was.attempts):
            if after != node.operation:
                yield Event("a backup is restored", "restore"), self._moved(node, after)
            return
        for acted in (False, True):
            word = "had been" if acted else "had not been"
            event = Event(f"a backup is restored; step 1 {word} sent", "restore")
            forgotten = replace(peer, replies=(*peer.replies, ""))
            if acted and (not peer.happened or self.scenario.shape.protection.kind is ProtectionKind.NONE):
                effects = (*peer.effects, f"R{len(forgotten.replies)}")
                visible_at, denied = node.tick + 1, peer.denied or bool(peer.happened)
                forgotten = replace(forgotten, effects=effects, visible_at=visible_at, denied=denied)
            yield event, self._moved(node, after, 1, forgotten)

    @staticmethod
    def _moved(node: Node, operation: Operation, number: int = 0, peer: Peer | None = None) -> Node:
        peers = list(node.peers)
        if peer is not None:
            peers[number - 1] = peer
        return Node(operation, tuple(peers), node.tick)

    # Which states are the same

    def _key(self, node: Node) -> Hashable:
        """Times count as spans from now, and only as far back as a rule looks; so time has an end, and so has the walk."""
        operation, clock = node.operation, _Clock(at(node.tick), self.scenario)
        holds = tuple(
            (one.step, one.reason, one.facts.get("reference"), tuple(one.facts.get("references", ())))
            for one in sorted(operation.holds, key=lambda one: one.step)
        )
        steps = tuple(_step_key(step, clock) for step in operation.steps)
        peers = tuple(_peer_key(peer, node.tick) for peer in node.peers)
        not_after = clock.since(operation.not_after, 0)
        ended = (operation.cancelled, operation.replaced)
        return (ended, operation.state, not_after, holds, steps, peers)


def _may_be_replaced(operation: Operation) -> bool:
    """As `ledger/actions/earlier.py` has it: settled, or nothing of it can have an effect and a person is asked."""
    if operation.state in ENDED_STATES:
        return True
    goes_on = any(
        step.state is StepState.READY and not operation.hold_on(step.number) for step in operation.steps
    )
    may_act = any(step.state in _MAY_ACT for step in operation.steps)
    return bool(operation.holds) and not goes_on and not may_act


_MAY_ACT = frozenset({StepState.IN_FLIGHT, StepState.ACCEPTED, StepState.UNKNOWN})
_LONGEST_LOOK_SECONDS = 400  # a lease, and everything that is planned after it
_LONGEST_WAIT_SECONDS = 260  # for a final effect


class _Clock:
    def __init__(self, now: datetime, scenario: Scenario) -> None:
        self.now = now
        shape = scenario.shape
        self.looks = _LONGEST_LOOK_SECONDS if shape.lookup else 0
        self.window = WINDOW_SECONDS if shape.protection.kind is not ProtectionKind.NONE else None
        self.offer = 160 if scenario.performer is Performer.AUTOMATION else 0

    def since(self, moment: datetime | None, longest_seconds: int) -> float | None:
        if moment is None:
            return None
        return max((moment - self.now).total_seconds(), -longest_seconds)


def _step_key(step: Step, clock: _Clock) -> Hashable:
    """All that can matter of a step from here on; what is read in certain states only counts in these."""
    since = clock.since
    looking: Hashable = None
    if step.state in {StepState.UNKNOWN, StepState.ACCEPTED, StepState.IN_FLIGHT}:
        looked = (since(step.looked_at, 100), since(step.look_at, 0), since(step.unknown_at, clock.looks))
        waited = since(step.accepted_at, _LONGEST_WAIT_SECONDS) if step.state is StepState.ACCEPTED else None
        looking = (min(step.looks, LOOKS_MAX), min(step.looks_none, 2), looked, waited)
    sending: Hashable = None
    if step.state in {StepState.READY, StepState.UNKNOWN, StepState.WAITING}:
        sending = (since(step.not_before, clock.offer), since(step.ready_at, clock.offer))
    attempts = tuple(
        (
            one.outcome,
            one.no_change,
            one.reference,
            one.known_by,
            one.revision,
            since(one.opened_at, clock.window) if clock.window else None,
            since(one.lease_ends_at, clock.looks),
        )
        for one in step.attempts
    )
    said = (
        step.rejection_waived,
        step.lateness_waived,
        step.final_waived,
        step.never_known,
        step.go_on_after,
        step.not_ours,
        step.answered_with_error,
        step.tries_extra,
        step.resend_asked,
        step.look_applies,
    )
    plan = (step.act, since(step.act_at, 0), since(step.send_until, 0))
    asked = (step.revision, step.approval_needed, step.approved_digest, since(step.approved_until, 0))
    return (step.state, step.reference, step.request_digest, asked, attempts, looking, sending, said, plan)


def _peer_key(peer: Peer, tick: int) -> Hashable:
    seen = None if peer.key_seen is None else min(tick - peer.key_seen, WINDOW_SECONDS // TICK_SECONDS)
    asked = None if peer.asked is None else (peer.asked[0], min(tick - peer.asked[2], 4))
    visible = max(peer.visible_at - tick, 0)
    known = (peer.revision, peer.approved)
    told = (peer.final, peer.denied, peer.gone)
    return (peer.effects, peer.landing, seen, peer.replies, visible, told, asked, known)


# The matrix

_BOTH, _POSITIVE = profile(lookup=LOOKUP), profile(lookup=POSITIVE_ONLY)
_KEYED = profile(protection=KEYED)
_MORE_TRIES = profile(protection=KEYED, retries=Retries(tries_max=3, delays_seconds=(50,)))
_KEYED_BOTH = profile(protection=KEYED, lookup=LOOKUP)
_KEYED_POSITIVE = profile(protection=KEYED, lookup=POSITIVE_ONLY)
_SUCCESSES_ONLY = profile(
    protection=replace(KEYED, replay=ReplayMeaning.FIRST_SUCCESS_ONLY), lookup=POSITIVE_ONLY
)
_REPORTED, _REPORTED_KEYED = (
    profile(final_effect=BY_REPORT),
    profile(final_effect=BY_REPORT, protection=KEYED),
)
_LOOKED_UP = profile(final_effect=BY_LOOKUP, lookup=LOOKUP)

SCENARIOS = (
    Scenario("no protection, no lookup"),
    Scenario("no protection, no lookup; cancelled", cancels=True),
    Scenario("no protection, lookup settles both ways", _BOTH),
    Scenario("no protection, lookup settles both ways; cancelled", _BOTH, cancels=True, steps=1),
    Scenario(
        "no protection, positive lookup, recovery off",
        _POSITIVE,
        recovers=False,
        continues_after_failure=True,
    ),
    Scenario("key, no lookup", _KEYED),
    Scenario("key, no lookup; deep", _KEYED, steps=1, sends_few=True),
    Scenario("key, lookup settles both ways", _KEYED_BOTH, steps=1),
    Scenario("key, more tries than are walked", _MORE_TRIES, steps=1, sends_few=True),
    Scenario("a reference that is taken", _KEYED, taken=True, steps=1),
    Scenario("key, positive lookup; cancelled", _KEYED_POSITIVE, cancels=True, steps=1),
    Scenario("key that keeps successes only", _SUCCESSES_ONLY, steps=1),
    Scenario("key, positive lookup, recovery off", _KEYED_POSITIVE, recovers=False, steps=1),
    Scenario("final effect by report", _REPORTED),
    Scenario("final effect by report, accepted is enough", _REPORTED_KEYED, accepted_is_enough=True),
    Scenario("final effect by lookup", _LOOKED_UP, steps=1),
    Scenario("final effect by lookup, recovery off; cancelled", _LOOKED_UP, recovers=False, cancels=True),
    Scenario("no final effect is documented", accepts=True),
    Scenario("a second step in every way", sends_few=True, second_in_full=True),
    Scenario("by an automation", performer=Performer.AUTOMATION),
    Scenario(
        "by an automation; looked up, cancelled", _BOTH, performer=Performer.AUTOMATION, cancels=True, steps=1
    ),
    Scenario("a latest moment", not_after=1.5),
    Scenario("lookups that take time", _BOTH, recovers=False, overlaps=True, steps=1, sends_few=True),
    Scenario("lookups that take time, under a key", _KEYED_POSITIVE, overlaps=True, steps=1, sends_few=True),
    Scenario("answers withdrawn", _BOTH, withdraws=True, sends_few=True),
    Scenario("answers withdrawn, final effect by report", _REPORTED, withdraws=True, steps=1),
    Scenario("a restored backup", _KEYED_BOTH, restores=True, sends_few=True),
    Scenario("replaced, answers withdrawn", _BOTH, replaced=True, withdraws=True, sends_few=True),
    Scenario("replaced, final effect by report", _REPORTED, replaced=True, sends_few=True),
    Scenario(
        "replaced, goes on after a failure, a restored backup",
        _KEYED_BOTH,
        replaced=True,
        restores=True,
        continues_after_failure=True,
    ),
    Scenario("a restored backup, key, no lookup", _KEYED, restores=True, steps=1, sends_few=True),
    Scenario("content to be approved", content=True, revises=3, steps=1),
    Scenario(
        "content to be approved, under a key; cancelled",
        _KEYED,
        content=True,
        revises=2,
        cancels=True,
        steps=1,
    ),
    Scenario(
        "content to be approved, looked up, a step after it", _BOTH, content=True, revises=2, sends_few=True
    ),
    Scenario(
        "content to be approved, by an automation",
        content=True,
        revises=2,
        performer=Performer.AUTOMATION,
        steps=1,
    ),
    Scenario(
        "content to be approved; a restored backup",
        _KEYED_BOTH,
        content=True,
        revises=2,
        restores=True,
        steps=1,
    ),
    Scenario("revisions", revises=2, steps=1),
    Scenario("revisions, under a key; deep", _KEYED, revises=2, steps=1, sends_few=True),
    Scenario("replayed, key, recovery off", _KEYED, recovers=False, replays=True, sends_few=True),
    Scenario("replayed, key and lookup, recovery off", _KEYED_BOTH, recovers=False, replays=True, steps=1),
    Scenario("replayed, key and lookup", _KEYED_BOTH, replays=True, steps=1),
    Scenario("replayed, lookup settles both ways, recovery off", _BOTH, recovers=False, replays=True),
    Scenario(
        "replayed, lookups that take time, withdrawn",
        _KEYED_BOTH,
        recovers=False,
        replays=True,
        overlaps=True,
        withdraws=True,
        cancels=True,
        steps=1,
        sends_few=True,
    ),
    Scenario(
        "found, then gone; replayed, recovery off",
        _BOTH,
        recovers=False,
        replays=True,
        states=True,
        vanishes=True,
        steps=1,
        sends_few=True,
    ),
    Scenario(
        "found, then gone; by an automation, cancelled",
        _BOTH,
        recovers=False,
        replays=True,
        vanishes=True,
        cancels=True,
        performer=Performer.AUTOMATION,
        steps=1,
    ),
    Scenario(
        "named by the destination, then gone", _BOTH, vanishes=True, names=True, steps=1, sends_few=True
    ),
    Scenario("replayed, final effect by report", _REPORTED_KEYED, replays=True, accepted_is_enough=True),
    Scenario("stated not to have happened", recovers=False, replays=True, states=True, sends_few=True),
    Scenario(
        "stated not to have happened, key and lookup; cancelled",
        _KEYED_BOTH,
        recovers=False,
        replays=True,
        states=True,
        cancels=True,
        steps=1,
    ),
    Scenario(
        "stated not to have happened, withdrawn",
        _KEYED,
        recovers=False,
        replays=True,
        states=True,
        withdraws=True,
        steps=1,
    ),
    Scenario(
        "replayed, by an automation", _BOTH, recovers=False, performer=Performer.AUTOMATION, replays=True
    ),
)
TRANSITIONS_MAX = 3_000


def main(arguments: list[str]) -> int:
    everything = "all" in arguments
    wanted = next((int(word) for word in arguments if word.isdigit()), TRANSITIONS_MAX)
    names = [word for word in arguments if not word.isdigit() and word != "all"]
    total = Visited(Scenario("together"))
    for scenario in SCENARIOS:
        if names and not any(name in scenario.name for name in names):
            continue
        visited = Walk(scenario).run(None if everything else wanted)
        total.states += visited.states
        total.transitions += visited.transitions
        total.seconds += visited.seconds
        sys.stdout.write(f"{line(visited)}\n")
        sys.stdout.flush()
    bound = "to the end" if everything else f"{wanted:,} transitions a scenario"
    sys.stdout.write(f"{line(total)}\nbounds: {bound}, {ATTEMPTS_MAX} attempts a step, 3 revisions\n")
    return 0


def line(visited: Visited) -> str:
    events = "to the end" if visited.ended else f"{visited.events} events" if visited.events else ""
    return (
        f"{visited.states:9,} states {visited.transitions:10,} transitions {visited.seconds:7.1f} s"
        f"  {events:10}  {visited.scenario.name}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

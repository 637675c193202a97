"""Profiles, records and moments for tests of the rules. Time runs in ticks of a hundred seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from opsledger.rules import transitions
from opsledger.rules.answers import Answer, Given, answered
from opsledger.rules.learning import Finding
from opsledger.rules.next_step import Policy
from opsledger.rules.profile import (
    ActionProfile,
    Effect,
    FinalEffect,
    FinalEffectBy,
    Lookup,
    Protection,
    ProtectionKind,
    Retries,
    Settles,
    Source,
    Timing,
)
from opsledger.rules.record import KnownBy, Operation, Step
from opsledger.rules.settling import Moment, settled
from opsledger.rules.states import HoldReason, NoChange, Outcome, StepState

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TICK_SECONDS = 100
LEASE_SECONDS = 60
QUIET_SECONDS = 90
WINDOW_SECONDS = 500
SOURCE = Source("https://peer.example/docs", "2026-02-01")


def at(ticks: float) -> datetime:
    return T0 + timedelta(seconds=ticks * TICK_SECONDS)


# Profiles

PLAIN = ActionProfile(
    destination="crm",
    action="create_task",
    retries=Retries(tries_max=2, delays_seconds=(50,)),
    timing=Timing(connect_seconds=5, total_seconds=30, lease_seconds=LEASE_SECONDS, claim_within_seconds=150),
)
KEYED = Protection(
    ProtectionKind.IDEMPOTENCY_KEY,
    window_seconds=WINDOW_SECONDS,
    key_in="header:Idempotency-Key",
    source=SOURCE,
)
LOOKUP = Lookup(
    settles=Settles.BOTH,
    quiet_seconds=QUIET_SECONDS,
    delays_seconds=(100,),
    last_look_seconds=240,
    identity="external_id",
    decisive=(("subject", "subject"),),
    source=SOURCE,
)
POSITIVE_ONLY = replace(LOOKUP, settles=Settles.POSITIVE_ONLY)
BY_LOOKUP = FinalEffect(FinalEffectBy.LOOKUP, deadline_seconds=250, look_delays_seconds=(100, 100))
BY_REPORT = FinalEffect(FinalEffectBy.REPORT, deadline_seconds=250)


def profile(**changes: Any) -> ActionProfile:
    return replace(PLAIN, **changes)


def message(**changes: Any) -> ActionProfile:
    """Something that is only taken over, its final effect told by a report."""
    return profile(effect=Effect.MESSAGE, final_effect=BY_REPORT, **changes)


def policy(shape: ActionProfile = PLAIN, *, recovers: bool = True, **changes: Any) -> Policy:
    return Policy(profile=shape, automatic_recovery=recovers, **changes)


# Moments


class World:
    """Policies per step, and a clock that stands until it is set."""

    def __init__(self, *policies: Policy) -> None:
        self.policies: Mapping[int, Policy] = dict(enumerate(policies or (policy(),), start=1))
        self.now = T0
        self._numbers = count(1)

    def at(self, ticks: float) -> Moment:
        self.now = at(ticks)
        return self.moment

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.policies, lambda: f"id{next(self._numbers)}")

    def opened(self, *, not_after: datetime | None = None, **fields: Any) -> Operation:
        """A new operation at rest, its first step ready. It was recorded a moment before anything of it can be claimed."""
        steps = [
            Step(number=number, name=f"step{number}", destination="crm", action="create_task", **fields)
            for number in self.policies
        ]
        return settled(
            Operation("op", self.now - timedelta(microseconds=1), steps, not_after=not_after), self.moment
        )

    # What happens, with the usual words left out

    def claim(self, operation: Operation, number: int = 1) -> Operation:
        attempt_id = f"s{number}a{len(operation.step(number).attempts) + 1}"
        lease_ends_at = self.now + timedelta(seconds=LEASE_SECONDS)
        return transitions.claimed(
            operation, number, attempt_id=attempt_id, lease_ends_at=lease_ends_at, moment=self.moment
        )

    def hear(
        self, operation: Operation, finding: Finding, number: int = 1, attempt: int | None = None
    ) -> Operation:
        attempts = operation.step(number).attempts
        about = attempts[-1] if attempt is None else attempts[attempt - 1]
        return transitions.attempt_ended(operation, number, about.id, finding, self.moment)

    def lose(self, operation: Operation, number: int = 1) -> Operation:
        """Nothing is heard until after the lease."""
        attempt = operation.step(number).attempts[-1]
        self.now = max(self.now, attempt.lease_ends_at)
        return transitions.lease_ended(operation, number, attempt.id, self.moment)

    def sent(self, operation: Operation, finding: Finding, number: int = 1) -> Operation:
        return self.hear(self.claim(operation, number), finding, number)


# Findings


def confirmed(reference: str | None = "T-1", **fields: Any) -> Finding:
    return Finding(Outcome.CONFIRMED, KnownBy.REPLY, reference=reference, **fields)


def accepted(reference: str | None = "T-1", **fields: Any) -> Finding:
    return Finding(Outcome.ACCEPTED, KnownBy.REPLY, reference=reference, **fields)


def no_change(kind: NoChange, **fields: Any) -> Finding:
    known_by = KnownBy.TRANSPORT if kind is NoChange.NOT_SENT else KnownBy.REPLY
    return Finding(Outcome.NO_CHANGE, known_by, no_change=kind, **fields)


NOT_SENT, DEFERRED = no_change(NoChange.NOT_SENT), no_change(NoChange.DEFERRED)
REJECTED = no_change(NoChange.REJECTED)
UNCLEAR = Finding(Outcome.UNKNOWN, KnownBy.REPLY)
DELIVERED = Finding(Outcome.CONFIRMED, KnownBy.REPORT)
BOUNCED = Finding(Outcome.NO_CHANGE, KnownBy.REPORT, no_change=NoChange.REJECTED)


# What a person says


def say(world: World, operation: Operation, answer: Answer, number: int = 1, **given: Any) -> Operation:
    """An answer to the hold on a step."""
    hold = operation.hold_on(number)
    assert hold is not None, states(operation)
    return answered(operation, hold.id, Given(answer, **given), world.moment)


# Readings


def reasons(operation: Operation) -> list[HoldReason]:
    return [hold.reason for hold in operation.holds]


def states(operation: Operation) -> list[StepState]:
    return [step.state for step in operation.steps]


Make = Callable[[World], Operation]

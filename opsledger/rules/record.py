"""The operation record as the rules see it: plain values, no database.

`transitions` change a copy, `fold` turns the difference into the lines of a journal entry and back.
All times are aware datetimes of the database's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeVar

from opsledger.rules.states import (
    HoldReason,
    NoChange,
    OperationState,
    Outcome,
    StepState,
)


class Performer(StrEnum):
    ENGINE = "engine"
    AUTOMATION = "automation"


class KnownBy(StrEnum):
    """Where the outcome of an attempt is known from."""

    TRANSPORT = "transport"  # it never left, by the transport's own record
    REPLY = "reply"
    LEASE = "lease"  # nothing was heard before the lease ended
    LOOKUP = "lookup"
    REPORT = "report"  # a webhook or a delivery report
    PERSON = "person"
    AUTOMATION = "automation"  # the automation that did the work reported it


class Act(StrEnum):
    """What the engine does next with a step, and when (`Step.act`, `Step.act_at`)."""

    NONE = "none"  # nothing by itself: final, or it waits for a step or a person
    SEND = "send"
    OFFER = "offer"  # to automations, until `act_at`
    LEASE = "lease"  # an attempt is open until `act_at`
    LOOK = "look"
    AWAIT = "await"  # the final effect, until `act_at`


@dataclass(slots=True)
class Attempt:
    id: str
    number: int
    revision: int
    opened_at: datetime
    lease_ends_at: datetime
    outcome: Outcome | None = None  # None while it is open
    no_change: NoChange | None = None
    reference: str | None = None
    known_by: KnownBy | None = None

    @property
    def may_have_had_effect(self) -> bool:
        return self.outcome is not Outcome.NO_CHANGE

    @property
    def is_unsettled(self) -> bool:
        """Open, or ended as unknown. A reference that it has is of a record that was found for it, or named."""
        return self.outcome in {None, Outcome.UNKNOWN}


@dataclass(slots=True)
class Step:
    number: int
    name: str
    destination: str
    action: str
    performer: Performer = Performer.ENGINE
    state: StepState = StepState.WAITING
    revision: int = 1
    request_digest: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    reference: str | None = None
    tries_extra: int = 0  # granted by a person
    not_before: datetime | None = None  # the next try of the same request
    ready_at: datetime | None = None
    accepted_at: datetime | None = None
    unknown_at: datetime | None = None
    looks: int = 0  # lookups made since the outcome became unknown, or since it was accepted
    looks_none: int = 0  # those that counted and found nothing
    looked_at: datetime | None = None
    look_at: datetime | None = None  # a person asked for a look at this time
    # what a person has waived or said
    rejection_waived: bool = False
    lateness_waived: bool = False
    final_waived: bool = False
    never_known: bool = False
    go_on_after: bool = (
        False  # later steps go on although this one is closed as never known, or left as accepted
    )
    not_ours: tuple[str, ...] = ()  # references that a person declared not to be this step's record
    integrity_alarm: bool = False
    record_changed: bool | None = (
        None  # for an upsert: whether somebody changed the record since; None: not read
    )
    answered_with_error: bool = False  # a server error was an attempt's answer under this revision's key
    approval_needed: bool = False  # by the definition, and always from revision 2 on
    content_number: int | None = None  # of the content version that its request shows
    approved_digest: str | None = None  # of the request, key left out; None: this revision is not approved
    approved_until: datetime | None = None  # a first send later than this needs another approval
    # what a person asked for by a replay, until it was done or a question took its place
    resend_asked: bool = False  # the same request again, under the protection that is valid now
    look_applies: bool = False  # what the next lookups find settles the step, also where they only propose
    # the plan, derived by next_step
    act: Act = Act.NONE
    act_at: datetime | None = None
    send_until: datetime | None = None  # a send later than this would be unprotected

    def attempt(self, attempt_id: str) -> Attempt:
        return next(attempt for attempt in self.attempts if attempt.id == attempt_id)

    @property
    def undelivered(self) -> bool:
        """Whether it was taken over and then not delivered: failed, yet not without effect."""
        return self.state is StepState.FAILED and self.accepted_at is not None

    @property
    def open_attempt(self) -> Attempt | None:
        return next((attempt for attempt in self.attempts if attempt.outcome is None), None)

    @property
    def last_attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def attempts_with(self, outcome: Outcome) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.outcome is outcome]

    @property
    def attempts_now(self) -> list[Attempt]:
        """Those of the present revision; what an earlier one was answered says nothing of this request."""
        return [attempt for attempt in self.attempts if attempt.revision == self.revision]

    @property
    def tries_used(self) -> int:
        return len(self.attempts_now)

    @property
    def never_left(self) -> bool:
        """Nothing of the present revision has left the house."""
        return all(attempt.no_change is NoChange.NOT_SENT for attempt in self.attempts_now)

    @property
    def first_possible_at(self) -> datetime | None:
        """The earliest moment at which the destination may have seen this revision's key."""
        seen = [
            attempt.opened_at
            for attempt in self.attempts
            if attempt.revision == self.revision and attempt.no_change is not NoChange.NOT_SENT
        ]
        return min(seen, default=None)

    @property
    def latest_possible_at(self) -> datetime | None:
        """The latest moment at which an unsettled attempt could still be sent or processed."""
        return max((attempt.lease_ends_at for attempt in self.attempts_with(Outcome.UNKNOWN)), default=None)

    @property
    def may_have_had_effect(self) -> bool:
        return any(attempt.may_have_had_effect for attempt in self.attempts)


@dataclass(slots=True)
class Hold:
    id: str
    step: int
    reason: HoldReason
    opened_at: datetime
    facts: dict[str, Any] = field(default_factory=dict)  # what the page shows; outside the journal


@dataclass(slots=True)
class Operation:
    id: str
    created_at: datetime
    steps: list[Step]
    state: OperationState = OperationState.RUNNING
    cancelled: bool = False
    replaced: bool = False  # another operation replaces it, which its own journal does not tell
    not_after: datetime | None = None
    holds: list[Hold] = field(default_factory=list)  # open ones only

    def step(self, number: int) -> Step:
        return self.steps[number - 1]

    def has_forgotten(self, attempt: Attempt) -> bool:
        """Whether a restored backup lost what was known of it: its revision, and so its key and its bytes, are a guess.

        Only an attempt that nobody remembers was opened when the operation was.
        """
        return attempt.opened_at == self.created_at

    def hold_on(self, number: int) -> Hold | None:
        return next((hold for hold in self.holds if hold.step == number), None)

    def hold(self, hold_id: str) -> Hold:
        return next(hold for hold in self.holds if hold.id == hold_id)

    def earlier(self, step: Step) -> Iterator[Step]:
        return iter(self.steps[: step.number - 1])

    def later(self, step: Step) -> Iterator[Step]:
        return iter(self.steps[step.number :])

    def copy(self) -> Operation:
        """A copy that can be changed without touching this one. Values inside are immutable, but for `Hold.facts`."""
        twin = _twin(self)
        twin.steps = [_twin(step) for step in self.steps]
        for step in twin.steps:
            step.attempts = [_twin(attempt) for attempt in step.attempts]
        twin.holds = [_twin(hold) for hold in self.holds]
        return twin


T = TypeVar("T", Operation, Step, Attempt, Hold)


def _twin(value: T) -> T:
    """`copy.copy` for these flat records, many times as fast: every change of an operation begins with it."""
    kind = type(value)
    return kind(*_VALUES[kind](value))


_VALUES: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    kind: attrgetter(*(one.name for one in fields(kind))) for kind in (Operation, Step, Attempt, Hold)
}

"""The vocabulary of the core: states, outcomes, hold reasons, and the moves that exist.

Everything here is a word of docs/states.md. A test compares `STEP_MOVES` with the chart there.
"""

from __future__ import annotations

from enum import StrEnum


class StepState(StrEnum):
    WAITING = "waiting"  # an earlier step or an approval is missing
    READY = "ready"  # may be sent when its turn comes, unless a hold stops it
    IN_FLIGHT = "in_flight"  # an attempt is open
    ACCEPTED = "accepted"  # taken over by the destination, final effect not proven
    CONFIRMED = "confirmed"  # the effect is proven
    UNKNOWN = "unknown"  # an attempt may or may not have had an effect
    FAILED = "failed"  # proven no change, and no more tries
    SKIPPED = "skipped"  # by a person's decision or the workflow's own condition
    CANCELLED = "cancelled"  # never to be sent, and nothing was


class OperationState(StrEnum):
    RUNNING = "running"
    RECONCILING = "reconciling"
    AWAITING_APPROVAL = "awaiting_approval"
    HELD = "held"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CLOSED_UNKNOWN = "closed_unknown"


class Outcome(StrEnum):
    """What an attempt did, as far as it is proven."""

    CONFIRMED = "confirmed"
    ACCEPTED = "accepted"
    NO_CHANGE = "no_change"
    UNKNOWN = "unknown"


class NoChange(StrEnum):
    """How a `no_change` is proven: it never left, it was put off, it was refused, or it was looked for and is not there."""

    NOT_SENT = "not_sent"
    DEFERRED = "deferred"
    REJECTED = "rejected"
    ABSENT = "absent"


class HoldReason(StrEnum):
    OUTCOME_UNKNOWN = "outcome_unknown"
    PROTECTION_EXPIRED = "protection_expired"
    INTEGRITY_ALARM = "integrity_alarm"
    RECORD_DIFFERS = "record_differs"
    DUPLICATE_FOUND = "duplicate_found"
    DISPUTED = "disputed"
    REJECTED = "rejected_by_destination"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    NOBODY_CLAIMED = "nobody_claimed"
    TOO_LATE = "too_late"
    DELIVERY_NOT_PROVEN = "delivery_not_proven"
    DELIVERY_FAILED = "delivery_failed"
    DATA_MISSING = "data_missing"
    APPROVAL_NEEDED = "approval_needed"
    # at a destination: one for all its steps
    ACCESS_REFUSED = "access_refused"
    PAUSED = "paused"
    CIRCUIT_OPEN = "circuit_open"
    # at an event
    EVENT_CONFLICT = "event_conflict"


DESTINATION_REASONS = frozenset({HoldReason.ACCESS_REFUSED, HoldReason.PAUSED, HoldReason.CIRCUIT_OPEN})

S = StepState
STEP_MOVES: frozenset[tuple[StepState, StepState]] = frozenset(
    {
        (S.WAITING, S.READY),
        (S.WAITING, S.CANCELLED),
        (S.WAITING, S.SKIPPED),
        (S.WAITING, S.UNKNOWN),  # after a restored backup: it may have been sent since
        (S.READY, S.WAITING),  # an earlier step's answer was taken back before this one was sent
        (S.READY, S.UNKNOWN),  # late truth contradicts the answer that had made it ready again
        (S.READY, S.IN_FLIGHT),
        (S.READY, S.FAILED),  # a person ended it
        (S.READY, S.CANCELLED),
        (S.READY, S.SKIPPED),
        (S.IN_FLIGHT, S.READY),  # proven no change, tries left
        (S.IN_FLIGHT, S.WAITING),  # the same, but an earlier step is in doubt again
        (S.IN_FLIGHT, S.ACCEPTED),
        (S.IN_FLIGHT, S.CONFIRMED),
        (S.IN_FLIGHT, S.UNKNOWN),
        (S.IN_FLIGHT, S.FAILED),  # a bounce that was reported before the reply came
        (S.IN_FLIGHT, S.CANCELLED),  # the operation was cancelled meanwhile, and nothing took effect
        (S.UNKNOWN, S.IN_FLIGHT),  # the same request again under protection
        (S.UNKNOWN, S.ACCEPTED),
        (S.UNKNOWN, S.CONFIRMED),
        (S.UNKNOWN, S.READY),  # absence proven, or stated by a person who chose to send again
        (S.UNKNOWN, S.WAITING),  # the same, but an earlier step is in doubt again
        (S.UNKNOWN, S.FAILED),  # stated by a person, who ended it
        (S.UNKNOWN, S.CANCELLED),  # absence proven after a cancellation
        (S.ACCEPTED, S.CONFIRMED),
        (S.ACCEPTED, S.FAILED),  # a bounce: not delivered
        (S.ACCEPTED, S.UNKNOWN),  # an answer was withdrawn or disputed
        (S.CONFIRMED, S.UNKNOWN),  # an answer was withdrawn or disputed
        (S.FAILED, S.UNKNOWN),  # late truth contradicts
        (S.FAILED, S.READY),  # a person reopened it
        (S.CANCELLED, S.WAITING),  # the answer that had cancelled it was overturned
        (S.CANCELLED, S.READY),  # the same, and its turn has come
        (S.CANCELLED, S.UNKNOWN),  # late truth contradicts, or the answer that had ended it was withdrawn
    }
)

FINAL_STATES = frozenset({S.CONFIRMED, S.FAILED, S.SKIPPED, S.CANCELLED})
NEVER_SENT_STATES = frozenset({S.WAITING, S.READY})
ENDED_STATES = frozenset(
    {
        OperationState.COMPLETED,
        OperationState.FAILED,
        OperationState.CANCELLED,
        OperationState.CLOSED_UNKNOWN,
    }
)

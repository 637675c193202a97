"""Who is told of an open hold, when, and to whom it goes if nobody acts. Facts and `now` in, what is due out.

1. An owner who is gone (deactivated, or no longer in the team): the hold goes to somebody else at once.
2. At its due time the owner is reminded, or their deputy while they are away; of an unowned hold everybody who may own it.
3. When the workflow's `escalate_after_seconds` have passed since, it goes to the team's fallback owner, or their deputy.

Nothing is sent to a destination by any of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

ESCALATE_AFTER_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is to know about one open hold's owner. People are named by their ids."""

    owner: UUID | None
    owner_gone: bool  # deactivated, or no longer in the team
    deputy: UUID | None  # who stands in for the owner now; None: nobody has to, or nobody is there
    workflow_owner: UUID | None  # or their deputy; None: the workflow names nobody who is there
    fallback: UUID  # the team's fallback owner, or their deputy while they are away

    @property
    def successor(self) -> UUID:
        """Who gets it when its owner is gone."""
        return self.deputy or self.workflow_owner or self.fallback

    @property
    def reminded(self) -> UUID | None:
        """Who is reminded; None: everybody who may own it."""
        return self.deputy or self.owner


@dataclass(frozen=True, slots=True)
class Clock:
    """The times of one open hold."""

    due_at: datetime
    escalate_after_seconds: int
    reminded_at: datetime | None = None
    escalated_at: datetime | None = None

    def escalate_at(self, now: datetime) -> datetime:
        """Counted from the due time, or from the reminder where that comes later: who is reminded gets time to act."""
        reminded = self.reminded_at or max(self.due_at, now)
        return max(self.due_at, reminded) + timedelta(seconds=self.escalate_after_seconds)


class Step(StrEnum):
    HAND_OVER = "hand_over"
    REMIND = "remind"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class Planned:
    """One thing that happens at `at` if nobody acts. `to` None: to everybody who may own the hold."""

    step: Step
    at: datetime
    to: UUID | None


def planned(standing: Standing, clock: Clock, now: datetime) -> list[Planned]:
    """Everything that happens if nobody acts, in its order; what is due already comes with a time that has passed."""
    steps = []
    if standing.owner_gone:
        steps.append(Planned(Step.HAND_OVER, now, standing.successor))
    if clock.reminded_at is None:
        to = standing.successor if standing.owner_gone else standing.reminded
        steps.append(Planned(Step.REMIND, clock.due_at, to))
    if clock.escalated_at is None:
        steps.append(Planned(Step.ESCALATE, clock.escalate_at(now), standing.fallback))
    return steps


def due(standing: Standing, clock: Clock, now: datetime) -> Planned | None:
    """The first thing whose time has come, or None. A hold is never escalated before it was reminded of."""
    first = next(iter(planned(standing, clock, now)), None)
    return first if first is not None and first.at <= now else None

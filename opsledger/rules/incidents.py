"""Which holds are one incident: the same question about the same action at one destination, opened close together.

An incident is a grouping and nothing more: it has no state, and no hold is answered because of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from opsledger.rules.states import HoldReason

GAP_SECONDS = 1800  # a hold that opens later than this after the last one begins another incident
CARD_HOLDS_MIN = 3  # fewer open holds are read one by one as fast as a card
BARS_MAX = 18
INTERVALS_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 172_800)
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Group:
    """What the holds of one incident have in common."""

    team_id: UUID
    destination: str
    action: str
    reason: HoldReason


@dataclass(frozen=True, slots=True)
class Opening:
    """A hold that has no incident yet."""

    hold_id: UUID
    group: Group
    opened_at: datetime


@dataclass(slots=True)
class Incident:
    """A span of openings. `id` is None until it is recorded; `joined` are the holds that it is given now."""

    group: Group
    started_at: datetime
    last_at: datetime
    id: UUID | None = None
    joined: list[UUID] = field(default_factory=list)

    def takes(self, opened_at: datetime) -> bool:
        """Whether a hold opened then is close enough. Holds are not always seen in the order in which they opened."""
        gap = timedelta(seconds=GAP_SECONDS)
        return self.started_at - gap <= opened_at <= self.last_at + gap

    def give(self, hold_id: UUID, opened_at: datetime) -> None:
        self.started_at, self.last_at = min(self.started_at, opened_at), max(self.last_at, opened_at)
        self.joined.append(hold_id)


def group_holds(known: Iterable[Incident], openings: Iterable[Opening]) -> list[Incident]:
    """Gives each hold to the newest incident of its group that is close enough, else to a new one.

    1. Holds are taken in the order in which they opened, whatever the order they come in.
    2. An incident grows by each hold, so that a long outage is one incident however long it lasts.
    3. Returned are those that were given holds. What is in an incident stays there: two are never made one.
    """
    of_group: dict[Group, list[Incident]] = {}
    for incident in sorted(known, key=lambda one: one.last_at):
        of_group.setdefault(incident.group, []).append(incident)
    for opening in sorted(openings, key=lambda one: (one.opened_at, one.hold_id)):
        there = of_group.setdefault(opening.group, [])
        found = next((one for one in reversed(there) if one.takes(opening.opened_at)), None)
        if found is None:
            found = Incident(opening.group, opening.opened_at, opening.opened_at)
            there.append(found)
            there.sort(key=lambda one: one.last_at)
        found.give(opening.hold_id, opening.opened_at)
    return [one for there in of_group.values() for one in there if one.joined]


def interval_seconds(started_at: datetime, last_at: datetime) -> int:
    """The width of one bar, so that at most BARS_MAX of them show all openings."""
    span = (last_at - started_at).total_seconds()
    for seconds in INTERVALS_SECONDS:
        if span < seconds * BARS_MAX:
            return seconds
    return DAY_SECONDS * (int(span) // (DAY_SECONDS * BARS_MAX) + 1)

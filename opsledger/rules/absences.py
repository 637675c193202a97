"""Who stands in for somebody who is away. Plain facts in, a name or a fault out.

An absence names one deputy for a span of time. The deputy may be away as well, and has a deputy then: such a chain has at
most three links, and never leads back to somebody who is already in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

LINKS_MAX = 3


@dataclass(frozen=True, slots=True)
class Away:
    """From `begins_at` up to, not including, `ends_at`."""

    person: UUID
    deputy: UUID
    begins_at: datetime
    ends_at: datetime

    def at(self, now: datetime) -> bool:
        return self.begins_at <= now < self.ends_at


class Fault(StrEnum):
    """Why an absence can't stand beside those that are known."""

    OVERLAPS = "overlaps"  # the person is away then already
    CIRCLE = "circle"  # the deputies would stand in for each other
    TOO_LONG = "too_long"


def fault_of(new: Away, known: Iterable[Away]) -> Fault | None:
    """What stands against `new`, at any moment of its span. `known`: the others of the same team."""
    others = [one for one in known if _meet(one, new)]
    if any(one.person == new.person for one in others):
        return Fault.OVERLAPS
    moments = {new.begins_at, *(one.begins_at for one in others if one.begins_at > new.begins_at)}
    for moment in sorted(moments):
        there = {one.person: one.deputy for one in others if one.at(moment)}
        fault = _fault_at(new, there)
        if fault is not None:
            return fault
    return None


def _meet(one: Away, other: Away) -> bool:
    return one.begins_at < other.ends_at and other.begins_at < one.ends_at


def _fault_at(new: Away, there: dict[UUID, UUID]) -> Fault | None:
    after, person = 1, new.deputy
    while person in there:
        person, after = there[person], after + 1
        if person == new.person:
            return Fault.CIRCLE
        if after > LINKS_MAX:
            return Fault.TOO_LONG
    before = _links_before(new.person, there)
    return Fault.TOO_LONG if before + after > LINKS_MAX else None


def _links_before(person: UUID, there: dict[UUID, UUID]) -> int:
    """How many stand-ins lead to this person, by the longest way; no circle is among the known."""
    leading = [away for away, deputy in there.items() if deputy == person]
    return max((1 + _links_before(away, there) for away in leading), default=0)


def stand_in(
    person: UUID, away: Collection[Away], now: datetime, is_there: Callable[[UUID], bool]
) -> UUID | None:
    """Who acts for the person now: themselves, or the first of their deputies who is there.

    `is_there`: whether somebody may act at all, away or not (active, and with the roles that it takes). None when nobody
    of the chain is there.
    """
    deputies = {one.person: one.deputy for one in away if one.at(now)}
    if person not in deputies:
        return person if is_there(person) else None
    for _ in range(LINKS_MAX):
        person = deputies[person]
        if person not in deputies:
            return person if is_there(person) else None
    return None

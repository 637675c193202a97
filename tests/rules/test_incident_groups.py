"""Which holds are one incident: same team, destination, action and reason, and no more than half an hour between two."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from uuid import UUID

import pytest

from opsledger.rules.incidents import (
    BARS_MAX,
    GAP_SECONDS,
    Group,
    Incident,
    Opening,
    group_holds,
    interval_seconds,
)
from opsledger.rules.states import HoldReason

NOON = datetime(2026, 4, 14, 12, tzinfo=UTC)
GROUP = Group(UUID(int=1), "crm", "create_task", HoldReason.OUTCOME_UNKNOWN)
GAP = GAP_SECONDS


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def opening(number: int, seconds: float, group: Group = GROUP) -> Opening:
    return Opening(UUID(int=number), group, at(seconds))


def numbers(found: list[Incident]) -> list[list[int]]:
    """The holds that each incident was given, as their numbers."""
    return sorted(sorted(hold.int for hold in one.joined) for one in found)


@pytest.mark.parametrize(
    ("seconds", "grouped"),
    [
        ([0, 1, 2], [[1, 2, 3]]),
        ([0, GAP], [[1, 2]]),
        ([0, GAP + 1], [[1], [2]]),
        ([0, GAP, 2 * GAP, 3 * GAP], [[1, 2, 3, 4]]),
        ([0, 60, GAP + 61, GAP + 62], [[1, 2], [3, 4]]),
    ],
    ids=["together", "at the gap", "past the gap", "grows by each hold", "two outages"],
)
def test_holds_are_one_incident_while_no_gap_is_longer_than_half_an_hour(
    seconds: list[int], grouped: list[list[int]]
) -> None:
    openings = [opening(number, second) for number, second in enumerate(seconds, 1)]
    for order in permutations(openings):
        assert numbers(group_holds([], order)) == grouped


@pytest.mark.parametrize(
    "other",
    [
        replace(GROUP, team_id=UUID(int=2)),
        replace(GROUP, destination="mail"),
        replace(GROUP, action="close_task"),
        replace(GROUP, reason=HoldReason.REJECTED),
    ],
    ids=["team", "destination", "action", "reason"],
)
def test_what_differs_in_one_of_the_four_is_another_incident(other: Group) -> None:
    found = group_holds([], [opening(1, 0), opening(2, 1, other), opening(3, 2)])
    assert numbers(found) == [[1, 3], [2]]


def known(number: int, first: float, last: float, group: Group = GROUP) -> Incident:
    return Incident(group, at(first), at(last), UUID(int=number))


@pytest.mark.parametrize(
    ("seconds", "given_to", "span"),
    [
        (100, 900, (0, 100)),
        (60 + GAP, 900, (0, 60 + GAP)),
        (61 + GAP, None, (61 + GAP, 61 + GAP)),
        (-GAP, 900, (-GAP, 60)),
        (-GAP - 1, None, (-GAP - 1, -GAP - 1)),
        (30, 900, (0, 60)),
    ],
    ids=["after it", "just after", "too late for it", "seen late", "too early for it", "inside of it"],
)
def test_a_hold_joins_a_recorded_incident_from_either_side(
    seconds: int, given_to: int | None, span: tuple[int, int]
) -> None:
    (found,) = group_holds([known(900, 0, 60)], [opening(1, seconds)])
    assert found.id == (UUID(int=given_to) if given_to else None)
    assert (found.started_at, found.last_at) == (at(span[0]), at(span[1]))


def test_a_hold_between_two_incidents_joins_the_newer_and_joins_them_not() -> None:
    earlier, later = known(900, 0, 60), known(901, 60 + 1.5 * GAP, 4 * GAP)
    found = group_holds([later, earlier], [opening(1, 60 + GAP)])
    assert [one.id for one in found] == [UUID(int=901)]
    assert (earlier.joined, earlier.last_at) == ([], at(60))


def test_a_hold_seen_long_after_joins_the_incident_of_its_own_time() -> None:
    earlier, later = known(900, 0, 60), known(901, 10 * GAP, 11 * GAP)
    found = group_holds([earlier, later], [opening(1, 90)])
    assert [one.id for one in found] == [UUID(int=900)]


@pytest.mark.parametrize(
    ("span_seconds", "interval"),
    [
        (0, 60),
        (18 * 60 - 1, 60),
        (18 * 60, 120),
        (3 * 3600, 900),
        (86_400, 7200),
        (60 * 86_400, 4 * 86_400),
    ],
    ids=["one moment", "eighteen minutes", "one more", "three hours", "a day", "two months"],
)
def test_the_bars_are_few_enough_to_be_drawn(span_seconds: int, interval: int) -> None:
    assert interval_seconds(at(0), at(span_seconds)) == interval
    assert span_seconds // interval + 1 <= BARS_MAX

"""When to try again and when to look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.rules.profile import Lookup, Retries, Settles
from opsledger.rules.schedule import (
    LOOKS_MAX,
    counts_as_look,
    later,
    look_times,
    next_delay_seconds,
    planned_look_count,
)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
RETRIES = Retries(tries_max=8, delays_seconds=(5, 30, 120), delay_max_seconds=1000)


def lookup(
    quiet: int = 60, delays: tuple[int, ...] = (10, 30, 90), last: int = 600, least: int = 2
) -> Lookup:
    return Lookup(
        settles=Settles.BOTH,
        quiet_seconds=quiet,
        delays_seconds=delays,
        last_look_seconds=last,
        looks_min=least,
    )


def seconds(times: tuple[datetime, ...]) -> list[float]:
    return [(at - T0).total_seconds() for at in times]


# Delays


@pytest.mark.parametrize(
    ("attempts", "delay"),
    [(0, 5), (1, 5), (2, 30), (3, 120), (4, 240), (5, 480), (6, 960), (7, 1000), (99, 1000)],
)
def test_delays_follow_the_profile_then_double_up_to_the_longest(attempts: int, delay: float) -> None:
    assert next_delay_seconds(RETRIES, attempts_so_far=attempts, jitter=0.0) == delay


@pytest.mark.parametrize("jitters", [(0.0, 0.0), (1.0, 0.0), (0.3, 0.9)], ids=str)
def test_a_later_delay_is_never_shorter_whatever_the_jitter(jitters: tuple[float, float]) -> None:
    delays = [next_delay_seconds(RETRIES, attempts_so_far=n, jitter=jitters[n % 2]) for n in range(1, 9)]
    assert delays == sorted(delays)


def test_jitter_adds_up_to_a_fifth_and_never_beyond_the_longest() -> None:
    assert next_delay_seconds(RETRIES, attempts_so_far=2, jitter=0.5) == pytest.approx(33)
    assert next_delay_seconds(RETRIES, attempts_so_far=2, jitter=1.0) == pytest.approx(36)
    assert next_delay_seconds(RETRIES, attempts_so_far=2, jitter=7.0) == pytest.approx(36)
    assert next_delay_seconds(RETRIES, attempts_so_far=6, jitter=1.0) == 1000


def test_no_try_is_before_retry_after() -> None:
    assert next_delay_seconds(RETRIES, attempts_so_far=1, jitter=0.0, retry_after=77.0) == 77.0
    assert next_delay_seconds(RETRIES, attempts_so_far=3, jitter=0.0, retry_after=77.0) == 120.0
    assert next_delay_seconds(RETRIES, attempts_so_far=1, jitter=1.0, retry_after=77.0) > 77.0
    assert next_delay_seconds(RETRIES, attempts_so_far=1, jitter=0.0, retry_after=5000.0) == 1000.0


def test_without_delays_the_longest_is_used() -> None:
    retries = Retries(tries_max=1, delays_seconds=(), delay_max_seconds=90)
    assert next_delay_seconds(retries, attempts_so_far=1, jitter=0.0) == 90


@UNHURRIED
@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=6).map(sorted).map(tuple),
    st.integers(0, 1000),
    st.floats(0, 1),
    st.none() | st.floats(0, 1e9),
)
def test_every_delay_is_between_nothing_and_the_longest(
    delays: tuple[int, ...], attempts: int, jitter: float, retry_after: float | None
) -> None:
    retries = Retries(delays_seconds=delays, delay_max_seconds=20_000)
    delay = next_delay_seconds(retries, attempts_so_far=attempts, jitter=jitter, retry_after=retry_after)
    assert 0 <= delay <= 20_000


# What counts


@pytest.mark.parametrize(("after", "counts"), [(0, False), (59.9, False), (60, True), (61, True)])
def test_a_look_counts_only_after_the_quiet_period(after: float, counts: bool) -> None:
    assert counts_as_look(T0 + timedelta(seconds=after), T0, lookup(quiet=60)) is counts


# Looks


def test_the_first_look_is_at_once_and_the_last_is_the_profiles_last() -> None:
    times = look_times(lookup(), unknown_since=T0, latest_possible_at=T0, window_end=None, total_seconds=30)
    assert seconds(times) == [0, 10, 40, 130, 220, 310, 400, 490, 580, 600]


def test_looks_count_from_the_latest_possible_moment_not_from_the_start() -> None:
    latest = T0 + timedelta(seconds=500)
    profile = lookup(quiet=60, last=200)
    times = look_times(
        profile, unknown_since=T0, latest_possible_at=latest, window_end=None, total_seconds=30
    )
    assert seconds(times)[-1] == 700
    assert [counts_as_look(at, latest, profile) for at in times].count(True) >= 2


def test_looks_that_are_missing_after_the_quiet_period_are_put_between() -> None:
    profile = lookup(quiet=600, delays=(5, 30, 300), last=900, least=4)
    times = look_times(profile, unknown_since=T0, latest_possible_at=T0, window_end=None, total_seconds=30)
    assert seconds(times) == [0, 5, 35, 335, 600, 635, 700, 800, 900]


def test_an_outcome_that_becomes_unknown_late_still_has_its_looks() -> None:
    long_ago = T0 - timedelta(days=3)
    times = look_times(
        lookup(), unknown_since=T0, latest_possible_at=long_ago, window_end=None, total_seconds=30
    )
    assert seconds(times) == [0, 10]


def test_the_last_look_leaves_time_for_one_protected_attempt() -> None:
    end = T0 + timedelta(seconds=300)
    times = look_times(lookup(), unknown_since=T0, latest_possible_at=T0, window_end=end, total_seconds=30)
    assert seconds(times) == [0, 10, 40, 130, 220, 270]


def test_a_window_that_is_short_keeps_the_look_at_once_and_enough_that_count() -> None:
    end = T0 + timedelta(seconds=110)
    times = look_times(lookup(), unknown_since=T0, latest_possible_at=T0, window_end=end, total_seconds=30)
    assert seconds(times) == [0, 10, 40, 60, 80]


def test_a_window_that_ends_before_the_quiet_period_has_only_early_looks() -> None:
    end = T0 + timedelta(seconds=60)
    times = look_times(lookup(), unknown_since=T0, latest_possible_at=T0, window_end=end, total_seconds=30)
    assert seconds(times) == [0, 10, 30]
    past = T0 - timedelta(seconds=60)
    times = look_times(lookup(), unknown_since=T0, latest_possible_at=T0, window_end=past, total_seconds=30)
    assert seconds(times) == [0]


def test_one_look_is_never_enough_whatever_the_profile_says() -> None:
    profile = lookup(quiet=590, delays=(1000,), last=600, least=1)
    times = look_times(profile, unknown_since=T0, latest_possible_at=T0, window_end=None, total_seconds=30)
    assert seconds(times) == [0, 590, 600]


SPANS = st.integers(0, 100_000)


@UNHURRIED
@given(
    quiet=SPANS,
    delays=st.lists(st.integers(0, 5000), min_size=1, max_size=5).map(sorted).map(tuple),
    last=SPANS,
    least=st.integers(1, 5),
    latest=st.integers(-100_000, 100_000),
    window=st.none() | st.integers(-1000, 200_000),
    total=st.integers(1, 60),
)
def test_planned_looks_keep_their_promises(
    quiet: int,
    delays: tuple[int, ...],
    last: int,
    least: int,
    latest: int,
    window: int | None,
    total: int,
) -> None:
    profile = lookup(quiet, delays, last, least)
    latest_at = T0 + timedelta(seconds=latest)
    end = None if window is None else T0 + timedelta(seconds=window)
    times = look_times(
        profile, unknown_since=T0, latest_possible_at=latest_at, window_end=end, total_seconds=total
    )
    assert times[0] == T0
    assert all(before < after for before, after in pairwise(times))
    assert len(times) <= LOOKS_MAX + 10
    if end is None:
        assert sum(counts_as_look(at, latest_at, profile) for at in times) >= max(least, 2)
    else:
        assert all(at <= end - timedelta(seconds=total) for at in times[1:])


def test_planned_looks_are_counted_up_to_one_too_many() -> None:
    assert planned_look_count(lookup()) == 10
    assert planned_look_count(lookup(delays=(1,), last=1_000_000)) == LOOKS_MAX + 1


def test_a_span_of_ages_counts_as_a_hundred_years() -> None:
    assert later(T0, 1e12).year == 2126

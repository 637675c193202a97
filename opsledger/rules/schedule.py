"""When to try again and when to look: spans and moments, from given times only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, repeat

from opsledger.rules.profile import Lookup, Retries

SPAN_SECONDS_MAX = 3_155_760_000  # a hundred years; a longer span is as good as that
LOOKS_MAX = 100  # planned looks for one unknown outcome
_SPREAD = 0.2  # of a delay, so that what failed together does not come back together


def next_delay_seconds(
    retries: Retries,
    *,
    attempts_so_far: int,
    jitter: float,
    retry_after: float | None = None,
) -> float:
    """Seconds until the next try, after `attempts_so_far` tries.

    1. The profile's delay for this try; after the last one it doubles, up to the longest delay.
    2. Not before Retry-After, as far as the longest delay allows.
    3. `jitter` (0 to 1) adds up to a fifth, within the longest delay.
    """
    longest = float(retries.delay_max_seconds)
    delay = max(_delay_seconds(retries, attempts_so_far), min(retry_after or 0.0, longest))
    return min(delay * (1 + _SPREAD * min(max(jitter, 0.0), 1.0)), longest)


def _delay_seconds(retries: Retries, attempts_so_far: int) -> float:
    delays = retries.delays_seconds or (retries.delay_max_seconds,)
    place = max(attempts_so_far, 1) - 1
    doublings = min(max(place - len(delays) + 1, 0), 32)
    return min(
        float(delays[min(place, len(delays) - 1)]) * float(2**doublings), float(retries.delay_max_seconds)
    )


def later(moment: datetime, seconds: float) -> datetime:
    """`moment` and so many seconds; spans beyond a hundred years count as that."""
    return moment + timedelta(seconds=min(seconds, SPAN_SECONDS_MAX))


def counts_as_look(now: datetime, latest_possible_at: datetime, lookup: Lookup) -> bool:
    """Whether an empty answer at `now` counts: the quiet period after the latest possible moment is over."""
    return now >= later(latest_possible_at, lookup.quiet_seconds)


def look_times(
    lookup: Lookup,
    *,
    unknown_since: datetime,
    latest_possible_at: datetime,
    window_end: datetime | None,
    total_seconds: float,
) -> tuple[datetime, ...]:
    """The moments of all planned looks, in order, the first at once.

    1. At once, then at the profile's delays, until its last look; that one is made too.
    2. Of these at least `looks_min` count: they lie after the quiet period, which begins at `latest_possible_at`,
       when the attempt could still be processed. Missing ones are put between, or, when the last look is already
       past, follow at the same delays.
    3. None but the first is later than `total_seconds` before `window_end`, the latest moment at which a protected
       attempt may start (`Protected.until`): the look is over, and the attempt still fits. None: there is no end.
    """
    counting_at = later(latest_possible_at, lookup.quiet_seconds)
    limit = None if window_end is None else window_end - timedelta(seconds=total_seconds)
    last = later(latest_possible_at, lookup.last_look_seconds)
    last = last if limit is None else min(last, limit)
    times = _at_delays(lookup, unknown_since, last)
    start = max(counting_at, unknown_since)
    if _count_from(counting_at, times) >= _looks_min(lookup):
        return tuple(times)
    if start < last:
        return tuple(sorted({*times, *_spread(start, last, _looks_min(lookup))}))
    return tuple(_continued(lookup, times, counting_at, limit))


def planned_look_count(lookup: Lookup) -> int:
    """How many looks the delays ask for until the last one, up to one more than is allowed."""
    count, at_seconds = 1, 0
    for gap_seconds in _gaps_seconds(lookup):
        at_seconds += gap_seconds
        count += 1
        if at_seconds >= lookup.last_look_seconds or count > LOOKS_MAX:
            return count
    raise AssertionError("gaps never end")


def _at_delays(lookup: Lookup, first: datetime, last: datetime) -> list[datetime]:
    times = [first]
    for gap_seconds in _gaps_seconds(lookup):
        following = later(times[-1], gap_seconds)
        if following >= last or len(times) >= LOOKS_MAX - 1:
            break
        times.append(following)
    return [*times, last] if last > times[-1] else times


def _spread(start: datetime, last: datetime, count: int) -> list[datetime]:
    """`count` moments from start to last, evenly."""
    return [start + (last - start) * step / (count - 1) for step in range(count)]


def _continued(
    lookup: Lookup, times: list[datetime], counting_at: datetime, limit: datetime | None
) -> list[datetime]:
    """The same delays go on until enough looks count, or the limit is reached."""
    times = list(times)
    for gap_seconds in _gaps_seconds(lookup):
        following = max(later(times[-1], gap_seconds), counting_at)
        enough = _count_from(counting_at, times) >= _looks_min(lookup)
        if enough or (limit is not None and following > limit):
            break
        times.append(following)
    return times


def _gaps_seconds(lookup: Lookup) -> Iterator[int]:
    delays = lookup.delays_seconds or (60,)
    return (max(gap, 1) for gap in chain(delays, repeat(delays[-1])))


def _looks_min(lookup: Lookup) -> int:
    return max(lookup.looks_min, 2)


def _count_from(counting_at: datetime, times: list[datetime]) -> int:
    return sum(1 for at in times if at >= counting_at)

"""Times as sources write them. Ours, of the receipt, is the one that counts; theirs is kept and judged."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD_MAX = timedelta(days=1)  # clocks and zones go wrong by hours, not by days
TEXT_MAX = 200
_EPOCH = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,9})?", re.ASCII)
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)([.,][0-9]+)?(Z|[+-][0-9]{2}:?[0-9]{2})",
    re.ASCII | re.IGNORECASE,
)
_UNITS = (1, 1_000, 1_000_000, 1_000_000_000)  # seconds, milliseconds, microseconds, nanoseconds


def read_time(value: Any, now: datetime) -> datetime | None:
    """The moment, when it is plausible: a time with its zone, or an epoch in whichever unit makes sense.

    None for everything else: no zone, no such day, before 2000, more than a day ahead of `now`.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    text = str(value)
    if len(text) > TEXT_MAX:
        return None
    moments = _from_epoch(text) if _EPOCH.fullmatch(text) else _from_iso(text)
    return next((moment for moment in moments if EARLIEST <= moment <= now + AHEAD_MAX), None)


def _from_epoch(text: str) -> list[datetime]:
    found = []
    for unit in _UNITS:
        try:
            found.append(datetime.fromtimestamp(0, UTC) + timedelta(seconds=float(Decimal(text) / unit)))
        except OverflowError:
            continue  # the year 57972 of a millisecond epoch read as seconds
    return found


def _from_iso(text: str) -> list[datetime]:
    match = _ISO.fullmatch(text)
    if match is None:
        return []
    to_the_second = match[1] if len(match[1]) > len("2026-03-01T00:00") else f"{match[1]}:00"
    fraction = (match[2] or ".0").replace(",", ".")[:7]  # Python keeps six digits
    try:
        return [datetime.fromisoformat(f"{to_the_second}{fraction}{match[3].upper()}").astimezone(UTC)]
    except (ValueError, OverflowError):
        return []

"""The Retry-After header: seconds, or one of the three forms of an HTTP date (RFC 9110, 5.6.7 and 10.2.3).

Nothing here reads a clock or a time zone: `now` comes in, and every HTTP date is UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SECONDS = re.compile(r"[0-9]+", re.ASCII)
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = (
    # Sun, 06 Nov 1994 08:49:37 GMT; a zero offset says the same, and mail libraries write it
    re.compile(
        rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_TIME} "
        r"(?:GMT|UTC|[+-]0000)",
        re.ASCII,
    ),
    # Sunday, 06-Nov-94 08:49:37 GMT
    re.compile(
        rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-(?P<month>[A-Z][a-z]{{2}})-(?P<year>[0-9]{{2}}) {_TIME} "
        r"GMT",
        re.ASCII,
    ),
    # Sun Nov  6 08:49:37 1994
    re.compile(
        rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
        re.ASCII,
    ),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse(value: str | None, now: datetime | None, cap_seconds: float) -> float | None:
    """Seconds to wait from `now` (aware), from 0 to `cap_seconds`; None when the value says nothing.

    A date in the past is 0; without `now` a date says nothing. Never raises, whatever the value.
    """
    text = (value or "").strip(" \t")
    if _SECONDS.fullmatch(text):
        digits = text.lstrip("0")[:12]  # beyond any cap, and never an integer of a million digits
        return min(float(digits or "0"), cap_seconds)
    at = http_date(text, now)
    if at is None or now is None:
        return None
    return min(max((at - now).total_seconds(), 0.0), cap_seconds)


def http_date(text: str, now: datetime | None) -> datetime | None:
    """The moment that an HTTP date names; None when it is none.

    `now` decides the century of a two-digit year: one that seems more than 50 years ahead is past.
    """
    found = next((match for match in (form.fullmatch(text) for form in _DATES) if match), None)
    if found is None or found["month"] not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        if now is None:
            return None
        year += now.year // 100 * 100
        year -= 100 if year > now.year + 50 else 0
    second = 59 if found["second"] == "60" else int(found["second"])  # a leap second
    month = _MONTHS.index(found["month"]) + 1
    try:
        return datetime(
            year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second, tzinfo=UTC
        )
    except ValueError:  # 30 February, 25 o'clock, year 0
        return None

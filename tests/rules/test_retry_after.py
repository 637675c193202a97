"""Retry-After: valid forms give the right wait in UTC, a past date is now, nonsense says nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.rules.retry_after import http_date, parse

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CAP = 3600.0

TABLE = {
    "seconds": ("120", 120.0),
    "no seconds": ("0", 0.0),
    "seconds with leading zeros": ("00000000000000120", 120.0),
    "blanks around it": (" 120\t", 120.0),
    "more seconds than the longest delay": ("99999", CAP),
    "a million digits": ("9" * 1_000_000, CAP),
    "a million zeros": ("0" * 1_000_000, 0.0),
    "a GMT date": ("Sun, 01 Mar 2026 12:01:30 GMT", 90.0),
    "the old form with a two-digit year": ("Sunday, 01-Mar-26 12:01:30 GMT", 90.0),
    "asctime form": ("Sun Mar  1 12:01:30 2026", 90.0),
    "a date with the zone -0000": ("Sun, 01 Mar 2026 12:01:30 -0000", 90.0),
    "a leap second": ("Sun, 01 Mar 2026 12:00:60 GMT", 59.0),
    "a past date is now": ("Sat, 28 Feb 2026 12:00:00 GMT", 0.0),
    "a two-digit year far ahead is past": ("Saturday, 01-Mar-80 12:01:30 GMT", 0.0),
    "year 9999 is capped": ("Fri, 31 Dec 9999 23:59:59 GMT", CAP),
    "-0000": ("-0000", None),
    "an ISO date": ("2026-03-01T12:01:30Z", None),
    "a negative number": ("-5", None),
    "a plus sign": ("+5", None),
    "a fraction": ("1.5", None),
    "an exponent": ("1e3", None),
    "nan": ("nan", None),
    "infinity": ("inf", None),
    "a superscript two": ("²", None),
    "Arabic-Indic digits": ("١٢٠", None),
    "empty": ("", None),
    "blanks": ("  ", None),
    "absent": (None, None),
    "an underscore": ("1_000", None),
    "hexadecimal": ("0x10", None),
    "the 30th of February": ("Mon, 30 Feb 2026 12:00:00 GMT", None),
    "25 o'clock": ("Sun, 01 Mar 2026 25:00:00 GMT", None),
    "second 61": ("Sun, 01 Mar 2026 12:00:61 GMT", None),
    "an unknown month": ("Sun, 01 Mrz 2026 12:00:00 GMT", None),
    "a zone that is not UTC": ("Sun, 01 Mar 2026 12:00:00 -0500", None),
    "a date and more": ("Sun, 01 Mar 2026 12:00:00 GMT, 5", None),
    "year 0": ("Sun, 01 Mar 0000 12:00:00 GMT", None),
}


@pytest.fixture
def new_york() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(("value", "expected"), TABLE.values(), ids=TABLE.keys())
def test_retry_after_says(value: str | None, expected: float | None) -> None:
    assert parse(value, NOW, CAP) == expected


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(("value", "expected"), TABLE.values(), ids=TABLE.keys())
def test_retry_after_says_the_same_in_new_york(value: str | None, expected: float | None) -> None:
    assert parse(value, NOW, CAP) == expected


def test_now_may_be_in_any_zone() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-5)))
    assert parse("Sun, 01 Mar 2026 12:01:30 GMT", elsewhere, CAP) == 90.0


def test_without_now_seconds_are_read_and_dates_say_nothing() -> None:
    assert parse("120", None, CAP) == 120.0
    assert parse("Sun, 01 Mar 2026 12:01:30 GMT", None, CAP) is None
    assert http_date("Sunday, 01-Mar-26 12:01:30 GMT", None) is None


@UNHURRIED
@given(st.text() | st.text(alphabet="0123456789 :,-GMTSunaMr", max_size=40))
def test_no_value_raises_and_every_wait_is_within_the_cap(value: str) -> None:
    wait = parse(value, NOW, CAP)
    assert wait is None or 0.0 <= wait <= CAP


@UNHURRIED
@given(st.datetimes(timezones=st.just(UTC)))
def test_a_date_is_read_back_as_the_same_second(at: datetime) -> None:
    moment = at.replace(microsecond=0)
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    clock = f"{moment.hour:02}:{moment.minute:02}:{moment.second:02}"
    fixed = f"Sun, {moment.day:02} {months[moment.month - 1]} {moment.year:04} {clock} GMT"
    asctime = f"Sun {months[moment.month - 1]} {moment.day:2} {clock} {moment.year:04}"
    assert http_date(fixed, NOW) == http_date(asctime, NOW) == moment

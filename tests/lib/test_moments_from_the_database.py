"""Moments are read as Django’s own loader reads them, only faster."""

from datetime import UTC, datetime

import pytest
from django.db import DataError, connection
from psycopg.pq import Format

from opsledger.lib.timestamps import MomentLoader

MOMENTS = [
    "2026-11-29 23:45:06.963003+00",
    "2026-11-29 23:45:06.9+00",
    "2026-11-29 23:45:06.000001+00",
    "2026-11-29 00:00:00+00",
    "0001-01-01 00:00:00+00",
    "9999-12-31 23:59:59.999999+00",
    "2026-07-01 12:00:00+05:30",
    "1890-01-01 00:00:00-00:17:30",
]


@pytest.mark.parametrize("written", MOMENTS)
def test_a_moment_is_the_one_that_was_kept(db: None, written: str) -> None:
    with connection.cursor() as cursor:
        assert connection.connection.adapters.get_loader(1184, Format.TEXT) is MomentLoader
        cursor.execute(
            "SELECT %s::timestamptz, to_char(%s::timestamptz, 'YYYY-MM-DD HH24:MI:SS.US')", [written] * 2
        )
        found, text = cursor.fetchone()
    assert found.tzinfo is UTC
    assert found == datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)


@pytest.mark.parametrize("written", ["infinity", "0044-03-15 BC", "12026-01-01"])
def test_a_moment_that_python_has_no_date_for_is_refused_as_before(db: None, written: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::timestamptz", [written])
        with pytest.raises(DataError):
            cursor.fetchone()


def test_a_session_in_another_zone_reads_the_same_moment(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'Asia/Kolkata'")
        cursor.execute("SELECT '2026-07-01 12:00:00+00'::timestamptz")
        found = cursor.fetchone()[0]
    assert found == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert found.tzinfo is UTC

"""A database URL as connection settings: limits and the planner's preferences are the session's own."""

from __future__ import annotations

import psycopg
import pytest
from django.db import connection

from opsledger.lib.database_url import FOLLOW_KEYS, ROW_BY_ROW, database
from opsledger.local.postgres import Urls


@pytest.mark.parametrize("planner", [FOLLOW_KEYS, ROW_BY_ROW], ids=["web", "worker"])
def test_a_session_has_its_limits_and_its_planner_s_preferences(
    database_urls: Urls, planner: dict[str, str], db: None
) -> None:
    made = database(database_urls.app, limits_ms={"lock_timeout": 1234}, keep=True, planner=planner)
    with psycopg.connect(database_urls.app, options=made["OPTIONS"]["options"]) as session:
        shown = {
            name: session.execute("SELECT current_setting(%s)", [name]).fetchone()
            for name in ("lock_timeout", "enable_seqscan", "enable_hashjoin", "jit", "timezone")
        }
    joins = planner.get("enable_hashjoin", "on")
    assert [value[0] for value in shown.values() if value] == ["1234ms", "off", joins, "off", "UTC"]


def test_the_application_s_own_sessions_follow_keys(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_seqscan")
        assert cursor.fetchone() == ("off",)

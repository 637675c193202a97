"""What reads open work looks into its indexes, however many holds were closed and however many incidents there were."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from many_holds import an_incident

from opsledger.ledger.actions import escalate, incidents
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold
from opsledger.ledger.queries import inbox
from opsledger.ledger.queries.inbox import View, Wanted
from opsledger.local.postgres import Urls
from tests.desk import Desk

CLOSED, OPEN, INCIDENTS = 60_000, 1_000, 6_000
AGO = "now() - {n} * interval '1 minute'"


def fill(server: psycopg.Connection, table: str, pk: object, count: int, **changed: str) -> None:
    """Copies one row many times, with these columns as expressions of n. Past triggers and foreign keys."""
    columns = [
        row[0]
        for row in server.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s",
            [table],
        )
    ]
    names = ", ".join(columns)
    values = ", ".join(changed.get(name, f"t.{name}") for name in columns)
    server.execute(  # type: ignore[call-overload]
        f"INSERT INTO {table} ({names}) SELECT {values} FROM generate_series(1, {count}) n,"
        f" (SELECT * FROM {table} WHERE id = '{pk}') t"
    )


@pytest.fixture
def team(desk: Desk, database_urls: Urls) -> Iterator[UUID]:
    """A team with a long history of closed holds and of incidents, and some holds that are open."""
    incident = an_incident(desk)
    hold = Hold.objects.filter(incident=incident).first()
    assert hold is not None
    owner = f"CASE WHEN n % 3 > 0 THEN '{desk.team.fallback_owner_id}'::uuid END"
    with psycopg.connect(database_urls.superuser, autocommit=True) as server:
        server.execute("SET session_replication_role = replica")
        fill(
            server, "ledger_incident", incident.pk, INCIDENTS,
            id="gen_random_uuid()", started_at=AGO.format(n="n"), last_at=AGO.format(n="n"),
        )  # fmt: skip
        common = {
            "id": "gen_random_uuid()",
            "step_id": "gen_random_uuid()",
            "operation_id": "gen_random_uuid()",
        }
        fill(
            server, "ledger_hold", hold.pk, CLOSED, **common, owner_id=owner, closed_at=AGO.format(n="n"),
            closed_by="'evidence'", opened_at=AGO.format(n="n"), due_at=AGO.format(n="n"), told_at="NULL",
            reminded_at=f"CASE WHEN n % 2 = 0 THEN {AGO.format(n='n')} END",
            escalate_at=f"CASE WHEN n % 2 = 0 THEN {AGO.format(n='n')} END",
        )  # fmt: skip
        fill(
            server, "ledger_hold", hold.pk, OPEN, **common, owner_id=owner, opened_at=AGO.format(n="n"),
            due_at=f"{AGO.format(n='n')} + interval '5 hours'",
            incident_id="CASE WHEN n % 20 > 0 THEN t.incident_id END", told_at="NULL",
            reminded_at=f"CASE WHEN n % 2 = 0 THEN {AGO.format(n='n')} END",
            escalate_at=f"CASE WHEN n % 2 = 0 THEN {AGO.format(n='n')} END",
        )  # fmt: skip
        server.execute("VACUUM (ANALYZE) ledger_hold, ledger_incident")
        yield desk.team.pk


def plan_of(query: str, parameters: Any) -> str:
    connection.ensure_connection()
    with psycopg.ClientCursor(connection.connection) as cursor:
        rows = cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {query}", parameters).fetchall()
    return "\n".join(row[0] for row in rows)


def read_rows(plan: str) -> int:
    """The most rows that one part of the plan looked at, those that it left out among them."""
    seen = re.findall(r"(?:actual rows=|Rows Removed by (?:Filter|Join Filter): )([0-9]+)", plan)
    return max(map(int, seen), default=0)


SWEPT: dict[str, tuple[str, list[Any]]] = {
    "told": (escalate._TO_TELL, [200]),
    "reminded": (escalate._TO_REMIND, [200]),
    "escalated": (escalate._TO_ESCALATE, [200]),
    "owners gone": (escalate._OWNERLESS, [200, 200]),
    "grouped": (incidents._OPENINGS, [200]),
}


def test_the_sweep_and_the_inbox_read_what_is_open_and_nothing_of_the_history(team: UUID) -> None:
    person = Hold.objects.exclude(owner=None).values_list("owner", flat=True)[0]
    now = database_now()
    asked = dict(SWEPT)
    for view in View:
        asked[f"inbox {view}"] = inbox.picked(Wanted(team, person, view), now, limit=51)

    for name, (query, parameters) in asked.items():
        plan = plan_of(query, parameters)
        assert "Seq Scan on ledger_hold" not in plan, f"{name}\n{plan}"
        assert read_rows(plan) <= OPEN + 10, f"{name}\n{plan}"


def test_grouping_reads_the_incidents_near_it_and_the_holds_that_it_gives(team: UUID) -> None:
    openings = incidents._openings(50)
    of = Hold.objects.get(pk=openings[0].hold_id)
    reasons = ["too_late", "disputed", "outcome_unknown", "data_missing", "approval_needed"]
    same = [[team], [of.destination_slug], [of.action]]
    times = [min(one.opened_at for one in openings)], [max(one.opened_at for one in openings)]
    groups = [column * len(reasons) for column in (*same, [""], *times)]
    groups[3] = reasons
    given = [[one.hold_id for one in openings], [Hold.objects.exclude(incident=None)[0].incident_id] * 50]

    near, written = plan_of(incidents._NEAR, groups), plan_of(incidents._GIVEN, given)

    assert "incident_of_group" in near
    assert "Seq Scan on ledger_incident" not in near
    assert "Seq Scan on ledger_hold" not in written
    assert read_rows(written) <= 60, written

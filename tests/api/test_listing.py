"""GET /operations: filters, search, cursors that stay with their filters, and queries that follow indexes."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from api_world import Api, World, deliver, event, statements, wanted
from django.db import connection

from opsledger.ledger.models import Operation, Step
from opsledger.ledger.queries import operations
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.operations import page_of
from opsledger.local.postgres import Urls
from tests.by_hand import change_by_hand


def names(api: Api, **query: Any) -> list[str]:
    answer = api.get("/operations", query)
    assert answer.status_code == 200, answer.content
    return [item["operation_id"] for item in answer.json()["items"]]


def everything(api: Api, **query: Any) -> list[str]:
    found, cursor = [], ""
    while True:
        page = api.get("/operations", {**query, **({"cursor": cursor} if cursor else {})}).json()
        found += [item["operation_id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            return found


@pytest.fixture
def some(world: World) -> World:
    for index in range(5):
        world.record(f"f:{index}")
    for index in range(3):
        world.record(f"h:{index}", "by_hand")
    world.decide("h:2")
    world.other.post("/operations", wanted("theirs"))
    return world


def test_the_newest_stand_first_and_pages_neither_repeat_nor_skip(some: World) -> None:
    assert everything(some.auto, limit=3) == ["h:2", "h:1", "h:0", "f:4", "f:3", "f:2", "f:1", "f:0"]
    assert everything(some.auto, limit=8)[-1] == "f:0"
    assert some.auto.get("/operations", {"limit": 8}).json()["next"] is None


def test_a_new_operation_moves_no_page(some: World) -> None:
    first = some.auto.get("/operations", {"limit": 3}).json()
    some.record("late")
    assert names(some.auto, limit=3, cursor=first["next"]) == ["f:4", "f:3", "f:2"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "cancelled"}, ["h:2"]),
        ({"state": "running,cancelled", "limit": 4}, ["h:2", "h:1", "h:0", "f:4"]),
        ({"state": "open", "workflow": "by_hand"}, ["h:1", "h:0"]),
        ({"workflow": "by_hand"}, ["h:2", "h:1", "h:0"]),
        ({"destination": "mail", "workflow": "by_hand", "state": "cancelled"}, ["h:2"]),
        ({"destination": "nothing"}, []),
        ({"operation_id": "f:1"}, ["f:1"]),
        ({"operation_id": "F:1"}, []),
        ({"operation_id": "f:1", "workflow": "by_hand"}, []),
        ({"q": "h:"}, ["h:2", "h:1", "h:0"]),
        ({"q": "h_"}, []),
        ({"q": "%"}, []),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_filters_find_what_they_say(some: World, query: dict[str, Any], found: list[str]) -> None:
    assert names(some.auto, **query) == found


def test_one_is_found_by_public_id_reference_and_event(some: World) -> None:
    deliver(event(7))
    shop = some.auto.get("/operations", {"event_id": "evt_7"}).json()["items"]
    assert [item["operation_id"] for item in shop] == ["shop:evt_7"]
    assert names(some.auto, q="evt_7") == names(some.auto, q=shop[0]["id"]) == ["shop:evt_7"]
    attempt = some.auto.post("/operations/h:0/steps/create_task/claim").json()["attempt_id"]
    body = {"outcome": "confirmed", "reference": "T_10%42", "evidence": {"how": "seen"}}
    assert some.auto.post(f"/attempts/{attempt}/outcome", body).status_code == 200
    assert names(some.auto, reference="T_10%42") == names(some.auto, q="T_10%") == ["h:0"]
    assert names(some.auto, reference="T_10") == names(some.auto, q="TX10%") == []


def test_an_owner_finds_open_operations_only(some: World) -> None:
    some.record("mine", owner="olga@example.test")
    some.record("mine too", owner="olga@example.test")
    some.decide(some.record("x", owner="olga@example.test").json()["id"])
    assert names(some.auto, owner="olga@example.test") == ["mine too", "mine"]
    assert names(some.auto, owner="olga@example.test", state="held") == []
    assert (
        some.auto.get("/operations", {"owner": "olga@example.test", "state": "completed"}).status_code == 422
    )


def test_what_changed_since_a_moment_is_found(some: World) -> None:
    Operation.objects.exclude(operation_id="f:1").update(updated_at=datetime(2026, 1, 1, tzinfo=UTC))
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    assert names(some.auto, updated_since=since) == ["f:1"]
    assert names(some.auto, updated_since=since, state="cancelled") == []
    assert names(some.auto, updated_since=since, q="f:") == ["f:1"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"state": "wobbly"}, "state"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "\u0663"}, "limit"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"updated_since": "yesterday"}, "updated_since"),
        ({"updated_since": "2026-03-01T09:00:00"}, "updated_since"),
        ({"updated_since": "2020-03-01T09:00:00Z"}, "updated_since"),
        ({"reference": "a\x00b"}, "reference"),
        ({"q": "x" * 3_000}, "q"),
        ({"workflow": ["a", "b"]}, "workflow"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_filter_that_can_not_be_read_is_refused(world: World, query: dict[str, Any], field: str) -> None:
    answer = world.auto.get("/operations", query)
    assert answer.status_code == 422
    assert field in {error["field"] for error in answer.json()["errors"]}


def test_half_a_surrogate_pair_in_a_query_is_no_500(world: World) -> None:
    assert names(world.auto, q=b"\xed\xa0\xbd") == []


def test_a_cursor_goes_with_its_filters_only(some: World) -> None:
    cursor = some.auto.get("/operations", {"limit": 2}).json()["next"]
    answer = some.auto.get("/operations", {"limit": 2, "cursor": cursor, "workflow": "by_hand"})
    assert answer.status_code == 422
    assert "other filters" in answer.json()["errors"][0]["message"]
    assert names(some.auto, limit=3, cursor=cursor) == ["h:0", "f:4", "f:3"]


@pytest.mark.django_db(transaction=True)
def test_a_filter_without_an_index_looks_at_a_window_and_its_cursor_goes_on(
    some: World, monkeypatch: pytest.MonkeyPatch, database_urls: Urls
) -> None:
    rare = Step.objects.filter(operation__operation_id="f:0").values_list("pk", flat=True)
    change_by_hand(
        database_urls, "UPDATE ledger_step SET destination_slug = 'rare' WHERE id = ANY(%s)", list(rare)
    )
    monkeypatch.setattr(operations, "WINDOW", 3)
    first = some.auto.get("/operations", {"destination": "rare"}).json()
    assert first["items"] == []
    assert first["next"] is not None
    assert everything(some.auto, destination="rare") == ["f:0"]


def test_other_teams_operations_are_in_no_list(some: World) -> None:
    theirs = Operation.objects.get(operation_id="theirs")
    for query in (
        {},
        {"q": "theirs"},
        {"operation_id": "theirs"},
        {"state": "running"},
        {"destination": "crm"},
    ):
        assert "theirs" not in names(some.auto, **query)
    assert names(some.other) == ["theirs"]
    assert page_of(some.cast.launch.pk, OperationFilter(search=f"{theirs.pk}")).lines == []


def test_a_list_takes_a_fixed_number_of_statements(some: World) -> None:
    for limit in (1, 8):
        with statements() as executed:
            assert len(page_of(some.cast.launch.pk, OperationFilter(limit=limit)).lines) == limit
        assert len(executed) == 4


# Plans

ROWS = 12_000


@pytest.fixture
def many(live_world: World, owner_connection: psycopg.Connection) -> World:
    """Twelve thousand ended operations of two teams with a step each, and one that is open."""
    live_world.record("open one", owner="olga@example.test")
    for table in ("ledger_operation", "ledger_step"):
        owner_connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    owner_connection.execute(
        "INSERT INTO ledger_operation SELECT r.* FROM ledger_operation o, generate_series(1, %s) n, LATERAL"
        " jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid(), 'operation_id', 'old:' || n,"
        " 'state', 'completed', 'ended_at', now(), 'owner_id', NULL,"
        " 'team_id', CASE WHEN n %% 4 = 0 THEN o.team_id ELSE %s END,"
        " 'updated_at', now() - (%s - n) * interval '10 minutes')) r",
        [ROWS, live_world.cast.returns.pk, ROWS],
    )
    owner_connection.execute(
        "INSERT INTO ledger_step SELECT r.* FROM ledger_operation o, ledger_step s, LATERAL"
        " jsonb_populate_record(s, jsonb_build_object('id', gen_random_uuid(), 'operation_id', o.id,"
        " 'team_id', o.team_id, 'state', 'confirmed', 'act', 'none', 'act_at', NULL,"
        " 'reference', 'T-' || o.operation_id)) r WHERE s.number = 1 AND o.state = 'completed'"
    )
    for table in ("ledger_operation", "ledger_step", "ledger_event", "ledger_operationevent", "person"):
        owner_connection.execute(f"ANALYZE {table}")
    for table in ("ledger_operation", "ledger_step"):
        owner_connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    return live_world


PLANS: list[tuple[str, OperationFilter, str]] = [
    ("newest", OperationFilter(), "operation_newest_first"),
    ("next page", OperationFilter(cursor=uuid.UUID(int=2**127)), "operation_newest_first"),
    ("state", OperationFilter.read({"state": ["held"]})[0], "operation_by_state"),
    ("states", OperationFilter.read({"state": ["open"]})[0], "operation_by_state"),
    ("workflow", OperationFilter(workflow="by_hand"), "operation_by_workflow"),
    ("owner", OperationFilter(owner="olga@example.test"), "operation_open_by_owner"),
    ("own id", OperationFilter(operation_id="old:77"), "operation_id_"),
    ("reference", OperationFilter(reference="T-old:77"), "step_by_reference"),
    ("search", OperationFilter(search="old:77"), "operation_id_"),
    ("destination", OperationFilter(destination="mail"), "operation_newest_first"),
]


def test_every_filter_follows_an_index(many: World) -> None:
    for name, asked, index in PLANS:
        query, parameters = operations._scan(many.cast.launch.pk, asked, 51)
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {query}", parameters)
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert index in plan, (name, plan)
        assert "Seq Scan on ledger_operation " not in plan, (name, plan)
        assert "Seq Scan on ledger_step " not in plan, (name, plan)


def test_updated_since_reads_the_block_range_index(many: World) -> None:
    asked = OperationFilter(updated_since=datetime.now(UTC) - timedelta(minutes=30))
    query, parameters = operations._scan(many.cast.launch.pk, asked, 51)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {query}", parameters)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "operation_updated_brin" in plan
    assert len(page_of(many.cast.launch.pk, asked).lines) == 2

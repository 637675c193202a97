"""What a row names is there, and stays: looked up once for each statement that adds rows, whoever writes them.

`KEYS` is each of these relations; test_what_the_database_refuses.py compares it with the models.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection
from django.utils import timezone
from psycopg import sql

from opsledger.ledger.models import ContentVersion, Rejection
from opsledger.local.postgres import Urls
from tests.desk import Desk

# Table and column, the table of what it names, and the trigger that looks it up.
KEYS = {
    ("ledger_operationparams", "operation_id"): ("ledger_operation", "params_belong_to_an_operation"),
    ("ledger_step", "operation_id"): ("ledger_operation", "step_belongs_to_an_operation"),
    ("ledger_steprequest", "step_id"): ("ledger_step", "request_belongs_to_a_step"),
    ("ledger_attempt", "operation_id"): ("ledger_operation", "attempt_belongs_to_a_step"),
    ("ledger_attempt", "step_id"): ("ledger_step", "attempt_belongs_to_a_step"),
    ("ledger_evidence", "operation_id"): ("ledger_operation", "evidence_is_about_what_is_there"),
    ("ledger_evidence", "step_id"): ("ledger_step", "evidence_is_about_what_is_there"),
    ("ledger_evidence", "attempt_id"): ("ledger_attempt", "evidence_is_about_what_is_there"),
    ("ledger_heldreference", "step_id"): ("ledger_step", "reference_is_held_by_a_step"),
    ("ledger_rejection", "step_id"): ("ledger_step", "rejection_is_of_a_step"),
}
PARENTS = ("ledger_operation", "ledger_step", "ledger_attempt")
TABLES = (*PARENTS, *sorted({table for table, _ in KEYS} - set(PARENTS)))
ALL = pytest.mark.parametrize(("table", "column"), KEYS, ids=lambda name: name.removeprefix("ledger_"))

Row = dict[str, Any]


@dataclass
class Rows:
    """New rows in the likeness of those that a sent operation has left, and the connection that writes them."""

    desk: Desk
    app: psycopg.Connection
    likeness: Mapping[str, Row]

    def row(self, table: str, **changed: Any) -> Row:
        """A row like the one that is there, with what is unique in it anew."""
        row = dict(self.likeness[table])
        if "id" in row:
            row["id"] = uuid.uuid4().int % 2**40 if isinstance(row["id"], int) else str(uuid.uuid4())
        fresh = {"operation_id": str(uuid.uuid4())} if table == "ledger_operation" else {}
        fresh |= {"reference_key": f"\\x{uuid.uuid4().hex * 2}"} if table == "ledger_heldreference" else {}
        return row | fresh | changed

    def family(self) -> dict[str, Row]:
        """An operation with one row of everything that belongs to it, as rows that nobody has written."""
        operation = self.row("ledger_operation")
        step = self.row("ledger_step", operation_id=operation["id"])
        attempt = self.row("ledger_attempt", operation_id=operation["id"], step_id=step["id"])
        named = {"operation_id": operation["id"], "step_id": step["id"], "attempt_id": attempt["id"]}
        made = {"ledger_operation": operation, "ledger_step": step, "ledger_attempt": attempt}
        for table in TABLES[len(PARENTS) :]:
            keys = {column: named[column] for child, column in KEYS if child == table}
            made[table] = self.row(table, **keys)
        return made

    def write(self, table: str, rows: Sequence[Row], by: psycopg.Connection | None = None) -> None:
        (by or self.app).execute(insert(table), [json.dumps(rows)])

    def family_before(self, table: str) -> dict[str, Row]:
        """A family of which that is written what a row of this table needs, and nothing else."""
        made = self.family()
        for parent in itertools.takewhile(lambda one: one != table, PARENTS):
            self.write(parent, [made[parent]])
        return made

    def count(self, table: str) -> int:
        found = self.app.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
        assert found
        return int(found[0])


def insert(table: str, returning: bool = False) -> sql.Composed:
    text = "INSERT INTO {0} SELECT * FROM json_populate_recordset(NULL::{0}, %s)"
    return sql.SQL(text + (" RETURNING 1" if returning else "")).format(sql.Identifier(table))  # type: ignore[arg-type]


def like(table: str) -> Row:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT to_json(t)::text FROM {table} t LIMIT 1")
        found = cursor.fetchone()
    assert found, f"nothing is in {table}"
    return dict(json.loads(found[0]))


@pytest.fixture
def rows(desk: Desk, database_urls: Urls) -> Iterator[Rows]:
    desk.letter()
    desk.open()
    desk.send()
    step = like("ledger_evidence")["step_id"]
    Rejection.objects.create(
        team=desk.team, step_id=step, revision=1, rejected_at=timezone.now(), rejected_count=1,
        rejected_by_id=desk.team.fallback_owner_id,
    )  # fmt: skip
    with psycopg.connect(database_urls.app, autocommit=True) as app:
        yield Rows(desk, app, {table: like(table) for table in TABLES})


@pytest.fixture(params=["application", "owner"])
def anybody(
    request: pytest.FixtureRequest, rows: Rows, owner_connection: psycopg.Connection
) -> psycopg.Connection:
    return rows.app if request.param == "application" else owner_connection


@ALL
def test_one_orphan_among_many_rows_is_refused_by_name_and_nothing_of_the_statement_stays(
    rows: Rows, anybody: psycopg.Connection, table: str, column: str
) -> None:
    many = [rows.family_before(table)[table] for _ in range(20)]
    lost = str(uuid.uuid4())
    before = rows.count(table)

    with pytest.raises(psycopg.errors.ForeignKeyViolation) as why:
        rows.write(table, [*many[:10], many[10] | {column: lost}, *many[11:]], anybody)

    parent, trigger = KEYS[table, column]
    said = why.value.diag
    assert (said.table_name, said.column_name, said.constraint_name) == (table, column, trigger)
    assert said.message_primary == (
        f"{column} of {table} names a row of {parent} that is not there: nothing of this statement was written"
    )
    assert said.message_detail == f'Key ({column})=({lost}) is not present in table "{parent}".'
    assert rows.count(table) == before
    rows.write(table, many, anybody)
    assert rows.count(table) == before + 20


def test_the_product_learns_of_it_as_of_any_other_broken_key(rows: Rows) -> None:
    orphan = rows.family()["ledger_step"]

    with pytest.raises(IntegrityError, match="is not there"), connection.cursor() as cursor:
        cursor.execute(insert("ledger_step").as_string(), [json.dumps([orphan])])


@pytest.mark.parametrize(
    "missing",
    [
        {"ledger_evidence": {"attempt_id": None}},
        {"ledger_evidence": {"step_id": None, "attempt_id": None}},
        {"ledger_rejection": {"step_id": None, "revision": None}},
    ],
    ids=["evidence of no attempt", "evidence of no step", "rejection of a version"],
)
def test_what_need_not_be_named_may_be_left_out(rows: Rows, missing: dict[str, Row]) -> None:
    ((table, nothing),) = missing.items()
    if table == "ledger_rejection":
        nothing["content_version_id"] = str(ContentVersion.objects.values_list("pk", flat=True)[0])
    before = rows.count(table)

    rows.write(table, [rows.family_before(table)[table] | nothing])

    assert rows.count(table) == before + 1


@ALL
def test_a_row_stays_with_what_it_belongs_to(
    rows: Rows, anybody: psycopg.Connection, table: str, column: str
) -> None:
    mine, other = rows.family_before(table), rows.family_before(table)
    row = mine[table]
    rows.write(table, [row])
    key = "id" if "id" in row else column
    moved = sql.SQL("UPDATE {} SET {} = %s WHERE {} = %s").format(*map(sql.Identifier, (table, column, key)))

    with pytest.raises(psycopg.errors.RestrictViolation, match="refused"):
        anybody.execute(moved, [other[table][column], row[key]])

    there = sql.SQL("SELECT {}::text FROM {} WHERE {} = %s").format(
        *map(sql.Identifier, (column, table, key))
    )
    assert anybody.execute(there, [row[key]]).fetchone() == (row[column],)


@pytest.mark.parametrize("table", ["ledger_step", "ledger_attempt", "ledger_operationparams"])
def test_to_say_again_what_a_row_belongs_to_moves_nothing(rows: Rows, table: str) -> None:
    columns = ", ".join(f"{column} = {column}" for child, column in KEYS if child == table)

    assert rows.app.execute(f"UPDATE {table} SET {columns}").rowcount > 0  # type: ignore[call-overload]


@pytest.mark.parametrize("what", ["removed", "renumbered", "truncated"])
@pytest.mark.parametrize("table", PARENTS, ids=lambda name: name.removeprefix("ledger_"))
def test_what_others_may_name_stays_although_nothing_names_it_yet(
    rows: Rows, anybody: psycopg.Connection, table: str, what: str
) -> None:
    childless = rows.family_before(table)[table]
    rows.write(table, [childless])
    statement, refused = {
        "removed": (f"DELETE FROM {table} WHERE id = '{childless['id']}'", "stay: DELETE refused"),
        "renumbered": (
            f"UPDATE {table} SET id = gen_random_uuid() WHERE id = '{childless['id']}'",
            "stay: UPDATE refused",
        ),
        "truncated": (f"TRUNCATE {table} CASCADE", "stay: TRUNCATE refused|permission denied"),
    }[what]
    before = rows.count(table)

    with pytest.raises(psycopg.DatabaseError, match=refused):
        anybody.execute(statement)  # type: ignore[call-overload]

    assert rows.count(table) == before
    found = rows.app.execute(f"SELECT 1 FROM {table} WHERE id = %s", [childless["id"]])  # type: ignore[call-overload]
    assert found.fetchone()


@pytest.mark.parametrize("table", ["ledger_steprequest", "ledger_evidence"])
def test_what_is_frozen_is_not_truncated_either(
    rows: Rows, owner_connection: psycopg.Connection, table: str
) -> None:
    with pytest.raises(psycopg.errors.RestrictViolation, match="TRUNCATE refused"):
        owner_connection.execute(f"TRUNCATE {table}")  # type: ignore[call-overload]

    assert rows.count(table)


@pytest.mark.parametrize("order", [TABLES, TABLES[::-1]], ids=["parents first", "parents last"])
def test_one_statement_may_write_a_row_and_what_it_names(rows: Rows, order: Sequence[str]) -> None:
    made = [rows.family() for _ in range(3)]
    before = {table: rows.count(table) for table in TABLES}

    in_one_statement(rows, {table: [family[table] for family in made] for table in order})

    assert {table: rows.count(table) for table in TABLES} == {table: n + 3 for table, n in before.items()}


@pytest.mark.parametrize("table", PARENTS, ids=lambda name: name.removeprefix("ledger_"))
def test_such_a_statement_writes_nothing_where_one_of_them_is_missing(rows: Rows, table: str) -> None:
    made, family = rows.family(), rows.family()
    before = {name: rows.count(name) for name in TABLES}
    parts = {name: [made[name]] if name == table else [made[name], family[name]] for name in TABLES}

    with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"names a row of {table} that is not there"):
        in_one_statement(rows, parts)

    assert {name: rows.count(name) for name in TABLES} == before


def in_one_statement(rows: Rows, parts: Mapping[str, Sequence[Row]]) -> None:
    names = [sql.Identifier(f"into_{table}") for table in parts]
    parted = [
        sql.SQL("{} AS ({})").format(name, insert(table, returning=True))
        for name, table in zip(names, parts, strict=True)
    ]
    rows.app.execute(
        sql.SQL("WITH {} SELECT 1").format(sql.SQL(", ").join(parted)), [*map(json.dumps, parts.values())]
    )


@ALL
def test_what_another_transaction_has_not_committed_yet_is_not_there(
    rows: Rows, owner_connection: psycopg.Connection, table: str, column: str
) -> None:
    parent, _ = KEYS[table, column]
    made, other = rows.family_before(table), rows.family_before(parent)
    row, coming = made[table] | {column: other[parent]["id"]}, other[parent]
    before = rows.count(table)

    with owner_connection.transaction():
        rows.write(parent, [coming], owner_connection)
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"{column} of {table}"):
            rows.write(table, [row])
        assert rows.count(table) == before

    rows.write(table, [row])
    assert rows.count(table) == before + 1


def test_what_lost_a_conflict_is_not_there(rows: Rows) -> None:
    """The unique operation id decides which of two is recorded; steps of the other one are refused."""
    twin = rows.row("ledger_operation", operation_id=rows.likeness["ledger_operation"]["operation_id"])
    step = rows.row("ledger_step", operation_id=twin["id"])
    before = rows.count("ledger_step")

    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="operation_id of ledger_step"):
        rows.app.execute(
            sql.SQL("WITH lost AS ({} ON CONFLICT DO NOTHING), step AS ({}) SELECT 1").format(
                insert("ledger_operation"), insert("ledger_step")
            ),
            [json.dumps([twin]), json.dumps([step])],
        )

    assert rows.count("ledger_step") == before


def test_the_check_finds_rows_by_their_keys_whatever_it_knew_of_the_tables_before(rows: Rows) -> None:
    """A session keeps the plan of its first batch, made when the tables were small; large ones are not read by it."""
    rows.app.execute("SET enable_seqscan = off")  # as the product's sessions have it
    few, many = ([rows.row("ledger_operation") for _ in range(count)] for count in (300, 5_000))
    rows.write("ledger_operation", few)
    rows.write("ledger_step", [rows.row("ledger_step", operation_id=one["id"]) for one in few])
    rows.write("ledger_operation", many)

    before = operations_read(rows)
    rows.write("ledger_step", [rows.row("ledger_step", operation_id=one["id"]) for one in many[:5]])

    assert 5 <= operations_read(rows) - before <= 20


def operations_read(rows: Rows) -> int:
    """How many rows were found by the index of their ids, by any session so far."""
    rows.app.execute("SELECT pg_stat_force_next_flush()")
    found = rows.app.execute(
        "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ledger_operation_pkey'"
    ).fetchone()
    assert found
    return int(found[0])

"""What is kept is not emptied at once either: TRUNCATE passes by every trigger that looks after single rows.

`MAY_GO` are the tables whose rows may go; any other table of a model stays, also one that is added.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db.migrations import RunSQL, SeparateDatabaseAndState
from django.db.models import Model
from psycopg import sql

from opsledger.accounts.models import Team
from opsledger.local.postgres import Urls
from tests.desk import Desk
from tests.ledger.test_what_the_database_refuses import MODELS, triggers

MAY_GO = {
    "membership": "a setting that people change; what was decided by it names the person",
    "ledger_assignmentrule": "a setting that people remove",
    "ledger_savedview": "a setting that people remove",
    "ledger_notice": "told; removed when it was read long ago",
    "ledger_mailing": "sent; removed with its notices",
    "ledger_canary": "a sign of life that the next task writes anew",
    "journal_verify_checkpoint": "how far a verification came; it begins again without",
}
STAYING = [model for model in MODELS if model._meta.db_table not in MAY_GO]


@pytest.mark.parametrize("model", STAYING, ids=lambda model: model._meta.db_table)
def test_a_table_whose_rows_stay_is_emptied_by_nobody(
    owner_connection: psycopg.Connection, database_urls: Urls, model: type[Model]
) -> None:
    empty = sql.SQL("TRUNCATE {} CASCADE").format(sql.Identifier(model._meta.db_table))

    with pytest.raises(psycopg.errors.RestrictViolation) as why:
        owner_connection.execute(empty)
    with psycopg.connect(database_urls.app) as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute(empty)

    said = why.value.diag.message_primary or ""
    assert model._meta.db_table in said
    assert said.endswith(("TRUNCATE refused", "TRUNCATE refused, nothing was removed"))


def test_all_that_may_go_are_tables_of_models_that_keep_no_single_row(transactional_db: None) -> None:
    assert {model._meta.db_table for model in MODELS} >= set(MAY_GO)
    for table in MAY_GO:
        assert not [one for one in triggers(table) if "DELETE" in one.events]


def test_they_go_without_taking_anything_else_along(desk: Desk, owner_connection: psycopg.Connection) -> None:
    desk.open()
    for table in MAY_GO:
        owner_connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.Identifier(table)))
    assert desk.operation(desk.open()).state == "running"


@pytest.mark.django_db(transaction=True, databases=["default", "owner"])
def test_django_can_not_flush_the_ledger(desk: Desk, owner_connection: psycopg.Connection) -> None:
    opened = desk.open()

    with pytest.raises(CommandError, match="couldn't be flushed"):
        call_command("flush", database="owner", interactive=False, verbosity=0)

    assert Team.objects.count() == 1
    assert desk.operation(opened).state == "running"


MIGRATIONS = ["0030_never_truncated", "0031_proposals_keys"]


def statements_of(migration: Any, *, back: bool) -> list[str]:
    parts: list[Any] = []
    for one in migration.operations:
        parts += one.database_operations if isinstance(one, SeparateDatabaseAndState) else [one]
    assert all(isinstance(part, RunSQL) for part in parts)
    found = [part.reverse_sql if back else part.sql for part in parts]
    return [text for text in (found[::-1] if back else found) if text]


@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_migration_that_gave_up_waiting_may_be_run_again_and_taken_back(
    owner_connection: psycopg.Connection, name: str
) -> None:
    migration = import_module(f"opsledger.ledger.migrations.{name}").Migration
    assert not migration.atomic  # each statement holds its locks for a moment
    before = refusals(owner_connection)

    try:
        for back in (False, True, True, False):
            for statement in statements_of(migration, back=back):
                owner_connection.execute(statement)  # type: ignore[call-overload]
            assert (refusals(owner_connection) == before) is not back
    finally:
        for statement in statements_of(migration, back=False):
            owner_connection.execute(statement)  # type: ignore[call-overload]


def refusals(connection: psycopg.Connection) -> list[Any]:
    return connection.execute(
        "SELECT tgrelid::regclass::text, tgname::text FROM pg_trigger WHERE NOT tgisinternal"
        " UNION ALL SELECT conrelid::regclass::text, conname::text FROM pg_constraint WHERE convalidated ORDER BY 1, 2"
    ).fetchall()

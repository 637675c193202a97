"""What the models promise stands in the database: each constraint and each index, by its name, and each key without one.

A migration that changes a column may take an index with it that it was not asked about; then a law is only in the code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import ForeignKey, Model, UUIDField

from opsledger.accounts.models import Team
from opsledger.ledger.models import Definition, DefinitionVersion, Operation
from tests.ledger.test_keys_per_statement import KEYS

MODELS = [model for model in apps.get_models() if model.__module__.startswith("opsledger.")]

# Keys without a constraint that nothing looks up: on hot rows, to rows that never go (decision 23).
NOT_LOOKED_UP = (Team, Definition, DefinitionVersion)
KEYED = [field for model in MODELS for field in model._meta.local_fields if isinstance(field, ForeignKey)]
UNCONSTRAINED = [field for field in KEYED if not field.db_constraint]
LOOKED_UP = [field for field in UNCONSTRAINED if field.related_model not in NOT_LOOKED_UP]
HOT = {field.model for field in LOOKED_UP} | {Operation}
STAYING = sorted({field.related_model for field in UNCONSTRAINED}, key=lambda model: model._meta.label)
# Ids of rows that no field of a relation names.
NO_RELATION = {
    "journal.Entry.subject_id": "of one of several kinds; a line stays whatever becomes of its subject",
    "journal.ErasableText.subject_id": "the same",
    "journal.VerifyCheckpoint.after_subject": "a place in an order",
    "ledger.ContentVersion.decision_text": "of a text, as in the journal's lines: it may be erased",
    "ledger.IncidentAct.newest_hold": "a place in an order: later ids are new since",
    "ledger.BulkRun.once": "the form's own, so that it begins one run",
    "ledger.SavedView.holder_id": "the person or the team, which are keys of their own",
}


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_constraint_and_index_of_a_model_is_in_the_database(model: type[Model]) -> None:
    wanted = {one.name for one in (*model._meta.constraints, *model._meta.indexes)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND convalidated"
            " UNION SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE i.indrelid = %s::regclass AND i.indisvalid",
            [model._meta.db_table, model._meta.db_table],
        )
        there = {name for (name,) in cursor.fetchall()}
    assert wanted <= there, f"{model._meta.label} lacks {sorted(wanted - there)}"


@pytest.mark.django_db
@pytest.mark.parametrize("field", LOOKED_UP, ids=str)
def test_a_key_without_a_constraint_is_looked_up_by_each_statement_and_never_changes(
    field: ForeignKey[Any, Any],
) -> None:
    table, column, parent = field.model._meta.db_table, field.column, field.related_model._meta.db_table
    found = triggers(table)

    looked_up = [
        one
        for one in found
        if one.events == {"INSERT"} and one.of_statement and one.new_rows
        and f"(SELECT p.id FROM {parent} p WHERE p.id = a.{column}) IS NULL" in one.source
    ]  # fmt: skip
    kept = [
        one
        for one in found
        if "UPDATE" in one.events and not one.of_statement and (not one.columns or column in one.columns)
    ]
    assert looked_up, f"nothing looks up {field} when a row is added: see migration 0029"
    assert any(one.function in {"refuse_move", "refuse_change"} for one in kept), f"{field} may change"


@pytest.mark.django_db
@pytest.mark.parametrize("model", STAYING, ids=lambda model: model._meta.label)
def test_what_is_named_without_a_constraint_is_never_removed_renumbered_or_truncated(
    model: type[Model],
) -> None:
    refusing = [one for one in triggers(model._meta.db_table) if one.function in REFUSING]

    assert any("DELETE" in one.events and not one.of_statement for one in refusing)
    assert any(
        "UPDATE" in one.events and (not one.columns or model._meta.pk.column in one.columns)
        for one in refusing
    )
    assert any("TRUNCATE" in one.events for one in refusing)


REFUSING = {"refuse_removal", "refuse_change", "refuse_emptying"}


@pytest.mark.django_db
def test_every_other_key_is_a_foreign_key_that_was_validated() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.conrelid::regclass::text, a.attname, c.confrelid::regclass::text FROM pg_constraint c"
            " JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)"
            " WHERE c.contype = 'f' AND c.convalidated"
        )
        there = set(cursor.fetchall())
    wanted = {
        (field.model._meta.db_table, field.column, field.related_model._meta.db_table)
        for field in KEYED
        if field.db_constraint
    }
    assert wanted <= there, sorted(wanted - there)


def test_only_hot_rows_lack_one() -> None:
    assert {field.model for field in UNCONSTRAINED} == HOT


def test_an_id_that_is_no_key_says_why() -> None:
    found = {
        f"{model._meta.label}.{field.name}"
        for model in MODELS
        for field in model._meta.local_fields
        if isinstance(field, UUIDField) and not field.primary_key
    }
    assert found == set(NO_RELATION)


def test_each_of_these_keys_is_tried() -> None:
    assert set(KEYS) == {(field.model._meta.db_table, field.column) for field in LOOKED_UP}


class Trigger(NamedTuple):
    function: str
    source: str
    events: set[str]
    of_statement: bool
    new_rows: bool
    columns: list[str]


def triggers(table: str) -> list[Trigger]:
    """Those that are switched on, as information_schema has them and a little more."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.proname, p.prosrc, t.tgtype, t.tgnewtable IS NOT NULL,"
            " ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = t.tgrelid AND a.attnum = ANY(t.tgattr))"
            " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
            " WHERE t.tgrelid = %s::regclass AND t.tgenabled = 'O' AND NOT t.tgisinternal",
            [table],
        )
        return [
            Trigger(name, source, {event for bit, event in EVENTS.items() if kind & bit}, not kind & 1, rows, columns)
            for name, source, kind, rows, columns in cursor.fetchall()
        ]  # fmt: skip


EVENTS = {
    4: "INSERT",
    8: "DELETE",
    16: "UPDATE",
    32: "TRUNCATE",
}  # bits of pg_trigger.tgtype; 1: for each row

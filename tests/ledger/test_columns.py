"""Columns reach the database as the arrays that they are."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from django.db import DataError, connection
from psycopg import _queries

from opsledger.ledger.sql import statement
from opsledger.lib.columns import Byteas, Column, Smallints, Texts, Uuids

pytestmark = pytest.mark.django_db

ONE, OTHER = UUID(int=1), UUID("01890000-0000-7000-8000-00000000000f")


@pytest.mark.parametrize(
    ("column", "type_", "values"),
    [
        (Uuids([ONE, None, OTHER]), "uuid[]", [ONE, None, OTHER]),
        (Smallints([1, -1, 32_767]), "smallint[]", [1, -1, 32_767]),
        (Texts(["", "é 日本 \U0001f600", None, 'a,"b"{}\\']), "text[]", ["", "é 日本 \U0001f600", None, 'a,"b"{}\\']),
        (Byteas([b"", b"\x00\xff", None]), "bytea[]", [b"", b"\x00\xff", None]),
        (Uuids([None]), "uuid[]", [None]),
        (Texts([]), "text[]", []),
    ],
    ids=["ids", "numbers", "texts", "bytes", "null alone", "nothing"],
)  # fmt: skip
def test_a_column_is_read_as_it_was_given(column: Column, type_: str, values: list[object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %(it)s, pg_typeof(%(it)s)::text", {"it": column})
        assert cursor.fetchone() == (values, type_)


def test_columns_of_one_length_are_rows() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM unnest(%s, %s)", [Uuids([ONE, OTHER]), Texts(["a", None])])
        assert cursor.fetchall() == [(ONE, "a"), (OTHER, None)]


def test_what_no_column_can_hold_is_refused() -> None:
    with pytest.raises(struct.error):
        Smallints([32_768])
    with pytest.raises(UnicodeEncodeError):
        Texts(["\ud83d"])
    with connection.cursor() as cursor, pytest.raises(DataError, match="0x00"):
        cursor.execute("SELECT %s", [Texts(["\x00"])])


def test_the_statement_of_intake_is_short_enough_to_be_remembered() -> None:
    """A longer one is taken apart for each operation, which costs as much as everything else about it."""
    assert len(statement("open_operations")) <= _queries.MAX_CACHED_STATEMENT_LENGTH

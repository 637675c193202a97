"""Columns of values as PostgreSQL's binary arrays: what many rows bring, without a text to be written and read again.

A column says its type itself, so a statement is prepared once, whatever it is given. `register` makes them known to the
connections that are opened afterwards. Half of a surrogate pair is refused here (UnicodeEncodeError), NUL by the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from struct import Struct
from uuid import UUID

import psycopg
from psycopg import pq
from psycopg.adapt import Dumper

_HEAD = Struct(
    "!iiIii"
)  # dimensions, whether there may be nulls, the elements' type, how many, the number of the first
_SMALL = Struct("!ih")
_UUID_LENGTH = (16).to_bytes(4, "big")
_NULL = (-1).to_bytes(4, "big", signed=True)


class Column:
    """`packed` goes to the server. The numbers of the types are the same on every server."""

    array_type = element_type = 0
    __slots__ = ("packed",)

    def __init__(self, count: int, parts: Iterable[bytes]) -> None:
        self.packed = b"".join([_HEAD.pack(1, 1, self.element_type, count, 1), *parts])


class Uuids(Column):
    array_type, element_type = 2951, 2950
    __slots__ = ()

    def __init__(self, values: Sequence[UUID | None]) -> None:
        super().__init__(len(values), [_UUID_LENGTH + one.bytes if one else _NULL for one in values])


class Smallints(Column):
    """struct.error for a number that does not fit into 16 bits."""

    array_type, element_type = 1005, 21
    __slots__ = ()

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__(len(values), [_SMALL.pack(2, one) for one in values])


class Byteas(Column):
    array_type, element_type = 1001, 17
    __slots__ = ()

    def __init__(self, values: Sequence[bytes | None]) -> None:
        sized = [(_NULL, b"") if one is None else (len(one).to_bytes(4, "big"), one) for one in values]
        super().__init__(len(values), chain.from_iterable(sized))


class Texts(Byteas):
    array_type, element_type = 1009, 25
    __slots__ = ()

    def __init__(self, values: Sequence[str | None]) -> None:
        super().__init__([None if one is None else one.encode() for one in values])


class _Packed(Dumper):
    format = pq.Format.BINARY

    def dump(self, obj: Column) -> bytes:
        return obj.packed


class _Uuids(_Packed):
    oid = Uuids.array_type


class _Smallints(_Packed):
    oid = Smallints.array_type


class _Byteas(_Packed):
    oid = Byteas.array_type


class _Texts(_Packed):
    oid = Texts.array_type


def register() -> None:
    """Once, before a connection is opened: those that are open don't learn of it."""
    for column, dumper in ((Uuids, _Uuids), (Smallints, _Smallints), (Byteas, _Byteas), (Texts, _Texts)):
        psycopg.adapters.register_dumper(column, dumper)

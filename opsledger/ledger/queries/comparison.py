"""What was found at a destination beside what was approved, field by field, from the facts of a hold.

The facts are written by lookups and late answers; here they become rows for a page. Sensitive fields are masked on both
sides: whether they match is still said.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from opsledger.rules.definitions import ActionDefinition
from opsledger.rules.matching import FieldRow, compare
from opsledger.rules.rendering import mask


@dataclass(frozen=True, slots=True)
class Row:
    """One decisive field. None: it is not there. A masked value never leaves this module unmasked."""

    label: str
    ours: str | None
    theirs: str | None
    match: bool
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A record at the destination."""

    reference: str
    ours: bool  # it carries this step's own identity
    rows: tuple[Row, ...] = ()
    url: str = ""

    @property
    def differing(self) -> tuple[str, ...]:
        return tuple(row.label for row in self.rows if not row.match)

    @property
    def matching_count(self) -> int:
        return sum(1 for row in self.rows if row.match)


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that a hold's facts say about records."""

    own: Found | None = None  # the one record of ours, where it differs or confirms
    duplicates: tuple[Found, ...] = ()  # several records of ours
    candidates: tuple[Found, ...] = ()  # only alike

    @property
    def references(self) -> tuple[str, ...]:
        every = (*((self.own,) if self.own else ()), *self.duplicates, *self.candidates)
        return tuple(found.reference for found in every)

    @property
    def differing(self) -> tuple[str, ...]:
        first = self.own or (self.candidates[0] if len(self.candidates) == 1 else None)
        return first.differing if first else ()


def findings(
    facts: Mapping[str, Any], action: ActionDefinition, request_fields: Mapping[str, str]
) -> Findings:
    """The records in a hold's facts, compared with the request that was approved."""
    candidates = tuple(_candidate(one, action, request_fields) for one in _list(facts, "candidates"))
    reference, references = facts.get("reference"), [str(one) for one in _list(facts, "references")]
    rows = tuple(_given_row(one, action) for one in _list(facts, "rows"))
    duplicates: tuple[Found, ...] = ()
    if len(references) > 1:
        duplicates = tuple(Found(one, True) for one in references)
    own = Found(str(reference), True, rows) if reference and not duplicates else None
    return Findings(own, duplicates, tuple(one for one in candidates if one.reference not in references))


def rows_of(rows: Iterable[FieldRow], action: ActionDefinition) -> tuple[Row, ...]:
    """A comparison that was made just now, for people."""
    return tuple(_row(row, action) for row in rows)


def request_fields(body: bytes) -> dict[str, str]:
    """A request's JSON body as text by dotted path: numbers keep their digits."""
    try:
        read = json.loads(body, parse_float=Decimal, parse_int=Decimal) if body else {}
    except ValueError:
        return {}
    fields: dict[str, str] = {}
    _flatten(read, "", fields)
    return fields


def _flatten(value: Any, path: str, into: dict[str, str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}" if path else str(name), into)
    elif value is not None and path:
        into[path] = value if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)


def _candidate(one: Mapping[str, Any], action: ActionDefinition, ours: Mapping[str, str]) -> Found:
    fields = one.get("fields", ())
    theirs = dict(fields.items() if isinstance(fields, Mapping) else fields)
    lookup = action.profile.lookup
    rows = compare(ours, theirs, lookup.decisive, lookup.kinds) if lookup else ()
    return Found(str(one.get("reference", "")), False, rows_of(rows, action), str(one.get("url", "")))


def _given_row(one: Mapping[str, Any], action: ActionDefinition) -> Row:
    return _row(FieldRow(one["field"], one.get("ours"), one.get("theirs"), bool(one.get("match"))), action)


def _row(row: FieldRow, action: ActionDefinition) -> Row:
    masked = _is_sensitive(row.field, action.sensitive)
    ours, theirs = ((value and mask(value)) if masked else value for value in (row.ours, row.theirs))
    return Row(label_of(row.field), ours, theirs, row.match, masked)


def _is_sensitive(field: str, sensitive: Collection[str]) -> bool:
    return any(field == path or field.startswith(f"{path}.") for path in sensitive)


def label_of(path: str) -> str:
    """A field's path as people read it: “Due date” for `due_date`."""
    return path.replace("_", " ").replace(".", " › ").strip().capitalize()


def _list(facts: Mapping[str, Any], name: str) -> list[Any]:
    found = facts.get(name)
    return list(found) if isinstance(found, list | tuple) else []

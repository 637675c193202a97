"""What was found at a destination beside what was approved, field by field, from the facts of a hold or a reading.

Whoever wrote the facts has masked sensitive values already; whether they match is still said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opsledger.rules.matching import FieldRow


@dataclass(frozen=True, slots=True)
class Row:
    """One decisive field. None: it is not there."""

    label: str
    ours: str | None
    theirs: str | None
    match: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """What a hold's facts say about records at the destination."""

    looked: str = ""  # the last lookup's answer, one of our words
    sentence: str = ""  # the same for people
    reference: str = ""  # of the one record that carries this step's identity
    rows: tuple[Row, ...] = ()  # of that record
    duplicates: tuple[str, ...] = ()  # references, when several records carry it
    candidates: tuple[str, ...] = ()  # references of records that are only alike
    taken: tuple[str, str] | None = None  # a reference, and the operation that holds it already

    @property
    def references(self) -> tuple[str, ...]:
        own = (self.reference,) if self.reference else ()
        return self.duplicates or own or self.candidates

    @property
    def differing(self) -> tuple[str, ...]:
        return tuple(row.label for row in self.rows if not row.match)

    @property
    def matching_count(self) -> int:
        return sum(1 for row in self.rows if row.match)


def findings(facts: Mapping[str, Any]) -> Findings:
    """The records in a hold's facts."""
    reference = str(facts.get("reference_taken") or facts.get("reference") or "")
    taken = (reference, str(facts["taken_by"])) if facts.get("taken_by") else None
    several = texts_in(facts, "references")
    return Findings(
        looked=str(facts.get("looked", "")),
        sentence=str(facts.get("look_sentence", "")),
        reference="" if taken or len(several) > 1 else reference,
        rows=rows_in(facts),
        duplicates=several if len(several) > 1 else (),
        candidates=tuple(one for one in texts_in(facts, "candidates") if one not in (reference, *several)),
        taken=taken,
    )


def rows_in(facts: Mapping[str, Any]) -> tuple[Row, ...]:
    """The compared fields in a hold's facts, or in those of one of its records."""
    return tuple(
        Row(label_of(str(field)), ours, theirs, bool(match)) for field, ours, theirs, match in _rows(facts)
    )


def rows_of(rows: Iterable[FieldRow]) -> tuple[Row, ...]:
    """A comparison that was made just now, for people."""
    return tuple(Row(label_of(row.field), row.ours, row.theirs, row.match) for row in rows)


def label_of(path: str) -> str:
    """A field's path as people read it: “Due date” for `due_date`."""
    return path.replace("_", " ").replace(".", " › ").strip().capitalize()


def texts_in(facts: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = facts.get(name)
    return tuple(str(one) for one in found) if isinstance(found, list | tuple) else ()


def _rows(facts: Mapping[str, Any]) -> list[Any]:
    found = facts.get("rows")
    return (
        [one for one in found if isinstance(one, list | tuple) and len(one) == 4]
        if isinstance(found, list)
        else []
    )

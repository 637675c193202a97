"""A destination's list of references, as somebody pasted or uploaded it: read row by row, nothing guessed.

Commas, semicolons or tabs, with quotes as CSV has them; a first row may name the columns. What stands in a cell is kept
byte for byte. A row that can't be read is named by its line and spoils no other.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opsledger.rules.identity import hex_digest
from opsledger.rules.profile import Lookup

BYTES_MAX = 2_000_000
ROWS_MAX = 10_000
CELL_LENGTH_MAX = 2_000

_REFERENCE = frozenset({"reference", "destination reference", "ref"})
_IDENTITY = frozenset({"identity", "our identity", "step identity", "idempotency key"})
_DELIMITERS = ("\t", ";", ",")
_NONE = "\x1f"  # where the first row has one cell only: what stands in a row is one cell


class UnreadableList(ValueError):
    """The list can't be read as a whole. The message is for people: what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Headings:
    """By which words a first row names its columns. They are compared without case, spaces and underscores."""

    reference: frozenset[str] = _REFERENCE
    identity: frozenset[str] = _IDENTITY
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # decisive fields of the request

    def means(self, heading: str) -> str:
        """`identity`, `reference`, `fields`, or "" for a column that is not used."""
        word = _folded(heading)
        known = {"identity": self.identity, "reference": self.reference, "fields": self.fields}
        return next((meaning for meaning, words in known.items() if word in words), "")


@dataclass(frozen=True, slots=True)
class Row:
    line: int  # in the text, from 1
    reference: str | None = None
    identity: str | None = None
    fields: tuple[tuple[str, str | None], ...] = ()  # decisive fields of the request; None: the cell is empty
    digest: str = ""  # SHA-256 in hex over its cells
    problem: str = ""  # why it can't be read; a sentence

    @property
    def said(self) -> tuple[object, ...]:
        """What the row says, wherever it stands."""
        return self.reference, self.identity, self.fields


@dataclass(frozen=True, slots=True)
class Listed:
    rows: tuple[Row, ...]
    named: bool  # whether a first row names the columns
    unused: tuple[str, ...] = ()  # headings of columns that are not used

    @property
    def identities(self) -> set[str]:
        return {row.identity for row in self.rows if row.identity is not None}


def headings_of(lookup: Lookup | None, reference: str = "") -> Headings:
    """The usual words, and those of the destination: where its records carry identity, reference and decisive fields."""
    fields: dict[str, tuple[str, ...]] = {}
    for ours, theirs in lookup.decisive if lookup else ():
        fields[_folded(theirs)] = (*fields.get(_folded(theirs), ()), ours)
    for ours, _ in lookup.decisive if lookup else ():
        fields.setdefault(_folded(ours), (ours,))
    identity = {_folded(lookup.identity)} if lookup and lookup.identity else set()
    own = {_folded(reference)} if reference else set()
    return Headings(_REFERENCE | own, _IDENTITY | identity, fields)


def _folded(heading: str) -> str:
    return " ".join(heading.replace("_", " ").casefold().split())


def read_list(
    raw: bytes, headings: Headings, known: Collection[str], *, identities_alone: bool = False
) -> Listed:
    """The rows of a list. `known`: the identities that are asked about; they tell columns apart that nobody named.
    `identities_alone`: a single column that nobody named holds identities also where none of them is known.

    Raises UnreadableList for what can't be read at all: not UTF-8, too long, an open quote, columns that mean nothing.
    """
    text = _text(raw)
    delimiter, first = _delimiter(text, headings)
    records = list(_records(text, delimiter))
    if not records:
        raise UnreadableList("The list is empty: no row has anything in it. Nothing was kept.")
    named = any(headings.means(cell) in {"identity", "reference"} for cell in first)
    body = records[1:] if named else records
    if not body:
        raise UnreadableList("The list names its columns and has no row below. Nothing was kept.")
    if len(body) > ROWS_MAX:
        raise UnreadableList(
            f"The list has {len(body):,} rows; one list may have {ROWS_MAX:,}. Divide it. Nothing was kept."
        )
    columns = _named_columns(first, headings) if named else _told_columns(body, known, identities_alone)
    rows = tuple(_row(line, cells, columns, len(first)) for line, cells in body)
    unused = tuple(cell for cell in first if not headings.means(cell)) if named else ()
    return Listed(rows, named, unused)


def _text(raw: bytes) -> str:
    if len(raw) > BYTES_MAX:
        raise UnreadableList(
            f"The list has {len(raw):,} bytes; one list may have {BYTES_MAX:,}. Divide it. Nothing was kept."
        )
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableList("The list is written in UTF-16. Save it as CSV in UTF-8. Nothing was kept.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as why:
        line = raw[: why.start].count(b"\n") + 1
        raise UnreadableList(
            f"Line {line} is not UTF-8. Save the list as CSV in UTF-8. Nothing was kept."
        ) from None


def _delimiter(text: str, headings: Headings) -> tuple[str, list[str]]:
    """How cells are told apart, by the first row with anything in it: the way in which most of them are known headings,
    else the first of tab, semicolon and comma that it has."""
    firsts = {one: _first(text, one) for one in _DELIMITERS}
    several = {one: cells for one, cells in firsts.items() if len(cells) > 1}
    if not several:
        return _NONE, _first(text, _NONE)
    known = {one: sum(bool(headings.means(cell)) for cell in cells) for one, cells in several.items()}
    best = max(several, key=lambda one: known[one])
    return best, several[best]


def _first(text: str, delimiter: str) -> list[str]:
    return next(_records(text, delimiter), (0, []))[1]


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line on which each begins; those with nothing in them are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as why:
        raise UnreadableList(
            f"From line {line} on the list can’t be read: {_plainly(str(why))}. Mend it there. Nothing was kept."
        ) from None


def _plainly(error: str) -> str:
    if "unexpected end" in error:
        return "a quote is opened and never closed"
    if "expected after" in error:
        return "something follows a closing quote"
    return "a cell is too long" if "field larger" in error else error


# Columns


@dataclass(frozen=True, slots=True)
class _Columns:
    reference: int | None
    identity: int | None
    fields: tuple[tuple[int, str], ...] = ()


def _named_columns(first: Sequence[str], headings: Headings) -> _Columns:
    meanings = [headings.means(cell) for cell in first]
    for meaning, count in Counter(meanings).items():
        if count > 1 and meaning in {"identity", "reference"}:
            raise UnreadableList(
                f"Two columns are named as the {meaning}. Name only one of them so. Nothing was kept."
            )
    named = {meaning: place for place, meaning in enumerate(meanings)}
    fields = tuple(
        (place, ours)
        for place, (cell, meaning) in enumerate(zip(first, meanings, strict=True))
        if meaning == "fields"
        for ours in headings.fields[_folded(cell)]
    )
    return _Columns(named.get("reference"), named.get("identity"), fields)


_NAME_THEM = "Name the columns in a first row, such as “reference,identity”. Nothing was kept."


def _told_columns(
    body: Sequence[tuple[int, list[str]]], known: Collection[str], identities_alone: bool
) -> _Columns:
    """Without headings the identities tell which column is which; nothing else does."""
    width = len(body[0][1])
    ours = {place for _, cells in body for place, cell in enumerate(cells[:width]) if cell in known}
    if width == 1:
        return _Columns(None, 0) if ours or identities_alone else _Columns(0, None)
    if not ours:
        raise UnreadableList(
            f"No cell of the list is the identity of a hold that was selected. If it is the right list: {_lower(_NAME_THEM)}"
        )
    if len(ours) > 1 or width > 2:
        raise UnreadableList(
            f"The list has {width} columns, and it is not plain which is which. {_NAME_THEM}"
        )
    (identity,) = ours
    return _Columns(1 - identity, identity)


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _row(line: int, cells: list[str], columns: _Columns, width: int) -> Row:
    digest = hex_digest(b"list row 1", *(cell.encode() for cell in cells))
    bad = Row(line, digest=digest)
    if len(cells) < width or any(cells[width:]):
        return replace(bad, problem=f"It has {_cells(len(cells))} where the first row has {width}.")
    if any("\0" in cell for cell in cells):
        return replace(bad, problem="It holds a character that can’t be stored (NUL).")
    if any(len(cell) > CELL_LENGTH_MAX for cell in cells):
        return replace(bad, problem=f"A cell has more than {CELL_LENGTH_MAX:,} characters.")
    row = Row(
        line,
        reference=_cell(cells, columns.reference),
        identity=_cell(cells, columns.identity),
        fields=tuple((ours, cells[place] or None) for place, ours in columns.fields),
        digest=digest,
    )
    if row.reference is None and row.identity is None:
        return replace(bad, problem="It names neither a reference nor an identity.")
    return row


def _cell(cells: Sequence[str], place: int | None) -> str | None:
    return (cells[place] or None) if place is not None else None

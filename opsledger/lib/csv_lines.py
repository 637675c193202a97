"""CSV for people's spreadsheets: every cell is text there, never a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from opsledger.lib.strict_json import visible

# What a spreadsheet may take for the beginning of a formula, or skip on the way to one.
_DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
Cell = str | int | float | datetime | None


def lines(header: Sequence[str], rows: Iterable[Sequence[Cell]], *, batch: int = 200) -> Iterator[bytes]:
    """UTF-8 with a mark at its beginning, CRLF; many lines a piece. Times are UTC."""
    yield "\ufeff".encode() + _written([header])
    waiting: list[Sequence[Cell]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == batch:
            yield _written(waiting)
            waiting = []
    if waiting:
        yield _written(waiting)


def _written(rows: Iterable[Sequence[Cell]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([[safe(cell) for cell in row] for row in rows])
    return visible(text.getvalue()).encode("utf-8")


def safe(cell: Cell) -> str:
    """The cell's text; with an apostrophe in front where a spreadsheet could take it for a formula."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(cell, int | float):
        return str(cell)
    return f"'{cell}" if cell.lstrip(" \u00a0\ufeff\u200b").startswith(_DANGEROUS) else cell

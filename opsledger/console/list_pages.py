"""Lists of references and provider's statements as pages need them: rows, counts and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from django.urls import reverse

from opsledger.console.selection_pages import hold_url
from opsledger.console.vocabulary import rows_of
from opsledger.ledger.queries.lists import ListLine, Look, Target, headings_for, masked
from opsledger.ledger.queries.statements import CoverLine, StatementLine
from opsledger.lib import ids
from opsledger.lib.csv_lines import Cell
from opsledger.rules.list_matching import RowVerdict

ROWS_PAGE = 100
LEFT_SHOWN = 50


def headings(targets: Sequence[Target]) -> dict[str, list[str]]:
    """By which words a list may name its columns."""
    known = headings_for(targets)
    return {
        "identity": sorted(known.identity),
        "reference": sorted(known.reference),
        "fields": sorted(known.fields),
    }


def list_row(line: ListLine) -> dict[str, Any]:
    address = reverse(
        "reference_list", args=[ids.public("sel", line.selection_id), ids.public("lst", line.id)]
    )
    return {"line": line, "url": address}


def list_context(seen: Look, *, shown: str, after: int) -> dict[str, Any]:
    """A list's page. `shown`: one kind of verdict; `after`: rows further down than this line."""
    counts = Counter(one.match.value for one in seen.matched.rows)
    targets = {one.sought.hold_id: one for one in seen.targets}
    rows = [
        one for one in seen.matched.rows if one.row.line > after and (not shown or one.match.value == shown)
    ][: ROWS_PAGE + 1]
    left = seen.left
    left_rows = [one for one in seen.targets if one.hold_id in left]
    return {
        "line": seen.line,
        "given": ids.public("lst", seen.line.id),
        "counts": [
            (row.value, row.word, counts[row.value]) for row in rows_of("list_row") if counts[row.value]
        ],
        "shown_kind": shown,
        "rows": [_verdict_row(one, targets.get(one.hold_id or "")) for one in rows[:ROWS_PAGE]],
        "next_after": rows[ROWS_PAGE - 1].row.line if len(rows) > ROWS_PAGE else None,
        "is_later": after > 0,
        "left_rows": [_target_row(one) | {"why": left[one.hold_id]} for one in left_rows[:LEFT_SHOWN]],
        "left_count": len(left_rows),
        "left_shown": LEFT_SHOWN,
        "match_count": len(seen.matching),
        "unread_count": seen.unread_count,
        "to_read_count": len(seen.matched.to_be_read),
        "unused": seen.listed.unused,
        "destination": seen.targets[0].destination if seen.targets else "",
        "fits": seen.fits,
        "shown_digest": seen.shown,
    }


def _verdict_row(one: RowVerdict, target: Target | None) -> dict[str, Any]:
    different = [row for row in one.rows if not row.match]
    return {
        "line": one.row.line,
        "reference": one.row.reference,
        "identity": one.row.identity,
        "match": one.match,
        "sentence": one.sentence,
        "different": masked(different, target.definition.sensitive) if target else [],
        "target": _target_row(target) if target else None,
    }


def _target_row(target: Target) -> dict[str, Any]:
    return {
        "title": target.title,
        "text_id": target.operation_text_id,
        "url": hold_url(target.operation_id, target.hold_id),
    }


HEADER = ("line", "reference", "identity", "verdict", "says", "operation_id", "hold")


def cells(seen: Look) -> Iterator[list[Cell]]:
    targets = {one.sought.hold_id: one for one in seen.targets}
    for one in seen.matched.rows:
        target = targets.get(one.hold_id or "")
        yield [
            one.row.line, one.row.reference, one.row.identity, one.match.value, one.sentence,
            target.operation_text_id if target else "", ids.public("hold", target.hold_id) if target else "",
        ]  # fmt: skip


# Statements


def statement_row(line: StatementLine) -> dict[str, Any]:
    address = reverse("statement", args=[ids.public("sel", line.selection_id), line.ref.name])
    return {"line": line, "url": address, "name": line.ref.name}


def cover_context(found: Sequence[CoverLine], *, after: int) -> dict[str, Any]:
    """Which holds a statement covers, and which not; those that it does not cover first, as nothing follows for them."""
    counts = Counter(one.cover.value for one in found)
    rows = [one for one in found if one.target.position > after][: ROWS_PAGE + 1]
    return {
        "counts": [(row.value, row.word, counts[row.value]) for row in rows_of("cover") if counts[row.value]],
        "rows": [
            _target_row(one.target) | {"cover": one.cover, "sentence": one.sentence}
            for one in rows[:ROWS_PAGE]
        ],
        "next_after": rows[ROWS_PAGE - 1].target.position if len(rows) > ROWS_PAGE else None,
        "is_later": after > 0,
        "item_count": len(found),
    }

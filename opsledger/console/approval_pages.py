"""What the pages of approvals show: a request line by line beside the one before, what an approval covers, who may give it.

Nothing here writes. Whether values are shown or masked is decided by whoever asks, who has it journaled first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.differences import Part, difference
from opsledger.console.wording.approvers import left_out_when_you_approve, whether_they_may
from opsledger.ledger.approvals import CoveredStep, replaced_by
from opsledger.ledger.queries import approvals, sides
from opsledger.ledger.queries.approvals import Text
from opsledger.ledger.queries.comparison import label_of
from opsledger.ledger.queries.content import Covered, Version
from opsledger.lib import ids
from opsledger.lib.strict_json import projection
from opsledger.rules.definition_types import FieldKind, ParamDefinition
from opsledger.rules.rendering import as_text, mask

COVERED_PAGE = 50  # operations of one page of what an approval covers


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line of a comparison. `before` and `after` are None where it is not there."""

    label: str
    before: tuple[Part, ...] | None
    after: tuple[Part, ...] | None
    same: bool
    masked: bool
    kind: str = ""  # icon and words beside the label
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """A request of one step beside the one before. `before_title` is "" where nothing was before it."""

    rows: list[DiffRow]
    before_title: str
    after_title: str
    missing: tuple[str, ...]
    has_masked: bool

    @property
    def changed_count(self) -> int:
        return sum(1 for row in self.rows if not row.same)

    @property
    def same_count(self) -> int:
        return len(self.rows) - self.changed_count


def request_diff(step_id: UUID, *, approved_number: int | None, reveal: bool) -> ShownDiff | None:
    """What would be sent, against the same request with the approved version; without one, against what was sent last."""
    after = sides.as_it_stands(step_id, reveal=reveal)
    if after is None:
        return None
    before = None
    if approved_number is not None:
        before = sides.as_it_stands(step_id, content_number=approved_number, reveal=reveal)
    before = before or sides.before_it(step_id, reveal=reveal)
    rows = [
        _request_row(line, compared=before is not None) for line in sides.side_by_side(step_id, before, after)
    ]
    rows.sort(key=lambda row: row.same)  # what differs first
    return ShownDiff(
        rows,
        _title(before, approved=approved_number is not None) if before else "",
        _title(after, approved=False),
        after.missing,
        any(row.masked for row in rows),
    )


def _title(side: sides.Side, *, approved: bool) -> str:
    if approved and side.content_number is not None:
        return _("With version %(number)s") % {"number": side.content_number}
    if side.content_number is not None:
        words = _("Revision %(revision)s, with version %(number)s")
        return words % {"revision": side.revision, "number": side.content_number}
    return _("Revision %(revision)s") % {"revision": side.revision}


def _request_row(line: sides.Line, *, compared: bool) -> DiffRow:
    label = _line_label(line.path)
    if line.is_key:
        note = _("Made anew for each revision; not part of what is approved.")
        return DiffRow(label, _plain(line.before), _plain(line.after), True, line.masked, "key", note)
    return _row(label, line.before, line.after, line.same or not compared, line.masked, "")


def _line_label(path: str) -> str:
    """Method with address, a header, or a field of the body."""
    if path == "Request":
        return _("Request")
    kind, _sep, name = path.partition(" ")
    return _("Header %(name)s") % {"name": name} if kind == "Header" else label_of(path)


def _row(label: str, before: str | None, after: str | None, same: bool, masked: bool, kind: str) -> DiffRow:
    if not same and masked and before == after:
        note = _("Another value, masked alike on both sides.")
        return DiffRow(label, _plain(before), _plain(after), same, masked, kind, note)
    if same or masked or before is None or after is None:
        return DiffRow(label, _whole(before, not same), _whole(after, not same), same, masked, kind)
    words = difference(before, after)
    return DiffRow(label, words.before, words.after, same, masked, kind)


def _plain(text: str | None) -> tuple[Part, ...] | None:
    return _whole(text, changed=False)


def _whole(text: str | None, changed: bool) -> tuple[Part, ...] | None:
    return None if text is None else (Part(text, changed),)


# The fields of a version


KINDS: Mapping[FieldKind, tuple[str, str]] = {
    FieldKind.FREE: ("pen", noop("Free")),
    FieldKind.SENSITIVE: ("flag", noop("Sensitive")),
    FieldKind.LOCKED: ("lock", noop("Locked")),
}


def field_rows(before: Text | None, after: Text, *, reveal: bool) -> list[DiffRow]:
    """The fields of two versions in the workflow’s order; each says what it is."""
    return [
        _field_row(one, before.fields if before else None, after.fields, reveal)
        for one in after.definition.content
    ]


def _field_row(
    one: ParamDefinition, before: Mapping[str, Any] | None, after: Mapping[str, Any], reveal: bool
) -> DiffRow:
    ours = before.get(one.name) if before else None
    theirs, hidden = after.get(one.name), one.sensitive and not reveal
    same = before is None or _text(ours) == _text(theirs)
    return _row(
        one.label,
        _shown(ours, hidden),
        _shown(theirs, hidden),
        same,
        hidden,
        (one.kind or FieldKind.FREE).value,
    )


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def _shown(value: Any, hidden: bool) -> str | None:
    if value is None:
        return None
    return mask(value) if hidden else str(projection(as_text(value)))


# What an approval covers


@dataclass(frozen=True, slots=True)
class CoveredLine:
    step: CoveredStep
    step_public: str
    operation_public: str
    left_out: str  # why it waits on for somebody else; "" when this person may approve it
    chosen: bool  # its request is the one that is shown


@dataclass(frozen=True, slots=True)
class CoveredPage:
    lines: list[CoveredLine]
    first: int  # position of the first line, from 1
    later: str  # cursor of the next page, "" = none
    earlier: bool


@dataclass(frozen=True, slots=True)
class ReplacedLine:
    """An operation that waits, and that nobody approves any more."""

    step: CoveredStep
    operation_public: str
    by: str  # the operation that replaces it


def without_replaced(covered: Covered) -> tuple[Covered, list[ReplacedLine]]:
    """What an approval lets be sent, under the digest of all that was read; and the operations that it leaves out."""
    replaced = replaced_by({one.operation_id for one in covered.steps})
    left = {one.operation_id: one for one in covered.steps if one.operation_id in replaced}
    lines = [ReplacedLine(one, ids.public("op", key), replaced[key]) for key, one in left.items()]
    return Covered(covered.digest, [one for one in covered.steps if one.operation_id not in left]), lines


def covered_page(
    covered: Covered, left_out: Mapping[UUID, str], *, after: str, chosen: UUID | None
) -> CoveredPage:
    """A page of what is covered, in the order of the operations; `after` is the last step of the page before."""
    keys = [(one.operation_id, one.number) for one in covered.steps]
    start = 0
    last = ids.parse("stp", after)
    if last is not None:
        place = next((key for one, key in zip(covered.steps, keys, strict=True) if one.step_id == last), None)
        start = sum(1 for key in keys if place is not None and key <= place)
    steps = covered.steps[start : start + COVERED_PAGE]
    lines = [
        CoveredLine(
            one, ids.public("stp", one.step_id), ids.public("op", one.operation_id),
            left_out_when_you_approve(left_out.get(one.step_id, "")), one.step_id == chosen,
        )
        for one in steps
    ]  # fmt: skip
    more = start + COVERED_PAGE < len(covered.steps)
    return CoveredPage(lines, start + 1, lines[-1].step_public if more else "", start > 0)


def chosen_step(covered: Covered, wanted: str) -> UUID | None:
    """The step whose request is shown: the one that the address names, else the first."""
    number = ids.parse("stp", wanted)
    known = {one.step_id for one in covered.steps}
    if number in known:
        return number
    return covered.steps[0].step_id if covered.steps else None


# Who


def author_words(version: Version, names: Mapping[str, str]) -> str:
    """“Model draft-writer-2”, “Automation crm-sync”, or the person’s name."""
    return {
        "model": _("Model %(name)s") % {"name": version.author},
        "automation": _("Automation %(name)s") % {"name": version.author},
    }.get(version.author_kind, names.get(f"person:{version.author_person_id}", version.author))


def approver_lines(people: Sequence[approvals.Approver], me: UUID) -> list[dict[str, Any]]:
    """Everybody who could approve here, each with whether they may and why not."""
    return [
        {
            "name": one.name,
            "me": one.id == me,
            "may": not one.why_not,
            "words": whether_they_may(one.why_not),
        }
        for one in people
    ]

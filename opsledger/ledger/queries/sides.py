"""Two requests of one step side by side: what would be sent now, and what was approved or sent before it.

Whether a line differs is found out with the real values, which do not leave this module; what is shown of sensitive ones
is masked unless `reveal`, which whoever asks has journaled before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from opsledger.ledger import definitions
from opsledger.ledger.models import Step
from opsledger.ledger.queries.requests import (
    ShownRequest,
    compared,
    sent_or_approved_before,
    shown_request,
)
from opsledger.lib.strict_json import projection
from opsledger.rules.profile import ProtectionKind
from opsledger.rules.rendering import MASK

_KEYED = frozenset({ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID})


@dataclass(frozen=True, slots=True)
class Side:
    """One request, line by line: as it may be shown, and, only to be compared, as it is."""

    revision: int
    content_number: int | None
    shown: Mapping[str, str]
    real: Mapping[str, str]
    missing: tuple[str, ...]  # what it lacks; then there is no line


@dataclass(frozen=True, slots=True)
class Line:
    """One line of both. None: it is not there."""

    path: str  # “Request”, “Header NAME”, or the dotted path of a field of the body
    before: str | None
    after: str | None
    same: bool
    masked: bool
    is_key: bool  # another one for each revision; what is approved leaves it out


def as_it_stands(step_id: UUID, *, content_number: int | None = None, reveal: bool = False) -> Side | None:
    """What the step would send now, or with another version of its content. None: there is no such step or version."""
    real = shown_request(step_id, content_number=content_number, reveal=True)
    return _side(real, real if reveal else shown_request(step_id, content_number=content_number))


def before_it(step_id: UUID, *, reveal: bool = False) -> Side | None:
    """The newest request of an earlier revision that was frozen; None when nothing was."""
    real = sent_or_approved_before(step_id, reveal=True)
    return _side(real, real if reveal else sent_or_approved_before(step_id))


def side_by_side(step_id: UUID, before: Side | None, after: Side) -> list[Line]:
    """Every line of both, in the order of the newer one."""
    key = _key_path(step_id)
    ours = before or Side(0, None, {}, {}, ())
    return [
        Line(
            path,
            ours.shown.get(path),
            after.shown.get(path),
            ours.real.get(path) == after.real.get(path),
            any(side.shown.get(path) != side.real.get(path) for side in (ours, after)),
            path == key,
        )
        for path in dict.fromkeys([*after.real, *ours.real])
    ]


def _side(real: ShownRequest | None, shown: ShownRequest | None) -> Side | None:
    if real is None or shown is None:
        return None
    lines, masked = _lines(real), _lines(shown)
    # a line that the masked request lacks is hidden whole
    hidden = {path: masked.get(path, MASK) for path in lines}
    return Side(real.revision, real.content_number, hidden, lines, real.missing)


def _lines(request: ShownRequest) -> dict[str, str]:
    return {row.label: str(projection(row.after or "")) for row in compared(None, request)}


def _key_path(step_id: UUID) -> str:
    """The line that holds the idempotency key; "" where there is none."""
    step = Step.objects.only("action", "destination_version_id").get(pk=step_id)
    action = definitions.destination(step.destination_version_id).actions[step.action]
    protection = action.profile.protection
    where, _, place = (protection.key_in if protection.kind in _KEYED else "").partition(":")
    return f"Header {place}" if where == "header" else place

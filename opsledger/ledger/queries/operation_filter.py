"""What is asked for in a list of operations: read from a query string, and kept in a cursor."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from opsledger.rules.building import Problem
from opsledger.rules.states import OperationState

PAGE = 50
PAGE_MAX = 200
LOOK_BACK_SECONDS_MAX = 7 * 86_400  # of updated_since
TEXT_LENGTH_MAX = 2_000
OPEN_STATES = (
    OperationState.RUNNING,
    OperationState.RECONCILING,
    OperationState.AWAITING_APPROVAL,
    OperationState.HELD,
)


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """What was asked for. Identifiers are compared byte for byte; `search` takes their beginnings."""

    states: tuple[OperationState, ...] = ()
    owner: str = ""  # a sign-in name; finds open operations
    workflow: str = ""
    destination: str = ""
    operation_id: str = ""
    reference: str = ""
    event_id: str = ""
    search: str = ""  # beginning of an operation id or of a reference, an event id, or `op_…`
    updated_since: datetime | None = None
    limit: int = PAGE
    cursor: UUID | None = None  # the page begins below this id

    @classmethod
    def read(cls, given: Mapping[str, Sequence[str]]) -> tuple[OperationFilter, list[Problem]]:
        """The filter from a query string's fields, and what is wrong with them. Unknown fields are wrong, too."""
        problems: list[Problem] = []
        for name in given:
            if name not in _FIELDS:
                problems.append((name, f"is not a known filter; known are {', '.join(sorted(_FIELDS))}"))
            elif len(given[name]) > 1 and name != "state":
                problems.append((name, "is given more than once"))
        values = {name: given[name][-1] for name in given if name in _FIELDS and given[name]}
        for name, value in values.items():
            if "\x00" in value or len(value) > TEXT_LENGTH_MAX:
                problems.append((name, f"must be at most {TEXT_LENGTH_MAX} characters, without NUL"))
        texts: dict[str, Any] = {name: values.get(name, "") for name in _TEXTS}
        asked = cls(
            states=_states(given.get("state", ()), problems),
            search=values.get("q", ""),
            updated_since=_since(values.get("updated_since", ""), problems),
            limit=_limit(values.get("limit", ""), problems),
            **texts,
        )
        if asked.owner and not set(asked.states) <= set(OPEN_STATES):
            problems.append(("owner", "goes with open states only"))
        if values.get("cursor"):
            asked = replace(asked, cursor=asked._place(values["cursor"], problems))
        return asked, problems

    def cursor_after(self, last: UUID) -> str:
        """Opaque: where the next page begins, and a mark of the filters that it belongs to."""
        return base64.urlsafe_b64encode(last.bytes + self._mark()).decode().rstrip("=")

    def _place(self, text: str, problems: list[Problem]) -> UUID | None:
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != 24:
            problems.append(("cursor", "can't be read; begin again without it"))
        elif raw[16:] != self._mark():
            problems.append(("cursor", "belongs to other filters; begin again without it"))
        else:
            return UUID(bytes=raw[:16])
        return None

    def _mark(self) -> bytes:
        return hashlib.sha256(
            repr(replace(self, cursor=None, limit=0)).encode("utf-8", "surrogatepass")
        ).digest()[:8]

    @property
    def by_identifier(self) -> bool:
        return bool(self.operation_id or self.reference or self.event_id or self.search)


_TEXTS = ("owner", "workflow", "destination", "operation_id", "reference", "event_id")
_FIELDS = frozenset({*_TEXTS, "state", "q", "updated_since", "limit", "cursor"})


def _states(given: Sequence[str], problems: list[Problem]) -> tuple[OperationState, ...]:
    words = [word for text in given for word in text.split(",") if word]
    known = {state.value for state in OperationState} | {"open"}
    if not known.issuperset(words):
        problems.append(("state", f"must be one of {', '.join(sorted(known))}"))
    found = {OperationState(word) for word in words if word in known - {"open"}}
    return tuple(sorted(found | set(OPEN_STATES if "open" in words else ())))


def _since(text: str, problems: list[Problem]) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(
            text.replace(" ", "+")
        )  # a plus that was not encoded arrives as a space
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        problems.append(("updated_since", "must be a time with its zone, such as 2026-03-01T09:00:00Z"))
        return None
    if moment < datetime.now(UTC) - timedelta(seconds=LOOK_BACK_SECONDS_MAX):
        days = LOOK_BACK_SECONDS_MAX // 86_400
        problems.append(("updated_since", f"may lie {days} days back; list everything once, then follow"))
    return moment


def _limit(text: str, problems: list[Problem]) -> int:
    if not text:
        return PAGE
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= PAGE_MAX):
        problems.append(("limit", f"must be a whole number from 1 to {PAGE_MAX}"))
        return PAGE
    return int(text)

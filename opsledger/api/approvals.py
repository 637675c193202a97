"""What waits for an approval: content versions, and requests that are approved by themselves."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from opsledger.api.answers import respond
from opsledger.api.caller import Caller
from opsledger.api.content import version_answer
from opsledger.api.paging import bad_cursor, cursor_of, page_of
from opsledger.ledger.queries import content as queries
from opsledger.lib.ids import public

SIZE_MAX = 100_000  # of each kind


def listed(caller: Caller, request: HttpRequest) -> HttpResponse:
    """What is due first at the top, what nothing waits for yet at the end."""
    limit, after = page_of(request)
    if after and not _is_place(after):
        raise bad_cursor()
    found = queries.approvals_waiting([caller.team_id], size=SIZE_MAX)
    placed = sorted(
        [*map(_version, found.versions), *map(_revision, found.revisions)], key=lambda one: one[0]
    )
    first = bisect_right(placed, after, key=lambda one: one[0]) if after else 0
    page, rest = placed[first : first + limit], placed[first + limit :]
    following = cursor_of(page[-1][0]) if rest else None
    return respond(200, {"items": [item for _, item in page], "next": following})


def _version(one: queries.WaitingVersion) -> tuple[str, dict[str, Any]]:
    """Its place in the list, as a text that sorts like it, and what is told of it."""
    at, sort = (one.due_at, "due") if one.due_at else (one.opened_at, "none")
    item = {
        "kind": "version",
        "version": version_answer(one.version),
        "operations": one.operation_count,
        "opened_at": one.opened_at,
        "due_at": one.due_at,
        "nobody_may_approve": one.nobody_may_approve,
    }
    return _place(sort, at, one.version.id), item


def _revision(one: queries.WaitingRevision) -> tuple[str, dict[str, Any]]:
    item = {
        "kind": "revision",
        "hold": public("hold", one.hold_id),
        "operation": public("op", one.operation_id),
        "operation_id": one.operation_text_id,
        "title": one.title,
        "step": one.step,
        "revision": one.revision,
        "opened_at": one.opened_at,
        "due_at": one.due_at,
        "nobody_may_approve": one.nobody_may_approve,
    }
    return _place("due", one.due_at, one.hold_id), item


def _place(sort: str, at: datetime, number: UUID) -> str:
    return f"{sort} {at.isoformat(timespec='microseconds')} {number}"


def _is_place(text: str) -> bool:
    """Whether this list can have given it as a place."""
    with suppress(ValueError):
        sort, at, number = text.split(" ")
        return sort in {"due", "none"} and _place(sort, datetime.fromisoformat(at), UUID(number)) == text
    return False

"""Searches: exact fields, what is visible by now, in pages."""

from __future__ import annotations

import json
from urllib.parse import urlencode

from .act import Act, record_document
from .documents import parse_query
from .refusal import Refused
from .store import Record
from .wire import Reply, json_reply


def search(act: Act, kind: str, filters: dict[str, str]) -> Reply:
    """`{"items": […], "next": …}`, oldest first. `filters` maps the query's fields to columns.

    Records that the search has not caught up with are missing. `next` is the next page's address, or null.
    """
    query = parse_query(act.request.query, (*filters, "cursor"))
    where, values = (
        ["kind = ?", "visible_at <= ?", "number > ?"],
        [kind, act.now, _number(query.get("cursor"))],
    )
    for name, column in filters.items():
        if name in query:
            where.append(f"{column} = ?")
            values.append(json.dumps(query[name]) if column == "subject" else query[name])
    found = act.store.records(" AND ".join(where), values, act.mode.page_size + 1)
    page = found[: act.mode.page_size]
    following = _next(act, query, page) if len(found) > len(page) else None
    return json_reply(200, {"items": [record_document(one, act.now) for one in page], "next": following})


def _next(act: Act, query: dict[str, str], page: list[Record]) -> str:
    return f"{act.request.path}?{urlencode({**query, 'cursor': f'after-{page[-1].number:x}'})}"


def _number(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        return int(cursor.removeprefix("after-"), 16)
    except ValueError:
        raise Refused(400, "bad_cursor", "The cursor is not one that was given here.") from None

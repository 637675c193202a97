"""Lists in pages: `limit`, and an opaque `cursor` that says where a page begins."""

from __future__ import annotations

import base64
import binascii

from django.http import HttpRequest

from opsledger.api.problems import Problem
from opsledger.api.reading import invalid

LIMIT_DEFAULT, LIMIT_MAX = 50, 200


def page_of(request: HttpRequest) -> tuple[int, str]:
    """`limit` and what `cursor` holds, "" at the beginning. 422 for anything that is neither."""
    text = request.GET.get("limit", str(LIMIT_DEFAULT))
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= LIMIT_MAX):
        raise invalid([("limit", f"must be a whole number from 1 to {LIMIT_MAX}")])
    held = held_by(request.GET.get("cursor", ""))
    if held is None:
        raise bad_cursor()
    return int(text), held


def cursor_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def held_by(cursor: str) -> str | None:
    """What `cursor_of` was given; None for a text that it never made."""
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return None


def bad_cursor() -> Problem:
    return invalid([("cursor", "can't be read; begin again without it")])

"""Long bodies are read and answered in turns: what is computed for one is not cut into what is computed for another.

While one waits for the database, the next one's is computed. Short bodies take no turns; beside them at most one long one
is computed, however many came at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest

from opsledger.lib import turns

LONG_BYTES = 32_768


@contextmanager
def in_turn(request: HttpRequest) -> Iterator[None]:
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if not announced.isdigit() or int(announced) < LONG_BYTES:
        yield
        return
    with turns.taken():
        yield

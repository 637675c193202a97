"""Addresses of pages for the rows of a table: a pattern is resolved once, not for every row."""

from __future__ import annotations

from functools import lru_cache

from django.urls import reverse

_PLACE = "X"  # no pattern has it, as paths are written small


def address(name: str, public: str = "") -> str:
    """The page of this name; with `public`, the one of what has this public id, which needs no quoting."""
    return _pattern(name).replace(_PLACE, public) if public else _plain(name)


@lru_cache(maxsize=64)
def _pattern(name: str) -> str:
    return reverse(name, args=[_PLACE])


@lru_cache(maxsize=64)
def _plain(name: str) -> str:
    return reverse(name)

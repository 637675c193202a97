"""Identifiers: UUIDv7 inside, a prefix and 26 URL-safe characters outside."""

from __future__ import annotations

import os
import re
import time
from uuid import UUID

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, lower case: no i, l, o, u
_VALUES = {char: value for value, char in enumerate(ALPHABET)}
_BODY = re.compile(rf"[0-7][{ALPHABET}]{{25}}", re.ASCII)
_PAIRS = tuple(first + second for first in ALPHABET for second in ALPHABET)
_SHIFTS = tuple(range(120, -10, -10))  # thirteen pairs of five bits

_last_tick = 0


def new_id() -> UUID:
    """A UUIDv7 (RFC 9562, method 3): milliseconds, a 1/4096 part of one, then 62 random bits.

    Within one process later ids sort after earlier ones, also when the clock goes back a little.
    Two threads that meet in the same tick differ by their random bits only.
    """
    global _last_tick
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    tick = _last_tick = max((milliseconds << 12) | (rest * 4096 // 1_000_000), _last_tick + 1)
    random_62 = int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=(tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | random_62)


def public(prefix: str, number: UUID) -> str:
    """The id as people and paths see it: `op_` and 26 characters. Sorts like the UUID."""
    value = number.int
    return f"{prefix}_" + "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def parse(prefix: str, text: str) -> UUID | None:
    """The exact inverse of `public`; None for anything else, look-alike letters included."""
    start, body = text[: len(prefix) + 1], text[len(prefix) + 1 :]
    if start != f"{prefix}_" or not _BODY.fullmatch(body):
        return None
    number = 0
    for char in body:
        number = number << 5 | _VALUES[char]
    return UUID(int=number)

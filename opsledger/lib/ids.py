"""Identifiers: UUIDv7 inside, a prefix and 26 URL-safe characters outside."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from itertools import chain
from struct import Struct
from uuid import UUID

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, lower case: no i, l, o, u
_VALUES = {char: value for value, char in enumerate(ALPHABET)}
_BODY = re.compile(rf"[0-7][{ALPHABET}]{{25}}", re.ASCII)
_PAIRS = tuple(first + second for first in ALPHABET for second in ALPHABET)
_SHIFTS = tuple(range(120, -10, -10))  # thirteen pairs of five bits

_EIGHT_BYTES = Struct("!Q")
_last_tick = 0


def new_id() -> UUID:
    """A UUIDv7 (RFC 9562, method 3): milliseconds, a 1/4096 part of one, then 62 random bits.

    Within one process later ids sort after earlier ones, also when the clock goes back a little.
    Two threads that meet in the same tick differ by their random bits only.
    """
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """Several at once, in their order: the clock and the source of random bits are asked once."""
    global _last_tick
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    first = max((milliseconds << 12) | (rest * 4096 // 1_000_000), _last_tick + 1)
    _last_tick = first + count - 1
    randoms = _EIGHT_BYTES.iter_unpack(os.urandom(8 * count))
    return [
        UUID(int=(tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62 | random >> 2)
        for tick, (random,) in enumerate(randoms, start=first)
    ]


def supply(count: int) -> Callable[[], UUID]:
    """Gives ids one by one. As many as are likely to be needed are made at once."""
    return chain(new_ids(count), iter(new_id, None)).__next__


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

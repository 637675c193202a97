"""Options of behaviours, modes and control calls: each has a name, a reader, a default and a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .refusal import invalid

Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    read: Reader  # returns the value, or raises ValueError with a sentence
    default: Any
    sentence: str


def number(least: float, most: float) -> Reader:
    def read(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not least <= value <= most:
            raise ValueError(f"must be a number from {least:g} to {most:g}")
        return float(value)

    return read


def whole(least: int, most: int) -> Reader:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return read


def choice(*allowed: Any) -> Reader:
    def read(value: Any) -> Any:
        if isinstance(value, bool) or value not in allowed:
            raise ValueError("must be one of " + ", ".join(str(one) for one in allowed))
        return value

    return read


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def text(most: int = 1_000) -> Reader:
    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > most or not _encodes(value):
            raise ValueError(f"must be text of at most {most} characters")
        return value

    return read


def header_text(value: Any) -> str:
    """A header value: Latin-1 without control characters, so that it can be sent as it is."""
    latin = isinstance(value, str) and all(" " <= char <= "ÿ" and char != "\x7f" for char in value)
    if not latin or len(value) > 1_000:
        raise ValueError("must be Latin-1 text without control characters, at most 1000 characters")
    return str(value)


def anything(value: Any) -> Any:
    return value


def perhaps(read: Reader) -> Reader:
    """The same, or null."""

    def read_perhaps(value: Any) -> Any:
        return None if value is None else read(value)

    return read_perhaps


def list_of(read: Reader, most: int) -> Reader:
    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise ValueError(f"must be a list of at most {most}")
        return tuple(read(one) for one in value)

    return read_list


def read_options(options: Iterable[Option], given: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Every option with its given or default value. Raises Refused (422), naming unknown and wrong ones."""
    known = {option.name: option for option in options}
    errors = [(at + name, "is not known here") for name in given if name not in known]
    values = {name: option.default for name, option in known.items()}
    for name, option in known.items():
        if name not in given:
            continue
        try:
            values[name] = option.read(given[name])
        except ValueError as wrong:
            errors.append((at + name, str(wrong)))
    if errors:
        raise invalid(errors)
    return values


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True

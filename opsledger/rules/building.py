"""Frozen dataclasses from plain dicts, strictly: unknown fields are errors, and all errors are collected.

The types of the fields are the schema. Numbers follow their names: `…_seconds` are 0 or more, other whole
numbers 1 or more. What one field can't say by itself is checked by the function registered for its class.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Problem = tuple[str, str]
Check = Callable[[Any, str, "Problems"], None]


class Problems:
    """What is wrong, as (path, message), in the order of the definition."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, path: str, message: str) -> None:
        self.found.append((path, message))

    def __bool__(self) -> bool:
        return bool(self.found)


class _Failed:
    pass


_FAILED = _Failed()
_CHECKS: dict[type, Check] = {}


def checks(kind: type) -> Callable[[Check], Check]:
    """Registers a function that checks a built object of this class."""

    def register(check: Check) -> Check:
        _CHECKS[kind] = check
        return check

    return register


def build(kind: type[T], given: object, path: str, problems: Problems, **fixed: Any) -> T | None:
    """An object of this dataclass, or None when something in it is wrong.

    `fixed` are fields that the definition does not write itself (a slug that is the table's name).
    """
    if not isinstance(given, Mapping):
        problems.add(path, f"must be a table of fields, not {_named(given)}")
        return None
    known = {name: hint for name, hint in hints_of(kind).items() if name not in fixed}
    before = len(problems.found)
    for name in given:
        if name not in known:
            problems.add(f"{path}.{name}", unknown_field(str(name), known))
    values = dict(fixed)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name in given and field.name in known:
            values[field.name] = read(known[field.name], given[field.name], f"{path}.{field.name}", problems)
        elif field.name in known and _is_required(field):
            problems.add(f"{path}.{field.name}", "is missing")
    if len(problems.found) > before:
        return None
    built = kind(**values)
    if kind in _CHECKS:
        _CHECKS[kind](built, path, problems)
    return built if len(problems.found) == before else None


def unknown_field(name: str, known: typing.Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"is not a known field; did you mean {close[0]}?" if close else "is not a known field"


def hints_of(kind: type) -> dict[str, Any]:
    """The fields of a dataclass and their types."""
    return _hints(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def read(hint: Any, given: object, path: str, problems: Problems) -> Any:
    """A value of this type; anything else is a problem at `path`."""
    origin = typing.get_origin(hint)
    if hint is Any:
        return _plain(given, path, problems)
    if origin in {types.UnionType, typing.Union}:
        inner = next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
        return None if given is None else read(inner, given, path, problems)
    if origin is tuple:
        return _read_tuple(typing.get_args(hint), given, path, problems)
    if origin is dict:
        return _read_dict(typing.get_args(hint)[1], given, path, problems)
    if dataclasses.is_dataclass(hint):
        return build(hint, given, path, problems)  # type: ignore[arg-type]
    return _read_scalar(hint, given, path, problems)


def _read_tuple(args: tuple[Any, ...], given: object, path: str, problems: Problems) -> Any:
    if args[-1] is not Ellipsis:
        return _read_pair(args, given, path, problems)
    if typing.get_origin(args[0]) is tuple and isinstance(given, Mapping):
        given = [[name, value] for name, value in given.items()]  # pairs may be written as a table
    if not isinstance(given, list | tuple):
        problems.add(path, f"must be a list, not {_named(given)}")
        return _FAILED
    return tuple(read(args[0], item, f"{path}[{index}]", problems) for index, item in enumerate(given))


def _read_pair(args: tuple[Any, ...], given: object, path: str, problems: Problems) -> Any:
    if not isinstance(given, list | tuple) or len(given) != len(args):
        problems.add(path, f"must be a list of {len(args)}")
        return _FAILED
    return tuple(read(hint, item, path, problems) for hint, item in zip(args, given, strict=True))


def _read_dict(hint: Any, given: object, path: str, problems: Problems) -> Any:
    if not isinstance(given, Mapping):
        problems.add(path, f"must be a table, not {_named(given)}")
        return _FAILED
    return {str(name): read(hint, value, f"{path}.{name}", problems) for name, value in given.items()}


def _read_scalar(hint: Any, given: object, path: str, problems: Problems) -> Any:
    if hint is str:
        if isinstance(given, date) and not isinstance(given, datetime):
            return given.isoformat()  # TOML has dates of its own
        return (
            given if isinstance(given, str) else _wrong(path, f"must be text, not {_named(given)}", problems)
        )
    if hint is bool:
        return given if isinstance(given, bool) else _wrong(path, "must be true or false", problems)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _read_choice(hint, given, path, problems)
    return _read_number(hint, given, path, problems)


def _read_choice(hint: type[StrEnum], given: object, path: str, problems: Problems) -> Any:
    words = [word.value for word in hint]
    if isinstance(given, str) and given in words:
        return hint(given)
    close = get_close_matches(str(given), words, n=1)
    asked = f"; did you mean {close[0]}?" if close else ""
    return _wrong(path, f"must be one of {', '.join(words)}{asked}", problems)


def _read_number(hint: Any, given: object, path: str, problems: Problems) -> Any:
    # the field's own name, or that of the table or list it stands in
    seconds = any(name.split("[")[0].endswith("_seconds") for name in path.split(".")[-2:])
    least = 0 if seconds else 1
    kind = "a whole number" if hint is int else "a number"
    wanted = (
        f"must be {kind}{' of seconds' if seconds else ''}, {least if hint is int or seconds else 'above 0'}"
    )
    wanted += " or more" if hint is int or seconds else ""
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
        return _wrong(path, wanted, problems)
    number = given if hint is int else float(given)
    if (hint is int and not isinstance(given, int)) or not 0 <= number < 1e12:
        return _wrong(path, wanted, problems)
    return number if number >= least or (hint is float and number > 0) else _wrong(path, wanted, problems)


def _wrong(path: str, message: str, problems: Problems) -> _Failed:
    problems.add(path, message)
    return _FAILED


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _plain(given: object, path: str, problems: Problems) -> Any:
    """A JSON value as it is (a template of a body); dates and binary floats that lose digits are refused."""
    if isinstance(given, Mapping):
        return {str(name): _plain(value, f"{path}.{name}", problems) for name, value in given.items()}
    if isinstance(given, list | tuple):
        return [_plain(value, f"{path}[{index}]", problems) for index, value in enumerate(given)]
    if given is None or isinstance(given, str | bool | int | Decimal):
        return given
    if isinstance(given, float) and given == given and abs(given) != float("inf"):
        return given
    return _wrong(
        path, f"must be text, a number, true, false, a list or a table, not {_named(given)}", problems
    )


def _named(given: object) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    if given is None:
        return "null"
    return "a table" if isinstance(given, Mapping) else names.get(type(given), type(given).__name__)


def plain(value: Any) -> Any:
    """The way back: a built object as dicts, lists and scalars, every field written out, None left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: plain(inner) for name, inner in fields.items() if inner is not None}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # one way to write a number, so that equal definitions have equal digests
    return value

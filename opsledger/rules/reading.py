"""Reading the JSON of a reply: strictly, without recursion of our own, and without rounding a number.

A body that two readers could understand differently (the same key twice) is not understood at all.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeAlias

DEPTH_MAX = 100


class Number(str):
    """A JSON number as its original text: 9007199254740993 and 1.10 stay what they are."""

    __slots__ = ()


Value: TypeAlias = "bool | Number | str | list[Value] | dict[str, Value] | None"


class Unreadable(ValueError):
    """The bytes are no JSON that means one thing only. The message says why, for people."""


class Absent:
    """The type of ABSENT: nothing stands at a path. JSON's null is something else."""


ABSENT = Absent()

# Whole strings are skipped, so that brackets inside them don't count; possessive, so that it is linear.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


def read_json(body: bytes) -> Value:
    """The document in these bytes (UTF-8; a byte order mark is tolerated). Raises Unreadable only."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8") from None
    _refuse_depth(text)
    try:
        document: Value = _DECODER.decode(text)
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        raise Unreadable("it is not JSON") from None
    return document


def at(document: Value | Absent, path: str) -> Value | Absent:
    """What stands at a dotted path; a number as a part names a place in a list. "" is the document itself.

    A dot always leads one level down: a name that holds one is not reached, and not taken for two names.
    """
    found = document
    for name in path.split(".") if path else ():
        if isinstance(found, dict):
            found = found.get(name, ABSENT)
        elif isinstance(found, list) and re.fullmatch(r"[0-9]{1,6}", name, re.ASCII):
            found = found[int(name)] if int(name) < len(found) else ABSENT
        else:
            return ABSENT
    return found


def text_at(document: Value | Absent, path: str) -> str | None:
    """The scalar at a path as text: a string as it is, a number by its original text, true, false as words.

    None for null, for a list or an object, and where nothing stands.
    """
    found = at(document, path)
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str) else None


def reference_at(document: Value | Absent, path: str) -> str | None:
    """The reference at a path, byte-exact; None when what stands there can't be one (blank, not storable)."""
    found = at(document, path) if path else ABSENT
    if isinstance(found, bool) or not isinstance(found, str) or not found.strip():
        return None
    return str(found) if can_be_kept(found) else None


def can_be_kept(text: str) -> bool:
    """Whether a database can hold it: no NUL, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _refuse_depth(text: str) -> None:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise Unreadable(f"it is nested more than {DEPTH_MAX} deep")
        elif token[0] in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise Unreadable("it has the same key twice in one object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"it holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_no_constant
)

"""Reading JSON bodies and identities strictly: bad input is refused by name, never guessed."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from .refusal import Refused, invalid

Document = dict[str, Any]


def _bad(message: str) -> Refused:
    return Refused(400, "bad_json", f"Nothing was done. {message}")


def _object(pairs: list[tuple[str, Any]]) -> Document:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _bad(f"The field {twice!r} appears twice.")
    return document


def _constant(name: str) -> Any:
    raise _bad(f"{name} is not JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def parse_object(body: bytes) -> Document:
    """The body as a JSON object. Raises Refused (400)."""
    try:
        document = _DECODER.decode(body.decode())
    except UnicodeDecodeError:
        raise _bad("The body is not UTF-8.") from None
    except RecursionError:
        raise _bad("The body is nested too deeply.") from None
    except ValueError as wrong:
        raise _bad(f"The body is not JSON: {wrong}.") from None
    if not isinstance(document, dict):
        raise _bad("The body must be a JSON object.")
    return document


def identity_in(document: Document, *path: str) -> str:
    """The caller's identity at this path, byte-exact; empty when there is none. Raises Refused (422)."""
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    at = ".".join(path)
    if not isinstance(value, str):
        raise invalid([(at, "must be text")])
    if not is_unicode(value):
        raise invalid([(at, "holds half of a surrogate pair")])
    return value


def is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode_segment(raw: str) -> str:
    """One path segment, percent-decoded once and strictly. Raises Refused (400)."""
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise Refused(400, "bad_path", "Nothing was done. The path is not UTF-8.") from None


def parse_query(raw: str, allowed: tuple[str, ...]) -> dict[str, str]:
    """The query's fields. Raises Refused (400) for unknown, repeated or undecodable ones."""
    try:
        pairs = parse_qsl(
            raw, keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=50
        )
    except ValueError:
        raise Refused(400, "bad_query", "The query can't be read.") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name not in allowed or name in fields:
            why = "is given twice" if name in fields else "is not known here"
            raise Refused(400, "bad_query", f"The query's field {name!r} {why}.", [(name, why)])
        fields[name] = value
    return fields


def dump(document: Any) -> bytes:
    """Compact JSON in ASCII, so that any text survives."""
    return json.dumps(document, separators=(",", ":")).encode()

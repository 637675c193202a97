"""Templates made ready to be filled: what stays the same is text already, the rest is looked up each time.

A writer takes the values and a list for what is wrong with them, and gives text; None for what is not there: an optional
value alone in its place. Writers are made once for each template and don't change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any
from urllib.parse import quote

from opsledger.rules.building import Problems
from opsledger.rules.reading import Number
from opsledger.rules.templates import ABSENT, Placeholder, look_up, parse, whole

Values = Mapping[str, Any]
Find = Callable[[Values], Any]
Write = Callable[[Values, Problems], str]
WriteIfThere = Callable[[Values, Problems], str | None]


# Values as texts


def as_text(value: Any) -> str:
    """A value in the middle of a text: numbers by their digits, the rest as JSON writes it."""
    if isinstance(value, str):
        return str.__str__(value)
    return str(value) if isinstance(value, Decimal) else json_text(value)


def json_text(value: Any) -> str:
    """JSON in one form only: ASCII, names sorted, no blanks, numbers with their original digits.

    Half of a surrogate pair and NUL become escapes. ValueError for what JSON can't say (NaN, a date, bytes).
    """
    if isinstance(value, Number):
        return str.__str__(value)
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join([json_text(item) for item in value])}]"
    if isinstance(value, dict | Mapping):  # a dict is known at once
        pairs = [f"{encode_basestring_ascii(name)}:{json_text(value[name])}" for name in sorted(value)]
        return f"{{{','.join(pairs)}}}"
    raise ValueError(f"JSON has no {type(value).__name__}")


# Writers of texts


def text_writer(template: str) -> Write:
    """Every value as text; an optional one that is not there as nothing."""
    parts = [_fixed(part) if isinstance(part, str) else _in_text(part) for part in parse(template)]
    return lambda values, problems: "".join([part(values, problems) for part in parts])


def header_writer(name: str, template: str) -> Write:
    """The same, for what a header can carry: printable ASCII and tabs."""
    write_text = text_writer(template)

    def write(values: Values, problems: Problems) -> str:
        text = write_text(values, problems)
        if not (text.isascii() and (text.isprintable() or all(c == "\t" or c.isprintable() for c in text))):
            problems.add(f"header {name}", "would hold a line break or a character that headers can't carry")
        return text

    return write


def address_writer(template: str, *, safe: str = "", in_path: bool = False) -> Write:
    """Values percent-encoded whole; of the template's own text all but the `safe` characters.

    In a path an empty value would name another resource, and `.` or `..` would climb: both are refused.
    """
    parts = [
        _fixed(quote(part, safe=safe)) if isinstance(part, str) else _in_address(part, in_path)
        for part in parse(template)
    ]
    return lambda values, problems: "".join([part(values, problems) for part in parts])


def query_writer(path: str, query: Iterable[tuple[str, str]], safe: str) -> Write:
    """A path with its query behind it."""
    write_path = address_writer(path, safe=safe, in_path=True)
    pairs = [(quoted(name), address_writer(value)) for name, value in query]
    if not pairs:
        return write_path

    def write(values: Values, problems: Problems) -> str:
        address = write_path(values, problems)
        return f"{address}?{'&'.join([f'{name}={value(values, problems)}' for name, value in pairs])}"

    return write


def quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def _fixed(text: str) -> Write:
    return lambda values, problems: text


def _in_text(part: Placeholder) -> Write:
    found_of = _required(part)

    def write(values: Values, problems: Problems) -> str:
        found = found_of(values, problems)
        return "" if found is ABSENT else as_text(found)

    return write


def _in_address(part: Placeholder, in_path: bool) -> Write:
    find, optional = finder(part.path), part.optional

    def write(values: Values, problems: Problems) -> str:
        found = find(values)
        text = "" if found is ABSENT else as_text(found)
        if found is ABSENT and not optional:
            problems.add(part.name, "is missing")
        elif in_path and text in {"", ".", ".."}:
            problems.add(part.name, "can't stand in an address: it is empty or only dots")
        return quoted(text)

    return write


# Writers of JSON


def json_writer(template: Any) -> WriteIfThere:
    """A JSON value as `json_text` writes it; placeholders alone in a text give values with their type."""
    if isinstance(template, str):
        alone = whole(template)
        return _value_writer(alone) if alone is not None else _string_writer(template)
    if isinstance(template, Mapping):
        return object_writer(template)
    if isinstance(template, list | tuple):
        return _list_writer(template)
    return _fixed(json_text(template))


def _string_writer(template: str) -> Write:
    if all(isinstance(part, str) for part in parse(template)):
        return _fixed(json_text("".join([str(part) for part in parse(template)])))
    write = text_writer(template)
    return lambda values, problems: encode_basestring_ascii(write(values, problems))


def _value_writer(part: Placeholder) -> WriteIfThere:
    found_of = _required(part)

    def write(values: Values, problems: Problems) -> str | None:
        found = found_of(values, problems)
        return None if found is ABSENT else json_text(found)

    return write if len(part.path) != 2 else _plain_first(*part.path, write)


def _plain_first(table: str, name: str, write: WriteIfThere) -> WriteIfThere:
    """Nearly all values are texts that are there, and need no more than this."""

    def write_plain(values: Values, problems: Problems) -> str | None:
        within = values.get(table)
        found = within.get(name) if type(within) is dict else None
        return encode_basestring_ascii(found) if type(found) is str else write(values, problems)

    return write_plain


def object_writer(template: Mapping[str, Any]) -> Write:
    fields = [(f"{encode_basestring_ascii(name)}:", json_writer(template[name])) for name in sorted(template)]

    def write(values: Values, problems: Problems) -> str:
        pairs = [label + text for label, inner in fields if (text := inner(values, problems)) is not None]
        return f"{{{','.join(pairs)}}}"

    return write


def _list_writer(template: Iterable[Any]) -> Write:
    items = [json_writer(inner) for inner in template]

    def write(values: Values, problems: Problems) -> str:
        texts = [text for inner in items if (text := inner(values, problems)) is not None]
        return f"[{','.join(texts)}]"

    return write


# Values


def _required(part: Placeholder) -> Callable[[Values, Problems], Any]:
    """The value, or ABSENT, which is a problem unless it is optional."""
    find, optional = finder(part.path), part.optional

    def found_of(values: Values, problems: Problems) -> Any:
        found = find(values)
        if found is ABSENT and not optional:
            problems.add(part.name, "is missing")
        return found

    return found_of


def finder(path: tuple[str, ...]) -> Find:
    """`look_up` at a path that is known; most have two parts."""
    if len(path) != 2:
        return lambda values: look_up(values, path)
    table, name = path

    def find(values: Values) -> Any:
        within = values.get(table)
        if type(within) is not dict:
            return look_up(values, path)
        found = within.get(name)
        return ABSENT if found is None else found

    return find

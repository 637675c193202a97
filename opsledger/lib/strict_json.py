"""JSON as strangers send it, read so that two readers can't disagree.

Refused: a key twice in one object, NaN and Infinity, nesting beyond a limit of our own, any encoding but UTF-8,
and numbers with more digits than a number may have. Kept: every digit of a number, every character of a text, NUL
and halves of surrogate pairs included; `projection` gives the copy that databases and pages can hold. `dumps` writes
JSON so, and `visible` a text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from json.encoder import encode_basestring_ascii
from typing import Any

DEPTH_MAX = 100
DIGITS_MAX = 4_300  # of one number; Python converts no more by default
EXPONENT_MAX = 1_000  # of a number that the projection keeps as a number

_BOM = b"\xef\xbb\xbf"
_NO_MARK = bytes(set(range(256)) - set(b'[]{}"'))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_UNSHOWABLE = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_NUL_SHOWN = "\u2400"


class BadJson(ValueError):
    """`reason` is one word for counting, `sentence` says what is wrong and where."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason, self.sentence = reason, sentence


class Number(Decimal):
    """A number with a fraction or an exponent, or a negative zero; as text it is what was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Number({self.text!r})"

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        return Number, (self.text,)


def loads(raw: bytes, *, depth_max: int = DEPTH_MAX) -> Any:
    """The value that these bytes say; whole numbers as int, others as `Number`. BadJson with its reason:

    `empty`, `encoding`, `depth`, `duplicate_key`, `number`, `syntax`. A byte order mark is skipped. The depth
    is checked before parsing and without recursion, so the answer is the same on every version of Python.
    """
    if raw.startswith(_BOM):
        raw = raw[3:]
    text = _decoded(raw)
    _check_depth(raw, depth_max)
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as why:
        where = f"line {why.lineno}, column {why.colno}"
        raise BadJson("syntax", f"The body is not JSON: {why.msg} at {where}.") from None


def loads_stored(text: str) -> Any:
    """A value that was checked before and stored as text; numbers as `loads` gives them."""
    return _stored_decoder.decode(text)


def _decoded(raw: bytes) -> str:
    if not raw.strip(b" \t\r\n"):
        raise BadJson("empty", "The body is empty.")
    if b"\x00" in raw[:4] or raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadJson("encoding", "The body is UTF-16 or UTF-32; send UTF-8.")
    try:
        # The three bytes of half a surrogate pair pass: they are kept, and shown replaced.
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as why:
        raise BadJson("encoding", f"The body is not UTF-8: byte {why.start + 1} can't be read.") from None


def _check_depth(raw: bytes, depth_max: int) -> None:
    if raw.count(b"[") + raw.count(b"{") <= depth_max:
        return  # too few brackets to be too deep: nearly every body
    # Without escapes every quote begins or ends a text. An escape outside of one is no JSON: reading ends there anyway.
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Texts without brackets go first: two quotes beside each other change nothing about what is inside of a text.
    marks = raw.translate(None, _NO_MARK).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > depth_max:
        raise BadJson("depth", f"The body is nested deeper than {depth_max} levels.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise BadJson("duplicate_key", f"The key {_shown(twice)} stands more than once in one object.")
    return made


def _integer(text: str) -> int | Number:
    if len(text) > DIGITS_MAX:
        raise BadJson("number", f"A number has more than {DIGITS_MAX} digits.")
    return Number(text) if text == "-0" else int(text)


def _fraction(text: str) -> Number:
    if len(text) > DIGITS_MAX:
        raise BadJson("number", f"A number has more than {DIGITS_MAX} digits.")
    try:
        return Number(text)
    except InvalidOperation:
        raise BadJson("number", "A number's exponent is too large.") from None


def _constant(text: str) -> Any:
    raise BadJson("syntax", f"{text} is not JSON.")


def _shown(name: str) -> str:
    return encode_basestring_ascii(name if len(name) <= 60 else name[:60] + "…")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
_stored_decoder = json.JSONDecoder(parse_int=_integer, parse_float=_fraction, parse_constant=_constant)


def projection(value: Any) -> Any:
    """A copy that jsonb, pages and exports can hold: NUL shows as ␀, half a surrogate pair as �.

    Everything else is unchanged; a text that merely spells out an escape is not touched. A number whose
    exponent no database holds becomes text. Two keys that would look the same stay two.
    """
    return _shown_value(value, number=_storable)


def _storable(value: Number) -> Number | str:
    return value.text if abs(value.adjusted()) > EXPONENT_MAX else value


def _shown_value(value: Any, number: Callable[[Number], Any]) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return _shown_object(value, number)
    if isinstance(value, list | tuple):
        return [_shown_value(item, number) for item in value]
    return number(value) if isinstance(value, Number) else value


def _shown_object(value: dict[str, Any], number: Callable[[Number], Any]) -> dict[str, Any]:
    made = {visible(name): _shown_value(item, number) for name, item in value.items()}
    if len(made) == len(value):
        return made
    taken, apart = set(value), {}
    for name, item in value.items():
        shown = visible(name)
        while shown != name and shown in taken:
            shown += _REPLACEMENT
        taken.add(shown)
        apart[shown] = _shown_value(item, number)
    return apart


def _is_visible(text: str) -> bool:
    if "\x00" in text:
        return False
    try:  # ten times faster than to search a whole page
        return text.isascii() or bool(text.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def visible(text: str) -> str:
    """A text, or a page, as anybody can be shown it: UTF-8, NUL as ␀, half a surrogate pair as �."""
    if _is_visible(text):
        return text
    return _UNSHOWABLE.sub(lambda found: _NUL_SHOWN if found[0] == "\x00" else _REPLACEMENT, text)


def dumps(value: Any) -> str:
    """JSON in ASCII, keys in their order, without blanks; numbers with their original digits.

    Every strict reader takes it: a text from outside is written as `projection` shows it.
    """
    text = _written(value)
    if "\\u0000" in text or "\\ud" in text:  # rarely; whole pairs begin so, too
        return _written(_shown_value(value, number=_as_it_is))
    return text


def _as_it_is(value: Number) -> Number:
    return value


def _written(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join([f"{encode_basestring_ascii(name)}:{_written(item)}" for name, item in value.items()])
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join([_written(item) for item in value]) + "]"
    if isinstance(value, Decimal) and value.is_finite():
        return str(value)
    return json.dumps(value, allow_nan=False)

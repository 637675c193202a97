"""Keys, digests and the identifiers that others give us.

Identifiers are opaque: compared byte for byte, never trimmed, folded or normalised, and never glued together
without their lengths.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from opsledger.rules.reading import Number

OPERATION_ID_LENGTH_MAX = 200
KEY_LENGTH_MIN = 26  # 130 bits in base 32
_KEY_LENGTH = 32  # 160 bits; shorter only where the destination takes less
_IDENTITY_LENGTH = 26
_DEPTH_MAX = 100

# Canonical JSON


def canonical_json(value: Any) -> str:
    """One text for one value: keys sorted by code point, no white space, ASCII, numbers by their own text.

    Takes str, int, Decimal, finite float, bool, None, lists and string-keyed mappings; `1.10` stays `1.10`.
    Raises ValueError for NaN and infinities and for nesting beyond 100, TypeError for anything else.
    """
    return _written(value, 0)


def _written(value: Any, depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise ValueError(f"nested more than {_DEPTH_MAX} deep")
    if isinstance(value, str):  # first: most values are text
        return str.__str__(value) if isinstance(value, Number) else encode_basestring_ascii(value)
    if isinstance(value, dict | Mapping):  # a dict is known at once
        return f"{{{','.join([_pair(name, value[name], depth) for name in sorted(value)])}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join([_written(item, depth + 1) for item in value])}]"
    return _scalar(value)


def _pair(name: Any, value: Any, depth: int) -> str:
    """The encoder refuses a name that is no text."""
    text = encode_basestring_ascii(value) if type(value) is str else _written(value, depth + 1)
    return f"{encode_basestring_ascii(name)}:{text}"


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Decimal | float):
        return _fraction(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


def _fraction(value: Decimal | float) -> str:
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        raise ValueError(f"{value} is not a JSON number")
    return str(value) if isinstance(value, Decimal) else repr(value)


# Digests


def digest(*parts: bytes) -> bytes:
    """SHA-256 over the parts, each with its length in front, so that ("a", "bc") and ("ab", "c") differ."""
    return hashlib.sha256(_sized(*parts)).digest()


def _sized(*parts: bytes) -> bytes:
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def hex_digest(*parts: bytes) -> str:
    return digest(*parts).hex()


def operation_digest(workflow_slug: str, params_json: str, content_digest: bytes) -> bytes:
    """What makes an operation the same one again. `params_json` is canonical; no content is b""."""
    start = _sized_once(b"operation 1", _bytes(workflow_slug))
    return hashlib.sha256(start + _sized(_bytes(params_json), content_digest)).digest()


def dedupe_key(source_id: str, event_id: str) -> bytes:
    """The key of an event within all sources: 32 bytes, whatever the length of its id."""
    return digest(b"event 1", _bytes(source_id), _bytes(event_id))


def step_identity(team: bytes, operation_id: str, step: str) -> str:
    """What a destination keeps of us on a record: one step of one action, whatever the revision and the attempt.

    `ol_` and 26 characters of `0-9a-v`, 130 bits. It follows from the team's number, the caller's own operation id and
    the step's name alone, so that an operation that is recorded again, in a restored database, finds its own records.
    """
    return f"ol_{_base32(_of_action(b'step identity 1', team, operation_id, _bytes(step)), _IDENTITY_LENGTH)}"


def idempotency_key(team: bytes, operation_id: str, step: str, revision: int, length_max: int) -> str:
    """The key under which a step's revision is sent: the same for every attempt, another for every revision.

    It follows from the same as the step's identity, and from the revision: an operation that is recorded again has the
    keys that it had. 26 to 32 characters of `0-9a-v`, at least 130 bits. ValueError when the destination takes fewer.
    """
    if length_max < KEY_LENGTH_MIN:
        raise ValueError(
            f"the destination takes {length_max} characters as a key; {KEY_LENGTH_MIN} are needed"
        )
    which = (_bytes(step), revision.to_bytes(8, "big"))
    return _base32(_of_action(b"idempotency key 2", team, operation_id, *which), min(_KEY_LENGTH, length_max))


def _of_action(kind: bytes, team: bytes, operation_id: str, *which: bytes) -> bytes:
    """`digest` of these. All but the operation's own id is that of many actions, and made ready once."""
    own = _bytes(operation_id)
    framed = _sized_once(kind, team) + len(own).to_bytes(8, "big") + own + _sized_once(*which)
    return hashlib.sha256(framed).digest()


@lru_cache(maxsize=4096)  # of teams, steps and workflows: few
def _sized_once(*parts: bytes) -> bytes:
    return _sized(*parts)


def _base32(digested: bytes, length: int) -> str:
    """The first `length` characters of `0-9a-v`, at most 32 (160 bits): RFC 4648's extended hex in lower case."""
    number = int.from_bytes(digested[:20], "big")
    text = f"{_ten(number >> 110)}{_ten(number >> 60 & _50_BITS)}{_ten(number >> 10 & _50_BITS)}"
    return text[:length] if length <= 30 else text + _PAIRS[number & 1023][: length - 30]


def _ten(bits: int) -> str:
    """Ten characters of 50 bits."""
    first, second = _PAIRS[bits >> 40], _PAIRS[bits >> 30 & 1023]
    return f"{first}{second}{_PAIRS[bits >> 20 & 1023]}{_PAIRS[bits >> 10 & 1023]}{_PAIRS[bits & 1023]}"


_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_50_BITS = (1 << 50) - 1


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a pair has bytes too, and they are its own


# Operation ids that others choose

_EMAIL = re.compile(r"[^\s@<>()\[\]:;,/\\|\"'=?&]+@[^\s@]*[^\W_]\.[^\W\d_]{2,}")
_PHONE = re.compile(r"\+[0-9]{8,15}(?![0-9])", re.ASCII)
_NUMBER = re.compile(r"op_[0-7][0-9a-hjkmnp-tv-z]{25}", re.ASCII)  # as lib.ids writes it
_IN_PATH = re.compile(rf"[A-Za-z0-9_~:-]{{1,{OPERATION_ID_LENGTH_MAX}}}", re.ASCII)
_ESCAPED = re.compile(r"%(40|2B)", re.ASCII | re.IGNORECASE)


def refuse_operation_id(text: str) -> list[str]:
    """Why this can't be an operation id, for people; empty when it can. The id itself is never changed."""
    if text.startswith("op_") and _NUMBER.fullmatch(text):
        return ["must not read as the number of an operation, op_ and 26 characters: those are given here"]
    return refuse_own_id(text)


def refuse_own_id(text: str) -> list[str]:
    """The same for ids that others choose for anything else; these may read as an operation's number."""
    reasons = []
    if not 1 <= len(text) <= OPERATION_ID_LENGTH_MAX:
        reasons.append(f"must have 1 to {OPERATION_ID_LENGTH_MAX} characters; this one has {len(text)}")
    if not text.isprintable():
        hidden = sorted({char for char in text if not char.isprintable()})
        named = ", ".join(f"U+{ord(char):04X}" for char in hidden[:5])
        reasons.append(f"must hold printable characters only; this one holds {named}")
    if text and not text.strip(" "):
        reasons.append("must hold more than spaces")
    return reasons + _personal_data(text)


def _personal_data(text: str) -> list[str]:
    # Wide and percent-encoded forms are the same address; only this copy is folded.
    plain = text[: 4 * OPERATION_ID_LENGTH_MAX]
    if not plain.isascii():
        plain = unicodedata.normalize("NFKC", plain)
    if "%" in plain:
        plain = _ESCAPED.sub(lambda found: "@" if found[1] == "40" else "+", plain)
    reasons = []
    if "@" in plain and _EMAIL.search(plain):
        reasons.append("must not hold an e-mail address: no personal data in identities")
    if "+" in plain and _PHONE.search(plain):
        reasons.append("must not hold a + with 8 to 15 digits (a telephone number): no personal data")
    return reasons


def allowed_in_path(text: str) -> bool:
    """Whether an own id may stand in a path: safe characters only, and not mistaken for one of ours."""
    return _IN_PATH.fullmatch(text) is not None and not text.startswith("op_")


# For the warning "looks the same as"

# Letters of other scripts that most fonts draw like a Latin one.
_DRAWN_ALIKE = str.maketrans("аеорсухіјѕԁһӏοαν", "aeopcyxijsdhloav")


def looks_the_same(one: str, other: str) -> bool:
    """Two different ids that a person may take for one: case, spaces, composed or look-alike letters."""
    return one != other and skeleton(one) == skeleton(other)


def skeleton(text: str) -> str:
    """What is left of an id when everything is folded that a reader may overlook. For warnings only, never to match by."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    seen = (char for char in folded if not char.isspace() and unicodedata.category(char) not in {"Cf", "Cc"})
    return "".join(seen).translate(_DRAWN_ALIKE)


def code_points(text: str) -> tuple[str, ...]:
    """Each character by number and name, so that two ids that look the same can be told apart."""
    return tuple(f"U+{ord(char):04X} {unicodedata.name(char, 'unnamed')}" for char in text)

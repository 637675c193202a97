"""Bodies of deliveries: from the bytes that were received to one JSON object, or a refusal that says why not.

The signature is checked over the received bytes before any of this: nothing here is reached by a stranger.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from opsledger.lib import strict_json
from opsledger.lib.strict_json import BadJson
from opsledger.rules.definition_types import SourceDefinition
from opsledger.sources.refusals import Refusal

FORM = "application/x-www-form-urlencoded"
JSON_TYPES = ("application/json",)
BYTES_MAX_DEFAULT = 1_048_576
_GZIP = 31  # zlib's window bits for a gzip wrapper
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii"})


@dataclass(frozen=True, slots=True)
class Body:
    """`value` holds what was said, to the last digit; `projection` is the copy that can be stored and searched."""

    value: dict[str, Any]
    projection: dict[str, Any]


class _Refused(Exception):
    def __init__(self, reason: str, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.refusal = Refusal(reason, status, sentence)


def check_size(byte_count: int, bytes_max: int = BYTES_MAX_DEFAULT) -> Refusal | None:
    """413 for a body above the limit, decoded or not; the limit is named."""
    if byte_count <= bytes_max:
        return None
    return Refusal(
        "body_too_large", 413, f"The body is larger than {bytes_max} bytes, which is the limit here."
    )


def read_body(
    raw: bytes,
    content_type: str,
    content_encoding: str,
    source: SourceDefinition,
    *,
    bytes_max: int = BYTES_MAX_DEFAULT,
) -> Body | Refusal:
    """The delivery's JSON object.

    1. Size, encoding, type: 413 above the limit, 415 for what this source does not send.
    2. gzip is decoded under the same limit; a form's field is unwrapped where the source says which.
    3. Strict JSON; anything but an object is a 400.
    """
    try:
        too_large = check_size(len(raw), bytes_max)
        if too_large:
            return too_large
        decoded = _unpacked(raw, content_encoding, bytes_max)
        kind = _accepted_type(content_type, source)
        text = _form_field(decoded, source.form_field) if kind == FORM else decoded
        value = _object(text)
    except _Refused as why:
        return why.refusal
    return Body(value, strict_json.projection(value))


def _unpacked(raw: bytes, content_encoding: str, bytes_max: int) -> bytes:
    coding = content_encoding.strip().lower()
    if coding in {"", "identity"}:
        return raw
    if coding not in {"gzip", "x-gzip"}:
        raise _Refused("content_encoding", 415, "The content encoding is not supported; send gzip or none.")
    parts, room, rest = [], bytes_max + 1, raw
    try:
        while rest:  # a gzip file may consist of several members
            member = zlib.decompressobj(_GZIP)
            parts.append(member.decompress(rest, room))
            room -= len(parts[-1])
            if not room:
                raise _Refused(
                    "body_too_large",
                    413,
                    f"The body unpacks to more than {bytes_max} bytes, which is the limit here.",
                )
            if not member.eof:
                raise zlib.error("cut short")
            rest = member.unused_data
    except zlib.error:
        raise _Refused(
            "bad_gzip", 400, "The body is not the gzip that its content encoding announces."
        ) from None
    return b"".join(parts)


def _accepted_type(content_type: str, source: SourceDefinition) -> str:
    """The media type, when this source sends it and its charset is UTF-8."""
    kind, *parameters = [part.strip().lower() for part in content_type.split(";")]
    accepted = source.content_types or JSON_TYPES
    if kind not in accepted and not (kind.endswith("+json") and "application/json" in accepted):
        raise _Refused(
            "content_type", 415, f"The content type is not accepted here; send {' or '.join(accepted)}."
        )
    named = dict(part.partition("=")[::2] for part in parameters)
    if named.get("charset", "").strip('" ') not in _CHARSETS:
        raise _Refused("charset", 415, "The charset is not supported; send UTF-8.")
    return kind


def _form_field(decoded: bytes, name: str) -> bytes:
    """The value of the field that holds the JSON; the others are left alone."""
    wanted, values = name.encode(), []
    for pair in decoded.split(b"&"):
        key, _, value = pair.replace(b"+", b" ").partition(b"=")
        if unquote_to_bytes(key) == wanted:
            values.append(unquote_to_bytes(value))
    if len(values) != 1:
        count = "more than once" if values else "nowhere"
        raise _Refused("form_field", 400, f"The form must hold the field {name} once; it stands {count}.")
    return values[0]


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = strict_json.loads(text)
    except BadJson as why:
        raise _Refused(why.reason, 400, why.sentence) from None
    if not isinstance(value, dict):
        raise _Refused("not_an_object", 400, "The body must be a JSON object; it is something else.")
    return value

"""Signatures of deliveries: an HMAC over the bytes that were received, compared in constant time.

Whoever calls is a stranger until a signature matches: every way to be wrong is a 401 without a trace.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from opsledger.rules.definition_types import Encoding, SecretForm, SignatureDefinition, SourceDefinition
from opsledger.rules.templates import Placeholder, parse
from opsledger.sources.refusals import Refusal

Headers = Sequence[tuple[str, str | bytes]]

CANDIDATES_MAX = 20  # signatures looked at in one header; a rotation shows two
_DIGITS = re.compile(r"[0-9]{1,12}", re.ASCII)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+", re.ASCII)
_SECRET_PREFIX = "whsec_"  # noqa: S105  marks a secret, is none


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as configured: `name` is what logs and deliveries show."""

    name: str
    value: str
    active_until: datetime | None = None

    def __repr__(self) -> str:
        return f"Secret({self.name})"


@dataclass(frozen=True, slots=True)
class Verified:
    secret_name: str


def configured_secrets(source: SourceDefinition, read: Callable[[str], str]) -> tuple[Secret, ...]:
    """The source's secrets with their values; `read(NAME)` gives "" for one that is not set, which is left out."""
    ends = {one.environment: one.active_until for one in source.secrets}
    values = {name: read(name) for name in ends}
    return tuple(
        Secret(name, value, datetime.fromisoformat(ends[name]) if ends[name] else None)
        for name, value in values.items()
        if value
    )


def verify(
    source: SourceDefinition, headers: Headers, raw: bytes, now: datetime, secrets: Iterable[Secret]
) -> Verified | Refusal:
    """Whether one active secret signed exactly these bytes; `headers` as received, repeated ones included.

    1. One signature header, readable; its entries of our scheme are the candidates, others are ignored.
    2. One HMAC per secret that has not ended, compared with every candidate.
    3. Then the timestamp, which is signed too, must be within the tolerance, both ways.

    503 when no secret is configured: the sender tries again, and nothing is lost meanwhile.
    """
    signature = source.signature
    configured = list(secrets)
    if signature is None or not configured:
        return Refusal(
            "secret_not_configured", 503, "This source's secret is not configured here; try again later."
        )
    parts = _read_headers(signature, headers)
    if isinstance(parts, Refusal):
        return parts
    candidates = _candidates(signature, parts.signature)
    signed = _signed_bytes(signature, parts, raw)
    matched = [secret for secret in configured if _matches(signature, secret, signed, candidates)]
    active = [secret for secret in matched if secret.active_until is None or now < secret.active_until]
    if not active:
        return _expired() if matched else _refused("signature_mismatch", "No signature matches these bytes.")
    return _check_time(signature, parts.timestamp, now) or Verified(active[0].name)


def sign(
    signature: SignatureDefinition, secret: str, raw: bytes, *, timestamp: int = 0, event_id: str = ""
) -> dict[str, str]:
    """The headers a source would send with these bytes: for sandboxes, drills and tests."""
    parts = _Parts("", str(timestamp), event_id)
    digest = _digest(signature, Secret("", secret), _signed_bytes(signature, parts, raw)) or b""
    text = digest.hex() if signature.encoding is Encoding.HEX else base64.b64encode(digest).decode()
    entries = [f"{signature.scheme}{signature.scheme_separator}{text}" if signature.scheme else text]
    if signature.timestamp_key:
        entries.insert(0, f"{signature.timestamp_key}={timestamp}")
    headers = {signature.header: signature.entry_separator.join(entries)}
    if signature.timestamp_header:
        headers[signature.timestamp_header] = str(timestamp)
    if signature.id_header:
        headers[signature.id_header] = event_id
    return headers


@dataclass(frozen=True, slots=True)
class _Parts:
    signature: str
    timestamp: str = ""
    id: str = ""


def _read_headers(signature: SignatureDefinition, headers: Headers) -> _Parts | Refusal:
    found = []
    for name in (signature.header, signature.timestamp_header, signature.id_header):
        value = single_header(headers, name) if name else ""
        if isinstance(value, Refusal):
            return value
        found.append(value)
    parts = _Parts(*found)
    return (
        _Parts(parts.signature, _timestamp_inside(signature, parts.signature), parts.id)
        if (signature.timestamp_key)
        else parts
    )


def single_header(headers: Headers, name: str) -> str | Refusal:
    """The one value of a header, in ASCII. Absent, repeated or unreadable: 401."""
    wanted = name.lower()
    values = [value for key, value in headers if key.lower() == wanted]
    if not values or not values[0]:
        return _refused("signature_missing", f"The header {name} is missing or empty.")
    if len(values) > 1:
        return _refused("header_repeated", f"The header {name} is sent more than once.")
    text = values[0].decode("latin-1") if isinstance(values[0], bytes) else values[0]
    if not text.isascii():
        return _refused("header_not_ascii", f"The header {name} holds characters that it can't have.")
    return text


def _timestamp_inside(signature: SignatureDefinition, header: str) -> str:
    for entry in header.split(signature.entry_separator):
        key, equals, value = entry.strip().partition("=")
        if equals and key == signature.timestamp_key:
            return value
    return ""


def _candidates(signature: SignatureDefinition, header: str) -> list[bytes]:
    """The decoded signatures of our scheme, in any order, among others that are ignored."""
    if not signature.scheme:
        entries = [header]
    else:
        pairs = (
            entry.strip().partition(signature.scheme_separator)
            for entry in header.split(signature.entry_separator)
        )
        entries = [text for scheme, _, text in pairs if scheme == signature.scheme]
    decoded = (_decoded(signature.encoding, text.strip()) for text in entries[:CANDIDATES_MAX])
    return [candidate for candidate in decoded if candidate]


def _decoded(encoding: Encoding, text: str) -> bytes:
    if encoding is Encoding.HEX:
        return bytes.fromhex(text) if _HEX.fullmatch(text) else b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _signed_bytes(signature: SignatureDefinition, parts: _Parts, raw: bytes) -> bytes:
    values = {"body": raw, "timestamp": parts.timestamp.encode("ascii"), "id": parts.id.encode("ascii")}
    return b"".join(
        values[part.name] if isinstance(part, Placeholder) else part.encode()
        for part in parse(signature.signed)
    )


def _matches(signature: SignatureDefinition, secret: Secret, signed: bytes, candidates: list[bytes]) -> bool:
    digest = _digest(signature, secret, signed) or b""
    matched = False
    for candidate in candidates if digest else ():
        # No early end: how long it takes tells nothing about which one was right.
        matched |= hmac.compare_digest(digest, candidate)
    return matched


def _digest(signature: SignatureDefinition, secret: Secret, signed: bytes) -> bytes | None:
    key = _key(signature, secret.value)
    return None if key is None else hmac.digest(key, signed, getattr(hashlib, signature.hash.value))


def _key(signature: SignatureDefinition, value: str) -> bytes | None:
    """The key of a secret; None for one that is not what its form says, which then never matches."""
    if signature.secret_form is SecretForm.TEXT:
        return value.encode()
    try:
        return base64.b64decode(value.removeprefix(_SECRET_PREFIX), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _check_time(signature: SignatureDefinition, timestamp: str, now: datetime) -> Refusal | None:
    if not signature.tolerance_seconds:
        return None
    if not _DIGITS.fullmatch(timestamp):
        return _refused("timestamp_unreadable", "The signed timestamp is not a number of seconds.")
    if abs(now.timestamp() - int(timestamp)) > signature.tolerance_seconds:
        limit = signature.tolerance_seconds
        return _refused(
            "timestamp_outside", f"The signed timestamp is more than {limit} seconds away from now."
        )
    return None


def _expired() -> Refusal:
    return _refused("secret_expired", "The signature matches a secret that is no longer accepted.")


def _refused(reason: str, sentence: str) -> Refusal:
    return Refusal(reason, 401, sentence)

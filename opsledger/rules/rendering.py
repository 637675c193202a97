"""Requests and titles from templates. Rendered once; the bytes and digests are what is approved and sent.

A value keeps its type where the template is nothing but its placeholder, and numbers keep their original
digits; in the middle of a text every value is text. In addresses values are percent-encoded, so none can
leave its segment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from math import isfinite
from typing import Any
from urllib.parse import quote

from opsledger.rules.building import Problems
from opsledger.rules.definition_types import ActionDefinition, DestinationDefinition
from opsledger.rules.profile import Protection, ProtectionKind
from opsledger.rules.reading import Number
from opsledger.rules.sendable import unsendable
from opsledger.rules.templates import ABSENT, Absent, look_up, parse, whole

MASK = "••••"
_SHOWN_MAX = 4  # characters of a sensitive value that stay readable
# one word with a digit in it, or digits in groups; not an e-mail address, not a sentence
_ID_OR_NUMBER = re.compile(
    r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9._:/#-]{0,127}|\+?[0-9(][0-9 ().,/-]{0,63}", re.ASCII
)
_DIGEST_FORMAT = b"opsledger request 1"
_SAFE_PATH = "/:@!$&'()*+,;=%"
_SAFE_ADDRESS = _SAFE_PATH + "?${}"
_KEYED = frozenset({ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID})


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """What goes out, without credentials. Digests are SHA-256 in hex over length-prefixed parts."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    digest: str
    content_digest: str  # the same request with the key left out

    def header(self, name: str) -> str | None:
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Missing:
    """The request can't be rendered: which values, and why each."""

    problems: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.problems))


def render_request(
    action: ActionDefinition,
    params: Mapping[str, Any],
    step_identity: str,
    references: Mapping[str, str],
    key: str,
    base_url: str,
    *,
    operation_id: str = "",
    content: Mapping[str, Any] | None = None,
) -> RenderedRequest | Missing:
    """The request of a step, or what it lacks or holds that can't be sent.

    `references` are those of earlier steps by name; `base_url` is resolved; `operation_id` is our public id.
    """
    values = {
        "params": params,
        "content": content or {},
        "step": {"identity": step_identity},
        "steps": {name: {"reference": reference} for name, reference in references.items()},
        "operation": {"id": operation_id},
    }
    problems, request = Problems(), action.request
    url = _url(base_url, request.path, request.query, values, problems)
    headers = [(name, _header(name, value, values, problems)) for name, value in request.headers]
    body = None if request.body is None else _body(request.body, values, problems)
    protection = action.profile.protection
    placed = protection.key_in if protection.kind in _KEYED else ""
    if placed and len(key) > protection.key_length_max:
        problems.add("key", f"is longer than the {protection.key_length_max} characters that fit")
    if problems:
        return Missing(tuple(problems.found))
    made = _request(request.method, url, headers, body, placed, key)
    wrong = unsendable(made.method, made.url, made.headers, made.body)
    return Missing(wrong) if wrong else made


def render_search(
    action: ActionDefinition,
    step_identity: str,
    base_url: str,
    *,
    params: Mapping[str, Any] | None = None,
    operation_id: str = "",
) -> RenderedRequest | Missing:
    """The first page of the action's search. ValueError when the action has none."""
    if action.search is None:
        raise ValueError("this action has no search")
    values = {"step": {"identity": step_identity}, "params": params or {}, "operation": {"id": operation_id}}
    problems = Problems()
    url = _url(base_url, action.search.path, action.search.query, values, problems)
    return (
        Missing(tuple(problems.found)) if problems else _request(action.search.method, url, [], None, "", "")
    )


def render_read(action: ActionDefinition, reference: str, base_url: str) -> RenderedRequest | Missing:
    """The read of one record by its reference. ValueError when the action has none."""
    if action.read is None:
        raise ValueError("this action has no read")
    problems = Problems()
    url = _url(base_url, action.read.path, (), {"reference": reference}, problems)
    return Missing(tuple(problems.found)) if problems else _request("GET", url, [], None, "", "")


def record_page(destination: DestinationDefinition, reference: str = "", identity: str = "") -> str:
    """The address of a found record for people, else of a search for it; "" where there is none."""
    values = {"reference": reference or None, "identity": identity or None}
    for template in (destination.record_url, destination.search_url):
        problems = Problems()
        address = _encoded(template, values, problems, safe=_SAFE_ADDRESS) if template else ""
        if address and not problems:
            return destination.base_url.rstrip("/") + address if address.startswith("/") else address
    return ""


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """A title for people; a value that is missing shows as an ellipsis."""
    shown = (part if isinstance(part, str) else look_up(values, part.path) for part in parse(template))
    return "".join("…" if isinstance(part, Absent) else as_text(part) for part in shown)


def mask(value: Any) -> str:
    """A sensitive value as lists and logs show it: `••••4417` for an id or a number, by which people tell records apart.

    Short ones are hidden whole, and so is everything that people read: names, addresses, free texts.
    """
    text = as_text(value)
    keeps_tail = len(text) > 2 * _SHOWN_MAX - 1 and _ID_OR_NUMBER.fullmatch(text) is not None
    return MASK + text[-_SHOWN_MAX:] if keeps_tail else MASK


def mask_fields(body: Any, paths: Iterable[str]) -> Any:
    """A copy of a request's body in which what stands at these dotted paths is masked."""
    for path in paths:
        body = _replaced(body, path.split("."))
    return body


def _replaced(body: Any, path: list[str]) -> Any:
    if not isinstance(body, Mapping) or path[0] not in body:
        return body
    inner = mask(body[path[0]]) if len(path) == 1 else _replaced(body[path[0]], path[1:])
    return {**body, path[0]: inner}


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


# Parts of a request


def _request(
    method: str, url: str, headers: list[tuple[str, str]], body: Any, placed: str, key: str
) -> RenderedRequest:
    if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
        headers = [*headers, ("Content-Type", "application/json")]
    bare = b"" if body is None else json_text(body).encode("ascii")
    content_digest = request_digest(method, url, headers, bare)
    where, _, place = placed.partition(":")
    keyed_headers = [*headers, (place, key)] if where == "header" else headers
    keyed = json_text(_with_key(body, place.split("."), key)).encode("ascii") if where == "body" else bare
    digest = request_digest(method, url, keyed_headers, keyed)
    return RenderedRequest(method, url, tuple(keyed_headers), keyed, digest, content_digest)


def _with_key(body: Any, path: list[str], key: str) -> Any:
    if len(path) == 1:
        return {**body, path[0]: key}
    return {**body, path[0]: _with_key(body.get(path[0], {}), path[1:], key)}


def keyless_digest(
    protection: Protection, method: str, url: str, headers: list[tuple[str, str]], body: bytes, parsed: Any
) -> str:
    """The digest of a frozen request with the key left out, made from what is about to be sent.

    `parsed` is the body's JSON value, needed where the key stands in the body.
    """
    where, _, place = (protection.key_in if protection.kind in _KEYED else "").partition(":")
    if where == "header":  # the key was put behind the others
        last = next((n for n in reversed(range(len(headers))) if headers[n][0] == place), None)
        headers = [pair for index, pair in enumerate(headers) if index != last]
    if where == "body":
        body = json_text(_without_key(parsed, place.split("."))).encode("ascii")
    return request_digest(method, url, headers, body)


def _without_key(body: Any, path: list[str]) -> Any:
    if not isinstance(body, Mapping) or path[0] not in body:
        return body
    if len(path) == 1:
        return {name: value for name, value in body.items() if name != path[0]}
    return {**body, path[0]: _without_key(body[path[0]], path[1:])}


def request_digest(method: str, url: str, headers: list[tuple[str, str]], body: bytes) -> str:
    """Every part with its length before it, so that no part can lend bytes to its neighbour."""
    texts = [method, url, str(len(headers))]
    for name, value in headers:
        texts += (name.lower(), value)
    fed = [_DIGEST_FORMAT]
    for part in [*(text.encode("utf-8", "surrogatepass") for text in texts), body]:
        fed += (len(part).to_bytes(8, "big"), part)
    return hashlib.sha256(b"".join(fed)).hexdigest()


def _body(template: Any, values: Mapping[str, Any], problems: Problems) -> Any:
    if isinstance(template, str):
        return _value(template, values, problems)
    if isinstance(template, dict | Mapping):  # a dict is known at once
        filled = {name: _body(inner, values, problems) for name, inner in template.items()}
        return {name: value for name, value in filled.items() if value is not ABSENT}
    if isinstance(template, list | tuple):
        return [value for inner in template if (value := _body(inner, values, problems)) is not ABSENT]
    return template


def _value(template: str, values: Mapping[str, Any], problems: Problems) -> Any:
    """A value with its type, or a text; ABSENT for an optional one that is not there."""
    alone = whole(template)
    if alone is None:
        return "".join(_texts(template, values, problems))
    found = look_up(values, alone.path)
    if isinstance(found, Absent) and not alone.optional:
        problems.add(alone.name, "is missing")
    return found


def _texts(template: str, values: Mapping[str, Any], problems: Problems) -> Iterable[str]:
    for part in parse(template):
        if isinstance(part, str):
            yield part
            continue
        found = look_up(values, part.path)
        if isinstance(found, Absent) and not part.optional:
            problems.add(part.name, "is missing")
        yield "" if isinstance(found, Absent) else as_text(found)


def _header(name: str, template: str, values: Mapping[str, Any], problems: Problems) -> str:
    text = "".join(_texts(template, values, problems))
    if not (text.isascii() and all(char == "\t" or char.isprintable() for char in text)):
        problems.add(f"header {name}", "would hold a line break or a character that headers can't carry")
    return text


def _url(
    base_url: str,
    path: str,
    query: Iterable[tuple[str, str]],
    values: Mapping[str, Any],
    problems: Problems,
) -> str:
    address = base_url.rstrip("/") + _encoded(path, values, problems, safe=_SAFE_PATH, in_path=True)
    pairs = [f"{_quoted(name)}={_encoded(value, values, problems)}" for name, value in query]
    return f"{address}?{'&'.join(pairs)}" if pairs else address


def _encoded(
    template: str, values: Mapping[str, Any], problems: Problems, *, safe: str = "", in_path: bool = False
) -> str:
    """Values percent-encoded whole; of the template's own text all but the `safe` characters.

    In a path an empty value would name another resource, and `.` or `..` would climb: both are refused.
    """
    encoded = ""
    for part in parse(template):
        if isinstance(part, str):
            encoded += quote(part, safe=safe)
            continue
        found = look_up(values, part.path)
        text = "" if isinstance(found, Absent) else as_text(found)
        if isinstance(found, Absent) and not part.optional:
            problems.add(part.name, "is missing")
        elif in_path and text in {"", ".", ".."}:
            problems.add(part.name, "can't stand in an address: it is empty or only dots")
        encoded += _quoted(text)
    return encoded


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")

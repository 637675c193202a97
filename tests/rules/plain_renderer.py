"""Requests written plainly: values first, texts afterwards, nothing remembered. What compiled requests are compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from opsledger.rules.definitions import ActionDefinition
from opsledger.rules.filling import as_text, json_text
from opsledger.rules.profile import ProtectionKind
from opsledger.rules.rendering import Missing, RenderedRequest
from opsledger.rules.sendable import unsendable
from opsledger.rules.templates import ABSENT, Placeholder, look_up, parse

Found = list[tuple[str, str]]


def render_plainly(
    action: ActionDefinition, values: Mapping[str, Any], key: str, base_url: str
) -> RenderedRequest | Missing:
    """`values` as templates name them: params, content, step, steps, operation."""
    wrong: Found = []
    request, protection = action.request, action.profile.protection
    url = base_url.rstrip("/") + _address(request.path, values, wrong, safe="/:@!$&'()*+,;=%", in_path=True)
    if request.query:
        pairs = [(quote(name, safe=""), _address(value, values, wrong)) for name, value in request.query]
        url += "?" + "&".join(f"{name}={value}" for name, value in pairs)
    headers = [(name, _header(name, value, values, wrong)) for name, value in request.headers]
    body = None if request.body is None else _value(request.body, values, wrong)
    keyed = protection.kind in {ProtectionKind.IDEMPOTENCY_KEY, ProtectionKind.CLIENT_ID}
    if keyed and len(key) > protection.key_length_max:
        wrong.append(("key", f"is longer than the {protection.key_length_max} characters that fit"))
    if wrong:
        return Missing(tuple(wrong))
    if body is not None and "content-type" not in {name.lower() for name, _ in headers}:
        headers.append(("Content-Type", "application/json"))
    content_digest = _digest(request.method, url, headers, body)
    where, _, place = protection.key_in.partition(":") if keyed else ("", "", "")
    if where == "header":
        headers.append((place, key))
    if where == "body":
        *tables, name = place.split(".")
        inner = body
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[name] = key
    digest = _digest(request.method, url, headers, body)
    made = RenderedRequest(request.method, url, tuple(headers), _bytes(body), digest, content_digest)
    refused = unsendable(made.method, made.url, made.headers, made.body)
    return Missing(refused) if refused else made


def _value(template: Any, values: Mapping[str, Any], wrong: Found) -> Any:
    if isinstance(template, str):
        parts = parse(template)
        if len(parts) == 1 and isinstance(parts[0], Placeholder):
            return _found(parts[0], values, wrong)
        return "".join(_texts(template, values, wrong))
    if isinstance(template, Mapping):
        made = {name: _value(template[name], values, wrong) for name in sorted(template)}
        return {name: value for name, value in made.items() if value is not ABSENT}
    if isinstance(template, list | tuple):
        return [value for one in template if (value := _value(one, values, wrong)) is not ABSENT]
    return template


def _texts(template: str, values: Mapping[str, Any], wrong: Found) -> Iterable[str]:
    for part in parse(template):
        found = part if isinstance(part, str) else _found(part, values, wrong)
        yield "" if found is ABSENT else as_text(found)


def _found(part: Placeholder, values: Mapping[str, Any], wrong: Found) -> Any:
    found = look_up(values, part.path)
    if found is ABSENT and not part.optional:
        wrong.append((part.name, "is missing"))
    return found


def _header(name: str, template: str, values: Mapping[str, Any], wrong: Found) -> str:
    text = "".join(_texts(template, values, wrong))
    if any(not char.isascii() or not (char == "\t" or char.isprintable()) for char in text):
        wrong.append((f"header {name}", "would hold a line break or a character that headers can't carry"))
    return text


def _address(
    template: str, values: Mapping[str, Any], wrong: Found, *, safe: str = "", in_path: bool = False
) -> str:
    made = ""
    for part in parse(template):
        if isinstance(part, str):
            made += quote(part, safe=safe)
            continue
        before, found = len(wrong), _found(part, values, wrong)
        text = "" if found is ABSENT else as_text(found)
        if in_path and text in {"", ".", ".."} and len(wrong) == before:
            wrong.append((part.name, "can't stand in an address: it is empty or only dots"))
        made += quote(text, safe="", errors="surrogatepass")
    return made


def _bytes(body: Any) -> bytes:
    return b"" if body is None else json_text(body).encode("ascii")


def _digest(method: str, url: str, headers: list[tuple[str, str]], body: Any) -> str:
    texts = [method, url, str(len(headers)), *(t for name, value in headers for t in (name.lower(), value))]
    fed = hashlib.sha256(b"opsledger request 1")
    for part in [*(text.encode("utf-8", "surrogatepass") for text in texts), _bytes(body)]:
        fed.update(len(part).to_bytes(8, "big"))
        fed.update(part)
    return fed.hexdigest()

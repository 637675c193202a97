"""`/api/docs`: the OpenAPI document as a page, rendered on the server, with examples that can be pasted into a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from opsledger.api.openapi import document
from opsledger.api.problems import KINDS


@dataclass(frozen=True, slots=True)
class FieldRow:
    name: str
    kind: str
    required: bool
    words: str


@dataclass(frozen=True, slots=True)
class ReplyRow:
    status: str
    words: str
    fields: list[FieldRow]


@dataclass(frozen=True, slots=True)
class CallSection:
    anchor: str
    method: str
    path: str
    summary: str
    words: list[str]  # paragraphs
    parameters: list[FieldRow]
    body: list[FieldRow]
    replies: list[ReplyRow]
    curl: str


@dataclass(frozen=True, slots=True)
class Tag:
    name: str
    anchor: str
    calls: list[CallSection]


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    context = {
        "tags": sections(),
        "problems": [(code, kind) for code, kind in KINDS.items()],
        "bytes_max": settings.INTAKE_BODY_BYTES_MAX,
        "address": settings.PUBLIC_URL,
    }
    response = render(request, "api/docs.html", context)
    response["Cache-Control"] = "no-cache"
    return response


@cache
def sections() -> list[Tag]:
    """The document's calls by tag, in its order."""
    tags: dict[str, list[CallSection]] = {}
    for path, methods in document()["paths"].items():
        for method, call in methods.items():
            tags.setdefault(call["tags"][0], []).append(_section(path, method.upper(), call))
    return [Tag(name, name.lower().replace(" ", "-"), calls) for name, calls in tags.items()]


def _section(path: str, method: str, call: Mapping[str, Any]) -> CallSection:
    shape = _body(call)
    return CallSection(
        anchor=call["operationId"],
        method=method,
        path=path,
        summary=call["summary"],
        words=[_prose(text) for text in call["description"].split("\n\n")],
        parameters=[
            FieldRow(
                one["name"],
                f"{one['in']}, {one['schema']['type']}",
                one["required"],
                _prose(one["description"]),
            )
            for one in call["parameters"]
        ],
        body=_fields(shape) if shape else [],
        replies=[_reply(status, reply) for status, reply in sorted(call["responses"].items())],
        curl=_curl(path, method, call),
    )


def _body(call: Mapping[str, Any]) -> Mapping[str, Any] | None:
    content = call.get("requestBody", {}).get("content", {}).get("application/json")
    return _resolved(content["schema"]) if content else None


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _reply(status: str, reply: Mapping[str, Any]) -> ReplyRow:
    content = reply.get("content", {}).get("application/json")
    fields = _fields(_resolved(content["schema"])) if content else []
    return ReplyRow(status, _prose(reply["description"]), fields)


def _fields(schema: Mapping[str, Any], prefix: str = "") -> list[FieldRow]:
    """The fields of a schema; those of an object inside follow it, one level deep."""
    rows = []
    required = set(schema.get("required", ()))
    for name, inner in schema.get("properties", {}).items():
        words = _prose(inner.get("description", ""))
        rows.append(FieldRow(f"{prefix}{name}", _kind(inner), name in required, words))
        nested = _object_in(inner)
        if nested and not prefix:
            rows += _fields(nested, f"{name}.")
    return rows


def _object_in(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            return _resolved(one)
    return None


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return " · ".join(str(word) for word in schema["enum"])
    kind = str(schema.get("type", "any value"))
    if kind == "array":
        return f"list of {_kind(schema['items']) if schema.get('items') else 'values'}"
    return f"{kind}, {schema['format']}" if "format" in schema else kind


def _prose(text: str) -> str:
    """Without the marks of Markdown; the page is plain text."""
    return re.sub(r"[`*]", "", text)


_EXAMPLES = {
    "operation": "op_…",
    "step": "create_task",
    "attempt": "att_…",
    "hold": "hold_…",
    "proposal": "prop_…",
    "replay": "rpl_…",
    "content": "letter:1",
    "content_id": "spring/letter",
    "version": "cv_…",
}


def _curl(path: str, method: str, call: Mapping[str, Any]) -> str:
    address = re.sub(r"\{([a-z]+)\}", lambda found: _EXAMPLES[found[1]], path)
    needed = [one["name"] for one in call["parameters"] if one["in"] == "query" and one["required"]]
    if needed:
        address += "?" + urlencode([(name, _EXAMPLES[name]) for name in needed])
    lines = [f'curl -X {method} "$OPSLEDGER{address}"', '  -H "Authorization: Bearer $TOKEN"']
    if any(one["name"] == "If-Match" for one in call["parameters"]):
        lines.append("  -H 'If-Match: \"3\"'")
    body = call.get("requestBody")
    if body:
        example = json.dumps(body["content"]["application/json"]["example"], ensure_ascii=False, indent=2)
        lines += ["  -H 'Content-Type: application/json'", "  --data-binary @- <<'JSON'"]
        return " \\\n".join(lines) + f"\n{example}\nJSON"
    return " \\\n".join(lines)

"""The OpenAPI document, made from the table of calls: what is served is what is described."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from opsledger.accounts.permissions import WORDS
from opsledger.api.calls import CALLS
from opsledger.api.problems import KINDS, MEDIA_TYPE
from opsledger.api.routes import Call, Reply
from opsledger.lib.strict_json import dumps

_REF = "#/components/schemas/{model}"
_NAMES = re.compile(r"\{([a-z]+)\}")
_PLACES = {
    "operation": "`op_…`, or an own id made of `A-Z a-z 0-9 - _ ~ :` that does not begin with `op_`.",
    "step": "The step's name.",
    "attempt": "`att_…`, as a claim gave it.",
    "hold": "`hold_…`.",
    "proposal": "`prop_…`.",
    "replay": "`rpl_…`.",
    "content": "Your own id of the content, made of `A-Z a-z 0-9 - _ ~ :`; any other is named in the body.",
    "version": "`cv_…`.",
}
COMMON = (
    Reply(401, "No live token."),
    Reply(403, "The token may not do this; `detail` says why."),
    Reply(
        503,
        "The database can't be reached, or `busy`: others were there. Send it again: recording is safe to repeat.",
    ),
)


@cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(f"/api/v1{call.path}", {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpsLedger",
            "version": "1",
            "description": "Every intended action leaves a record before it leaves a trace in the world.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "`opl_…`"}},
            "schemas": {**_schemas(), "Problem": _problem()},
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.summary,
        "description": f"{call.words}\n\nPermission: {permission_of(call)}.",
        "tags": [call.tag],
        "parameters": [*_in_path(call), *_in_query(call), *_in_header(call)],
        "responses": {str(reply.status): _response(reply) for reply in (*call.replies, *COMMON)},
    }
    if call.shape:
        content = {"schema": {"$ref": _REF.format(model=call.shape.__name__)}, "example": dict(call.example)}
        made["requestBody"] = {"required": True, "content": {"application/json": content}}
    return made


def permission_of(call: Call) -> str:
    return WORDS[call.permission] if call.permission else call.permission_words.rstrip(".")


def _in_path(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": _PLACES[name],
        }
        for name in _NAMES.findall(call.path)
    ]


def _in_query(call: Call) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.required,
            "schema": {"type": one.kind},
            "description": one.words,
        }
        for one in call.query
    ]


def _in_header(call: Call) -> list[dict[str, Any]]:
    if not call.versioned:
        return []
    words = 'The version that the decision was made on, such as `"3"`.'
    return [
        {
            "name": "If-Match",
            "in": "header",
            "required": True,
            "schema": {"type": "string"},
            "description": words,
        }
    ]


def _response(reply: Reply) -> dict[str, Any]:
    if reply.status >= 400:
        content = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
        return {"description": reply.words, "content": content}
    if reply.shape is None:
        return {"description": reply.words}
    schema = {"$ref": _REF.format(model=reply.shape.__name__)}
    return {"description": reply.words, "content": {"application/json": {"schema": schema}}}


def _schemas() -> dict[str, Any]:
    from opsledger.api.shapes.recording import NewOperation

    takes: list[type[BaseModel]] = [NewOperation, *(call.shape for call in CALLS if call.shape)]
    gives = [reply.shape for call in CALLS for reply in call.replies if reply.shape]
    _, taken = models_json_schema(
        [(model, "validation") for model in dict.fromkeys(takes)], ref_template=_REF
    )
    _, given = models_json_schema(
        [(model, "serialization") for model in dict.fromkeys(gives)], ref_template=_REF
    )
    return {**taken["$defs"], **given["$defs"]}


def _problem() -> dict[str, Any]:
    error = {"type": "object", "properties": {"field": {"type": "string"}, "message": {"type": "string"}}}
    return {
        "type": "object",
        "description": "RFC 9457. Further members depend on `code`.",
        "required": ["type", "title", "status", "code", "detail", "todo"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": sorted(KINDS)},
            "detail": {"type": "string", "description": "What happened, and that nothing was lost."},
            "todo": {"type": "string", "description": "What to do."},
            "errors": {"type": "array", "items": error},
        },
    }


@cache
def _text() -> str:
    return dumps(document())


@require_safe
def serve(request: HttpRequest) -> HttpResponse:
    response = HttpResponse(_text(), content_type="application/json")
    response["Cache-Control"] = "no-cache"
    return response

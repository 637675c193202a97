"""Requests as they come in: bytes within the limit, strict JSON, checked against a model. Unknown fields are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.request import UnreadablePostError
from pydantic import BaseModel, ValidationError

from opsledger.api.problems import Problem
from opsledger.lib.strict_json import BadJson, loads

Model = TypeVar("Model", bound=BaseModel)
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii"})
ERRORS_MAX = 50  # told at once


def raw_body(request: HttpRequest) -> bytes:
    """The bytes as received. 413 above the limit, which is named; it is read no further."""
    limit = settings.INTAKE_BODY_BYTES_MAX
    announced = request.META.get("CONTENT_LENGTH") or "0"
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    try:
        raw = request.body
    except RequestDataTooBig:
        raise _too_large(limit) from None
    except UnreadablePostError as why:
        raise Problem("bad_json", "The body ended too early. Nothing was recorded.") from why
    if len(raw) > limit:
        raise _too_large(limit)
    return raw


def _too_large(limit: int) -> Problem:
    return Problem(
        "body_too_large",
        f"The body is larger than {limit} bytes, which is the limit here. Nothing was recorded.",
    )


def read(request: HttpRequest, model: type[Model]) -> Model:
    """The request's body as this model says."""
    return checked(model, read_json(request))


def read_if_any(request: HttpRequest, model: type[Model]) -> None:
    """The same of a body that need not be there, and has nothing to say."""
    if raw_body(request):
        read(request, model)


def check_query(request: HttpRequest, known: Mapping[str, bool]) -> None:
    """422 for a name that the call does not know, for one that is said twice where it does not take several (False), and for
    a value that no database can be asked for."""
    if not request.META.get("QUERY_STRING"):
        return
    words = f"known are {', '.join(sorted(known))}" if known else "there is none"
    given = list(request.GET.lists())
    problems = [(str(name), f"is not a known filter; {words}") for name, _ in given if name not in known]
    problems += [
        (str(name), "is given more than once")
        for name, values in given
        if len(values) > 1 and not known.get(str(name), True)
    ]
    problems += [
        (str(name), "must not hold NUL") for name, values in given if "\x00" in "".join(map(str, values))
    ]
    if problems:
        raise invalid(problems)


def read_json(request: HttpRequest) -> Any:
    """The JSON object of the body: 415 for another kind, 400 where two readers could disagree, or for no object."""
    raw = raw_body(request)
    kind = request.content_type or ""
    charset = (request.content_params or {}).get("charset", "").lower()
    if kind != "application/json" or charset not in _CHARSETS:
        raise Problem(
            "content_type", "The body must be announced as application/json in UTF-8. Nothing was recorded."
        )
    if request.META.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise Problem("content_type", "The API takes bodies that are not compressed. Nothing was recorded.")
    try:
        value = loads(raw)
    except BadJson as why:
        raise Problem("bad_json", f"{why.sentence} Nothing was recorded.", reason=why.reason) from None
    if not isinstance(value, dict):
        raise Problem(
            "bad_json", "The body must be a JSON object. Nothing was recorded.", reason="not_an_object"
        )
    return value


def checked(model: type[Model], value: object) -> Model:
    """The value as this model says; 422 with a path and a message for everything that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as why:
        raise invalid(problems_of(why, model)) from None


def invalid(problems: Iterable[tuple[str, str]]) -> Problem:
    errors = list(problems)[:ERRORS_MAX]
    rest = f" And {len(errors) - 1} more." if len(errors) > 1 else ""
    return Problem("invalid", f"{_sentence(*errors[0])}{rest} Nothing was recorded.", errors=errors)


def _sentence(field: str, message: str) -> str:
    """“amount must be a number.”; a message that is a sentence of its own stands behind its field."""
    joint = ": " if message[:1].isupper() else " "
    said = f"{field}{joint}{message}" if field else message
    return said if said.endswith("?") else f"{said.rstrip('.')}."


def problems_of(why: ValidationError, model: type[BaseModel]) -> list[tuple[str, str]]:
    return [
        (_path(_places(error)), _message(error, model))
        for error in why.errors(include_url=False, include_context=True)
    ]


def _places(error: Any) -> tuple[int | str, ...]:
    """Where it is. A name that is itself what is wrong is taken as it was sent; pydantic leaves it out or changes it."""
    places: tuple[int | str, ...] = error["loc"]
    if error["type"] == _UNREADABLE_NAME:
        return (*places, error["input"])
    if len(places) > 1 and places[-1] == "[key]" and isinstance(error["input"], str):
        return (*places[:-2], error["input"])
    return places


_UNREADABLE_NAME = "string_unicode"  # of a field: it holds half of a surrogate pair


def _path(places: tuple[int | str, ...]) -> str:
    path = ""
    for place in places:
        path += f"[{place}]" if isinstance(place, int) else f".{place}" if path else str(place)
    return path


_MESSAGES = {
    "missing": "is missing",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "list_type": "must be a list",
    "float_type": "must be a number",
}


def _message(error: Any, model: type[BaseModel]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in {"extra_forbidden", _UNREADABLE_NAME}:
        places = _places(error)
        return _unknown(str(places[-1]), model if len(places) == 1 else None)
    if kind == "value_error":
        return str(context["error"])
    if kind in {"enum", "literal_error"}:
        return f"must be one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}"
    if kind == "too_short":
        least = context["min_length"]
        return f"must have at least {least:,} {'entry' if least == 1 else 'entries'}"
    if kind == "too_long":
        found = f"; these are {context['actual_length']:,}" if context.get("actual_length") else ""
        return f"must have at most {context['max_length']:,} entries{found}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters"
    if kind == "string_too_short":
        return f"must have at least {context['min_length']} characters"
    return _MESSAGES.get(kind) or _lowered(error["msg"])


def _unknown(name: str, model: type[BaseModel] | None) -> str:
    close = get_close_matches(name, list(model.model_fields), n=1) if model else []
    return f"is not a known field; did you mean {close[0]}?" if close else "is not a known field"


def _lowered(text: str) -> str:
    return re.sub(r"^Input should be", "must be", text)

"""Parameters of an operation, checked against what the workflow declares. Nothing is trimmed or rounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from opsledger.rules.building import Problem, Problems, unknown_field
from opsledger.rules.definition_types import ParamDefinition, ParamType, WorkflowDefinition
from opsledger.rules.reading import Number

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_EMAIL = re.compile(r"[^\s@\x00-\x1f\x7f]+@[^\s@\x00-\x1f\x7f.]+(\.[^\s@\x00-\x1f\x7f.]+)*")
_EMAIL_LENGTH_MAX = 254
_TEXT = ParamType.TEXT


def check_params(workflow: WorkflowDefinition, params: object) -> tuple[dict[str, Any], list[Problem]]:
    """The parameters as they are kept, and what is wrong with them as (path, message).

    Values stay byte-exact and of the type they came in: a number keeps its digits, and a number written as
    text (`"1.10"`) stays text. Null counts as absent; absent ones that are not required are left out.
    """
    return _check_fields(workflow.params, params, "params")


def check_content(
    workflow: WorkflowDefinition, content: object, path: str = "content"
) -> tuple[dict[str, Any], list[Problem]]:
    """The same for the fields of a content version."""
    return _check_fields(workflow.content, content, path)


def _check_fields(
    fields: tuple[ParamDefinition, ...], given: object, path: str
) -> tuple[dict[str, Any], list[Problem]]:
    problems, kept = Problems(), {}
    if not isinstance(given, Mapping):
        return {}, [(path, "must be an object")]
    names = [param.name for param in fields]
    for name in given:
        if name not in names:
            problems.add(f"{path}.{name}", unknown_field(name, names))
    for param in fields:
        value = given.get(param.name)
        if value is not None:
            plain = (
                type(value) is str and param.type is _TEXT and len(value) <= param.max_length
            )  # nearly all
            wrong = "" if plain else _CHECKS[param.type](value, param)
            if wrong:
                problems.add(f"{path}.{param.name}", wrong)
            kept[param.name] = value
        elif param.required:
            problems.add(f"{path}.{param.name}", "is missing")
    return ({} if problems else kept), problems.found


def _text(value: object, param: ParamDefinition) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        return "must be text"
    if len(value) > param.max_length:
        return f"has {len(value)} characters; at most {param.max_length} fit"
    return ""


def _integer(value: object, param: ParamDefinition) -> str:
    return "" if _number_text(value, _INTEGER) else "must be a whole number"


def _decimal(value: object, param: ParamDefinition) -> str:
    return "" if _number_text(value, _DECIMAL) else "must be a number"


def _number_text(value: object, form: re.Pattern[str]) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return False  # a binary float has already lost its digits
    return isinstance(value, int) or form.fullmatch(str(value)) is not None


def _boolean(value: object, param: ParamDefinition) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _date(value: object, param: ParamDefinition) -> str:
    wanted = "must be a date, such as 2026-03-01"
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return wanted
    try:
        date.fromisoformat(value)
    except ValueError:
        return wanted
    return ""


def _email(value: object, param: ParamDefinition) -> str:
    if not isinstance(value, str) or len(value) > _EMAIL_LENGTH_MAX or not _EMAIL.fullmatch(value):
        return "must be one e-mail address, without a name or blanks"
    return ""


_CHECKS: dict[ParamType, Callable[[object, ParamDefinition], str]] = {
    ParamType.TEXT: _text,
    ParamType.INTEGER: _integer,
    ParamType.DECIMAL: _decimal,
    ParamType.BOOLEAN: _boolean,
    ParamType.DATE: _date,
    ParamType.EMAIL: _email,
}

"""Typed values of declared fields: shown in a form, and read back without changing what nobody touched.

A browser makes every value text, its line ends two characters, and what a page can't hold a replacement. So a text that is
still the shown one stands for the value that it was shown for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from opsledger.lib.strict_json import BadJson, loads, projection
from opsledger.rules.definition_types import FieldKind, ParamDefinition, ParamType
from opsledger.rules.rendering import as_text, mask

LONG = 120  # characters from which a field is written on several lines
_NUMBERS = frozenset({ParamType.INTEGER, ParamType.DECIMAL})


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. A hidden value is empty there; left empty it stays as it is."""

    name: str  # in the form
    label: str
    value: str
    kept: str  # what an empty field keeps, masked; "" where emptying means empty
    locked: bool
    kind: str
    long: bool
    choices: tuple[str, ...]
    input_type: str
    max_length: int
    required: bool
    empty_name: str = ""  # of the tick that takes a hidden value away; "" where there is none
    emptied: bool = False


EMPTY = ".empty"  # after the name of a field: the tick that takes its hidden value away


def form_field(
    one: ParamDefinition, value: Any, *, prefix: str, typed: Mapping[str, str], reveal: bool = False
) -> FormField:
    """The field with its present value, or with what was typed into it."""
    name = f"{prefix}.{one.name}"
    hidden = one.sensitive and not reveal and value is not None
    shown = "" if value is None or hidden else shown_text(value)
    return FormField(
        name=name,
        label=one.label,
        value=shown if one.locked else typed.get(name, shown),
        kept=mask(value) if hidden else "",
        locked=one.locked,
        kind=(one.kind or (FieldKind.SENSITIVE if one.sensitive else FieldKind.FREE)).value,
        long=one.type is ParamType.TEXT and (one.max_length > LONG * 5 or len(shown) > LONG),
        choices=("true", "false") if one.type is ParamType.BOOLEAN else (),
        input_type={ParamType.DATE: "date"}.get(one.type, "text"),
        max_length=one.max_length if one.type is ParamType.TEXT else 300,
        required=one.required,
        empty_name=f"{name}{EMPTY}" if hidden and not one.required and not one.locked else "",
        emptied=typed.get(f"{name}{EMPTY}") == "on",
    )


def shown_text(value: Any) -> str:
    return str(projection(as_text(value))).replace("\r\n", "\n")


def read_field(
    one: ParamDefinition, value: Any, *, prefix: str, post: QueryDict, reveal: bool = False
) -> Any:
    """The value that was meant; None for an emptied one. Untouched, hidden and locked ones stay byte for byte.

    A hidden one can't be emptied by leaving it empty; a tick beside it takes it away, where it is not required.
    """
    text = post.get(f"{prefix}.{one.name}")
    if one.locked or text is None:
        return value
    text = text.replace("\r\n", "\n")
    if value is not None and text == shown_text(value):
        return value
    if text == "":
        ticked = not one.required and post.get(f"{prefix}.{one.name}{EMPTY}") == "on"
        return value if one.sensitive and not reveal and not ticked else None
    return _typed(one, value, text)


def _typed(one: ParamDefinition, before: Any, text: str) -> Any:
    if one.type is ParamType.BOOLEAN and text in {"true", "false"}:
        return text == "true"
    if one.type in _NUMBERS and not isinstance(before, str):  # one that was sent as text stays text
        return _number(text.strip())
    return text


def _number(text: str) -> Any:
    """A number with its digits as they were typed; what is none stays text, and is refused with its field."""
    try:
        read = loads(f'{{"n":{text}}}'.encode())["n"]
    except BadJson:
        return text
    return text if isinstance(read, str | bool | dict | list) or read is None else read

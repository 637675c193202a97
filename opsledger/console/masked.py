"""Parameters, requests and kept bytes as they may be shown.

Sensitive values are hidden by where they stand (the definition’s paths) and by what they are: wherever a reply repeats
the same text, it is hidden too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from opsledger.ledger.models import OperationParams
from opsledger.ledger.queries.comparison import label_of
from opsledger.ledger.queries.page import OperationView, StepView
from opsledger.lib.strict_json import loads_stored, projection
from opsledger.rules.rendering import MASK, as_text, mask

SHORTEST_HIDDEN = 4  # characters; a shorter text is hidden by its place only
SHOWN_MAX = 16_384
FIELDS_MAX = 200


@dataclass(frozen=True, slots=True)
class Shown:
    label: str
    value: str
    masked: bool = False


def shown_params(view: OperationView, *, reveal: bool = False) -> list[Shown]:
    """The operation’s parameters in the workflow’s order."""
    if not reveal:
        return [Shown(one.label, _text(one.value), one.masked) for one in view.record.params]
    given = _given(view)
    return [
        Shown(param.label, _text(projection(given[param.name])))
        for param in view.workflow.params
        if param.name in given
    ]


def _given(view: OperationView) -> dict[str, Any]:
    text = OperationParams.objects.values_list("params", flat=True).get(pk=view.record.id)
    given: dict[str, Any] = loads_stored(text)
    return given


def shown_request(step: StepView, *, reveal: bool = False) -> dict[str, Any]:
    """What was approved to be sent by a step: its fields, digest and key."""
    fields = _fields(step.body)
    return {
        "number": step.step.number,
        "method": step.method,
        "url": step.url if reveal else _without_query(step.url or "", step),
        "fields": [
            Shown(label_of(path), value if reveal or not hidden else mask(value), hidden and not reveal)
            for path, value in fields.items()
            for hidden in [_is_sensitive(path, step.action.sensitive)]
        ],
        "digest": step.digest,
        "key": step.record.idempotency_key,
        "revision": step.record.revision,
        "sensitive": any(_is_sensitive(path, step.action.sensitive) for path in fields),
    }


def _without_query(url: str, step: StepView) -> str:
    """The address without its query, where an action has sensitive fields: a query may repeat them."""
    return url.split("?", 1)[0] + ("?…" if "?" in url else "") if step.action.sensitive else url


def _fields(body: bytes) -> dict[str, str]:
    """A JSON body as text by dotted path, numbers with their digits."""
    try:
        read = json.loads(body, parse_float=Decimal, parse_int=Decimal) if body else {}
    except ValueError:
        return {}
    fields: dict[str, str] = {}
    _flatten(read, "", fields)
    return fields


def _flatten(value: Any, path: str, into: dict[str, str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}" if path else str(name), into)
    elif value is not None:
        into[path or "value"] = _text(value)


def _is_sensitive(path: str, sensitive: Iterable[str]) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in sensitive)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class BodyRow:
    """One field of an event as it was delivered first and later. None: it is not there."""

    label: str
    first: str | None
    later: str | None
    masked: bool

    @property
    def same(self) -> bool:
        return self.first == self.later


def compared_bodies(
    first: bytes, later: bytes, plain: Collection[str], *, reveal: bool = False
) -> list[BodyRow]:
    """Two bodies of one event, field by field, those that differ first. Only `plain` paths are shown unmasked."""
    ours, theirs = _fields(first), _fields(later)
    rows = []
    for path in dict.fromkeys([*ours, *theirs]):
        one, other, hidden = ours.get(path), theirs.get(path), path not in plain and not reveal
        if hidden:
            same = one == other
            one, other = (value and MASK for value in (one, other))
            other = f"{MASK} {_('(another value)')}" if not same and one and other else other
        rows.append(BodyRow(label_of(path), one, other, hidden))
    return sorted(rows, key=lambda row: row.same)[:FIELDS_MAX]


def hidden_texts(view: OperationView) -> list[str]:
    """Every sensitive value of the operation as text, longest first."""
    given = _given(view)
    values = [
        as_text(given[param.name])
        for param in view.workflow.params
        if param.sensitive and param.name in given
    ]
    for step in view.steps:
        values += [
            value for path, value in _fields(step.body).items() if _is_sensitive(path, step.action.sensitive)
        ]
    return sorted({value for value in values if len(value) >= SHORTEST_HIDDEN}, key=len, reverse=True)


def hide(text: str, hidden: Iterable[str]) -> str:
    """The text with every sensitive value masked, also where JSON has escaped it."""
    for value in hidden:
        for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
            text = text.replace(form, mask(value))
    return text


def shown_content(view: OperationView, content: bytes, *, reveal: bool = False) -> str:
    """The bytes as text: what is not UTF-8 shows as a replacement; sensitive values and fields are masked."""
    text = content[:SHOWN_MAX].decode("utf-8", "replace").replace("\x00", "␀")
    if reveal:
        return text
    names = {path.rpartition(".")[2] for step in view.steps for path in step.action.sensitive}
    return hide(_fields_hidden(text, names), hidden_texts(view))


def _fields_hidden(text: str, names: set[str]) -> str:
    """JSON with what stands under these names masked; other text as it is."""
    try:
        read = json.loads(text, parse_float=_Kept, parse_int=_Kept)
    except ValueError:
        return text
    masked = _masked(read, names)
    return text if masked == read else json.dumps(masked, ensure_ascii=False, indent=2, default=str)


class _Kept(str):
    """A number as it was written."""

    __slots__ = ()


def _masked(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {
            name: MASK if name in names and not isinstance(inner, dict | list) else _masked(inner, names)
            for name, inner in value.items()
        }
    return [_masked(inner, names) for inner in value] if isinstance(value, list) else value

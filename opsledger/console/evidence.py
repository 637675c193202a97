"""Parameters, requests and kept bytes as they may be shown, and the file about an operation for somebody outside.

Sensitive values are hidden by where they stand (the definition’s paths) and by what they are: wherever a reply repeats
the same text, it is hidden too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.duplicates import extra_records
from opsledger.console.vocabulary import shown, step_word
from opsledger.console.wording import answers
from opsledger.console.wording.entries import entry_word
from opsledger.console.wording.statements import evidence_word
from opsledger.ledger.models import OperationParams
from opsledger.ledger.queries.comparison import label_of
from opsledger.ledger.queries.page import OperationView, StepView
from opsledger.ledger.queries.record import AttemptRecord
from opsledger.ledger.queries.timeline import EvidenceLine, Told
from opsledger.lib import ids
from opsledger.lib.strict_json import loads_stored, projection
from opsledger.rules.record import Act
from opsledger.rules.rendering import MASK, as_text, mask
from opsledger.rules.states import Outcome

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


# Bodies of deliveries


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


# Kept bytes


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


# The file


def evidence_file(view: OperationView, told: list[Told], names: Mapping[str, str]) -> str:
    """Markdown: what was observed, what was decided, what remains. Without sensitive values and without free text."""
    record = view.record
    lines = [
        f"# {_inline(record.title)}",
        "",
        _("Evidence about one intended action, as OpsLedger recorded it. All times are UTC."),
        "",
        f"- {_('Operation')}: `{_code(record.operation_id)}` (`{ids.public('op', record.id)}`)",
        f"- {_('State')}: {shown(record.state, 'operation').word}",
        f"- {_('Recorded')}: {_utc(record.created_at)}",
        f"- {_('Workflow')}: {record.workflow}, {_('version')} {record.workflow_version}",
    ]
    lines += [
        f"- {_('Source event')}: `{_code(one.event_id)}` ({one.source}), {_('delivered')} {one.delivery_count}×"
        for one in record.events
    ]
    for step in view.steps:
        lines += _step_part(view, step)
    lines += _decided(view, told, names)
    lines += _remains(view)
    lines += ["", _("Reasons and notes that people wrote are kept in OpsLedger and left out here.")]
    hidden = hidden_texts(view)
    return hide("\n".join(lines) + "\n", hidden)


def _step_part(view: OperationView, step: StepView) -> list[str]:
    lines = [
        "",
        f"## {_('Step')} {step.step.number}: {_inline(step.title)}",
        "",
        f"- {_('Destination')}: {step.destination.name} ({step.step.destination}), {step.action.title}",
        f"- {_('State')}: {step_word(step.step)}",
        f"- {_('Our identity on the record')}: `{step.identity}`",
    ]
    if step.step.reference:
        lines.append(f"- {_('Reference')}: `{_code(step.step.reference)}`")
    if step.digest:
        lines.append(f"- {_('Request')}: {step.method}, SHA-256 `{step.digest}`")
    if step.record.idempotency_key:
        lines.append(f"- {_('Idempotency key')}: `{_code(step.record.idempotency_key)}`")
    lines.append(f"- {_('Protection')}: {step.record.protected.sentence}")
    lines += ["", f"### {_('What was observed')}", ""]
    about = [one for one in view.record.evidence if one.step == step.step.number and one.kind != "statement"]
    observed = [(attempt.opened_at, _attempt(step, attempt, about)) for attempt in step.record.attempts]
    told = {(attempt.id, attempt.sentence) for attempt in step.record.attempts}
    observed += [
        (one.received_at, f"{evidence_word(one.kind)}: {_inline(one.sentence)}{_kept(one)}")
        for one in about
        if (one.attempt_id, one.sentence) not in told
    ]
    lines += [f"- {_utc(at)} {text}" for at, text in sorted(observed, key=lambda one: one[0])]
    return lines if observed else [*lines, _("Nothing was sent and nothing was looked up.")]


def _attempt(step: StepView, attempt: AttemptRecord, about: list[EvidenceLine]) -> str:
    """One attempt with its outcome, what was seen of it, and the digest of what was kept of the reply."""
    outcome = shown(attempt.outcome, "outcome").word.lower() if attempt.outcome else _("no answer yet")
    if attempt.outcome == Outcome.NO_CHANGE and step.step.undelivered:
        outcome = _("taken over, then not delivered")
    seen = f"{_('Attempt')} {attempt.number} (`{ids.public('att', attempt.id)}`): {outcome}."
    kept = [one for one in about if (one.attempt_id, one.sentence) == (attempt.id, attempt.sentence)]
    return f"{seen} {_inline(attempt.sentence)}{''.join(_kept(one) for one in kept)}"


def _kept(one: EvidenceLine) -> str:
    """The digest of the bytes that were kept; nothing where none came."""
    return f" (SHA-256 `{one.digest}`)" if one.size else ""


def _decided(view: OperationView, told: list[Told], names: Mapping[str, str]) -> list[str]:
    decisions = [
        entry for entry in reversed(told) if entry.kind in {"answered", "withdrawn", "cancel_requested"}
    ]
    lines = ["", f"## {_('What was decided')}", ""]
    for entry in decisions:
        who = names.get(entry.actor, entry.actor.partition(":")[0])
        what = (
            answers.given(str(entry.body["answer"]))
            if "answer" in entry.body
            else entry_word(entry.kind).lower()
        )
        reference = entry.body.get("reference")
        tail = f" ({_('reference')} `{_code(str(reference))}`)" if reference else ""
        lines.append(f"- {_utc(entry.at)} {_inline(who)}: {what}{tail}")
        lines += [
            f"  - {_('Known extra record, not kept')}: `{_code(extra or _('not on file'))}` (SHA-256 `{digest}`)"
            for extra, digest in extra_records(view, entry)
        ]
    return lines if decisions else [*lines, _("Nothing yet.")]


def _remains(view: OperationView) -> list[str]:
    lines = ["", f"## {_('What remains')}", ""]
    open_holds = [
        f"- {shown(one.record.reason, 'hold').word} ({_('step')} {one.record.step}), "
        f"{_('due')} {_utc(one.record.due_at)}"
        for one in view.holds
    ]
    planned = [
        f"- {_(_PLANNED[step.step.act])} ({_('step')} {step.step.number}), {_utc(step.step.act_at)}"
        for step in view.steps
        if step.step.act_at is not None and step.step.act in _PLANNED
    ]
    return [*lines, *open_holds, *planned] if open_holds or planned else [*lines, _("Nothing is open.")]


_PLANNED: Mapping[Act, str] = {
    Act.SEND: noop("It is to be sent"),
    Act.OFFER: noop("It is offered to automations until then"),
    Act.LEASE: noop("An answer is waited for until then"),
    Act.LOOK: noop("Next lookup"),
    Act.AWAIT: noop("A proof of its final effect is waited for until then"),
}


def _utc(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if moment else _("not known")


def _inline(text: str) -> str:
    """Text in a line of Markdown: one line, and no character of it is markup."""
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|" else char for char in flat)


def _code(text: str) -> str:
    return text.replace("`", "'").replace("\n", " ")

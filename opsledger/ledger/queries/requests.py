"""What would be sent by a step, and what would have been: requests for people, with sensitive values masked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from opsledger.ledger import definitions, records
from opsledger.ledger.records import Loaded
from opsledger.ledger.rendering import content_of, params_of, read_params, render
from opsledger.lib.named_rows import named_rows
from opsledger.lib.strict_json import loads_stored
from opsledger.rules.definition_types import ParamDefinition
from opsledger.rules.rendering import Missing, as_text, mask, mask_fields


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A request for people, with sensitive values masked. `fields` are those of its body, by dotted path."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]
    revision: int
    content_number: int | None
    missing: tuple[str, ...] = ()  # what it lacks; then the rest is empty


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of a request beside another. None: it is not there."""

    label: str
    before: str | None
    after: str | None

    @property
    def same(self) -> bool:
        return self.before == self.after


def shown_request(
    step_id: UUID, *, content_number: int | None = None, reveal: bool = False
) -> ShownRequest | None:
    """What the step would send as it stands, or with another version of its content. None: there is no such step.

    `reveal` shows sensitive values; whoever asks for that has journaled it before (`actions.reveal`).
    """
    loaded, number = _loaded(step_id)
    if loaded is None:
        return None
    if content_number is not None:
        rows = named_rows(
            "SELECT body FROM ledger_contentversion WHERE of_id = %s AND number = %s",
            [loaded.content_id, content_number],
        )
        if not rows:
            return None
        loaded.contents[content_number] = rows[0].body
        loaded.record.step(number).content_number = content_number
    return _shown(loaded, number, reveal=reveal)


def _loaded(step_id: UUID) -> tuple[Loaded | None, int]:
    rows = named_rows("SELECT operation_id, number FROM ledger_step WHERE id = %s", [step_id])
    if not rows:
        return None, 0
    return records.load([rows[0].operation_id])[rows[0].operation_id], rows[0].number


def _shown(loaded: Loaded, number: int, *, reveal: bool) -> ShownRequest:
    """Rendered with masked values in the place of sensitive ones, wherever in the request they stand."""
    step = loaded.record.step(number)
    workflow = definitions.workflow(loaded.workflow_version_id)
    version_id = loaded.destination_version_ids[number]
    action = definitions.destination(version_id).actions[step.action]
    params, content = params_of(loaded, number), content_of(loaded, step)
    if not reveal:
        params, content = _masked(params, workflow.params), _masked(content, workflow.content)
    made = render(loaded, loaded.record, step, version_id, params, content)
    if isinstance(made, Missing) and not reveal:  # headers take ASCII only, and a mask is none
        params, content = _starred(params), _starred(content)
        made = render(loaded, loaded.record, step, version_id, params, content)
    if isinstance(made, Missing):
        return ShownRequest("", "", (), (), step.revision, step.content_number, made.fields)
    request = made.request
    return ShownRequest(
        request.method,
        request.url,
        request.headers,
        _body_fields(request.body, () if reveal else action.sensitive),
        step.revision,
        step.content_number,
    )


def _masked(values: Mapping[str, Any], known: Sequence[ParamDefinition]) -> dict[str, Any]:
    hidden = {one.name for one in known if one.sensitive}
    return {name: mask(value) if name in hidden else value for name, value in values.items()}


def _starred(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.replace("•", "*") if isinstance(value, str) else value for name, value in values.items()
    }


def _body_fields(body: bytes, sensitive: Sequence[str]) -> tuple[tuple[str, str], ...]:
    if not body:
        return ()
    fields: list[tuple[str, str]] = []

    def flatten(value: Any, path: str) -> None:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                flatten(inner, f"{path}.{name}" if path else name)
        elif isinstance(value, list) and value:
            for index, inner in enumerate(value):
                flatten(inner, f"{path}[{index}]")
        else:
            fields.append((path, as_text(value)))

    flatten(mask_fields(loads_stored(body.decode()), sensitive), "")
    return tuple(fields)


_EARLIER = """
SELECT q.revision, q.method, q.url, q.headers, q.body, s.operation_id, s.number,
       CASE WHEN q.revision > 1 THEN
            (SELECT r.content_number FROM ledger_revision r WHERE r.step_id = s.id AND r.number = q.revision)
       ELSE (SELECT (e.body::json #>> ARRAY['steps', s.number::text, 'content_number'])::integer
               FROM journal_entry e WHERE e.subject_id = s.operation_id AND e.seq = 1) END AS content_number
  FROM ledger_steprequest q JOIN ledger_step s ON s.id = q.step_id
 WHERE q.step_id = %s AND q.revision < s.revision ORDER BY q.revision DESC LIMIT 1
"""


def sent_or_approved_before(step_id: UUID, *, reveal: bool = False) -> ShownRequest | None:
    """The newest request of an earlier revision that was frozen: what was, or would have been, sent before the change.

    Sensitive fields of the body are masked, and every sensitive value of the operation wherever else it stands.
    """
    rows = named_rows(_EARLIER, [step_id])
    if not rows:
        return None
    row = rows[0]
    loaded = records.load([row.operation_id])[row.operation_id]
    step = loaded.record.step(row.number)
    action = definitions.destination(loaded.destination_version_ids[row.number]).actions[step.action]
    hidden = [] if reveal else _hidden_texts(loaded)
    body = _body_fields(bytes(row.body), () if reveal else action.sensitive)
    fields = tuple((path, _hide(text, hidden)) for path, text in body)
    headers = tuple((str(name), _hide(str(value), hidden)) for name, value in json.loads(row.headers))
    return ShownRequest(row.method, _hide(row.url, hidden), headers, fields, row.revision, row.content_number)


def _hidden_texts(loaded: Loaded) -> list[str]:
    """Every sensitive value of the operation in all its versions and revisions, longest first."""
    workflow = definitions.workflow(loaded.workflow_version_id)
    bodies = named_rows("SELECT body FROM ledger_contentversion WHERE of_id = %s", [loaded.content_id])
    revised = named_rows(
        "SELECT r.params FROM ledger_revision r JOIN ledger_step s ON s.id = r.step_id WHERE s.operation_id = %s",
        [loaded.id],
    )
    values = [
        read_params(text).get(one.name)
        for texts, known in (
            ([row.body for row in bodies], workflow.content),
            ([loaded.params or "{}", *(row.params for row in revised)], workflow.params),
        )
        for text in texts
        for one in known
        if one.sensitive
    ]
    texts = {as_text(value) for value in values if value not in (None, "")}
    return sorted(texts | {quote(text, safe="") for text in texts}, key=len, reverse=True)


def _hide(text: str, hidden: Sequence[str]) -> str:
    for value in hidden:
        text = text.replace(value, mask(value))
    return text


def compared(before: ShownRequest | None, after: ShownRequest) -> list[Compared]:
    """Two requests side by side: method and address, headers, and the body's fields in the order of the newer one."""
    ours, theirs = _lines(before) if before else {}, _lines(after)
    labels = [*theirs, *(label for label in ours if label not in theirs)]
    return [Compared(label, ours.get(label), theirs.get(label)) for label in labels]


def _lines(request: ShownRequest) -> dict[str, str]:
    lines = {"Request": f"{request.method} {request.url}"} if request.method else {}
    lines |= {f"Header {name}": value for name, value in request.headers}
    return lines | dict(request.fields)

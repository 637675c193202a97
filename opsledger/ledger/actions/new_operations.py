"""A new operation by the rules: its record, brought to rest, and what is written of it.

What many operations share (`Row.common`) is apart from an operation's own values, so that it is told to the database once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple
from uuid import UUID

from opsledger.journal.append import body
from opsledger.ledger import definitions, rendering
from opsledger.ledger.actions.change import Changed, hold_row
from opsledger.ledger.actions.hold_lines import facts_told
from opsledger.ledger.assignment import told_of
from opsledger.ledger.records import Loaded
from opsledger.ledger.rendering import Outgoing
from opsledger.lib.columns import Byteas, Smallints, Texts, Uuids
from opsledger.lib.ids import new_id
from opsledger.lib.strict_json import projection
from opsledger.rules.content import content_part
from opsledger.rules.fold import opened
from opsledger.rules.identity import canonical_json, operation_digest, step_identity
from opsledger.rules.next_step import Policy, Rendered
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import render_text
from opsledger.rules.settling import Moment, settled

Render = Callable[[Operation, Step], Rendered]


@dataclass(frozen=True, slots=True)
class ShownContent:
    """The content that an operation is recorded with: the version that was named, and the one that it shows.

    They differ where a newer one has been proposed meanwhile; then a person approves what is shown.
    """

    id: UUID  # of the content
    content_id: str
    digest: bytes  # of the named version's fields: what makes the operation the same one again
    named: int
    number: int  # of the version that is shown
    body: str  # its stored text


class NewOperation(NamedTuple):
    """An intended action, with parameters that were checked against the workflow."""

    team_id: UUID
    operation_id: str
    workflow_version_id: UUID
    destinations: Mapping[int, tuple[UUID, UUID]]  # per step: definition, version
    params: Mapping[str, Any]
    actor: str
    owner_id: UUID | None = None
    event_id: UUID | None = None
    replaces: UUID | None = None
    not_after: datetime | None = None
    content: ShownContent | None = None


class NewStep(NamedTuple):
    """What is a step's own. Everything else of its row is shared or as for every new step."""

    id: UUID
    number: int
    identity: str
    request: Outgoing | None  # as far as it is rendered; one that still waits for its approval is not


class Row(NamedTuple):
    """What is written of one new operation."""

    id: UUID
    state: str
    common: str  # JSON: what other operations of its kind may share, steps and times included
    operation_id: str
    title: str
    digest: bytes
    owner_id: UUID | None
    event_id: UUID | None
    replaces: UUID | None
    params: str
    line: str  # the body of the journal's first line
    steps: tuple[NewStep, ...]
    holds: tuple[dict[str, Any], ...] = ()


def begin(
    one: NewOperation, now: datetime, *, render: Render | None = None, ids: Callable[[], UUID] = new_id
) -> Loaded:
    """The operation's record, at rest: first step ready, its request rendered; or what a person is asked.

    `render` stands in for what renders the requests.
    """
    workflow = definitions.workflow(one.workflow_version_id)
    operation_uuid = ids()
    record = Operation(str(operation_uuid), now, [], not_after=one.not_after)
    loaded = Loaded(
        operation_uuid, one.team_id, one.operation_id, title_of(workflow.title, one.params), 1, one.owner_id,
        one.workflow_version_id, workflow.slug, None, now, record, None,
    )  # fmt: skip
    if one.content:
        loaded.content_id, loaded.contents = one.content.id, {one.content.number: one.content.body}
    for number, words in enumerate(workflow.steps, start=1):
        definition_id, version_id = one.destinations[number]
        step = Step(number, words.name, words.destination, words.action, words.performer)
        asks = definitions.asks_for(one.workflow_version_id, number, version_id)
        step.approval_needed = asks.approval
        if one.content and asks.content:
            step.content_number = one.content.number
            step.approval_needed |= one.content.number != one.content.named
        record.steps.append(step)
        loaded.step_ids[number], loaded.destination_ids[number] = ids(), definition_id
        loaded.identities[number] = step_identity(one.team_id.bytes, one.operation_id, words.name)
        loaded.policies[number] = Policy(
            profile=definitions.destination(version_id).actions[words.action].profile,
            accepted_is_enough=words.accepted_is_enough,
            continues_after_failure=words.continues_after_failure,
            render=render or rendering.renderer(loaded, number, version_id, one.params),
        )
    moment = Moment(now, loaded.policies, lambda: str(ids()))
    settled(record, moment)
    return loaded


def title_of(template: str, params: Mapping[str, Any]) -> str:
    title: str = projection(render_text(template, {"params": params}))
    return title


def row_of(one: NewOperation, loaded: Loaded) -> Row:
    """What is written of the record as it came to rest."""
    changed, params = Changed(loaded, loaded.record), canonical_json(one.params)
    holds = [hold_row(changed, hold) for hold in loaded.record.holds]
    digest = operation_digest(loaded.workflow_slug, params, content_part_of(one))
    return Row(
        id=loaded.id,
        state=loaded.record.state,
        common=common_of(one, loaded),
        operation_id=one.operation_id,
        title=loaded.title,
        digest=digest,
        owner_id=one.owner_id,
        event_id=one.event_id,
        replaces=one.replaces,
        params=params,
        line=first_line(one, loaded.record, digest.hex(), {**told_of(holds), **facts_told(holds)}),
        steps=tuple(_new_step(loaded, step) for step in loaded.record.steps),
        holds=tuple(holds),
    )


def first_line(
    one: NewOperation,
    record: Operation,
    digest: str,
    given: Mapping[str, Any] | None = None,
    *,
    named: Mapping[str, str] | None = None,
) -> str:
    """The body of the journal's first line. `given`: which rules gave its holds to whom.

    `named` stands in for the event and the operation that it names.
    """
    shown = (
        {"content": str(one.content.id), "content_named": one.content.named}
        if one.content is not None
        else {}
    )
    workflow = definitions.workflow(one.workflow_version_id)
    facts = {
        "digest": digest,
        "workflow": workflow.slug,
        **shown,
        **(named_by(one) if named is None else named),
    }
    return body({**facts, **(given or {}), **opened(record)})


def named_by(one: NewOperation) -> dict[str, str]:
    """The event that it was recorded for and the operation that it replaces, where there are any."""
    others = {"event": one.event_id, "replaces": one.replaces}
    return {name: str(other) for name, other in others.items() if other is not None}


def content_part_of(one: NewOperation) -> bytes:
    return content_part(one.content.content_id, one.content.digest) if one.content else b""


def common_of(
    one: NewOperation, loaded: Loaded, *, written: Callable[[datetime], str] = datetime.isoformat
) -> str:
    """`written` stands in for how times are written."""

    def at(time: datetime | None) -> str | None:
        return None if time is None else written(time)

    common = {
        "team_id": str(one.team_id),
        "workflow_version_id": str(one.workflow_version_id),
        "workflow_slug": loaded.workflow_slug,
        "state": loaded.record.state,
        "content_id": str(one.content.id) if one.content else None,
        "not_after": at(one.not_after),
        "created_at": at(loaded.record.created_at),
        "step_count": len(loaded.record.steps),
        "actor": one.actor,
        "steps": [
            _common_step(one, step) | {"ready_at": at(step.ready_at), "act_at": at(step.act_at)}
            for step in loaded.record.steps
        ],
    }
    return json.dumps(common)


def _common_step(one: NewOperation, step: Step) -> dict[str, Any]:
    """What a step that has just come to rest can say; everything else of its row is as for every new step."""
    words = definitions.workflow(one.workflow_version_id).steps[step.number - 1]
    definition_id, version_id = one.destinations[step.number]
    limits = definitions.limits_of(one.workflow_version_id, step.number, version_id)
    return {
        "number": step.number,
        "name": step.name,
        "title": words.title,
        "destination_id": str(definition_id),
        "destination_version_id": str(version_id),
        "destination_slug": step.destination,
        "action": step.action,
        "performer": step.performer,
        "state": step.state,
        "approval_needed": step.approval_needed,
        "content_number": step.content_number,
        "act": step.act,
        **limits._asdict(),
    }


def _new_step(loaded: Loaded, step: Step) -> NewStep:
    request = loaded.renderings[step.number] if step.request_digest is not None else None
    return NewStep(loaded.step_ids[step.number], step.number, loaded.identities[step.number], request)


def _headers_text(headers: Sequence[tuple[str, str]]) -> str:
    """As json.dumps writes them, in less than half the time."""
    pairs = [
        f"[{encode_basestring_ascii(name)}, {encode_basestring_ascii(value)}]" for name, value in headers
    ]
    return f"[{', '.join(pairs)}]"


def columns_of(rows: Sequence[Row]) -> dict[str, Any]:
    """What `open_operations.sql` takes: a column for each own value of operations, and of steps with their requests."""
    moulds = {
        text: number for number, text in enumerate(dict.fromkeys([row.common for row in rows]), start=1)
    }
    steps = [step for row in rows for step in row.steps]
    outgoing = [step.request for step in steps]
    requests = [one.request if one else None for one in outgoing]
    return {
        "moulds": f"[{','.join(moulds)}]",
        "ids": Uuids([row.id for row in rows]),
        "id_moulds": Smallints([moulds[row.common] for row in rows]),
        "operation_ids": Texts([row.operation_id for row in rows]),
        "titles": Texts([row.title for row in rows]),
        "digests": Byteas([row.digest for row in rows]),
        "owners": Uuids([row.owner_id for row in rows]),
        "events": Uuids([row.event_id for row in rows]),
        "replaced": Uuids([row.replaces for row in rows]),
        "params": Texts([row.params for row in rows]),
        "lines": Texts([row.line for row in rows]),
        "step_ids": Uuids([step.id for step in steps]),
        "step_operations": Uuids([row.id for row in rows for _ in row.steps]),
        "step_moulds": Smallints([moulds[row.common] for row in rows for _ in row.steps]),
        "numbers": Smallints([step.number for step in steps]),
        "identities": Texts([step.identity for step in steps]),
        "methods": Texts([one.method if one else None for one in requests]),
        "urls": Texts([one.url if one else None for one in requests]),
        "headers": Texts([_headers_text(one.headers) if one else None for one in requests]),
        "bodies": Byteas([one.body if one else None for one in requests]),
        "keys": Texts([one.key if one else None for one in outgoing]),
        "request_digests": Texts([one.digest if one else None for one in requests]),
        "content_digests": Texts([one.content_digest if one else None for one in requests]),
    }

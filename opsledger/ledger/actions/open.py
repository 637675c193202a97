"""Opening operations: one statement for any number of them, with the unique constraint as referee.

1. The record is built and brought to rest by the rules: first step ready, its request rendered.
2. INSERT … ON CONFLICT DO NOTHING writes operation, parameters, steps, requests, holds and the journal's first line.
3. What came back was new. The others are compared in a second statement (in the same one the loser would see nothing):
   the same digest is the same operation again, another one is a conflict that names the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from opsledger.journal.append import Line, append, body
from opsledger.ledger import definitions, rendering
from opsledger.ledger.actions.change import Changed, _time, hold_row, name_unapprovable
from opsledger.ledger.assignment import told_of
from opsledger.ledger.clock import lately_now
from opsledger.ledger.records import Loaded, lock
from opsledger.ledger.sql import statement
from opsledger.lib.ids import new_id
from opsledger.lib.strict_json import projection
from opsledger.rules.content import content_part
from opsledger.rules.fold import opened
from opsledger.rules.identity import canonical_json, operation_digest, step_identity
from opsledger.rules.next_step import Policy
from opsledger.rules.record import Operation, Step
from opsledger.rules.rendering import render_text
from opsledger.rules.settling import Moment, settled


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


@dataclass(frozen=True, slots=True)
class NewOperation:
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


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of one: `new`, `same` again, or a conflict in `differs`."""

    id: UUID
    state: str
    new: bool
    differs: tuple[str, ...] = ()


def open_operations(wanted: Sequence[NewOperation]) -> list[Opened]:
    """Records intended operations. In order, one answer each; a conflict spoils no other. Call it outside transactions.

    Everything of an operation is written by one statement, which is a transaction of its own. Only links to events need
    a second one that commits with it.
    """
    if not any(one.event_id for one in wanted):
        return open_operations_here(wanted)
    with transaction.atomic(durable=True):
        return open_operations_here(wanted)


def open_operations_here(wanted: Sequence[NewOperation]) -> list[Opened]:
    """The same inside a transaction that the caller has opened (an event and its operation commit together)."""
    now = lately_now()
    loaded = [_build(one, now) for one in wanted]
    name_unapprovable(
        [Changed(one, one.record) for one in loaded],
        recorders={one.id: new.actor for one, new in zip(loaded, wanted, strict=True)},
    )
    built = [(one, _row(new, one)) for one, new in zip(loaded, wanted, strict=True)]
    new: set[UUID] = set()
    if built:
        with connection.cursor() as cursor:
            cursor.execute(statement("open_operations"), [json.dumps([row for _, row in built])])
            new = {row[0] for row in cursor.fetchall()}
    answers = [Opened(one.id, one.record.state, True) if one.id in new else None for one in loaded]
    again = [index for index, answer in enumerate(answers) if answer is None]
    known = _known([wanted[index] for index in again])
    for index in again:
        answers[index] = _compare(wanted[index], built[index][1], known)
    _add_events(wanted, answers)
    return [answer for answer in answers if answer is not None]


def _build(one: NewOperation, now: datetime) -> Loaded:
    workflow = definitions.workflow(one.workflow_version_id)
    operation_uuid = new_id()
    record = Operation(str(operation_uuid), now, [], not_after=one.not_after)
    title = projection(render_text(workflow.title, {"params": one.params}))
    loaded = Loaded(
        operation_uuid, one.team_id, one.operation_id, title, 1, one.owner_id,
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
        loaded.step_ids[number], loaded.destination_ids[number] = new_id(), definition_id
        loaded.identities[number] = step_identity(one.team_id.bytes, one.operation_id, words.name)
        loaded.policies[number] = Policy(
            profile=definitions.destination(version_id).actions[words.action].profile,
            accepted_is_enough=words.accepted_is_enough,
            continues_after_failure=words.continues_after_failure,
            render=rendering.renderer(loaded, number, version_id, one.params),
        )
    moment = Moment(now, loaded.policies, lambda: str(new_id()))
    settled(record, moment)
    return loaded


def _row(one: NewOperation, loaded: Loaded) -> dict[str, Any]:
    workflow = definitions.workflow(one.workflow_version_id)
    params = canonical_json(one.params)
    digest = operation_digest(workflow.slug, params, _content_part(one))
    changed = Changed(loaded, loaded.record)
    holds = [hold_row(changed, hold) for hold in loaded.record.holds]
    facts = {
        "digest": digest.hex(),
        "workflow": workflow.slug,
        **_content_facts(one),
        **told_of(holds),
        **opened(loaded.record),
    }
    return {
        "id": str(loaded.id),
        "team_id": str(one.team_id),
        "operation_id": one.operation_id,
        "title": loaded.title,
        "created_at": loaded.record.created_at.isoformat(),
        "workflow_version_id": str(one.workflow_version_id),
        "workflow_slug": workflow.slug,
        "digest": digest.hex(),
        "state": loaded.record.state,
        "owner_id": str(one.owner_id) if one.owner_id else None,
        "content_id": str(one.content.id) if one.content else None,
        "first_event_id": str(one.event_id) if one.event_id else None,
        "replaces_id": str(one.replaces) if one.replaces else None,
        "not_after": one.not_after.isoformat() if one.not_after else None,
        "step_count": len(loaded.record.steps),
        "params": params,
        "actor": one.actor,
        "body": body(facts),
        "steps": [_new_step(one, changed, step) for step in loaded.record.steps],
        "requests": [
            {"step_id": str(loaded.step_ids[number]), "revision": 1, **outgoing.row()}
            for number, outgoing in loaded.renderings.items()
            if loaded.record.step(number).request_digest is not None  # else it waits for its approval
        ],
        "holds": holds,
    }


def _content_part(one: NewOperation) -> bytes:
    return content_part(one.content.content_id, one.content.digest) if one.content else b""


def _content_facts(one: NewOperation) -> dict[str, Any]:
    if one.content is None:
        return {}
    return {"content": str(one.content.id), "content_named": one.content.named}


def _new_step(one: NewOperation, changed: Changed, step: Step) -> dict[str, Any]:
    """What a step that has just come to rest can say; everything else of its row is as for every new step."""
    words = definitions.workflow(one.workflow_version_id).steps[step.number - 1]
    definition_id, version_id = one.destinations[step.number]
    profile = definitions.destination(version_id).actions[step.action].profile
    by_automation = step.performer.value == "automation"
    return {
        "id": str(changed.loaded.step_ids[step.number]),
        "number": step.number,
        "name": step.name,
        "identity": changed.loaded.identities[step.number],
        "title": words.title,
        "destination_id": str(definition_id),
        "destination_version_id": str(version_id),
        "destination_slug": step.destination,
        "action": step.action,
        "performer": step.performer,
        "state": step.state,
        "request_digest": step.request_digest,
        "ready_at": _time(step.ready_at),
        "approval_needed": step.approval_needed,
        "content_number": step.content_number,
        "act": step.act,
        "act_at": _time(step.act_at),
        "tries_max": profile.retries.tries_max,
        "lease_seconds": words.lease_seconds if by_automation else profile.timing.lease_seconds,
        "total_seconds": profile.timing.total_seconds,
    }


def _known(again: Sequence[NewOperation]) -> dict[tuple[UUID, str], Any]:
    if not again:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.team_id, o.operation_id, o.id, o.state, o.digest, o.workflow_slug, p.params"
            " FROM ledger_operation o JOIN ledger_operationparams p ON p.operation_id = o.id"
            " JOIN unnest(%s::uuid[], %s::text[]) AS w(team_id, operation_id)"
            " ON w.team_id = o.team_id AND w.operation_id = o.operation_id",
            [[one.team_id for one in again], [one.operation_id for one in again]],
        )
        return {(row[0], row[1]): row[2:] for row in cursor.fetchall()}


def _compare(one: NewOperation, row: Mapping[str, Any], known: Mapping[tuple[UUID, str], Any]) -> Opened:
    found_id, state, digest, workflow_slug, params = known[(one.team_id, one.operation_id)]
    if bytes(digest).hex() == row["digest"]:
        return Opened(found_id, state, False)
    differs = [] if workflow_slug == row["workflow_slug"] else ["workflow"]
    if operation_digest(workflow_slug, params, _content_part(one)) != bytes(digest):
        differs.append("content")
    ours, theirs = rendering.read_params(params), rendering.read_params(row["params"])
    differs += [
        f"params.{name}"
        for name in sorted({*ours, *theirs})
        if _written(ours, name) != _written(theirs, name)
    ]
    return Opened(found_id, state, False, tuple(differs) or ("params",))


def _written(params: Mapping[str, Any], name: str) -> str | None:
    """A parameter as it is written: 1.10 and 1.1 are equal numbers, and two texts."""
    return canonical_json(params[name]) if name in params else None


def _add_events(wanted: Sequence[NewOperation], answers: Sequence[Opened | None]) -> None:
    """Links each event to its operation; another event of the same action is added without a conflict."""
    links = [
        (answer, one)
        for one, answer in zip(wanted, answers, strict=True)
        if answer is not None and one.event_id is not None and not answer.differs
    ]
    if not links:
        return
    lock(answer.id for answer, _ in links)  # in the order of their ids, as every writer does
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH linked AS (INSERT INTO ledger_operationevent (operation_id, event_id, added_at)"
            " SELECT o, e, now() FROM unnest(%s::uuid[], %s::uuid[]) AS w(o, e)"
            " ON CONFLICT (operation_id, event_id) DO NOTHING RETURNING operation_id, event_id)"
            " UPDATE ledger_operation o SET event_count = event_count + 1, updated_at = now()"
            " FROM linked WHERE o.id = linked.operation_id RETURNING linked.operation_id, linked.event_id",
            [[answer.id for answer, _ in links], [one.event_id for _, one in links]],
        )
        added = set(cursor.fetchall())
    append(
        Line("operation", answer.id, "event_added", one.actor, body({"event": str(one.event_id)}))
        for answer, one in links
        if (answer.id, one.event_id) in added and not answer.new
    )

"""Proving what an operation was recorded with: its first line names it or has its digest, and it is the same still.

One query for the operations of a batch, and one for their steps with the request that each would send.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from opsledger.journal.verify import EntryRow
from opsledger.ledger import definitions
from opsledger.ledger.records import Loaded
from opsledger.lib.named_rows import named_rows
from opsledger.rules.content import content_part
from opsledger.rules.identity import operation_digest, step_identity
from opsledger.rules.rendering import request_digest
from opsledger.rules.states import StepState

_OPERATIONS = """
SELECT o.id, o.team_id, o.operation_id, o.workflow_slug, o.digest, o.first_event_id, o.content_id, o.replaces_id,
       o.created_at, o.step_count, o.attempt_count, o.confirmed_count, o.event_count, p.params,
       d.team_id AS workflow_team_id, d.kind AS workflow_kind, d.slug AS workflow,
       CASE WHEN o.event_count > 0 OR o.first_event_id IS NOT NULL
            THEN ARRAY(SELECT event_id FROM ledger_operationevent e WHERE e.operation_id = o.id) END AS events
  FROM ledger_operation o
  LEFT JOIN ledger_operationparams p ON p.operation_id = o.id
  LEFT JOIN ledger_definitionversion v ON v.id = o.workflow_version_id
  LEFT JOIN ledger_definition d ON d.id = v.definition_id
 WHERE o.id = ANY(%s::uuid[])
"""
_STEPS = """
SELECT s.operation_id, s.number, s.team_id, s.name, s.identity, s.destination_id, s.destination_version_id,
       s.destination_slug, s.action, s.performer, s.attempt_count, s.tries_used, s.tries_max, s.total_seconds,
       s.request_digest,
       d.team_id AS destination_team_id, d.kind AS destination_kind, d.slug AS destination, v.definition_id AS version_of,
       EXISTS (SELECT 1 FROM ledger_attempt a WHERE a.step_id = s.id AND a.operation_id <> s.operation_id) AS strays,
       q.digest AS frozen_digest, q.method, q.url, q.headers, q.body
  FROM ledger_step s
  LEFT JOIN ledger_definition d ON d.id = s.destination_id
  LEFT JOIN ledger_definitionversion v ON v.id = s.destination_version_id
  LEFT JOIN ledger_steprequest q ON q.step_id = s.id AND q.revision = s.revision
 WHERE s.operation_id = ANY(%s::uuid[]) ORDER BY s.operation_id, s.number
"""
_CONTENTS = """
SELECT v.of_id, v.number, c.content_id, v.digest
  FROM ledger_contentversion v JOIN ledger_content c ON c.id = v.of_id
  JOIN unnest(%s::uuid[], %s::int[]) AS w(of_id, number) ON w.of_id = v.of_id AND w.number = v.number
"""
# Since when first lines name the event that an operation was recorded for and the operation that it replaces, and since when
# steps keep their identity: rows from before have neither.
_SINCE = """
SELECT min(applied) FILTER (WHERE name LIKE '%%what\\_never\\_changes') AS naming,
       min(applied) FILTER (WHERE name LIKE '%%step\\_identities') AS identities
  FROM django_migrations WHERE app = 'ledger'
"""


@dataclass(slots=True)
class Recorded:
    """The rows of one operation, as they are compared with its journal."""

    operation: Any
    steps: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Batch:
    recorded: Mapping[UUID, Recorded]
    contents: Mapping[tuple[str, int], bytes]  # the part of an operation's digest, by content and version
    since: Any  # times, where something is missing that older rows don't have


def read(told: Mapping[UUID, Sequence[Mapping[str, Any]]]) -> Batch:
    """`told`: the bodies of each operation's lines."""
    ids = list(told)
    recorded = {row.id: Recorded(row) for row in named_rows(_OPERATIONS, [ids])}
    for row in named_rows(_STEPS, [ids]):
        if row.operation_id in recorded:
            recorded[row.operation_id].steps.append(row)
    return Batch(recorded, _contents(told), _since(recorded.values(), told))


def _contents(told: Mapping[UUID, Sequence[Mapping[str, Any]]]) -> dict[tuple[str, int], bytes]:
    named = {
        (lines[0]["content"], lines[0]["content_named"]) for lines in told.values() if "content" in lines[0]
    }
    if not named:
        return {}
    rows = named_rows(_CONTENTS, [[UUID(one) for one, _ in named], [number for _, number in named]])
    return {(str(row.of_id), row.number): content_part(row.content_id, bytes(row.digest)) for row in rows}


def _since(recorded: Iterable[Recorded], told: Mapping[UUID, Sequence[Mapping[str, Any]]]) -> Any:
    silent = any(
        (row.first_event_id and "event" not in told[row.id][0])
        or (row.replaces_id and "replaces" not in told[row.id][0])
        or any(step.identity is None for step in one.steps)
        for one in recorded
        for row in (one.operation,)
    )
    return named_rows(_SINCE, [])[0] if silent else None


def _is_older(at: datetime, since: datetime | None) -> bool:
    return since is not None and at < since


def difference(
    batch: Batch, loaded: Loaded, lines: Sequence[EntryRow], told: Sequence[Mapping[str, Any]]
) -> str:
    """The first thing that the rows say and the journal doesn't, as a sentence; "" when there is none.

    `told`: the bodies of `lines`.
    """
    one = batch.recorded.get(loaded.id)
    if one is None:
        return "its row is missing"
    at, since = lines[0].at, batch.since
    naming = since is None or not _is_older(at, since.naming)
    identified = since is None or not _is_older(at, since.identities)
    added = {body["event"] for line, body in zip(lines, told, strict=True) if line.kind == "event_added"}
    checks = (
        _of_workflow(one, loaded, told[0]),
        _of_params(batch, one.operation, told[0]),
        _of_others(one.operation, told, added, naming=naming),
        _of_counts(one, loaded),
        (why for step in one.steps for why in _of_step(step, one.operation, told[0], identified=identified)),
    )
    return next((why for check in checks for why in check), "")


def _of_workflow(one: Recorded, loaded: Loaded, first: Mapping[str, Any]) -> Iterator[str]:
    row = one.operation
    if not row.workflow_slug == row.workflow == first["workflow"] or row.workflow_kind != "workflow":
        yield f"its workflow is not {first['workflow']}, with which it was recorded"
    elif row.workflow_team_id != row.team_id:
        yield "its workflow is another team's"
    else:
        steps = definitions.workflow(loaded.workflow_version_id).steps
        wanted = [(step.name, step.destination, step.action, step.performer) for step in steps]
        if wanted != [(step.name, step.destination_slug, step.action, step.performer) for step in one.steps]:
            yield "its steps are not those of its workflow's version"
    if row.created_at != datetime.fromisoformat(first["created_at"]):
        yield "it was recorded at another time than its journal says"


def _of_params(batch: Batch, row: Any, first: Mapping[str, Any]) -> Iterator[str]:
    part = b""
    if "content" in first:
        part = batch.contents.get((first["content"], first["content_named"]), b"the version is missing")
    if row.params is None:
        yield "its parameters are missing"
    elif operation_digest(row.workflow_slug, row.params, part).hex() != first["digest"]:
        yield "its parameters or its content are not those that it was recorded with"
    if bytes(row.digest).hex() != first["digest"]:
        yield "its digest is not the one that it was recorded with"


def _of_others(
    row: Any, told: Sequence[Mapping[str, Any]], added: set[str], *, naming: bool
) -> Iterator[str]:
    """What it names: the operation that it replaces, its events, its content. `naming`: its first line does."""
    first = told[0]
    names = {"replaces": row.replaces_id, "event": row.first_event_id}
    words = {"replaces": "the operation that it replaces", "event": "its first event"}
    for name, there in names.items():
        if (str(there) if there else None) != first.get(name) and (name in first or naming):
            yield f"{words[name]} is not as its journal says"
    events = sorted(map(str, row.events or ()))
    if events != sorted(added | ({str(row.first_event_id)} if row.first_event_id else set())):
        yield "its events are not those of its journal"
    if row.event_count != len(events):
        yield f"it counts {row.event_count} events, and has {len(events)}"
    content = next((line["content"] for line in told if isinstance(line.get("content"), str)), None)
    if (str(row.content_id) if row.content_id else None) != content:
        yield "its content is not as its journal says"


def _of_counts(one: Recorded, loaded: Loaded) -> Iterator[str]:
    row, steps = one.operation, loaded.record.steps
    counted = (
        ("steps", row.step_count, len(steps)),
        ("attempts", row.attempt_count, sum(len(step.attempts) for step in steps)),
        ("confirmed steps", row.confirmed_count, sum(step.state is StepState.CONFIRMED for step in steps)),
    )
    for words, says, has in counted:
        if says != has:
            yield f"it counts {says} {words}, and has {has}"
    for step, known in zip(one.steps, steps, strict=False):
        if (step.attempt_count, step.tries_used) != (len(known.attempts), known.tries_used):
            yield f"step {step.number} counts other attempts than it has"


def _of_step(step: Any, row: Any, first: Mapping[str, Any], *, identified: bool) -> Iterator[str]:
    told = first["steps"].get(str(step.number), {})
    fixed = (step.name, step.destination_slug, step.action, step.performer)
    if fixed != (told.get("name"), told.get("destination"), told.get("action"), told.get("performer")):
        yield f"step {step.number} is not as it was recorded"
    identity = step_identity(row.team_id.bytes, row.operation_id, step.name)
    if step.identity != identity and (step.identity is not None or identified):
        yield f"step {step.number} does not carry the identity of its operation"
    if step.team_id != row.team_id:
        yield f"step {step.number} is another team's"
    if step.strays:
        yield f"an attempt of step {step.number} is another operation's"
    yield from _of_definition(step, row)
    yield from _of_request(step)


def _of_definition(step: Any, row: Any) -> Iterator[str]:
    known = (step.destination_kind, step.destination, step.destination_team_id, step.version_of)
    if known != ("destination", step.destination_slug, row.team_id, step.destination_id):
        yield f"step {step.number} names another destination than it was recorded with"
        return
    profile = definitions.destination(step.destination_version_id).actions[step.action].profile
    if (step.tries_max, step.total_seconds) != (profile.retries.tries_max, profile.timing.total_seconds):
        yield f"step {step.number} has other limits than its definition"


def _of_request(step: Any) -> Iterator[str]:
    """The frozen request, byte for byte; one that is not rendered yet has none."""
    if step.frozen_digest != step.request_digest:
        yield f"the request of step {step.number} is not the one that was frozen"
    elif step.frozen_digest is not None:
        made = request_digest(step.method, step.url, json.loads(step.headers), bytes(step.body))
        if made != step.frozen_digest:
            yield f"the request of step {step.number} is not what its digest was made from"

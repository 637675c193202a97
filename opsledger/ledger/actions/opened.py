"""What becomes of an intended operation: new, the same one again, or another action under a taken id.

The same one again has the same digest over workflow, parameters and content. Of what is told besides:

- `replaces` is a promise about another operation; told otherwise than it is recorded, it is a conflict;
- owner and `not_after` stand as they are recorded, and the answer says so. A caller who reckons `not_after` anew for each
  try tells of the same action, and people may have given it to another owner meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from opsledger.ledger import rendering
from opsledger.ledger.actions.new_operations import NewOperation, content_part_of
from opsledger.ledger.definitions import workflow
from opsledger.rules.identity import canonical_json, operation_digest
from opsledger.rules.reading import can_be_kept


class Opened(NamedTuple):
    """What became of one: `new`, the same one again, or a conflict in `differs`."""

    id: UUID
    state: str
    new: bool
    differs: tuple[str, ...] = ()
    stands: tuple[str, ...] = ()  # told otherwise this time; as it was recorded, it stands


class Known(NamedTuple):
    """An operation as it is recorded: all that telling it again is compared with."""

    id: UUID
    state: str
    digest: bytes
    workflow_slug: str
    workflow_version_id: UUID
    params: str
    replaces: UUID | None
    owner_id: UUID | None
    not_after: datetime | None


_KNOWN = """
SELECT o.team_id, o.operation_id, o.id, o.state, o.digest, o.workflow_slug, o.workflow_version_id, p.params, o.replaces_id,
       o.owner_id, o.not_after
  FROM unnest(%s::uuid[], %s::text[]) AS w(team_id, operation_id)
  JOIN ledger_operation o ON o.team_id = w.team_id AND o.operation_id = w.operation_id
  JOIN ledger_operationparams p ON p.operation_id = o.id
"""


def known_of(names: Iterable[tuple[UUID, str]]) -> dict[tuple[UUID, str], Known]:
    """The operations that are recorded under these ids of these teams, in one statement; none for no names."""
    wanted = sorted({(team_id, own) for team_id, own in names if can_be_kept(own)})
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN, [[team_id for team_id, _ in wanted], [own for _, own in wanted]])
        return {(row[0], row[1]): Known(row[2], row[3], bytes(row[4]), *row[5:]) for row in cursor.fetchall()}


def digest_of(one: NewOperation) -> bytes:
    return operation_digest(
        workflow(one.workflow_version_id).slug, canonical_json(one.params), content_part_of(one)
    )


def known_as(one: NewOperation, number: UUID) -> Known:
    """What will be recorded of it, for what is told again beside it."""
    slug, params = workflow(one.workflow_version_id).slug, canonical_json(one.params)
    return Known(
        number, "", digest_of(one), slug, one.workflow_version_id, params, one.replaces, one.owner_id, one.not_after
    )  # fmt: skip


def compare(one: NewOperation, known: Known, digest: bytes | None = None) -> Opened:
    """The recorded one, with what is told otherwise now. `digest`: of what is told, where it is known already."""
    differs = [] if (digest or digest_of(one)) == known.digest else _differing(one, known)
    if one.replaces is not None and one.replaces != known.replaces:
        differs.append("replaces")
    if differs:
        return Opened(known.id, known.state, False, tuple(differs))
    stands = [
        name
        for name, told, recorded in (
            ("owner", one.owner_id, known.owner_id),
            ("not_after", one.not_after, known.not_after),
        )
        if told is not None and told != recorded
    ]
    return Opened(known.id, known.state, False, stands=tuple(stands))


def _differing(one: NewOperation, known: Known) -> list[str]:
    differs = [] if known.workflow_slug == workflow(one.workflow_version_id).slug else ["workflow"]
    if operation_digest(known.workflow_slug, known.params, content_part_of(one)) != known.digest:
        differs.append("content")
    ours = rendering.read_params(known.params)
    theirs = rendering.read_params(canonical_json(one.params))
    differs += [
        f"params.{name}"
        for name in sorted({*ours, *theirs})
        if _written(ours, name) != _written(theirs, name)
    ]
    return differs or ["params"]


def _written(params: Mapping[str, Any], name: str) -> str | None:
    """A parameter as it is written: 1.10 and 1.1 are equal numbers, and two texts."""
    return canonical_json(params[name]) if name in params else None

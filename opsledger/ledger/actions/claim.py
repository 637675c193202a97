"""Claims: one statement each, at most one step per operation; the rows that come back are the answer, none is ordinary."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection, transaction
from psycopg import Cursor
from psycopg.rows import RowFactory, class_row

from opsledger.ledger.actions.stops import CLAIM
from opsledger.ledger.sql import statement

log = logging.getLogger(__name__)

TRIAL_EVERY_SECONDS = 30.0


class Plain(NamedTuple):
    """An operation as its claim left it, to which nothing out of the ordinary has happened so far: each earlier step was
    confirmed by its only attempt, later ones wait, nobody was asked about anything. As long as it has this version, it is
    what is said here. Lists are in the order of the steps."""

    version: int
    team_id: UUID
    operation_id: str  # the caller's own
    workflow_version_id: UUID
    params: str | None  # None where no step follows
    step_ids: list[str]
    destination_version_ids: list[UUID]
    identities: list[str | None]  # as stored (rendering.identity_of)
    references: list[str | None]


class ClaimedSend(NamedTuple):
    """An attempt that is committed, with the exact bytes to send once, before `lease_ends_at`."""

    attempt_id: UUID
    attempt_number: int
    opened_at: datetime
    lease_ends_at: datetime
    step_id: UUID
    step_number: int
    revision: int
    operation_id: UUID
    destination_id: UUID
    destination_version_id: UUID
    action: str
    destination_slug: str
    request_digest: str  # as frozen on the step
    approval_needed: bool
    approved_digest: str | None  # of the request with the key left out, as a person approved it
    send_until: datetime | None  # a send that begins later would be unprotected, or too late
    method: str
    url: str
    headers: str
    body: bytes
    idempotency_key: str
    digest: str  # of the request's row; compared again with the bytes at the moment of sending
    destination_failing: bool  # its last sends were not answered; a good reply is news
    newest_version_id: UUID  # of its destination's definition, when it was claimed
    plain: Plain | None = None  # None where something out of the ordinary has happened to the operation


@dataclass(frozen=True, slots=True)
class ClaimedLook:
    """A lookup to make now."""

    step_id: UUID
    operation_id: UUID
    step_number: int
    state: str
    reference: str | None
    destination_id: UUID
    destination_version_id: UUID
    action: str
    destination_slug: str
    identity: str | None  # as stored (rendering.identity_of)
    method: str | None
    url: str | None
    headers: str | None
    body: bytes | None
    idempotency_key: str | None
    team_id: UUID
    params: str
    asked_at: datetime  # before the destination is asked
    revised: str | None  # parameters that the present revision changed
    # a reference under which an unsettled attempt's record was found, or named by the destination
    hint: str | None


_GIVE_BACK = """
WITH locked AS MATERIALIZED (
    SELECT definition_id FROM ledger_destination WHERE definition_id = ANY(%s) ORDER BY definition_id FOR NO KEY UPDATE
)
UPDATE ledger_destination d SET send_tokens = d.send_tokens + x.count
  FROM locked JOIN unnest(%s::uuid[], %s::int[]) AS x(id, count) ON x.id = locked.definition_id
 WHERE d.definition_id = locked.definition_id
"""


def claim_sends(
    limit: int, *, worker: str, trial_every_seconds: float = TRIAL_EVERY_SECONDS
) -> list[ClaimedSend]:
    """Opens at most `limit` attempts. They are committed when this returns: only then may a byte leave (law 1).

    1. Room is taken at the destinations that have something due and may be sent to.
    2. The attempts are opened. What was stopped in between is left alone, however long this was held up.
    3. Room that was not used is given back.
    """
    room = _take_room(limit, trial_every_seconds) if limit > 0 else {}
    if not room:
        return []
    rows: list[ClaimedSend] = []
    try:
        rows = _open_attempts(room, limit, worker)
    finally:
        _give_back(room, rows)
    return rows


def _open_attempts(room: Mapping[UUID, _Room], limit: int, worker: str) -> list[ClaimedSend]:
    """In one transaction and one round trip: the claims' lock, then the claim. It is committed when this returns."""
    connection.ensure_connection()
    with _of_its_own(), connection.wrap_database_errors, connection.connection.pipeline():
        connection.connection.execute(CLAIM)
        return _fetch(_claimed_sends, "claim_sends", _asked(room, limit, worker))


def _asked(room: Mapping[UUID, _Room], limit: int, worker: str) -> dict[str, str]:
    document = {
        "most": limit,
        "worker": worker,
        "actor": f"worker:{worker}",
        "room": [
            {
                "destination_id": str(one),
                "count": given.count,
                "failing": given.failing,
                "trial_at": given.trial_at and given.trial_at.isoformat(),
            }
            for one, given in room.items()
        ],
    }
    return {"asked": json.dumps(document)}


def _claimed_sends(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], ClaimedSend]:
    """Makes rows into claims. Their columns stand in the order of the fields, those of `plain` last."""
    return _claimed_send


def _claimed_send(values: Sequence[Any]) -> ClaimedSend:
    plain = Plain._make(values[-_OF_PLAIN:])
    return ClaimedSend._make((*values[:-_OF_PLAIN], plain if plain.version is not None else None))


_OF_PLAIN = len(Plain._fields)


@dataclass(frozen=True, slots=True)
class _Room:
    count: int
    failing: bool
    trial_at: datetime | None  # the circuit is open, and this is the trial that it has


def _take_room(limit: int, trial_every_seconds: float) -> dict[UUID, _Room]:
    """How many sends each destination may be given now, by its rate and its limit in flight."""
    with connection.cursor() as cursor:
        cursor.execute(statement("claim_room"), {"limit": limit, "trial_every_seconds": trial_every_seconds})
        return {row[0]: _Room(row[1], row[2], row[3]) for row in cursor.fetchall()}


def _give_back(room: dict[UUID, _Room], rows: list[ClaimedSend]) -> None:
    """Room that was not used. Never raises: the attempts are committed by now, and a bucket fills again by itself."""
    unused = {destination_id: given.count for destination_id, given in room.items()}
    for row in rows:
        unused[row.destination_id] -= 1
    given = {destination_id: count for destination_id, count in sorted(unused.items()) if count > 0}
    if not given:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(_GIVE_BACK, [list(given), list(given), list(given.values())])
    except (DatabaseError, InterfaceError) as why:
        connection.close()
        log.warning("unused room was not given back (%s)", type(why).__name__)


def claim_looks(
    limit: int, *, each: int | None = None, busy: Mapping[UUID, int] | None = None
) -> list[ClaimedLook]:
    """At most `limit` lookups that are due. A lookup whose worker dies is due again when its lease has ended.

    `each`: the most of one destination, less those that the caller has in hand already (`busy`); `limit` when absent. The
    destinations take turns, the one that waits longest first.
    """
    if limit < 1:
        return []
    with _of_its_own():
        in_hand = json.dumps({str(destination_id): count for destination_id, count in (busy or {}).items()})
        asked = {"limit": limit, "each": limit if each is None else each, "busy": in_hand}
        return _fetch(class_row(ClaimedLook), "claim_looks", asked)


def _of_its_own() -> AbstractContextManager[object]:
    """For one statement, which is a transaction by itself, and committed when it has returned. Inside another one it is
    refused, as `durable` says."""
    return transaction.atomic(durable=True) if connection.in_atomic_block else nullcontext()


def _fetch(rows: RowFactory[Any], name: str, parameters: dict[str, Any]) -> list[Any]:
    connection.ensure_connection()
    with (
        connection.wrap_database_errors,  # a lost connection looks as it does elsewhere, and is noticed
        connection.connection.cursor(row_factory=rows, binary=True) as cursor,
    ):
        return list(cursor.execute(statement(name), parameters).fetchall())

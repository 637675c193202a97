"""Binding a step anew: what its row takes from a newer definition of its destination is what one recorded now would have."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from opsledger.ledger import definitions

_BIND = """
UPDATE ledger_step SET destination_version_id = %s, tries_max = %s, lease_seconds = %s, total_seconds = %s
 WHERE id = %s AND request_digest IS NULL AND attempt_count = 0
"""


def bind(step_id: UUID, number: int, workflow_version_id: UUID, version_id: UUID) -> bool:
    """False where its request is frozen by now. Called under the operation's lock, before its record is read.

    Content and approvals stay as they were recorded: a version that asks for others is not offered (`newer_version`).
    """
    limits = definitions.limits_of(workflow_version_id, number, version_id)
    with connection.cursor() as cursor:
        cursor.execute(_BIND, [version_id, *limits, step_id])
        return bool(cursor.rowcount)

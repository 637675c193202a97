"""Changes that nobody may make: rows changed with triggers off, as a superuser can."""

from __future__ import annotations

from uuid import UUID

import psycopg

from opsledger.local.postgres import Urls


def change_by_hand(urls: Urls, statement: str, *values: object) -> int:
    """Runs the statement with triggers and foreign keys off; constraints and unique indexes still refuse. Rows changed."""
    with psycopg.connect(urls.superuser, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        return superuser.execute(statement, values or None).rowcount


def replaced_by_hand(urls: Urls, operation_id: UUID, replaces: UUID) -> None:
    """As if the operation had been recorded in the place of another one, whatever has become of that."""
    change_by_hand(urls, "UPDATE ledger_operation SET replaces_id = %s WHERE id = %s", replaces, operation_id)

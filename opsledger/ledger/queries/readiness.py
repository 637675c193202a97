"""Whether work can go on, and the few numbers that a monitor asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

CANARY_SECONDS_MAX = 60


def missing_migrations() -> list[str]:
    """Migrations of this code that the database does not have. DatabaseError when it can't be reached."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, name FROM django_migrations")
        applied = set(cursor.fetchall())
    return [f"{app}.{name}" for app, name in _leaves() if (app, name) not in applied]


@cache
def _leaves() -> tuple[tuple[str, str], ...]:
    """The newest migration of each app, as the code has them. Read once: files don't change while a process runs."""
    return tuple(sorted(MigrationLoader(None, ignore_no_migrations=True).graph.leaf_nodes()))


def why_not_ready() -> str:
    """Why intake can't go on; "" when it can. One sentence, without addresses or secrets."""
    try:
        missing = missing_migrations()
    except DatabaseError as why:
        return f"The database can't be reached ({type(why).__name__})."
    return f"Migrations are missing: {', '.join(missing)}." if missing else ""


def canary_age_seconds() -> float | None:
    """Seconds since a task last finished; None when none ever did."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM now() - max(finished_at))::float8 FROM ledger_canary")
        age: float | None = cursor.fetchone()[0]
        return age


# Figures


@dataclass(frozen=True, slots=True)
class Figures:
    open_holds: dict[str, int]  # by reason
    due_steps: dict[str, int]  # by act: what should have been done by now
    oldest_due_seconds: float  # 0 when nothing is due
    refusals: dict[tuple[str, str], int]  # by source and reason, since the beginning


def figures() -> Figures:
    """Over all teams. Reads partial indexes on what is open, and the small table of refusals."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reason, count(*) FROM ledger_hold WHERE closed_at IS NULL GROUP BY reason")
        holds = dict(cursor.fetchall())
        cursor.execute(
            "SELECT act, count(*), extract(epoch FROM now() - min(act_at))::float8 FROM ledger_step"
            " WHERE act <> 'none' AND act_at <= now() GROUP BY act"
        )
        due = cursor.fetchall()
        cursor.execute(
            "SELECT source_slug, reason, sum(count)::bigint FROM ledger_refusal GROUP BY source_slug, reason"
        )
        refusals = {(row[0], row[1]): row[2] for row in cursor.fetchall()}
    return Figures(
        holds, {row[0]: row[1] for row in due}, max((row[2] for row in due), default=0.0), refusals
    )

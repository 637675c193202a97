"""History on file: completed operations of a past year, in bulk, and the open questions that the pages show.

Rows are as the product leaves them, but written past it. Requests and journals are filled for the newest part only, as
`WHOLE_MAX` says; everything else of an operation is there for all of them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psycopg

from bench import payload
from bench.house import Database, NoServers

SCRIPTS = Path(__file__).resolve().parent / "fill"
BATCH = 50_000
WHOLE_MAX = 100_000  # operations with requests, replies and journals
BYTES_PER_OPERATION = 4_500  # with indexes and write-ahead log, generously


def check_disk(folder: Path, operations_count: int) -> None:
    """Raises NoServers when the history would not leave a quarter of what it needs free."""
    needed = operations_count * BYTES_PER_OPERATION * 5 // 4
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoServers(
            f"{operations_count:,} operations need about {needed >> 30} GiB of disk; {free >> 30} GiB are free."
            "\nNothing was loaded.\nGive fewer: --operations 1000000"
        )


def fill(database: Database, first: int, total: int) -> None:
    """Completed operations number `first` to `total`, in batches that commit; then statistics and hint bits."""
    known = _known(database) | {"total": total, "whole": WHOLE_MAX, "params": payload.text()}
    with psycopg.connect(database.urls.superuser, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        for start in range(first, total + 1, BATCH):
            numbers = {"first": start, "last": min(start + BATCH - 1, total)}
            connection.execute(_script("operations", known | numbers))  # type: ignore[arg-type]
            if total > BATCH:
                sys.stderr.write(f"\r  {numbers['last']:,} of {total:,} operations on file ")
                sys.stderr.flush()
        _fill_journals(connection, known, total)
        connection.execute("VACUUM (ANALYZE)")
    if total > BATCH:
        sys.stderr.write("\n")


def _fill_journals(connection: psycopg.Connection, known: dict[str, object], total: int) -> None:
    after = connection.execute(
        "SELECT id FROM ledger_operation WHERE state = 'completed' ORDER BY id DESC OFFSET %s LIMIT 1",
        [min(WHOLE_MAX, total)],
    ).fetchone()
    place = str(after[0]) if after else "00000000-0000-0000-0000-000000000000"
    while True:
        row = connection.execute(_script("journal", known | {"after": place, "batch": BATCH})).fetchone()  # type: ignore[arg-type]
        if row is None or not row[1]:
            return
        place = str(row[0])


def open_questions(database: Database, count: int) -> None:
    """Makes the newest `count` operations open: held, each with one question in the inbox."""
    with psycopg.connect(database.urls.superuser, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_script("holds", _known(database) | {"count": count}))  # type: ignore[arg-type]
        connection.execute("VACUUM (ANALYZE)")


def _known(database: Database) -> dict[str, object]:
    row = database.execute(
        "SELECT t.id, d.id, d.current_id, w.current_id, t.fallback_owner_id FROM team t"
        " JOIN ledger_definition d ON d.team_id = t.id AND d.kind = 'destination'"
        " JOIN ledger_definition w ON w.team_id = t.id AND w.kind = 'workflow'"
    )[0]
    return dict(
        zip(("team", "destination", "destination_version", "workflow_version", "person"), row, strict=True)
    )


def _script(name: str, values: dict[str, object]) -> str:
    return (SCRIPTS / f"{name}.sql").read_text(encoding="utf-8").format(**values)

"""The limit: the same work as plain SQL through pgbench, on bare tables, without a journal, rules or Python."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from bench import payload
from bench.house import ChildFailed, Database, pgbench, run

SCRIPTS = Path(__file__).resolve().parent / "plain"
_PER_SECOND = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
STEPS_PER_SECOND_MAX = 60_000  # more than any machine of this kind claims and records


@cache
def _script(name: str) -> str:
    return (SCRIPTS / f"{name}.sql").read_text(encoding="utf-8")


def prepare(database: Database) -> None:
    database.execute(_script("tables"))


def intake_single(database: Database, seconds: int) -> float:
    """Operations a second: one statement each, 8 clients."""
    return _transactions(database, "intake_single", clients=8, seconds=seconds)


def intake_batch(database: Database, seconds: int) -> float:
    """Operations a second: 500 in a transaction, 2 clients."""
    return 500 * _transactions(database, "intake_batch", clients=2, seconds=seconds)


def worker(database: Database, seconds: int) -> float:
    """Steps a second: claimed and recorded 50 at a time, 4 clients."""
    for statement in (_script("ready_steps") % (seconds * STEPS_PER_SECOND_MAX)).split(";"):
        if statement.strip():
            database.execute(statement)
    _transactions(database, "worker", clients=4, seconds=seconds)
    ended = database.execute(
        "SELECT count(*), extract(epoch FROM max(ended_at) - min(opened_at)) FROM plain.attempt"
        " WHERE outcome IS NOT NULL"
    )[0]
    left = database.execute("SELECT count(*) FROM plain.step WHERE state = 'ready'")[0][0]
    if not left:
        raise ChildFailed("The limit ran out of steps before its time was up: raise STEPS_PER_SECOND_MAX.")
    return float(ended[0]) / float(ended[1])


def _transactions(database: Database, script: str, *, clients: int, seconds: int) -> float:
    command = [pgbench(), database.urls.superuser, "--no-vacuum", "--protocol", "prepared"]
    command += ["--client", str(clients), "--jobs", "2", "--time", str(seconds)]
    command += ["--define", f"payload={payload.text()}", "--file", str(SCRIPTS / f"{script}.sql")]
    found = _PER_SECOND.search(run(command, database.environment))
    if found is None:
        raise ChildFailed("pgbench did not say how many transactions it made")
    return float(found[1])

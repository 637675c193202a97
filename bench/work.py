"""Operations and steps a second: the limit, the peers and ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench import house, payload
from bench.house import PEERS_PYTHON, Database, House

PEERS = Path(__file__).resolve().parent / "peers"
HTTP_CLIENTS, BATCH_CLIENTS, BATCH = 8, 2, 500


def over_http(
    house_: House, database: Database, port: int, seconds: float, per_request: int = 1
) -> dict[str, Any]:
    """Intake through the running web; operations a second, and how long requests took."""
    clients = HTTP_CLIENTS if per_request == 1 else BATCH_CLIENTS
    words = [port, house_.token, clients, seconds, per_request]
    command = [sys.executable, "-m", "bench.clients", *map(str, words)]
    found = house.together([command], database.environment)[0]
    return found | {"per_second": found["operations"] / found["seconds"]}


def recorded_per_second(database: Database, operations_count: int) -> float:
    """Operations that one process records, 500 in a transaction, without HTTP."""
    return operations_count / float(house.our(database, "record", operations_count, 500)["seconds"])


def sent_per_second(database: Database, operations_count: int, *, wire: str) -> float:
    """Steps that two worker processes claim, send and record until nothing is left of what was recorded."""
    command = [sys.executable, "-m", "bench.ours", "work", wire]
    found = house.together([command] * 2, database.environment | {"PROCESS_KIND": "worker"})
    steps = sum(one["steps"] for one in found)
    if steps != 2 * operations_count or {word for one in found for word in one["outcomes"]} != {"confirmed"}:
        raise house.ChildFailed(f"{operations_count} operations of two steps, but: {found}")
    return float(steps / (max(one["ended"] for one in found) - min(one["begun"] for one in found)))


def steps_per_second(database: Database, operations_count: int, *, wire: str) -> float:
    """The same for operations that are recorded first, which does not count."""
    recorded_per_second(database, operations_count)
    return sent_per_second(database, operations_count, wire=wire)


def warm(database: Database, operations_count: int) -> None:
    """Rows of every kind, and statistics about them, before anything is measured."""
    database.execute("ANALYZE")
    steps_per_second(database, operations_count, wire="none")
    database.execute("VACUUM (ANALYZE)")


def whole_operations_per_second(
    database: Database, operations_count: int, batch: int, threads: int = 1
) -> float:
    """One process records operations, `batch` in a call, by so many threads, and sends both steps of each."""
    command = [sys.executable, "-m", "bench.ours", "whole", *map(str, (operations_count, batch, threads))]
    found = house.together([command], database.environment | {"PROCESS_KIND": "worker"})[0]
    return float(operations_count / found["seconds"])


def dbos_workflows_per_second(database: Database, seconds: float, threads: int) -> float:
    script, text = str(PEERS / "dbos_workflows.py"), payload.text()
    command = [str(PEERS_PYTHON), script, database.urls.owner, str(seconds), str(threads), text]
    found = house.together([command], database.environment)[0]
    return float(found["workflows"] / found["seconds"])


def procrastinate_jobs_per_second(house_: House, jobs_count: int, concurrency: int) -> float:
    """Two workers, as ours; a database of its own each time."""
    database = house_.bare_database("bench_procrastinate")
    command = [str(PEERS_PYTHON), str(PEERS / "procrastinate_jobs.py")]
    words = ["prepare", database.urls.owner, str(jobs_count), payload.text()]
    house.run([*command, *words], database.environment)
    worker = [*command, "work", database.urls.owner, str(concurrency)]
    found = house.together([worker] * 2, database.environment)
    took = max(one["ended"] for one in found) - min(one["begun"] for one in found)
    house_.drop(database)
    return float(sum(one["jobs"] for one in found) / took)

"""The parts of a run. Each takes the limit, the peers and ours in turn, several times over, and gives lines of the table."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench import history, house, limit, work
from bench.figures import Goal, Line, Rounds
from bench.house import PEERS_PYTHON, Database, House


@dataclass(frozen=True)
class Size:
    """How much of everything. Spans are in seconds."""

    rounds: int
    seconds: int  # of each measurement that runs for a time
    operations: int  # of each measurement that runs until they are done
    over_sandbox: int
    jobs: int
    page_rounds: int
    history_small: int
    history: int
    open_holds: int
    replayed: int
    selected: int

    def with_rounds(self, rounds: int) -> Size:
        return dataclasses.replace(self, rounds=rounds)


FULL = Size(5, 5, 4_000, 1_000, 4_000, 50, 10_000, 1_000_000, 2_000, 10_000, 5_000)
QUICK = Size(1, 2, 1_000, 300, 1_000, 15, 2_000, 20_000, 500, 2_000, 1_000)
TINY = Size(1, 1, 40, 20, 40, 2, 300, 600, 60, 200, 60)


@dataclass(frozen=True)
class Run:
    house: House
    size: Size
    operations: int  # history on file for the pages
    filled: list[Database] = field(default_factory=list)

    def rounds(self) -> Rounds:
        return Rounds(self.size.rounds)


def intake(run: Run) -> list[Line]:
    plain, ours = run.house.bare_database("bench_plain"), run.house.database("bench_intake")
    limit.prepare(plain)
    ours.execute("ANALYZE")
    rounds, seconds = run.rounds(), run.size.seconds
    slow: list[dict[str, Any]] = []
    with run.house.web(ours) as port:

        def single() -> float:
            slow.append(work.over_http(run.house, ours, port, seconds))
            return float(slow[-1]["per_second"])

        def batch(count: int) -> float:
            return float(work.over_http(run.house, ours, port, seconds, count)["per_second"])

        single(), batch(100)  # rows of every kind, then statistics about them
        ours.execute("VACUUM (ANALYZE)")
        rounds.measure(
            limit_single=lambda: limit.intake_single(plain, seconds),
            single=single,
            limit_batch=lambda: limit.intake_batch(plain, seconds),
            batch=lambda: batch(work.BATCH),
            batch_100=lambda: batch(100),
        )
    run.house.drop(ours)
    run.house.drop(plain)
    note = f"p50 {slow[-1]['median_ms']:.1f} ms, p99 {slow[-1]['p99_ms']:.1f} ms"
    one, many = "plain SQL, one statement each, 8 clients", "plain SQL, 500 a transaction, 2 clients"
    return [
        Line(
            "intake over HTTP, one a request",
            rounds["single"],
            "op/s",
            one,
            rounds["limit_single"],
            Goal(0.2, 0.14),
            note,
        ),
        Line(
            "intake over HTTP, 500 a request",
            rounds["batch"],
            "op/s",
            many,
            rounds["limit_batch"],
            Goal(0.55, 0.35),
        ),
        Line("intake over HTTP, 100 a request", rounds["batch_100"], "op/s", many, rounds["limit_batch"]),
    ]


def worker(run: Run) -> list[Line]:
    plain, ours = run.house.bare_database("bench_plain"), run.house.database("bench_worker")
    limit.prepare(plain)
    work.warm(ours, max(20, run.size.operations // 4))
    rounds, count = run.rounds(), run.size.operations

    def steps() -> float:
        found = work.steps_per_second(ours, count, wire="none")
        ours.execute("VACUUM (ANALYZE)")
        return found

    rounds.measure(limit=lambda: limit.worker(plain, run.size.seconds), ours=steps)
    run.house.drop(ours)
    run.house.drop(plain)
    against = "plain SQL, batches of 50, no journal, 4 clients"
    return [
        Line(
            "worker, no-op wire, 2 processes",
            rounds["ours"],
            "steps/s",
            against,
            rounds["limit"],
            Goal(0.2, 0.1),
        )
    ]


def peers(run: Run) -> list[Line]:
    if not PEERS_PYTHON.exists():
        sys.stderr.write("-- the peers are not installed (make bench does it); left out\n")
        return []
    ours, dbos = run.house.database("bench_whole"), run.house.bare_database("bench_dbos")
    work.warm(ours, max(20, run.size.operations // 4))
    rounds, size = run.rounds(), run.size

    def kept_tidy(found: float) -> float:
        ours.execute("VACUUM (ANALYZE)")
        return found

    rounds.measure(
        ours=lambda: kept_tidy(work.steps_per_second(ours, size.operations, wire="none")),
        procrastinate_1=lambda: work.procrastinate_jobs_per_second(run.house, size.jobs, 1),
        procrastinate_4=lambda: work.procrastinate_jobs_per_second(run.house, size.jobs, 4),
        whole_1=lambda: kept_tidy(work.whole_operations_per_second(ours, size.operations // 2, 1)),
        whole_8=lambda: kept_tidy(work.whole_operations_per_second(ours, size.operations // 2, 1, threads=8)),
        whole_batch=lambda: kept_tidy(work.whole_operations_per_second(ours, size.operations // 2, 100)),
        dbos_1=lambda: work.dbos_workflows_per_second(dbos, size.seconds, 1),
        dbos_8=lambda: work.dbos_workflows_per_second(dbos, size.seconds, 8),
    )
    run.house.drop(ours)
    run.house.drop(dbos)
    jobs = max(rounds["procrastinate_1"], rounds["procrastinate_4"])
    workflows = max(rounds["dbos_1"], rounds["dbos_8"])
    dbos_name = "DBOS two-step workflows, 1 process"
    return [
        Line(
            "worker, no-op wire, 2 processes",
            rounds["ours"],
            "steps/s",
            "procrastinate no-op, 2 workers",
            jobs,
            Goal(6, 3),
        ),
        Line(
            "intake one by one + two steps, 1 process",
            max(rounds["whole_1"], rounds["whole_8"]),
            "op/s",
            dbos_name,
            workflows,
            Goal(4, 2),
        ),
        Line(
            "intake by hundreds + two steps, 1 process", rounds["whole_batch"], "op/s", dbos_name, workflows
        ),
    ]


def sandbox(run: Run) -> list[Line]:
    ours, rounds, size = run.house.database("bench_sandbox"), run.rounds(), run.size
    against: dict[str, Any] = {}
    with ExitStack() as stack:
        stack.enter_context(run.house.sandbox())
        work.warm(ours, max(20, size.operations // 8))
        if PEERS_PYTHON.exists():
            dbos = run.house.bare_database("bench_dbos")
            against["dbos"] = lambda: (
                2
                * max(
                    work.dbos_workflows_per_second(dbos, size.seconds, 1),
                    work.dbos_workflows_per_second(dbos, size.seconds, 8),
                )
            )
        rounds.measure(ours=lambda: work.steps_per_second(ours, size.over_sandbox, wire="real"), **against)
    run.house.drop(ours)
    theirs = rounds["dbos"] if against else None
    name = "worker, HTTP to the sandbox on the same cores"
    return [
        Line(
            name,
            rounds["ours"],
            "steps/s",
            "DBOS steps without HTTP",
            theirs,
            Goal(1, 0.5) if theirs else None,
        )
    ]


def replays(run: Run) -> list[Line]:
    """Planning over operations of every kind, and beginning what was planned."""
    database, count = run.house.database("bench_replays"), run.size.replayed
    found = house.our(database, "replays", count, run.size.rounds)
    run.house.drop(database)
    planned, plain = median(found["planned"]), median(found["plain"])
    size = f"{count:,} in {count / planned:.1f} s; frozen {found['bytes'] / 1024:.0f} KiB"
    against = "plain SQL, one statement with a word for each step"
    started = f"start of {count:,} steps, checked again and written"
    return [
        Line("replay: planning", planned, "op/s", against, plain, note=size),
        Line(f"replay: {started}", found["start_seconds"], "s"),
        Line("replay: beginning items, 1 process", found["begun_per_second"], "steps/s"),
    ]


def costs(run: Run) -> list[Line]:
    """What the database's own guards cost: the same work with and without them."""
    found: dict[str, Database] = {
        name: run.house.database(f"bench_{name}") for name in ("guarded", "untriggered", "unkeyed")
    }
    for (statement,) in found["untriggered"].execute(_JOURNALED_TRIGGERS):
        found["untriggered"].execute(statement)
    for (statement,) in found["unkeyed"].execute(_KEYS):
        found["unkeyed"].execute(statement)
    for database in found.values():
        work.warm(database, max(20, run.size.operations // 4))
    batch, steps, count = run.rounds(), run.rounds(), run.size.operations // 2
    for name in found:
        batch.taken[name], steps.taken[name] = [], []
    for _ in range(run.size.rounds):
        for name, database in found.items():
            batch.taken[name].append(work.recorded_per_second(database, count))
            steps.taken[name].append(work.sent_per_second(database, count, wire="none"))
            database.execute("VACUUM (ANALYZE)")
    for database in found.values():
        run.house.drop(database)
    return [
        Line(
            "worker with the triggers that refuse unjournaled states",
            steps["guarded"],
            "steps/s",
            "without",
            steps["untriggered"],
        ),
        Line("worker with keys looked up", steps["guarded"], "steps/s", "without", steps["unkeyed"]),
        Line(
            "recording by 500, 1 process, with keys looked up",
            batch["guarded"],
            "op/s",
            "without",
            batch["unkeyed"],
        ),
    ]


_JOURNALED_TRIGGERS = """
SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass) FROM pg_trigger WHERE tgname LIKE '%_is_journaled'
"""
_KEYS = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint
 WHERE contype = 'f' AND conrelid::regclass::text LIKE 'ledger%'
UNION ALL
SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)
  FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid WHERE proname LIKE 'refuse\\_orphaned%' OR proname = 'refuse_move'
"""


def pages(run: Run) -> list[Line]:
    """The pages, with little and with much on file, the same number of open rows."""
    return _pages(run, *_with_history(run))


def intake_with_history(run: Run) -> list[Line]:
    """The intake on the same two databases."""
    return _intake_with_history(run, *_with_history(run))


def _with_history(run: Run) -> tuple[Database, Database]:
    """The two databases, filled once for all parts that need them; they go with the server."""
    if not run.filled:
        history.check_disk(run.house.folder, run.operations)
        for name, count in (("bench_small", run.size.history_small), ("bench_large", run.operations)):
            database = run.house.database(name)
            history.fill(database, 1, count)
            history.open_questions(database, run.size.open_holds)
            run.filled.append(database)
    return run.filled[0], run.filled[1]


def _pages(run: Run, small: Database, large: Database) -> list[Line]:
    found: dict[str, dict[str, Any]] = {}
    for database in (small, large):
        shown = house.our(database, "lose", 1)["id"]
        command = [sys.executable, "-m", "bench.pages", str(run.size.page_rounds), shown]
        answer = house.answer_of(house.run(command, database.environment | {"PROCESS_KIND": "web"}))
        found[database.name] = answer["pages"]
    lines: list[Line] = []
    for name, much in found[large.name].items():
        little = found[small.name][name]
        goal = Goal(1.5, 2.5, low=True) if name == "inbox: page of 50" else None
        scanned = f"reads all of {', '.join(much['scanned'])}" if much["scanned"] else "indexes only"
        against = f"{run.size.history_small:,} on file, not {run.operations:,}"
        lines.append(
            Line(
                f"{name}, database", much["database_ms"], "ms", against, little["database_ms"], goal, scanned
            )
        )
        if much["template_ms"]:
            note = f"the whole page takes {much['whole_ms']:.1f} ms"
            goal = Goal(4.5, 10, low=True) if name == "inbox: the whole page" else None
            lines.append(Line(f"{name}, templates", much["template_ms"], "ms", goal=goal, note=note))
    return lines


def _intake_with_history(run: Run, small: Database, large: Database) -> list[Line]:
    rounds, seconds = run.rounds(), run.size.seconds
    with run.house.web(small) as port_small, run.house.web(large) as port_large:

        def taken(database: Database, port: int, count: int) -> float:
            return float(work.over_http(run.house, database, port, seconds, count)["per_second"])

        for port, database in ((port_small, small), (port_large, large)):
            taken(database, port, 1)
        rounds.measure(
            small_single=lambda: taken(small, port_small, 1),
            large_single=lambda: taken(large, port_large, 1),
            small_batch=lambda: taken(small, port_small, work.BATCH),
            large_batch=lambda: taken(large, port_large, work.BATCH),
        )
    against = f"{run.size.history_small:,} on file, not {run.operations:,}"
    return [
        Line(
            "intake, one a request",
            rounds["large_single"],
            "op/s",
            against,
            rounds["small_single"],
            Goal(0.8, 0.7),
        ),
        Line(
            "intake, 500 a request",
            rounds["large_batch"],
            "op/s",
            against,
            rounds["small_batch"],
            Goal(0.5, 0.4),
        ),
    ]

"""The part about many holds at once: a whole view assigned, and the inbox with as many open holds."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from bench import history, house
from bench.figures import Line
from bench.parts import Run

TABLES = Path(__file__).resolve().parent / "plain" / "held.sql"


def selections(run: Run) -> list[Line]:
    database, count = run.house.database("bench_selections"), run.size.selected
    history.fill(database, 1, count + count // 5)
    history.open_questions(database, count)
    database.execute("UPDATE ledger_hold SET owner_id = NULL")
    for statement in TABLES.read_text(encoding="utf-8").split(";"):
        database.execute(statement)
    database.execute("VACUUM (ANALYZE)")
    words = map(str, (count, 2 * run.size.rounds, run.size.page_rounds))
    command = [sys.executable, "-m", "bench.selections", *words]
    found = house.answer_of(house.run(command, database.environment | {"PROCESS_KIND": "worker"}))
    run.house.drop(database)
    ours, plain = median(found["ours"]), median(found["plain"])
    note = f"{count:,} in {count / ours:.1f} s; frozen and begun in {found['frozen_seconds']:.2f} s"
    return [
        Line(
            "selection: a whole view assigned, 1 process",
            ours,
            "holds/s",
            "plain SQL: an update and a line each, by 500",
            plain,
            note=note,
        ),
        Line(
            f"inbox: page of 50 of {count:,} open holds",
            found["page_ms"],
            "ms",
            "plain SQL: the same 50 rows by the same index",
            found["plain_page_ms"],
        ),
        Line(
            f"inbox: cards of incidents of {count:,} open holds",
            found["cards_ms"],
            "ms",
            "plain SQL: the same holds counted by incident",
            found["plain_cards_ms"],
            note=f"grouped by the sweep in {found['grouped_seconds']:.2f} s",
        ),
    ]

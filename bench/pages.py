"""The pages, measured through Django's own client: database time, the rest, and the plans of what was asked.

`python -m bench.pages ROUNDS OPERATION` prints one line of JSON; OPERATION is the id of one whose page is shown.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

import django

django.setup()

import psycopg  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, transaction  # noqa: E402
from django.template.base import Template  # noqa: E402
from django.test import Client  # noqa: E402

from bench.signals import answer  # noqa: E402
from opsledger.accounts.models import Person, Team  # noqa: E402
from opsledger.ledger.queries import hold_counts, inbox, operations  # noqa: E402
from opsledger.ledger.queries.operation_filter import OperationFilter  # noqa: E402
from opsledger.ledger.queries.page import operation_of  # noqa: E402
from opsledger.lib.ids import public  # noqa: E402

BIG_TABLES = {
    "ledger_operation", "ledger_operationparams", "ledger_step", "ledger_steprequest", "ledger_attempt", "ledger_hold",
    "ledger_evidence", "ledger_heldreference", "journal_entry", "journal_chain",
}  # fmt: skip


@dataclass
class Watch:
    """What the database and the templates took since the last `clear`, in milliseconds.

    Templates are counted in processor time, as the goal is one of a core: what else runs on it is not theirs.
    """

    database_ms: float = 0.0
    database_core_ms: float = 0.0  # of this process, for the database
    template_ms: float = 0.0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    _inside_template: bool = False

    def clear(self) -> None:
        self.database_ms = self.database_core_ms = self.template_ms = 0.0
        self.asked.clear()


WATCH = Watch()


@contextmanager
def watched() -> Iterator[None]:
    """Every statement of psycopg and every outermost template is timed."""
    plain_execute, plain_render = psycopg.Cursor.execute, Template.render

    def execute(self: Any, query: Any, params: Any = None, **how: Any) -> Any:
        begun, core = time.perf_counter(), time.thread_time()
        try:
            return plain_execute(self, query, params, **how)
        finally:
            WATCH.database_ms += 1000 * (time.perf_counter() - begun)
            WATCH.database_core_ms += 1000 * (time.thread_time() - core)
            text = str(query)
            if text.lstrip().upper().startswith(("SELECT", "WITH")):
                WATCH.asked.append((text, params))

    def render(self: Template, context: Any) -> Any:
        if WATCH._inside_template:
            return plain_render(self, context)
        WATCH._inside_template = True
        begun, before = time.thread_time(), WATCH.database_core_ms
        try:
            return plain_render(self, context)
        finally:
            WATCH._inside_template = False
            WATCH.template_ms += 1000 * (time.thread_time() - begun) - (WATCH.database_core_ms - before)

    psycopg.Cursor.execute, Template.render = execute, render  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        psycopg.Cursor.execute, Template.render = plain_execute, plain_render  # type: ignore[method-assign]


def timed(what: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Medians of the whole, the database's part and the templates', after three rounds that warm up."""
    whole, database, template = [], [], []
    for number in range(rounds + 3):
        WATCH.clear()
        begun = time.perf_counter()
        what()
        if number >= 3:
            whole.append(1000 * (time.perf_counter() - begun))
            database.append(WATCH.database_ms)
            template.append(WATCH.template_ms)
    return {"whole_ms": median(whole), "database_ms": median(database), "template_ms": median(template)}


def scanned_tables() -> set[str]:
    """Big tables that the statements asked since the last `clear` would read from end to end, if that looked cheaper."""
    found: set[str] = set()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = on")  # the application's sessions discourage it
        for query, params in list(WATCH.asked):
            cursor.execute(f"EXPLAIN (FORMAT JSON) {query}", params)
            plan = cursor.fetchone()[0]
            found |= set(_sequential(plan if isinstance(plan, list) else json.loads(plan)))
    return found & BIG_TABLES


def _sequential(plan: Any) -> Iterator[str]:
    if isinstance(plan, list):
        for part in plan:
            yield from _sequential(part)
    elif isinstance(plan, dict):
        if plan.get("Node Type") == "Seq Scan":
            yield plan["Relation Name"]
        for part in plan.values():
            yield from _sequential(part)


def collect_files() -> None:
    """The files of the pages, collected as a start does, but into a folder of this run: what lies in the checkout may be of
    an earlier version, or not be there."""
    settings.STATIC_ROOT = Path(os.environ["TEST_ROOM"]) / "static"
    settings.STORAGES["staticfiles"] = {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"}
    call_command("collectstatic", interactive=False, verbosity=0)


def main(rounds: int, shown: UUID) -> None:
    settings.ALLOWED_HOSTS.append("testserver")
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # as the web (opsledger.wsgi)
    person, team = Person.objects.get(email="owner@bench.example"), Team.objects.get(slug="bench")
    collect_files()
    client = Client()
    client.force_login(person)
    wanted = inbox.Wanted(team.pk, person.pk)
    reference = _first(
        "SELECT reference FROM ledger_step WHERE reference IS NOT NULL ORDER BY id DESC OFFSET 100 LIMIT 1"
    )
    own = _first(
        "SELECT operation_id FROM ledger_operation WHERE state = 'completed' ORDER BY id DESC OFFSET 100 LIMIT 1"
    )

    def get(path: str) -> Callable[[], None]:
        def fetch() -> None:
            reply = client.get(path)
            assert reply.status_code == 200, f"{path}: {reply.status_code}"

        return fetch

    def search(text: str) -> Callable[[], None]:
        def find() -> None:
            assert operations.page_of(team.pk, OperationFilter(search=text)).lines, text

        return find

    measured: dict[str, Callable[[], Any]] = {
        "inbox: page of 50": lambda: inbox.page_of(wanted),
        "inbox: counts of all views": lambda: hold_counts.counts(team.pk, person.pk),
        "inbox: the whole page": get("/"),
        "operation: its record": lambda: operation_of(shown, [team.pk]),
        "operation: the whole page": get(f"/operations/{public('op', shown)}/"),
        "operations: newest 50": lambda: operations.page_of(team.pk, OperationFilter()),
        "search: beginning of an own id": search(own[:12]),
        "search: a reference": search(reference),
    }
    answers: dict[str, Any] = {}
    with watched():
        for name, what in measured.items():
            answers[name] = timed(what, rounds)
            answers[name]["scanned"] = sorted(scanned_tables())
    answer(pages=answers)


def _first(query: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return str(cursor.fetchone()[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), UUID(sys.argv[2]))

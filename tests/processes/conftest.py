"""Servers that these tests may stop, kill and flush: never the ones that the other tests use."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.lib.database_url import database
from opsledger.local.broker import Broker, free_port
from opsledger.local.children import end_session, spawn
from opsledger.local.options import Options
from opsledger.local.postgres import Postgres, Urls, make_database
from opsledger.local.programs import PLAN
from opsledger.local.rooms import private_room
from tests.processes.house import CHECKOUT, House, until

TEMPLATE = "house_template"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session")
def servers(django_db_blocker: Any) -> Iterator[tuple[Postgres, Broker, SandboxControl, Path]]:
    """PostgreSQL as durable as in production, a broker, a sandbox peer; migrated once."""
    with private_room(CHECKOUT) as room, contextlib.ExitStack() as stack:
        postgres = Postgres(room, log=room.folder / "postgres.log")
        stack.callback(postgres.stop)
        urls = postgres.start()
        broker = Broker(room.folder / "broker", log=room.folder / "broker.log")
        stack.callback(broker.stop)
        broker.start()
        sandbox = _sandbox(room.folder, stack)
        with psycopg.connect(urls.for_database("postgres").superuser, autocommit=True) as server:
            make_database(server, TEMPLATE)
        with django_db_blocker.unblock(), pointed_at(urls.for_database(TEMPLATE)):
            from django.core.management import call_command

            call_command("migrate", database="owner", verbosity=0, interactive=False)
        yield postgres, broker, sandbox, room.folder


def _sandbox(folder: Path, stack: contextlib.ExitStack) -> SandboxControl:
    port = free_port()
    (folder / "var").mkdir()
    options = Options(folder, 0, "", "", "", "", ())
    program = next(one for one in PLAN.lasting(options, port) if one.name == "sandbox")
    child = spawn(
        program.command, env={"PYTHONPATH": str(CHECKOUT)}, log=folder / "sandbox.log", folder=CHECKOUT
    )
    stack.callback(end_session, child)
    control = SandboxControl(f"http://127.0.0.1:{port}")
    until(lambda: _answers(control), "the sandbox to listen")
    return control


def _answers(control: SandboxControl) -> bool:
    with contextlib.suppress(OSError):
        return bool(control.mode())
    return False


@contextlib.contextmanager
def pointed_at(urls: Urls) -> Iterator[None]:
    """Django's two connections lead to this database, then back to where they led before."""
    from django.db import connections

    before = {}
    for alias, url in (("default", urls.app), ("owner", urls.owner)):
        connections[alias].close()
        before[alias] = dict(connections[alias].settings_dict)
        connections[alias].settings_dict.update(database(url, limits_ms={}, keep=False))
    try:
        yield
    finally:
        for alias, settings in before.items():
            connections[alias].close()
            connections[alias].settings_dict.update(settings)


@pytest.fixture
def house(
    servers: tuple[Postgres, Broker, SandboxControl, Path],
    tmp_path: Path,
    django_db_blocker: Any,
    request: Any,
) -> Iterator[House]:
    """A database of the test's own, the sandbox and the broker empty; every process is ended afterwards."""
    postgres, broker, sandbox, _ = servers
    name = f"house_{abs(hash(request.node.name))}"
    with psycopg.connect(postgres.urls.for_database("postgres").superuser, autocommit=True) as server:
        make_database(server, name, template=TEMPLATE)
    sandbox.reset()
    one = House(postgres.urls.for_database(name), postgres, broker, sandbox, tmp_path)
    with django_db_blocker.unblock(), pointed_at(one.urls):
        one.settle_in()
        try:
            yield one
        finally:
            one.end_everything()
    if getattr(request.node, "failed", False):
        sys.stdout.write(one.logs())
    with psycopg.connect(postgres.urls.for_database("postgres").superuser, autocommit=True) as server:
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed:
        item.failed = True  # type: ignore[attr-defined]
    return report

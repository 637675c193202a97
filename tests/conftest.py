"""The database and the broker of the tests.

Every run has a private PostgreSQL and a private broker, never the ones that DATABASE_URL names: `make test`
starts them, and when pytest is called directly the run starts its own. Each xdist worker has a database and a
broker number of its own. Migrations run once per run, as the owner's role, into a template that the workers'
databases are copied from. The alias `default` connects as the application's role, as in production.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
import redis
from psycopg import sql

from opsledger.local.postgres import Urls, make_database
from opsledger.local.private import private_servers, with_servers

CHECKOUT = Path(__file__).resolve().parent.parent
TEMPLATE = "opsledger_template"
# What migrations and Django itself put there, and no test may empty.
KEPT_TABLES = ("django_migrations", "django_content_type", "auth_permission")
SERVERS = contextlib.ExitStack()

# Two workers and real processes share the cores: how long an example takes says nothing about the code.
hypothesis.settings.register_profile(
    "house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("house")


def pytest_configure(config: pytest.Config) -> None:
    if "TEST_ROOM" not in os.environ:
        environment = with_servers(SERVERS.enter_context(private_servers(CHECKOUT)))
        os.environ.clear()
        os.environ.update(environment)
    number = int(_worker(config).removeprefix("gw") or 0)
    os.environ["REDIS_URL"] = f"{os.environ['REDIS_URL'].rpartition('/')[0]}/{number}"
    _point_settings_at_servers()


def pytest_unconfigure(config: pytest.Config) -> None:
    SERVERS.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Captured text may hold halves of surrogate pairs, which no report can carry from a worker."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode("utf-8")) for name, text in report.sections
    ]
    return report


def _worker(config: pytest.Config) -> str:
    return str(getattr(config, "workerinput", {}).get("workerid", "gw0"))


def _urls(worker: str) -> Urls:
    names = ("DATABASE_URL", "DATABASE_OWNER_URL", "TEST_SUPERUSER_URL")
    return Urls(*(os.environ[name] for name in names)).for_database(f"opsledger_{worker}")


def _point_settings_at_servers() -> None:
    """pytest-django reads the settings before this file; what depends on the servers is set again here."""
    from django.conf import settings
    from django.contrib.auth.hashers import PBKDF2PasswordHasher

    from opsledger.lib.database_url import database

    for alias, name in (("default", "DATABASE_URL"), ("owner", "DATABASE_OWNER_URL")):
        known = database(os.environ[name], limits_ms={}, keep=False)
        for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT"):
            settings.DATABASES[alias][key] = known[key]
    settings.REDIS_URL = os.environ["REDIS_URL"]
    # As in a fresh checkout: what a `make up` collected earlier may be older than the sources under test.
    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.WHITENOISE_USE_FINDERS = True
    # A million rounds for each person of each test would be half of the run. The hash names its rounds: servers read it.
    PBKDF2PasswordHasher.iterations = 1_000


@pytest.fixture(scope="session")
def database_urls(request: pytest.FixtureRequest) -> Urls:
    """How to connect to this worker's database: `.app`, `.owner`, `.superuser`."""
    return _urls(_worker(request.config))


@pytest.fixture(scope="session")
def django_db_setup(
    database_urls: Urls, request: pytest.FixtureRequest, django_db_blocker: Any
) -> Iterator[None]:
    """Replaces pytest-django's: template once per run, a copy per worker, both aliases on the copy."""
    from django.db import connections
    from django.test import TransactionTestCase

    name = f"opsledger_{_worker(request.config)}"
    with django_db_blocker.unblock():
        with _superuser(database_urls.for_database("postgres")) as server:
            _make_template(server)
            make_database(server, name, template=TEMPLATE)
        _use_database(name)
        _remember_seed(database_urls)
    emptied = pytest.MonkeyPatch()
    emptied.setattr(TransactionTestCase, "_fixture_teardown", lambda case: empty_tables(database_urls))
    yield
    emptied.undo()
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture
def owner_connection(transactional_db: None, database_urls: Urls) -> Iterator[psycopg.Connection]:
    """A connection as the role that owns the tables, in autocommit."""
    with psycopg.connect(database_urls.owner, autocommit=True) as connection:
        yield connection


@pytest.fixture
def broker_url() -> Iterator[str]:
    """This worker's broker, empty."""
    url = os.environ["REDIS_URL"]
    with contextlib.closing(redis.from_url(url)) as client:
        client.flushdb()
        yield url
        client.flushdb()


@contextlib.contextmanager
def _superuser(urls: Urls) -> Iterator[psycopg.Connection]:
    with psycopg.connect(urls.superuser, autocommit=True) as connection:
        yield connection


def _use_database(name: str) -> None:
    from django.db import connections

    for alias in ("default", "owner"):
        connections[alias].close()
        connections[alias].settings_dict["NAME"] = name


def _make_template(server: psycopg.Connection) -> None:
    """Migrates once per run: the first worker does it, the others wait at the lock."""
    from django.core.management import call_command
    from django.db import connections

    done = Path(os.environ["TEST_ROOM"]) / "template-is-made"
    with done.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return
        make_database(server, TEMPLATE)
        _use_database(TEMPLATE)
        call_command("migrate", database="owner", verbosity=0, interactive=False)
        connections.close_all()
        done.touch()


def _tables(connection: psycopg.Connection) -> list[str]:
    found = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> ALL(%s)",
        [list(KEPT_TABLES)],
    )
    return sorted(row[0] for row in found)


def _filled(connection: psycopg.Connection, tables: list[str]) -> list[str]:
    if not tables:
        return []
    one = sql.SQL("SELECT {text} WHERE EXISTS (SELECT FROM public.{name})")
    query = sql.SQL(" UNION ALL ").join(
        one.format(text=sql.Literal(name), name=sql.Identifier(name)) for name in tables
    )
    return [row[0] for row in connection.execute(query)]


def _remember_seed(urls: Urls) -> None:
    """Copies the rows that migrations made, so that emptying can put them back."""
    with _superuser(urls) as connection:
        connection.execute("CREATE SCHEMA seed")
        for name in _filled(connection, _tables(connection)):
            copy = sql.SQL("CREATE TABLE seed.{name} AS TABLE public.{name}")
            connection.execute(copy.format(name=sql.Identifier(name)))


def empty_tables(urls: Urls) -> None:
    """Empties every table that holds rows, with triggers off, and puts back what migrations had made.

    The application's role can't: it may not delete from the journal. Connections that tests left idle in a
    transaction are ended, so that nothing waits for them.
    """
    from django.db import connections

    for alias in ("default", "owner"):
        connections[alias].close()
    with _superuser(urls) as connection:
        connection.execute("SET lock_timeout = '10s'")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        filled = _filled(connection, _tables(connection))
        if not filled:
            return
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
            for (
                name
            ) in filled:  # a truncation would touch the files of every table and index that refers to one
                connection.execute(sql.SQL("DELETE FROM public.{}").format(sql.Identifier(name)))
            _put_back_seed(connection)


def _put_back_seed(connection: psycopg.Connection) -> None:
    copied = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'seed'")
    for (name,) in copied.fetchall():
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = %s AND is_generated = 'NEVER'",
            [name],
        )
        columns = sql.SQL(", ").join(sql.Identifier(row[0]) for row in found)
        insert = sql.SQL(
            "INSERT INTO public.{name} ({columns}) OVERRIDING SYSTEM VALUE "
            "SELECT {columns} FROM seed.{name} ON CONFLICT DO NOTHING"
        )
        connection.execute(insert.format(name=sql.Identifier(name), columns=columns))


# A real browser


def _chromium() -> str | None:
    named = os.environ.get("CHROMIUM", "")
    return named or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One Chromium for the run. It reaches nothing but the test's own server."""
    path = _chromium()
    if path is None:
        pytest.skip("no Chromium found: install chromium, or name one in CHROMIUM")
    from playwright.sync_api import sync_playwright

    quiet = ("background-networking", "component-update", "sync", "gpu", "quic")
    options = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
    # Playwright runs an event loop in this thread, which Django would take for asynchronous code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]

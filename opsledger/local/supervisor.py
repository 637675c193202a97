"""`make up`: starts everything in order, watches it, stops it in order."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from opsledger.local import beside, unchanged
from opsledger.local.children import describe, end_session, fresh_log, spawn
from opsledger.local.errors import CannotStart, tail
from opsledger.local.options import (
    Options,
    check_port,
    child_environment,
    make_var,
    read_options,
    sandbox_port,
    take_lock,
)
from opsledger.local.programs import PLAN, STOP_SECONDS_MAX, Plan, Program
from opsledger.local.servers import Servers
from opsledger.local.stopping import StopRequested, StopSignal
from opsledger.local.unchanged import Stamp
from opsledger.local.watch import Watched, stop_all

LOOK_SECONDS = 0.5
READY_SECONDS_MAX = 120.0
# A web that ends this often before its first answer will not come up by being started again.
WEB_FAILURES_MAX = 3
READY = "ready"

Say = Callable[[str], None]


def say(line: str) -> None:
    """One line for the person at the terminal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def complain(text: str) -> int:
    """The reason why it does not go on, set off from what was said before; gives the exit status."""
    sys.stderr.write(f"\n{text}\n")
    return 1


def up(checkout: Path, source: Mapping[str, str] = os.environ, plan: Plan = PLAN) -> int:
    """Runs until Ctrl-C; 0 when it was stopped so, 1 when it could not start.

    1. Options, lock and port are checked before anything starts.
    2. Servers, migrations, collected files, the demo's people; then sandbox, web, worker, beat.
    3. When web answers: the address, how to sign in, the demo's play.
    4. Stop: web, beat, worker, sandbox within ten seconds; then the broker; then PostgreSQL.
    """
    try:
        options = read_options(checkout, source)
        make_var(options)
        with StopSignal() as stop, contextlib.closing(take_lock(options)):
            check_port(options.port)
            return Supervisor(options, source, plan, stop).run()
    except CannotStart as why:
        return complain(str(why))
    except OSError as why:
        return complain(
            f"{why.filename or 'The start'}: {why.strerror}.\nNothing was lost.\nMend that and start again."
        )
    except StopRequested:
        return 0


class Supervisor:
    """One run of everything."""

    def __init__(self, options: Options, source: Mapping[str, str], plan: Plan, stop: StopSignal) -> None:
        self.options, self.plan, self.stop = options, plan, stop
        self.sandbox_port = sandbox_port(options)
        self.env = child_environment(options, source, self.sandbox_port)
        self.servers = Servers(options, say=say, pause=stop.pause)
        self.watched: list[Watched] = []
        self.passing: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> int:
        try:
            self._start()
            while True:
                self._look()
                self.stop.pause(LOOK_SECONDS)
        except StopRequested:
            say("\nStopping. Work in progress gets ten seconds; data stay in var/.")
            return 0
        finally:
            self._stop_everything()

    def _start(self) -> None:
        self.servers.start()
        self.env |= {"DATABASE_URL": self.servers.database_url, "REDIS_URL": self.servers.redis_url}
        first = self._migrate()
        self._collect_static()
        self._note_running()
        # At the first start web would have nothing to show before this; later it only costs time there.
        signing_in = self._ask(self.plan.prepare_demo) if first else ""
        for program in self.plan.lasting(self.options, self.sandbox_port):
            self.watched.append(self._watch(program))
        self._wait_for_web()
        say(f"\nOpsLedger is up: {self.options.public_url}")
        say(f"How to sign in:\n{signing_in or self._ask(self.plan.prepare_demo)}")
        say(f"Ctrl-C stops everything; data stay in var/. Logs: {self.options.logs}\n")
        self._pass(self.plan.play_demo)

    def _watch(self, program: Program) -> Watched:
        watched = Watched(program, env=self.env, folder=self.options.checkout, logs=self.options.logs)
        watched.start()
        return watched

    def _migrate(self) -> bool:
        """Migrates, unless this very database has all of it already. True when there was something to do."""
        stamp = Stamp(self.options.var / "migrated")
        digest = unchanged.migrations_digest(self.options.checkout)
        mark = unchanged.database_mark(self.servers.owner_url)
        if mark and stamp.stands(digest + mark):
            return False
        say("Bringing the tables up to date.")
        stamp.clear()
        self._finish(self.plan.migrate(self.servers.owner_url))
        stamp.set(digest + unchanged.database_mark(self.servers.owner_url))
        return True

    def _collect_static(self) -> None:
        """Collects the files of the pages, unless they are as they were."""
        folder = self.options.var / "static"
        stamp = Stamp(self.options.var / "collected")
        digest = unchanged.static_digest(self.options.checkout)
        if (folder / "staticfiles.json").exists() and stamp.stands(digest):
            return
        stamp.clear()
        folder.mkdir(exist_ok=True)
        # An empty list of collected files tells the settings that files are served collected (settings.py).
        (folder / "staticfiles.json").write_text(
            '{"version": "1.1", "paths": {}, "hash": ""}', encoding="ascii"
        )
        self._finish(self.plan.collect_static)
        stamp.set(digest)

    def _ask(self, program: Program) -> str:
        """Runs a program to its end and gives its standard output, which is kept nowhere."""
        with tempfile.TemporaryFile() as answer:
            self._finish(program, answer)
            answer.seek(0)
            return answer.read().decode("utf-8", "replace").strip()

    def _finish(self, program: Program, answer: IO[bytes] | None = None) -> None:
        """Runs a program to its end. Raises CannotStart when it fails."""
        log = fresh_log(self.options.logs / f"{program.name}.log")
        env = {**self.env, **program.env}
        child = spawn(program.command, env=env, log=log, folder=self.options.checkout, answer=answer)
        try:
            while child.poll() is None:
                self.stop.pause(0.05)
        finally:
            stop_all([child], STOP_SECONDS_MAX, hurry=lambda: self.stop.hurry)
        if child.returncode != 0:
            raise CannotStart(
                f"{program.name} failed ({describe(child.returncode)}):\n{tail(log)}",
                kept="Nothing was lost; what it had not finished was taken back.",
                todo=f"The whole log is {log}. Mend what it names and start again.",
            )

    def _pass(self, program: Program) -> None:
        """Starts a program that ends by itself."""
        log = fresh_log(self.options.logs / f"{program.name}.log")
        self.passing[program.name] = spawn(
            program.command, env={**self.env, **program.env}, log=log, folder=self.options.checkout
        )

    def _look(self) -> None:
        self.servers.revive()
        for watched in self.watched:
            watched.look(say)
        for name, child in list(self.passing.items()):
            if child.poll() is not None:
                del self.passing[name]
                end_session(child)
                if child.returncode != 0:
                    log = self.options.logs / f"{name}.log"
                    say(f"{name} ended ({describe(child.returncode)}). Its log: {log}")

    def _wait_for_web(self) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        web = next(watched for watched in self.watched if watched.program.name == "web")
        while (answer := ask_readyz(self.options)) != READY:
            self._look()
            if web.failures_count >= WEB_FAILURES_MAX or time.monotonic() > deadline:
                raise CannotStart(
                    f"The web process does not come up. /readyz: {answer}. Its log ends with:\n{tail(web.log)}",
                    todo=f"The whole log is {web.log}. Mend what it names and start again.",
                )
            self.stop.pause(0.2)

    def _note_running(self) -> None:
        """How other commands in this checkout reach the servers (opsledger.local.beside)."""
        names = ("DATABASE_URL", "REDIS_URL", "PUBLIC_URL", "SANDBOX_URL", "ALLOWED_PRIVATE_NETWORKS")
        known = {name: self.env[name] for name in names}
        beside.note(self.options.var, known | {"DATABASE_OWNER_URL": self.servers.owner_url})

    def _stop_everything(self) -> None:
        children = [watched.child for watched in reversed(self.watched) if watched.child]
        everyone = [*children, *self.passing.values()]
        stop_all(everyone, STOP_SECONDS_MAX, hurry=lambda: self.stop.hurry)
        beside.forget(self.options.var)
        self.servers.stop()


def ask_readyz(options: Options) -> str:
    """READY when web takes requests, else what its `/readyz` answered in at most 200 characters."""
    connection = http.client.HTTPConnection("127.0.0.1", options.port, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readyz", headers={"Host": urlsplit(options.public_url).netloc})
            response = connection.getresponse()
            words = response.read(200).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as why:
            return f"no answer ({why})"
    return READY if response.status == http.client.OK else f"{response.status} {words}".strip()

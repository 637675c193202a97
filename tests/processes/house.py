"""A whole house for one test: a database of its own, a broker, a sandbox peer, and processes that may be killed.

Everything is real and everything is ended at the end. Nothing here sleeps for a fixed time: `until` asks again and again
until the answer is yes, or says what it waited for and shows the logs.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery
from django.core.management import call_command
from psycopg.rows import dict_row

from opsledger.accounts.actions import add_person, add_team
from opsledger.accounts.models import Team
from opsledger.destinations.sandbox.client import SandboxControl
from opsledger.engine import dispatch, reconcile, sweep
from opsledger.engine.loading import read_files
from opsledger.ledger.actions.definitions import AnyDefinition, current_workflow, forget_current, load
from opsledger.ledger.actions.open import NewOperation, Opened, open_operations
from opsledger.ledger.definitions import forget_parsed
from opsledger.local.broker import Broker
from opsledger.local.children import end_session, spawn
from opsledger.local.options import Options
from opsledger.local.postgres import Postgres, Urls
from opsledger.local.programs import PLAN, Program
from opsledger.rules.definitions import DestinationDefinition
from opsledger.rules.profile import FinalEffect, Lookup, Retries, Timing
from tests.desk import DEFINITIONS, WIRE, params, step_identity

CHECKOUT = Path(__file__).resolve().parents[2]
CONNECT_SECONDS, TOTAL_SECONDS, LEASE_SECONDS = 1.0, 1.5, 3.0
PATIENCE_SECONDS = 30.0


def until(
    condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS, every: float = 0.05
) -> Any:
    """Asks until the answer is true, and gives it; AssertionError that says what was waited for."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for: {what}")
        time.sleep(every)
    return answer


@dataclass
class Running:
    """One process with its children, in a session of its own."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: signal.Signals) -> None:
        self.child.send_signal(number)

    def signal_all(self, number: signal.Signals) -> None:
        os.killpg(self.child.pid, number)

    def kill(self) -> None:
        """SIGKILL for it and its children, as when a machine dies."""
        end_session(self.child)

    @property
    def alive(self) -> bool:
        return self.child.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass(repr=False)
class House:
    urls: Urls
    postgres: Postgres
    broker: Broker
    sandbox: SandboxControl
    folder: Path
    team: Team = field(init=False)
    running: list[Running] = field(default_factory=list)

    # Processes

    def environment(self, **extra: str) -> dict[str, str]:
        hidden = ("DATABASE_OWNER_URL", "TEST_ROOM", "TEST_SUPERUSER_URL")
        known = {name: value for name, value in os.environ.items() if name not in hidden}
        return known | {
            "DATABASE_URL": self.urls.app,
            "REDIS_URL": self.broker.url,
            "DJANGO_SETTINGS_MODULE": "opsledger.settings",
            "PYTHONUNBUFFERED": "1",
            "ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8",
            **extra,
        }

    def start(self, name: str, program: str, **env: str) -> Running:
        """Starts web, worker or beat with the very command of `make up`."""
        return self.run(name, self.program(program), **env)

    def program(self, name: str, port: int = 0) -> Program:
        options = Options(self.folder, port, "http://localhost", "", "", "", ())
        return next(one for one in PLAN.lasting(options, 0) if one.name == name)

    def run(self, name: str, program: Program, **env: str) -> Running:
        (self.folder / "var").mkdir(exist_ok=True)
        log = self.folder / f"{name}.log"
        env = self.environment(**program.env, **env)
        child = spawn(program.command, env=env, log=log, folder=CHECKOUT, death_signal=signal.SIGKILL)
        one = Running(name, child, log)
        self.running.append(one)
        return one

    def worker(self, name: str = "worker", **env: str) -> Running:
        """A worker that is up: it has answered a canary."""
        started = self.start(name, "worker", **env)
        self.wait_for_worker(started)
        return started

    def wait_for_worker(self, started: Running) -> None:
        until(lambda: "ready." in started.said or not started.alive, f"{started.name} to be ready", every=0.1)
        assert started.alive, started.said

    def beat(self, name: str = "beat") -> Running:
        program = self.program("beat")
        schedule = str(self.folder / f"{name}-schedule")
        place = program.command.index("--schedule") + 1
        command = (*program.command[:place], schedule, *program.command[place + 1 :])
        return self.run(name, replace(program, command=command))

    def python(self, code: str, **env: str) -> subprocess.Popen[str]:
        """A Python process of ours that talks over its standard input and output."""
        code = f"import django; django.setup()\n{code}"
        return subprocess.Popen(
            [sys.executable, "-u", "-c", code], env=self.environment(**env), cwd=CHECKOUT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def end_everything(self) -> None:
        for one in self.running:
            one.kill()

    def logs(self) -> str:
        return "\n".join(f"--- {one.name}\n{one.said[-4000:]}" for one in self.running)

    def bell(self, name: str, count: int = 1) -> None:
        """Puts messages into the broker as beat does."""
        with Celery(broker=self.broker.url) as app:
            for _ in range(count):
                app.send_task(f"opsledger.{name}", queue="opsledger", ignore_result=True)

    # The database, by a new connection each time: the server may have been restarted

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        with psycopg.connect(self.urls.superuser, autocommit=True, row_factory=dict_row) as connection:
            yield connection

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with self.connection() as connection:
            return connection.execute(query, values).fetchall()

    def value(self, query: str, *values: Any) -> Any:
        return next(iter(self.rows(query, *values)[0].values()))

    def states(self, number: int | None = None) -> Counter[str]:
        """How many steps are in which state."""
        found = self.rows(
            "SELECT state FROM ledger_step WHERE %s::int IS NULL OR number = %s", number, number
        )
        return Counter(row["state"] for row in found)

    def state(self, opened: Opened, number: int = 1) -> str:
        query = "SELECT state FROM ledger_step WHERE operation_id = %s AND number = %s"
        return str(self.value(query, opened.id, number))

    def attempts(self, opened: Opened, number: int = 1) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT a.* FROM ledger_attempt a JOIN ledger_step s ON s.id = a.step_id"
            " WHERE a.operation_id = %s AND s.number = %s ORDER BY a.number", opened.id, number,
        )  # fmt: skip

    # Definitions and operations

    def load(self, definitions: Sequence[AnyDefinition]) -> None:
        load(self.team.pk, definitions, actor="command:test")

    def settle_in(self) -> None:
        """A team, and the demo's definitions with short spans, at this house's sandbox."""
        forget_current()
        forget_parsed()
        owner = add_person(
            email="owner@test.example", display_name="Test owner", password="correct horse battery"
        )
        self.team = add_team(slug="house", name="House", fallback_owner=owner)
        self.load(definitions(self.sandbox.url))

    def open(self, workflow: str = "classic_follow_up", count: int = 1, **extra: Any) -> list[Opened]:
        current = current_workflow(self.team.pk, workflow)
        wanted = [
            NewOperation(
                team_id=self.team.pk, operation_id=f"test:{uuid.uuid4()}", workflow_version_id=current.version_id,
                destinations=current.destinations, params=params(workflow, **extra), actor="command:test",
            )
            for _ in range(count)
        ]  # fmt: skip
        return open_operations(wanted)

    def identity(self, opened: Opened, number: int = 1) -> str:
        return step_identity(opened.id, number)

    def sends(self, opened: Opened, number: int = 1) -> list[dict[str, Any]]:
        """The writes that the sandbox has read for this step."""
        return self.sandbox.requests(identity=self.identity(opened, number), method="POST")

    def effects(self, opened: Opened, number: int = 1) -> list[dict[str, Any]]:
        return self.sandbox.effects(identity=self.identity(opened, number))

    def work_until(self, condition: Callable[[], Any], what: str) -> None:
        """Does a worker's and beat's work in this process until the condition holds."""

        def once() -> Any:
            sweep.run_once()
            reconcile.run_once(wire=WIRE, threads=4, look_for_seconds=0.1)
            dispatch.run_once(wire=WIRE, threads=4, claim_for_seconds=0.1)
            return condition()

        until(once, what)

    # What must always be true

    def check_laws(self) -> Counter[str]:
        """Laws that no fault may break, at any moment at which nothing moves. Gives the steps' states.

        1. Wire requests of a step are not more than its committed attempts (law 1).
        2. No step has two effects; every confirmed or accepted one has exactly one (laws 4, 8).
        3. Every unfinished step has a time or an open hold (laws 3, 13).
        4. Chains hold and states equal the fold of the journal (law 10).
        """
        writes = [one for one in self.sandbox.requests() if one["method"] not in ("GET", "HEAD")]
        sends = Counter(
            one["identity"] for one in writes if one["complete"]
        )  # a dying worker's may be cut off
        effects = Counter(one["identity"] for one in self.sandbox.effects())
        wrong = []
        steps = self.rows(
            "SELECT s.operation_id, s.number, s.identity, s.state, s.act, o.state AS operation_state,"
            " (SELECT count(*) FROM ledger_attempt a WHERE a.step_id = s.id) AS attempts,"
            " (SELECT count(*) FROM ledger_hold h WHERE h.step_id = s.id AND h.closed_at IS NULL) AS holds"
            " FROM ledger_step s JOIN ledger_operation o ON o.id = s.operation_id"
        )
        for step in steps:
            identity = step["identity"]
            wrong += [
                f"{step} {why}" for why in _broken(step, sends.pop(identity, 0), effects.pop(identity, 0))
            ]
        wrong += [f"{identity} was sent but is in no record" for identity in {**sends, **effects}]
        assert len(writes) <= sum(step["attempts"] for step in steps)
        assert not wrong, f"{len(wrong)} steps: " + "\n".join(wrong[:10])
        call_command("verify_ledger", verbosity=0, stdout=io.StringIO())
        return Counter(step["state"] for step in steps)


def _broken(step: dict[str, Any], sends: int, effects: int) -> Iterator[str]:
    if sends > step["attempts"]:
        yield f"was sent {sends} times"
    if effects > 1:
        yield f"has {effects} effects"
    if step["state"] in ("confirmed", "accepted") and effects != 1:
        yield f"counts as done with {effects} effects"
    moves = step["act"] != "none" or step["holds"]
    if step["state"] in ("ready", "in_flight", "unknown") and not moves:
        yield "waits where nobody looks"
    if step["state"] == "waiting" and step["operation_state"] in ("completed", "failed", "cancelled"):
        yield "was left behind"


def definitions(sandbox_url: str, **changes: Any) -> list[AnyDefinition]:
    """The demo's definitions with spans so short that a test can wait for them."""
    before = os.environ.get("SANDBOX_URL")
    os.environ["SANDBOX_URL"] = sandbox_url
    try:
        found = read_files([DEFINITIONS])
    finally:
        os.environ.pop("SANDBOX_URL")
        if before is not None:
            os.environ["SANDBOX_URL"] = before
    return [shortened(one, **changes) if isinstance(one, DestinationDefinition) else one for one in found]


def shortened(one: DestinationDefinition, **changes: Any) -> DestinationDefinition:
    actions = {}
    for name, action in one.actions.items():
        profile = action.profile
        short = {
            "timing": Timing(CONNECT_SECONDS, TOTAL_SECONDS, LEASE_SECONDS),
            "retries": Retries(
                tries_max=profile.retries.tries_max, delays_seconds=(1, 1, 2), delay_max_seconds=3
            ),
            "lookup": profile.lookup and _short_lookup(profile.lookup),
            "final_effect": profile.final_effect and _short_final(profile.final_effect),
        }
        actions[name] = replace(action, profile=replace(profile, **short))
    return replace(one, actions=actions, **{"sends_per_second": 5_000.0, "max_in_flight": 5_000, **changes})


def _short_lookup(lookup: Lookup) -> Lookup:
    return replace(lookup, quiet_seconds=1, delays_seconds=(1, 1, 2), last_look_seconds=2)


def _short_final(final: FinalEffect) -> FinalEffect:
    return replace(final, deadline_seconds=15, look_delays_seconds=(1, 2, 4, 8))

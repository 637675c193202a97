"""What `make up` runs, in one place."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsledger.local.options import Options

WEB_THREADS = 16  # of each process
WEB_PROCESSES_MAX = 4
# Connections that one web process holds at once, idle ones included; more wait in the kernel's queue.
WEB_CONNECTIONS_MAX = 256
WORKER_PROCESSES = (
    4  # mostly waiting: sends and lookups each hold one for some seconds, sweeps and canaries need one
)
STOP_SECONDS_MAX = 10


@dataclass(frozen=True)
class Program:
    """A command with the variables that only it gets."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Everything that a start runs, in this order."""

    migrate: Callable[
        [str], Program
    ]  # by the URL of the role that owns the tables; only this one gets to know it
    collect_static: Program
    prepare_demo: Program  # at every start; its standard output says how to sign in
    lasting: Callable[[Options, int], list[Program]]  # until Ctrl-C; the number is the sandbox's port
    play_demo: Program  # once web answers; ends by itself


def _migrate(owner_url: str) -> Program:
    return _manage("migrate", "--database", "owner", "--noinput", env={"DATABASE_OWNER_URL": owner_url})


def _lasting(options: Options, sandbox_port: int) -> list[Program]:
    return [
        _web(options.port, options.var / "demo_shop_secret"),
        _worker(),
        _beat(options.var / "beat-schedule"),
        _sandbox(options.var / "sandbox.sqlite3", sandbox_port),
    ]


def _manage(name: str, *words: str, env: Mapping[str, str] | None = None) -> Program:
    return Program(
        name, (sys.executable, "manage.py", name, *words), {"PROCESS_KIND": "command", **(env or {})}
    )


def _sandbox(state: Path, port: int) -> Program:
    module = "opsledger.destinations.sandbox"
    return Program("sandbox", (sys.executable, "-m", module, "--port", str(port), "--state", str(state)))


def _web_processes() -> int:
    """One for each two cores: the database computes as much as they do, and callers of one process share statements."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(1, cores // 2), WEB_PROCESSES_MAX)


def _web(port: int, shop_secret: Path) -> Program:
    command = [sys.executable, "-m", "granian", "opsledger.wsgi:application", "--interface", "wsgi"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--http", "1", "--no-ws"]
    command += ["--workers", str(_web_processes()), "--blocking-threads", str(WEB_THREADS)]
    command += ["--backpressure", str(WEB_CONNECTIONS_MAX), "--respawn-failed-workers"]
    command += ["--workers-kill-timeout", str(STOP_SECONDS_MAX - 2)]
    # the secret with which the demo's shop signs; made by prepare_demo
    secret = {} if "SHOP_WEBHOOK_SECRET" in os.environ else {"SHOP_WEBHOOK_SECRET_FILE": str(shop_secret)}
    # the web alone knows who else keeps to a core here: nobody (docs/decisions/0042-one-core.md)
    kept = {"WEB_ON_ONE_CORE": os.environ.get("WEB_ON_ONE_CORE", "1")}
    return Program("web", tuple(command), {"PROCESS_KIND": "web", **kept, **secret})


def _worker() -> Program:
    command = [sys.executable, "-m", "celery", "-A", "opsledger", "worker", "--pool", "prefork"]
    command += [
        "--concurrency",
        str(WORKER_PROCESSES),
        "--without-mingle",
        "--without-gossip",
        "--loglevel",
        "INFO",
    ]
    return Program("worker", tuple(command), {"PROCESS_KIND": "worker"})


def _beat(schedule: Path) -> Program:
    command = [sys.executable, "-m", "celery", "-A", "opsledger", "beat", "--schedule", str(schedule)]
    return Program("beat", (*command, "--loglevel", "WARNING"), {"PROCESS_KIND": "beat"})


PLAN = Plan(
    migrate=_migrate,
    collect_static=_manage("collectstatic", "--noinput"),
    prepare_demo=_manage("prepare_demo"),
    lasting=_lasting,
    play_demo=_manage("play_demo"),
)

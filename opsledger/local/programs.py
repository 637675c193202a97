"""What `make up` runs, in one place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsledger.local.options import Options

WEB_WORKERS, WEB_THREADS = 2, 8
# Connections that one web process holds at once, idle ones included; more wait in the kernel's queue.
WEB_CONNECTIONS_MAX = 256
WORKER_PROCESSES = 2
STOP_SECONDS_MAX = 10


@dataclass(frozen=True)
class Program:
    """A command with the variables that only it gets."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def manage(name: str, *words: str, env: Mapping[str, str] | None = None) -> Program:
    return Program(name, (sys.executable, "manage.py", *words), {"PROCESS_KIND": "command", **(env or {})})


def migrate(owner_url: str) -> Program:
    """The only one that gets to know the owner's role."""
    return manage(
        "migrate", "migrate", "--database", "owner", "--noinput", env={"DATABASE_OWNER_URL": owner_url}
    )


COLLECT_STATIC = manage("collectstatic", "collectstatic", "--noinput")
# Hooks of the demo. The first runs at every start and prints how to sign in; the second once web answers.
PREPARE_DEMO = manage("prepare_demo", "prepare_demo")
PLAY_DEMO = manage("play_demo", "play_demo")


def lasting(options: Options, sandbox_port: int) -> list[Program]:
    """What runs until Ctrl-C, in the order of starting; stopped in the reverse order, all at once."""
    return [
        _sandbox(options.var / "sandbox.sqlite3", sandbox_port),
        _web(options.port),
        _worker(),
        _beat(options.var / "beat-schedule"),
    ]


def _sandbox(state: Path, port: int) -> Program:
    module = "opsledger.destinations.sandbox"
    return Program("sandbox", (sys.executable, "-m", module, "--port", str(port), "--state", str(state)))


def _web(port: int) -> Program:
    command = [sys.executable, "-m", "granian", "opsledger.wsgi:application", "--interface", "wsgi"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--http", "1", "--no-ws"]
    command += ["--workers", str(WEB_WORKERS), "--blocking-threads", str(WEB_THREADS)]
    command += ["--backpressure", str(WEB_CONNECTIONS_MAX), "--respawn-failed-workers"]
    command += ["--workers-kill-timeout", str(STOP_SECONDS_MAX - 2)]
    return Program("web", tuple(command), {"PROCESS_KIND": "web"})


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

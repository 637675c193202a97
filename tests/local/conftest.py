"""A small house in a folder of its own, run as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from opsledger.local import rooms

ROOT = Path(__file__).resolve().parent.parent.parent
HOUSE = Path(__file__).with_name("small_house.py")
SECONDS_MAX = 60


class House:
    """One checkout with its `up`; `said` is everything that it wrote."""

    def __init__(self, checkout: Path) -> None:
        self.checkout, self.port = checkout, free_port()
        self.running: subprocess.Popen[bytes] | None = None
        self.said = ""

    def start(self, **env: str) -> None:
        """Starts `up` as a shell starts its background jobs: with Ctrl-C ignored."""
        self.said = ""
        self.running = subprocess.Popen(
            [sys.executable, str(HOUSE), str(self.checkout)],
            env=plain_environment() | {"PORT": str(self.port)} | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

    def wait_until_said(self, words: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while words not in self.said:
            assert self.running is not None
            assert self.running.stdout is not None
            ready, _, _ = select.select([self.running.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"Never said {words!r}, but:\n{self.said}"
            more = os.read(self.running.stdout.fileno(), 65_536).decode()
            assert more, f"Ended without saying {words!r}, but:\n{self.said}"
            self.said += more

    def up(self, **env: str) -> None:
        self.start(**env)
        self.wait_until_said("Ctrl-C stops everything")

    def end(self, how: signal.Signals = signal.SIGINT) -> int:
        assert self.running is not None
        self.running.send_signal(how)
        return self.ended()

    def ended(self) -> int:
        assert self.running is not None
        rest, _ = self.running.communicate(timeout=SECONDS_MAX)
        self.said += rest.decode()
        return self.running.returncode

    def processes(self) -> list[psutil.Process]:
        """Everything that was started for this checkout and still runs (the broker is known by its folder)."""
        marks = [str(self.checkout), str(rooms.base(self.checkout))]
        found = []
        for process in psutil.process_iter(["cmdline", "status", "cwd"]):
            line = " ".join([*(process.info["cmdline"] or []), process.info["cwd"] or ""])
            if any(mark in line for mark in marks) and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def database_urls(self) -> dict[str, str]:
        from opsledger.local.beside import read

        return read(self.checkout / "var")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def plain_environment() -> dict[str, str]:
    """Ours, less what leads to servers."""
    hidden = {"DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "PUBLIC_URL", "PORT"}
    return {name: value for name, value in os.environ.items() if name not in hidden} | {
        "PYTHONPATH": str(ROOT)
    }


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with _house(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def running_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One that runs already; a test that breaks something waits until it is mended."""
    with _house(tmp_path_factory.mktemp("house")) as made:
        made.up(MAKEFLAGS="n", DATABASE_OWNER_URL="postgresql://somebody@/else")
        yield made


@contextlib.contextmanager
def _house(checkout: Path) -> Iterator[House]:
    made = House(checkout)
    yield made
    if made.running is not None:
        made.running.kill()
        made.running.communicate()
    _, left = psutil.wait_procs(made.processes(), timeout=SECONDS_MAX)
    for process in left:  # a test failed: what it started ends with it
        process.kill()
    if os.geteuid() == 0:
        shutil.rmtree(rooms.base(checkout), ignore_errors=True)

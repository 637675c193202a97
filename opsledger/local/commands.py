"""Commands that need servers for as long as they run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from opsledger.local import beside
from opsledger.local.errors import CannotStart
from opsledger.local.options import (
    Options,
    child_environment,
    make_var,
    read_options,
    sandbox_port,
    take_lock,
)
from opsledger.local.private import private_servers, with_servers
from opsledger.local.servers import Servers
from opsledger.local.stopping import StopRequested, StopSignal
from opsledger.local.supervisor import complain, say

# One pytest per core; a file's tests stay together, so what a file sets up is set up once. Files in their order: those with
# few tests are the longest ones, and would come last. The measurement's own runs are left to `make test ARGS="-q -m long"`.
PYTEST_WORDS = ("-q", "-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not long")
INTERRUPTED = 130
FINISH_SECONDS_MAX = 20
OWNER_COMMANDS = (["migrate"],)


def test(checkout: Path, words: list[str]) -> int:
    """The tests, on a private PostgreSQL and broker; gives pytest's exit status."""
    return _on_private_servers(
        checkout, [sys.executable, "-m", "pytest", *(words or PYTEST_WORDS)], durable=False
    )


def run(checkout: Path, words: list[str]) -> int:
    """A command on private servers that write to disk as real ones do; gives its exit status."""
    command = words[1:] if words[:1] == ["--"] else words
    if not command:
        return complain("There is no command to run.\nNothing was started.\nName one: run -- python -m bench")
    if command[0] == "python":
        command = [sys.executable, *command[1:]]
    return _on_private_servers(checkout, command, durable=True)


def manage(checkout: Path, words: list[str]) -> int:
    """manage.py on this checkout's data: beside `make up`, or with the servers started meanwhile."""
    command = [sys.executable, "manage.py", *words]
    try:
        options = read_options(checkout, os.environ)
        make_var(options)
        with StopSignal() as stop, contextlib.ExitStack() as stack:
            environment = _of_running(options) or _of_own(options, stop, stack)
            if words[:1] not in OWNER_COMMANDS:
                environment = {
                    name: value for name, value in environment.items() if name != "DATABASE_OWNER_URL"
                }
            return _in_foreground(command, with_servers(environment), stop)
    except CannotStart as why:
        return complain(str(why))
    except StopRequested:
        return INTERRUPTED


def _of_running(options: Options) -> dict[str, str]:
    """The variables that lead to the servers of a running `make up`; empty when none runs."""
    try:
        take_lock(options).close()
    except CannotStart:
        if found := beside.read(options.var):
            return found
        raise
    return {}


def _of_own(options: Options, stop: StopSignal, stack: contextlib.ExitStack) -> dict[str, str]:
    """Starts the servers until `stack` ends, and gives the variables that lead to them."""
    stack.enter_context(contextlib.closing(take_lock(options)))
    servers = Servers(options, say=say, pause=stop.pause)
    stack.callback(servers.stop)
    servers.start()
    return child_environment(options, os.environ, sandbox_port(options)) | {
        "DATABASE_URL": servers.database_url,
        "DATABASE_OWNER_URL": servers.owner_url,
        "REDIS_URL": servers.redis_url,
    }


def _on_private_servers(checkout: Path, command: Sequence[str], *, durable: bool) -> int:
    try:
        with StopSignal() as stop, private_servers(checkout, durable=durable) as environment:
            return _in_foreground(command, with_servers(environment), stop)
    except CannotStart as why:
        return complain(str(why))
    except StopRequested:
        return INTERRUPTED


def _in_foreground(command: Sequence[str], environment: Mapping[str, str], stop: StopSignal) -> int:
    """Runs the command at our own terminal, where Ctrl-C reaches it too; passes other signals on."""
    child = subprocess.Popen(command, env=dict(environment))
    try:
        while child.poll() is None:
            stop.pause(0.05)
    except StopRequested:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(FINISH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode

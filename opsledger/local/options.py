"""What `make up` was asked for, read from the environment and checked before anything starts."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from opsledger.lib.env import BadSetting, Env
from opsledger.local.broker import free_port
from opsledger.local.errors import CannotStart

LOOPBACK = "127.0.0.0/8"
# The supervisor decides these for every child; what the environment says about them is read here only.
OWN_NAMES = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "PUBLIC_URL", "ALLOWED_PRIVATE_NETWORKS")


@dataclass(frozen=True)
class Options:
    """`database_url` and `redis_url` are empty where the embedded servers are wanted."""

    checkout: Path
    port: int
    public_url: str
    database_url: str
    owner_url: str
    redis_url: str
    private_networks: tuple[str, ...]

    @property
    def var(self) -> Path:
        return self.checkout / "var"

    @property
    def logs(self) -> Path:
        return self.var / "log"


def read_options(checkout: Path, source: Mapping[str, str]) -> Options:
    """Raises CannotStart that names the variable when one holds nonsense."""
    env = Env(source)
    try:
        port = env.number("PORT", 8000, least=1, most=65_535)
        database_url = env.url("DATABASE_URL", "", ("postgres", "postgresql"))
        return Options(
            checkout=checkout,
            port=port,
            public_url=env.url("PUBLIC_URL", f"http://localhost:{port}", ("http", "https")),
            database_url=database_url,
            owner_url=env.url("DATABASE_OWNER_URL", database_url, ("postgres", "postgresql")),
            redis_url=env.url("REDIS_URL", "", ("redis", "rediss", "unix")),
            private_networks=tuple(env.names("ALLOWED_PRIVATE_NETWORKS", [])),
        )
    except BadSetting as why:
        raise CannotStart(str(why), todo="Correct the variable and start again.") from why


def child_environment(options: Options, source: Mapping[str, str], sandbox_port: int) -> dict[str, str]:
    """What every child gets, whatever the servers are."""
    hidden = {*OWN_NAMES, *(f"{name}_FILE" for name in OWN_NAMES), "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    return {name: value for name, value in source.items() if name not in hidden} | {
        "DJANGO_SETTINGS_MODULE": "opsledger.settings",
        "PYTHONUNBUFFERED": "1",
        "PUBLIC_URL": options.public_url,
        "SANDBOX_URL": f"http://127.0.0.1:{sandbox_port}",
        "ALLOWED_PRIVATE_NETWORKS": ",".join(dict.fromkeys([*options.private_networks, LOOPBACK])),
    }


def make_var(options: Options) -> None:
    """The folder for everything that is not in version control."""
    try:
        options.logs.mkdir(parents=True, exist_ok=True)
    except OSError as why:
        raise CannotStart(
            f"{options.logs} can't be made: {why.strerror}.",
            todo="Make the checkout writable for this user and start again.",
        ) from why


def take_lock(options: Options) -> IO[str]:
    """Held as long as the returned file is open. Raises CannotStart when this checkout runs already."""
    try:
        file = (options.var / "up.lock").open("a+", encoding="ascii")
    except OSError as why:
        raise CannotStart(
            f"{options.var / 'up.lock'} can't be written: {why.strerror}.",
            todo="It probably belongs to another user. Start as that user, or make var/ writable.",
        ) from why
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as why:
        file.seek(0)
        raise CannotStart(
            f"OpsLedger already runs in this checkout ({file.read().strip() or 'just starting'}).",
            kept="Nothing was started and nothing was lost.",
            todo="Use that one, or stop it with Ctrl-C first. A second one needs a checkout of its own.",
        ) from why
    file.truncate(0)
    file.write(f"process {os.getpid()}, {options.public_url}")
    file.flush()
    return file


def check_port(port: int) -> None:
    """Raises CannotStart when somebody listens on the port, on IPv4 or on IPv6 (browsers try both)."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except OSError as why:
            if why.errno == errno.EADDRINUSE:
                raise CannotStart(
                    f"Port {port} is in use by another program.",
                    kept="Nothing was started and nothing was lost.",
                    todo="Stop that program, or take another port: make up PORT=8001",
                ) from why
            if why.errno == errno.EACCES:
                raise CannotStart(
                    f"Port {port} needs rights that this user does not have.",
                    kept="Nothing was started and nothing was lost.",
                    todo="Take a port above 1023: make up PORT=8000",
                ) from why
            # otherwise this machine has no such address family: nobody can listen there


def sandbox_port(options: Options) -> int:
    """The sandbox destinations' port: the same at every start, since stored definitions name it."""
    path = options.var / "sandbox_port.json"
    try:
        port = int(json.loads(path.read_text(encoding="ascii")))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, ValueError, OverflowError):
        port = free_port()
        path.write_text(json.dumps(port), encoding="ascii")
    return port

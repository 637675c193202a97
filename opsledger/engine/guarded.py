"""Connections of libraries that resolve and connect by themselves: only to addresses that the guard allows.

The guard stands where the connection is made, in the interpreter's own event for it, so that it holds for every library, for
names whose addresses change, and for redirects. It concerns only what is called under `guarded`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

from opsledger.destinations.transport import AddressGuard


class AddressRefused(OSError):
    """The address is neither public nor in ALLOWED_PRIVATE_NETWORKS; no byte was sent there."""


class _Watch(threading.local):
    guard: AddressGuard | None = None
    refused: bool = False


_watch = _Watch()
_installing = threading.Lock()
_installed = False


@contextmanager
def guarded(guard: AddressGuard) -> Iterator[_Watch]:
    """This thread connects to what the guard allows, and to nothing else. `.refused` tells whether it wanted to."""
    _install()
    _watch.guard, _watch.refused = guard, False
    try:
        yield _watch
    finally:
        _watch.guard = None


def _install() -> None:
    """Once per process, and only in one that sends notices: such a hook can't be taken away again."""
    global _installed
    with _installing:
        if not _installed:
            sys.addaudithook(_on_event)
            _installed = True


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event != "socket.connect" or _watch.guard is None:
        return
    if not _allows(_watch.guard, args[1]):
        _watch.refused = True
        raise AddressRefused("this address may not be connected to")


def _allows(guard: AddressGuard, address: Any) -> bool:
    try:
        return isinstance(address, tuple) and guard.allows(ip_address(str(address[0]).partition("%")[0]))
    except ValueError:  # a name that would be resolved out of sight
        return False

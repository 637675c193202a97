"""Who acts, for changes that are not about an operation: people, teams, roles, tokens.

Set by whoever lets somebody in (the console's middleware); a command acts as the user who runs it.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str] = ContextVar("actor", default="")


def current_actor() -> str:
    """`person:…` inside a person's request, `command:…` otherwise."""
    return _actor.get() or f"command:{_user()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "unknown"


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)

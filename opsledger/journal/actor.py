"""Who acts, as the journal writes it. A name of a person or of a token is never among it: names are free text, and what is
in the journal stays.

For changes that are not about an operation (people, teams, roles, tokens) it is set by whoever lets somebody in (the
console's middleware); a command acts as the user who runs it.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The database refuses every other form (`entry_actor_is_no_name`); migrations repeat it.
#   engine, web           by itself, and somebody who has not signed in
#   person:, token:       and the id, never the name
#   source:, destination: and the slug of the definition
#   command:, worker:     and the account that ran it, or the process: no space, no @, nothing but ASCII
# How long each may be stands beside the form, not in it: PostgreSQL needs 116 µs for a worker's name where the form counts
# characters, and 2 where it does not; every line is checked.
ACTOR_FORM = (
    r"^(?:engine|web|(?:person|token):[0-9a-f-]*|(?:source|destination):[a-z][a-z0-9_-]*"
    r"|(?:command|worker):[A-Za-z0-9][A-Za-z0-9._:-]*)$"
)
ACTOR_LENGTH_MAX = 160
ACTOR_LENGTHS = {"person:": 43, "token:": 42}  # with an id in its usual form behind it
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)

_actor: ContextVar[str] = ContextVar("actor", default="")


def current_actor() -> str:
    """`person:…` inside a person's request, `command:…` otherwise."""
    return _actor.get() or f"command:{_account()}"


def _account() -> str:
    """The account that runs this; its number where it has no name, or one that the journal does not take."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):
        account = ""
    return account if _ACCOUNT.fullmatch(account) else f"uid-{os.getuid()}"


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)

"""A secret kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def random_text() -> str:
    return secrets.token_urlsafe(48)


def read_or_make(path: Path, *, make: Callable[[], str] = random_text) -> str:
    """The secret in `path`; made there with mode 0600 when absent. Safe when several processes start at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        return _read(path)
    except FileNotFoundError:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(make())
        try:
            os.link(scratch, path)  # refuses when another process was first; then theirs is read
        except FileExistsError:
            pass
        finally:
            scratch.unlink()
        return _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()

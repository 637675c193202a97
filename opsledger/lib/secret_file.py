"""A secret kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def read_or_make(path: Path, *, bytes_count: int = 48) -> str:
    """The secret in `path`; made there with mode 0600 when absent. Safe when several processes start at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        return _read(path)
    except FileNotFoundError:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(bytes_count))
        try:
            os.link(scratch, path)  # refuses when another process was first; then theirs is read
        except FileExistsError:
            pass
        finally:
            scratch.unlink()
        return _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()

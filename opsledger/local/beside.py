"""Commands beside a running `make up`: how they find its servers."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

NAME = "running.json"


def note(var: Path, environment: Mapping[str, str]) -> None:
    """Kept in var/, readable for its owner only: it holds the databases' passwords."""
    scratch = var / f".{NAME}"
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(dict(environment), file)
    scratch.replace(var / NAME)


def forget(var: Path) -> None:
    (var / NAME).unlink(missing_ok=True)


def read(var: Path) -> dict[str, str]:
    """What was noted last, DATABASE_OWNER_URL included; empty when nothing was or it can't be read."""
    try:
        found = json.loads((var / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

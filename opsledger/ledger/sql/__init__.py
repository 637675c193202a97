"""The hot statements, one file each, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")

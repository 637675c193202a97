"""The hot statements, one file each, read once."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """The text of `sql/<name>.sql` without comments and blanks: psycopg remembers how it read a statement of up to 4,096
    characters, and reads a longer one each time."""
    text = files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return " ".join(re.sub(r"--.*", "", text).split())

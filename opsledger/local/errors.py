"""The one error that a person at the terminal sees."""

from __future__ import annotations

from pathlib import Path

TAIL_BYTES_MAX = 16_384


class CannotStart(Exception):
    """Says what happened, what became of the data, and what to do."""

    def __init__(self, what: str, *, todo: str, kept: str = "Nothing was lost.") -> None:
        super().__init__(f"{what}\n{kept}\n{todo}")
        self.what, self.kept, self.todo = what, kept, todo


def tail(log: Path, lines_max: int = 12) -> str:
    """The last lines of a log, indented; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES_MAX))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in lines[-lines_max:])

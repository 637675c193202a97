"""Words that sentences of the rules share: spans, errors and fields as people read them."""

from __future__ import annotations

SHORTEST_SECONDS = 0.05  # what lasted less is said to be short, not to be nothing


def lasted(seconds: float) -> str:
    """How long something took: “1.2 s”."""
    return f"{seconds:.1f} s" if seconds >= SHORTEST_SECONDS else "less than 0.1 s"


def error_words(error: str, *, nothing: str = "no reason given") -> str:
    """A machine's word for what went wrong, in words: “it answered with status 503” for `status_503`."""
    kind, _, number = error.partition("_")
    if kind == "status" and number.isascii() and number.isdigit():
        return f"it answered with status {number}"
    return error.replace("_", " ") or nothing


def field_words(path: str) -> str:
    """A field's path inside a sentence: “due date” for `due_date`."""
    return path.replace("_", " ").replace(".", " › ").strip()

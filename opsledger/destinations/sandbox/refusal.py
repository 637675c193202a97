"""One way to say no: a status, a code for programs, a sentence for people, and the fields that are wrong."""

from __future__ import annotations

from collections.abc import Sequence

FieldErrors = Sequence[tuple[str, str]]


class Refused(Exception):
    """The request is refused; nothing was done."""

    def __init__(self, status: int, code: str, message: str, fields: FieldErrors = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fields = tuple(fields)

    def document(self) -> dict[str, object]:
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.fields:
            error["fields"] = [{"field": field, "message": message} for field, message in self.fields]
        return {"error": error}


def invalid(fields: FieldErrors) -> Refused:
    """422 that names every wrong field at once."""
    names = ", ".join(field for field, _ in fields)
    return Refused(422, "invalid", f"Nothing was done. Wrong or missing: {names}.", fields)

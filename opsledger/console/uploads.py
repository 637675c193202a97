"""Files that people attach: kept in memory up to the one limit, and never on disk."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from django.core.files.uploadedfile import InMemoryUploadedFile
from django.core.files.uploadhandler import FileUploadHandler

from opsledger.console.http import ConsoleRequest
from opsledger.rules.reference_list import BYTES_MAX


class KeptSmall(FileUploadHandler):
    """Keeps one byte more than is allowed of each file and drops the rest, so that whoever asks can tell, and nobody fills
    the memory."""

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self.kept = BytesIO()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.kept.write(raw_data[: max(0, BYTES_MAX + 1 - self.kept.tell())])

    def file_complete(self, file_size: int) -> InMemoryUploadedFile:
        self.kept.seek(0)
        return InMemoryUploadedFile(
            self.kept, self.field_name, self.file_name, self.content_type, file_size, self.charset
        )


def attached(request: ConsoleRequest, name: str) -> tuple[bytes, str]:
    """A file's first BYTES_MAX + 1 bytes and its name; nothing where none was chosen."""
    found = request.FILES.get(name)
    return (found.read(), found.name or "") if found is not None else (b"", "")


def pasted(request: ConsoleRequest, name: str) -> bytes:
    """Text of a field as bytes; a blank one is nothing."""
    text = request.POST.get(name, "")
    return text.encode("utf-8", "replace") if text.strip() else b""

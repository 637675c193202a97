"""Reading the reply: what of its head came, how its body is framed, and why it is incomplete."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import h11
import httpcore

from opsledger.destinations.transport.words import Word

Headers = tuple[tuple[str, str], ...]

_STATUS_LINE = re.compile(rb"(?:\r?\n)*HTTP/1\.[0-9] ([1-9][0-9]{2})[^\r\n]*\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_KEPT_BYTES_MAX = 164 * 1024  # a head is refused above 100 KiB, and read by 64 KiB
_HEADERS_TOO_LARGE = 431  # h11's hint for a head above its limit


@dataclass(slots=True)
class HeadTap:
    """Reads along to know the last status line even when the head around it never becomes complete."""

    status: int | None = None
    final: bool = False  # the status is a last one, no 1xx before the real reply
    complete: bool = False
    _kept: bytearray = field(default_factory=bytearray)

    @property
    def partial(self) -> bool:
        """Something came after the last complete head."""
        return bool(self._kept)

    def feed(self, data: bytes) -> None:
        if not self.complete and len(self._kept) < _KEPT_BYTES_MAX:
            self._kept += data
            while self._next_head():
                pass

    def _next_head(self) -> bool:
        """Note the status line; drop the head when it is an interim one that is complete."""
        line = _STATUS_LINE.match(self._kept)
        if line is None:
            return False
        self.status = int(line[1])
        self.final = self.status >= 200
        end = _HEAD_END.search(self._kept, line.end() - 2)
        if end is None:
            return False
        self.complete = self.final
        del self._kept[: end.end()]
        return not self.complete


@dataclass(slots=True)
class Reply:
    """What of the reply was understood so far."""

    status: int | None = None
    headers: Headers = ()
    body: bytearray = field(default_factory=bytearray)
    truncated: bool = False
    length_known: bool = True

    def take_head(self, method: str, response: httpcore.Response) -> None:
        self.status = response.status
        self.headers = tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers
        )
        framed = {"content-length", "transfer-encoding"} & {name for name, _ in self.headers}
        self.length_known = bool(framed) or method == "HEAD" or self.status in (204, 304)

    def take_body(self, response: httpcore.Response, bytes_max: int) -> None:
        """Keep the first `bytes_max` bytes, as they came (gzip stays gzip); stop at the first one above."""
        for chunk in response.iter_stream():
            room = bytes_max - len(self.body)
            self.body += chunk[:room]
            if len(chunk) > room:
                self.truncated = True
                return


def why_incomplete(error: httpcore.RemoteProtocolError, reply: Reply, tap: HeadTap, *, ended: bool) -> Word:
    """Name what is missing from a reply that broke the protocol. `ended`: the peer closed the connection."""
    if not ended:
        cause = error.__cause__
        hint = cause.error_status_hint if isinstance(cause, h11.RemoteProtocolError) else 0
        return Word.HEADERS_TOO_LARGE if hint == _HEADERS_TOO_LARGE else Word.MALFORMED_REPLY
    if reply.status is None:
        return Word.CUT_HEADERS if tap.partial else Word.CLOSED
    chunked = any(name == "transfer-encoding" for name, _ in reply.headers)
    return Word.MISSING_LAST_CHUNK if chunked else Word.SHORT_BODY

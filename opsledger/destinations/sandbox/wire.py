"""HTTP/1.1 on a raw socket: what arrives, byte for byte, and full control over what leaves."""

from __future__ import annotations

import functools
import re
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

from .documents import Document, dump, parse_object
from .refusal import Refused

HEAD_BYTES_MAX = 65_536
HEADERS_MAX = 200
BODY_BYTES_MAX = 1 << 26
HELD_BYTES_MAX = 1 << 20
IDLE_SECONDS = 75.0
TICK_SECONDS = 0.02

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([!-~]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\x00\r\n]*?)[ \t]*")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?", re.DOTALL)
_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)


class ClientLeft(Exception):
    """The client closed, reset or fell silent."""


@dataclass(slots=True)
class Request:
    """One wire request. `target` is as received; `identity` and `key` are byte-exact."""

    method: str
    target: str
    path: str
    query: str
    minor: int  # of HTTP/1.x
    headers: list[tuple[str, str]]
    body: bytes = b""
    complete: bool = False
    identity: str = ""
    key: str | None = None
    _fields: dict[str, list[str]] = field(default_factory=dict)
    _document: Document | None = None

    def values(self, name: str) -> list[str]:
        if not self._fields:
            for given, value in self.headers:
                self._fields.setdefault(given.lower(), []).append(value)
        return self._fields.get(name, [])

    def value(self, name: str) -> str:
        return next(iter(self.values(name)), "")

    @property
    def keeps_alive(self) -> bool:
        wishes = ",".join(self.values("connection")).lower().replace(" ", "").split(",")
        return "close" not in wishes if self.minor else "keep-alive" in wishes

    def document(self) -> Document:
        """The body as a JSON object, read once. Raises Refused (400, 415)."""
        if self._document is None:
            if not is_json(self.value("content-type")):
                raise Refused(415, "not_json", "Nothing was done. Send application/json.")
            self._document = parse_object(self.body)
        return self._document


def is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def succeeds(self) -> bool:
        return 200 <= self.status < 300

    def head(self, extra: tuple[tuple[str, str], ...]) -> bytes:
        """Status line and headers, the empty line included."""
        lines = [f"HTTP/1.1 {self.status} {_reason(self.status)}", f"Date: {_date(int(time.time()))}"]
        lines += [f"{name}: {value}" for name, value in (*self.headers, *extra)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def encode(self, *, close: bool, without_body: bool = False) -> bytes:
        """All bytes of the reply with its length announced."""
        extra: tuple[tuple[str, str], ...] = (("Connection", "close" if close else "keep-alive"),)
        if self.status >= 200 and self.status not in (204, 304):
            extra = (("Content-Length", str(len(self.body))), *extra)
        return self.head(extra) + (b"" if without_body or self.status in (204, 304) else self.body)


JSON = ("Content-Type", "application/json")


def json_reply(status: int, document: object, *headers: tuple[str, str]) -> Reply:
    return Reply(status, dump(document), (JSON, *headers))


def refusal_reply(refused: Refused, *headers: tuple[str, str]) -> Reply:
    return json_reply(refused.status, refused.document(), *headers)


@functools.cache
def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Other"


@functools.lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)


class Wire:
    """One accepted connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        sock.settimeout(IDLE_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # reading

    def read_head(self) -> Request | None:
        """The next request's line and headers; None when the client left between two requests.

        Raises ClientLeft in the middle of a head, Refused (400, 431, 505) for one that is not HTTP/1.x.
        """
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._buffer = self._buffer.lstrip(b"\r\n")
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise _head_too_large()
            try:
                self._fill()
            except ClientLeft:
                if self._buffer:
                    raise
                return None
        if end > HEAD_BYTES_MAX:
            raise _head_too_large()
        head, self._buffer = self._buffer[:end].lstrip(b"\r\n"), self._buffer[end + 4 :]
        return parse_head(head)

    def read_body(self, request: Request) -> None:
        """Read the whole body into `request`. Raises ClientLeft, or Refused (400, 413, 417, 501)."""
        expected = request.value("expect").lower()
        if expected and expected != "100-continue":
            raise Refused(417, "unknown_expectation", "Nothing was done. Only 100-continue can be expected.")
        length = body_length(request)
        if expected and length != 0 and not self._buffer:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.body = self._read_chunks() if length is None else self._read_exactly(length)
        request.complete = True

    def _fill(self) -> None:
        try:
            received = self._sock.recv(65_536)
        except OSError as lost:
            raise ClientLeft from lost
        if not received:
            raise ClientLeft
        self._buffer += received

    def _read_exactly(self, count: int) -> bytes:
        if len(self._buffer) < count:
            self._read_more(count - len(self._buffer))
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _read_more(self, missing: int) -> None:
        parts = [self._buffer]
        while missing > 0:
            self._buffer = b""
            self._fill()
            parts.append(self._buffer)
            missing -= len(self._buffer)
        self._buffer = b"".join(parts)

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise Refused(400, "bad_chunk", "Nothing was done. A chunk's line is too long.")
            self._fill()
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        return line

    def _read_chunks(self) -> bytes:
        parts: list[bytes] = []
        total = 0
        while size := self._chunk_size():
            total += size
            if total > BODY_BYTES_MAX:
                raise _too_large()
            parts.append(self._read_exactly(size))
            if self._read_exactly(2) != b"\r\n":
                raise Refused(400, "bad_chunk", "Nothing was done. A chunk is longer than it said.")
        while self._read_line():
            pass  # trailers say nothing that is used here
        return b"".join(parts)

    def _chunk_size(self) -> int:
        match = _CHUNK_SIZE.fullmatch(self._read_line())
        if match is None:
            raise Refused(400, "bad_chunk", "Nothing was done. A chunk's size can't be read.")
        return int(match[1], 16)

    # writing and ending

    def send(self, data: bytes) -> None:
        """Raises ClientLeft when nobody takes it."""
        try:
            self._sock.sendall(data)
        except OSError as lost:
            raise ClientLeft from lost

    def hold(self, until: Callable[[], bool] | None) -> bool:
        """Say nothing. True when `until` became true; False when the client left first.

        Without `until` only the client, or the peer's stop, ends it.
        """
        while until is None or not until():
            ready, _, _ = select.select([self._sock], [], [], None if until is None else TICK_SECONDS)
            if ready and not self._keep_what_comes():
                return False
        return True

    def _keep_what_comes(self) -> bool:
        try:
            self._fill()
        except ClientLeft:
            return False
        return len(self._buffer) <= HELD_BYTES_MAX

    def drain(self, seconds: float) -> None:
        """Half-close and read away what still comes, so that the last answer can be read."""
        with suppress(OSError, ClientLeft):
            self._sock.shutdown(socket.SHUT_WR)
            self._sock.settimeout(seconds)
            self._buffer = b""
            for _ in range(BODY_BYTES_MAX // 65_536):
                self._fill()
                self._buffer = b""

    def reset(self) -> None:
        """Close so that the client receives RST."""
        with suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def close(self) -> None:
        """Close with FIN; unread bytes make the kernel send RST instead. May be called twice."""
        self._sock.close()

    def interrupt(self) -> None:
        """From another thread: wake whoever reads or writes here, as if the client had left."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)


def parse_head(head: bytes) -> Request:
    lines = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(lines[0])
    if match is None:
        version = re.fullmatch(rb"\S+ \S+ HTTP/[0-9.]+", lines[0])
        if version:
            raise Refused(505, "version_not_supported", "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
        raise Refused(400, "bad_request_line", "Nothing was done. The request line can't be read.")
    if len(lines) > HEADERS_MAX:
        raise Refused(431, "too_many_headers", f"More than {HEADERS_MAX} headers.")
    target = match[2].decode()
    path, query = split_target(target)
    headers = [_parse_header(line) for line in lines[1:]]
    request = Request(match[1].decode(), target, path, query, int(match[3]), headers)
    if request.minor and len(request.values("host")) != 1:
        raise Refused(400, "no_host", "Nothing was done. HTTP/1.1 needs one Host header.")
    return request


def split_target(target: str) -> tuple[str, str]:
    """Path and query, still encoded; scheme, host and fragment left out."""
    path, _, query = _ABSOLUTE.sub("", target.partition("#")[0], count=1).partition("?")
    return path or "/", query


def _parse_header(line: bytes) -> tuple[str, str]:
    match = _HEADER.fullmatch(line)
    if match is None:
        raise Refused(400, "bad_header", "Nothing was done. A header line can't be read.")
    return match[1].decode(), match[2].decode("latin-1")


def body_length(request: Request) -> int | None:
    """Announced bytes of the body; None for chunks. Raises Refused (400, 413, 501)."""
    codings, lengths = request.values("transfer-encoding"), set(request.values("content-length"))
    if codings:
        if lengths:
            raise Refused(400, "two_lengths", "Nothing was done. Both a length and chunks are announced.")
        if [coding.strip().lower() for coding in codings] != ["chunked"]:
            raise Refused(501, "unknown_coding", "Nothing was done. Only chunked is understood.")
        return None
    if not lengths:
        return 0
    length = lengths.pop()
    if lengths or not re.fullmatch(r"[0-9]{1,18}", length, re.ASCII):
        raise Refused(400, "bad_length", "Nothing was done. The Content-Length can't be read.")
    if int(length) > BODY_BYTES_MAX:
        raise _too_large()
    return int(length)


def _head_too_large() -> Refused:
    return Refused(431, "head_too_large", f"The head is larger than {HEAD_BYTES_MAX} bytes.")


def _too_large() -> Refused:
    return Refused(413, "too_large", f"Nothing was done. A body may have {BODY_BYTES_MAX} bytes.")

"""A socket under one deadline that records by itself whether a byte of the request may have left.

httpcore's own stream hands each call its own time, so a peer that drips one byte at a time is never cut.
Here every wait, in every call, ends at the same moment.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpcore

from opsledger.destinations.transport.addresses import Endpoint
from opsledger.destinations.transport.deadline import Deadline, wait_for
from opsledger.destinations.transport.reply import HeadTap
from opsledger.destinations.transport.tls import TlsSocket
from opsledger.destinations.transport.words import Stopped, Word
from opsledger.rules.facts import Phase

_WRITE_BYTES = 16 * 1024  # one TLS record
_READ_BYTES = 64 * 1024
_EARLY_BYTES_MAX = 1024 * 1024
_NOTHING_FREE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# A peer that has answered and takes nothing more for this long is not going to read the rest.
_EARLY_REPLY_GRACE_SECONDS = 1.0


@dataclass(slots=True)
class Progress:
    """How far the send came."""

    phase: Phase = Phase.GUARD
    left: bool = False
    hop: str = "destination"
    address: str = ""


class DeadlineStream(httpcore.NetworkStream):
    """`heard`, `ended`, `ragged`, `broken` and `write_broken` come from the socket's own events."""

    def __init__(self, sock: socket.socket, deadline: Deadline, progress: Progress) -> None:
        sock.setblocking(False)
        self._sock: socket.socket | TlsSocket = sock
        self._deadline = deadline
        self._progress = progress
        self._early = bytearray()  # what the peer said while we were still writing
        self.tap = HeadTap()
        self.heard = False  # at least one byte of a reply came
        self.ended = False  # the peer closed its side
        self.ragged = False  # it did so without TLS's closing notice
        self.broken: Word | None = None
        self.write_broken: Word | None = None

    def carry_request(self, deadline: Deadline) -> None:
        """From here on, what is written is the request, under the total deadline."""
        self._deadline = deadline
        self._progress.phase = Phase.WRITE
        self.tap = HeadTap()
        self.heard = False

    # TLS

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Raises Stopped."""
        self._progress.phase = Phase.TLS
        try:
            self._shake_hands(ssl_context, server_hostname or "")
        except ssl.SSLCertVerificationError:
            raise Stopped(Phase.TLS, Word.CERTIFICATE_REFUSED) from None
        except OSError:
            raise Stopped(Phase.TLS, Word.TLS_FAILED) from None
        return self

    def _shake_hands(self, context: ssl.SSLContext, name: str) -> None:
        if isinstance(self._sock, TlsSocket):
            raise TypeError("TLS within TLS is not offered")
        secure = self._sock = TlsSocket(self._sock, context, name)
        while wanted := secure.shake_hands():
            if self._deadline.passed or not wait_for(secure, wanted, self._deadline):
                raise Stopped(Phase.TLS, Word.TIMEOUT)

    # writing

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Hand over all bytes; read along, so that an early answer is not lost when the peer then resets."""
        if self._progress.phase is Phase.WRITE:
            self._progress.left = True  # before the first byte: from here nobody can prove that nothing left
        rest = memoryview(buffer)
        while rest:
            rest = rest[self._write_some(rest[:_WRITE_BYTES]) :]

    def _write_some(self, chunk: memoryview) -> int:
        until = self._deadline
        while True:
            if self._deadline.passed:
                raise httpcore.WriteError if self.tap.final else httpcore.WriteTimeout
            try:
                return self._sock.send(chunk)
            except BlockingIOError:
                pass
            except OSError as error:
                self.write_broken = _word_of(error)
                raise httpcore.WriteError from error
            if self.tap.final:
                until = min(until, self._deadline.within(_EARLY_REPLY_GRACE_SECONDS), key=lambda end: end.at)
            self._wait_to_write(until)

    def _wait_to_write(self, until: Deadline) -> None:
        """Raises httpcore.WriteError, upon which HTTP11Connection goes on to read the reply."""
        listening = not self.ended and len(self._early) < _EARLY_BYTES_MAX
        ready = wait_for(self._sock, select.POLLOUT | (select.POLLIN if listening else 0), until)
        if not ready and self.tap.final:  # answered, and takes no more: read the answer
            raise httpcore.WriteError
        if ready & select.POLLIN and listening:
            try:
                self._early += self._receive(_READ_BYTES) or b""
            except httpcore.ReadError as error:
                self.write_broken = self.broken
                raise httpcore.WriteError from error

    # reading

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """At most `max_bytes`; b"" when the peer closed its side. `timeout` can only shorten the deadline."""
        if self._early:
            taken = bytes(self._early[:max_bytes])
            del self._early[:max_bytes]
            return taken
        if self._progress.phase is Phase.WRITE and (self.heard or not self.write_broken):
            self._progress.phase = Phase.READ
        return b"" if self.ended else self._read_from_socket(max_bytes, timeout)

    def _read_from_socket(self, max_bytes: int, timeout: float | None) -> bytes:
        until = self._deadline if timeout is None else self._deadline.within(timeout)
        while not self.broken:
            if self._deadline.passed:  # also when bytes are always there
                raise httpcore.ReadTimeout
            data = self._receive(max_bytes)
            if data is not None:
                return data
            if not wait_for(self._sock, select.POLLIN, until):
                raise httpcore.ReadTimeout
        raise httpcore.ReadError

    def _receive(self, max_bytes: int) -> bytes | None:
        """What is there now, or None. Raises httpcore.ReadError."""
        try:
            data = self._sock.recv(max_bytes)
        except BlockingIOError:
            return None
        except ssl.SSLEOFError:
            self.ragged, data = True, b""
        except OSError as error:
            self.broken = _word_of(error)
            raise httpcore.ReadError from error
        self.ended = not data
        self.heard = self.heard or bool(data)
        self.tap.feed(data)
        return data

    def close(self) -> None:
        self._sock.close()

    def get_extra_info(self, info: str) -> Any:
        return None


def _word_of(error: OSError) -> Word:
    """A broken pipe is a reset that another call was told of first."""
    if isinstance(error, ConnectionError):
        return Word.RESET
    if isinstance(error, ssl.SSLError):
        return Word.TLS_FAILED
    return Word.TIMEOUT if isinstance(error, TimeoutError) else Word.UNREACHABLE


Allows = Callable[[Endpoint], bool]


def connect(
    endpoints: list[Endpoint], allows: Allows, deadline: Deadline, progress: Progress
) -> DeadlineStream:
    """Connect to the first allowed endpoint that answers; nothing has left yet, so the next may be tried.
    Each gets an equal share of the time that is left. Raises Stopped."""
    allowed = [endpoint for endpoint in endpoints if allows(endpoint)]
    if not allowed:
        progress.address = endpoints[0].text
        raise Stopped(Phase.GUARD, Word.ADDRESS_REFUSED)
    failure = Stopped(Phase.CONNECT, Word.TIMEOUT)
    for index, endpoint in enumerate(allowed):
        progress.address = endpoint.text
        share = deadline.within(deadline.remaining_seconds() / (len(allowed) - index))
        try:
            return DeadlineStream(_connect_one(endpoint, share), deadline, progress)
        except Stopped as stopped:
            failure = stopped
    raise failure


def _connect_one(endpoint: Endpoint, deadline: Deadline) -> socket.socket:
    if deadline.passed:
        raise Stopped(Phase.CONNECT, Word.TIMEOUT)
    try:
        sock = socket.socket(endpoint.family, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno in _NOTHING_FREE:
            raise Stopped(Phase.POOL, Word.NO_CONNECTION_FREE) from None
        raise Stopped(Phase.CONNECT, Word.UNREACHABLE) from None
    try:
        sock.settimeout(max(deadline.remaining_seconds(), 0.001))  # 0 would mean "do not wait"
        sock.connect(endpoint.sockaddr)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        sock.close()
        raise Stopped(Phase.CONNECT, _connect_word(error)) from None
    return sock


def _connect_word(error: OSError) -> Word:
    if isinstance(error, TimeoutError):
        return Word.TIMEOUT
    return Word.REFUSED if isinstance(error, ConnectionRefusedError) else Word.UNREACHABLE

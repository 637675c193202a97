"""TLS over a non-blocking socket, and the context that it is made from."""

from __future__ import annotations

import contextlib
import functools
import select
import socket
import ssl

import certifi

_RAW_BYTES = 64 * 1024


@functools.lru_cache(maxsize=8)
def tls_context(ca_file: str = "") -> ssl.SSLContext:
    """Made once per set of authorities, then only read. Offers HTTP/1.1 only.

    Trusts the system's authorities, certifi's, and those in `ca_file` (PEM).

    Raises OSError when the file can't be read: a wrong setting, not something the network did.
    """
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    if ca_file:
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsSocket:
    """A socket's `send` and `recv`, encrypted in memory.

    Unlike ssl.SSLSocket it can still read what the peer said before it broke our writing, and a reset stays a
    reset (Pythons before 3.11.9 and 3.12.3 report it as an end). Whatever blocks raises BlockingIOError.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, name: str) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._unsent = b""
        self._held_count = 0  # bytes of the caller's that are encrypted, but not all handed over

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def shake_hands(self) -> int:
        """Go on until done (0) or until a poll event must be waited for. Raises ssl.SSLError or OSError."""
        while True:
            done = self._handshake_step()
            try:
                self._flush()
            except BlockingIOError:
                return select.POLLOUT
            if done:
                return 0
            try:
                self._pull()
            except BlockingIOError:
                return select.POLLIN

    def _handshake_step(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # the alert that tells the peer why
                self._flush()
            raise
        return True

    def send(self, chunk: memoryview) -> int:
        """The count handed over. After BlockingIOError it must be called again with the same chunk."""
        if not self._held_count:
            self._held_count = self._object.write(chunk)
        self._flush()
        count, self._held_count = self._held_count, 0
        return count

    def recv(self, bytes_max: int) -> bytes:
        """b"" after the peer's closing notice; ssl.SSLEOFError when it closed without one."""
        while True:
            try:
                return self._object.read(bytes_max)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                self._pull()

    def _pull(self) -> None:
        if self._incoming.eof:
            raise ssl.SSLEOFError
        data = self._sock.recv(_RAW_BYTES)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _flush(self) -> None:
        self._unsent += self._outgoing.read()
        while self._unsent:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]

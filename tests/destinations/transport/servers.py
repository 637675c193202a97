"""Real servers on the loopback that follow a script, one thread per connection, and count what reaches them.

with serving(answers(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")) as server:
    ... server.url("/orders") ...
    assert len(server.requests) == 1
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
# A peer that waits for a client's next move gives up after this long, so that a broken test ends.
_PATIENCE_SECONDS = 10


@dataclass
class Peer:
    """The server's end of one connection."""

    sock: socket.socket
    server: Server

    def read_head(self) -> bytes:
        """The request line and headers, as received; b"" when the client closed first."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self.sock.recv(1)
            if not byte:
                return b""
            head += byte
        self.server.requests.append(head)
        return head

    def read_request(self) -> bytes:
        """Head and body."""
        head = self.read_head()
        length = _LENGTH.search(head)
        return head + self.read_exactly(int(length[1]) if length else 0)

    def read_exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self.sock.recv(min(count, 1 << 20))
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def drip(self, data: bytes, pause_seconds: float = 0.02) -> None:
        """One byte at a time, until the client leaves or the test ends."""
        for index in range(len(data)):
            self.send(data[index : index + 1])
            if self.server.stopping.wait(pause_seconds):
                return

    def wait_for_close(self) -> None:
        """Say nothing until the client closes."""
        while self.sock.recv(1 << 16):
            pass

    def wait_for_end(self) -> None:
        """Neither read nor say anything until the test ends."""
        self.server.stopping.wait(_PATIENCE_SECONDS)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


Script = Callable[[Peer], None]


@dataclass
class Server:
    script: Script
    listener: socket.socket
    port: int
    tls: ssl.SSLContext | None = None
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    names: list[str] = field(default_factory=list)  # asked for in TLS
    stopping: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self.serve, args=(sock,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve(self, sock: socket.socket) -> None:
        """The client may leave at any time: OSError is ordinary here, everything else fails the test."""
        sock.settimeout(_PATIENCE_SECONDS)
        # Without it a short reply may wait for an acknowledgement, and a close with unread bytes discards it.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(lambda: sock.close())
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            try:
                self.script(Peer(sock, self))
            except OSError:
                raise
            except BaseException as failure:
                self.failures.append(failure)

    def stop(self) -> None:
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self.listener.close()
        for thread in self.threads:
            thread.join(_PATIENCE_SECONDS)
        if self.failures:
            raise self.failures[0]


@contextlib.contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(script, listener, listener.getsockname()[1], tls)
    if tls:
        tls.sni_callback = lambda _sock, name, _context: server.names.append(name or "")
    acceptor = threading.Thread(target=server.accept, daemon=True)
    acceptor.start()
    try:
        yield server
    finally:
        server.stop()
        acceptor.join(_PATIENCE_SECONDS)


def answers(reply: bytes) -> Script:
    """Read the whole request, send these bytes, close."""

    def script(peer: Peer) -> None:
        if peer.read_request():
            peer.send(reply)

    return script


def answers_and_waits(reply: bytes) -> Script:
    """Read the whole request, send these bytes, then leave the connection open."""

    def script(peer: Peer) -> None:
        if peer.read_request():
            peer.send(reply)
            peer.wait_for_close()

    return script


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate that is its own authority."""

    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificate(folder: Path, names: str) -> Certificate:
    """`names` as OpenSSL writes them: `DNS:peer.test,IP:127.0.0.1`. Needs the `openssl` program."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = "openssl req -x509 -nodes -days 2 -subj /CN=test -newkey ec -pkeyopt ec_paramgen_curve:P-256"
    extensions = [
        f"subjectAltName={names}",
        "basicConstraints=critical,CA:TRUE",
        "keyUsage=critical,digitalSignature,keyCertSign",
    ]
    added = [part for extension in extensions for part in ("-addext", extension)]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run([*command.split(), *added, *files], check=True, capture_output=True)
    return made

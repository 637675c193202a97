"""A mail server and a web service of the test's own, on real sockets. Each keeps what it was given."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS_MAX = 10.0


@dataclass
class MailSink:
    """`says`: `ok`, or where it goes wrong: `refuse` (the recipient), `hang_up` (after the message), `silent`,
    `chatter` (an answer without end)."""

    port: int = 0
    says: str = "ok"
    lines: int = 0  # of its chatter
    mails: list[EmailMessage] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)


@contextmanager
def mail_sink() -> Iterator[MailSink]:
    sink, refusal = MailSink(), "550 nobody of this name"

    class Handler(socketserver.StreamRequestHandler):
        timeout = SECONDS_MAX

        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 sink.test")
            for raw in self.rfile:
                verb = raw[:4].upper()
                if sink.says == "chatter":
                    _chatter(sink, self.wfile)
                    return
                if verb == b"DATA":
                    self.say("354 go on")
                    if not self.take_mail():
                        return
                elif verb == b"QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say(refusal if verb == b"RCPT" and sink.says == "refuse" else "250 sink.test")

        def take_mail(self) -> bool:
            lines = list(iter(self.rfile.readline, b".\r\n"))
            mail = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
            sink.mails.append(mail)  # type: ignore[arg-type]
            sink.arrived.set()
            if sink.says == "hang_up":
                return False
            if sink.says == "silent":
                sink.let_go.wait(SECONDS_MAX)
                return False
            self.say("250 taken")
            return True

    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as sink.port:
        yield sink
        sink.let_go.set()


def _chatter(sink: MailSink, wire: Any) -> None:
    with suppress(OSError):  # until whoever listens hangs up
        while not sink.let_go.is_set():
            wire.write(b"250-one more line\r\n" * 100)
            sink.lines += 100


@dataclass
class WebSink:
    port: int = 0
    status: int = 200
    location: str = ""
    drips: bool = False  # answers a byte at a time, for as long as it is waited for
    answer: bytes = b""  # sent `answers` times over
    answers: int = 1
    answer_headers: dict[str, str] = field(default_factory=dict)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)


@contextmanager
def web_sink() -> Iterator[WebSink]:
    sink = WebSink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.bodies.append(json.loads(body))
            sink.paths.append(self.path)
            sink.headers.append(dict(self.headers))
            self.send_response(sink.status)
            if sink.location:
                self.send_header("Location", sink.location)
            for name, value in sink.answer_headers.items():
                self.send_header(name, value)
            if "Content-Length" not in sink.answer_headers:
                self.send_header(
                    "Content-Length", "1000" if sink.drips else str(len(sink.answer) * sink.answers)
                )
            self.end_headers()
            with suppress(OSError):  # whoever called hung up
                for _ in range(sink.answers):
                    self.wfile.write(sink.answer)
            while sink.drips and not sink.let_go.wait(0.2):
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return

        def log_message(self, *args: object) -> None:
            """Quiet."""

    with _serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as sink.port:
        yield sink
        sink.let_go.set()


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    server.daemon_threads = True  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]  # type: ignore[misc]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

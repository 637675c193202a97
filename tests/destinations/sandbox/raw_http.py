"""A client that says exactly what it is told and tells exactly what arrived."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

PATIENCE_SECONDS = 20.0
SILENCE_SECONDS = 0.3


@dataclass(frozen=True)
class Arrived:
    raw: bytes
    end: str  # open, closed, reset or silent

    @property
    def head(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[0]

    @property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def status(self) -> int | None:
        return int(self.raw.split(b" ", 2)[1]) if b"\r\n\r\n" in self.raw else None

    @property
    def headers(self) -> dict[str, str]:
        lines = [line.partition(":") for line in self.head.decode("latin-1").split("\r\n")[1:]]
        return {name.lower(): value.strip() for name, _, value in lines}

    @property
    def is_whole(self) -> bool:
        """Whether a client could know that the reply is complete."""
        if self.status is None:
            return False
        if self.status == 204 or self.status < 200:
            return True
        if "chunked" in self.headers.get("transfer-encoding", ""):
            return self.body.endswith(b"0\r\n\r\n")
        return len(self.body) == int(self.headers.get("content-length", -1))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    """One connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.sock = socket.create_connection((parts.hostname, parts.port), timeout=10)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def ask(self, method: str, path: str, document: Any = None, **headers: str) -> Arrived:
        self.send(request_bytes(method, path, document, **headers))
        return self.receive()

    def ask_in_vain(self, method: str, path: str, document: Any = None, **headers: str) -> Arrived:
        """The same, where silence is what is looked for."""
        self.send(request_bytes(method, path, document, **headers))
        return self.receive(SILENCE_SECONDS)

    def receive(self, patience_seconds: float = PATIENCE_SECONDS) -> Arrived:
        """Read until a reply is whole, the connection ends, or nothing comes."""
        raw = b""
        self.sock.settimeout(patience_seconds)
        while True:
            try:
                piece = self.sock.recv(65_536)
            except TimeoutError:
                return Arrived(raw, "silent")
            except ConnectionResetError:
                return Arrived(raw, "reset")
            raw += piece
            if not piece:
                return Arrived(raw, "closed")
            if Arrived(raw, "").is_whole and Arrived(raw, "").headers.get("connection") != "close":
                return Arrived(raw, "open")


def request_bytes(method: str, path: str, document: Any = None, **headers: str) -> bytes:
    """`headers` in Python's spelling: `idempotency_key="k"`. A document is sent as JSON, bytes as they are."""
    lines = [f"{method} {path} HTTP/1.1", "Host: sandbox.test"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    body = b""
    if document is not None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        lines += ["Content-Type: application/json"] if "content_type" not in headers else []
        lines += [f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def ask(url: str, method: str, path: str, document: Any = None, **headers: str) -> Arrived:
    """One request on a connection of its own."""
    with RawClient(url) as client:
        return client.ask(method, path, document, **headers)


def task(identity: str, **fields: Any) -> dict[str, Any]:
    return {
        "subject": "Follow up: order 8841",
        "queue": "launch-care",
        "due_date": "2026-04-16",
        "external_id": identity,
        **fields,
    }


def message(identity: str, **fields: Any) -> dict[str, Any]:
    return {
        "to": "buyer@example.org",
        "subject": "Your order",
        "text": "It is on its way.",
        "metadata": {"operation": identity},
        **fields,
    }

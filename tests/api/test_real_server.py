"""What only a real server shows: chunked bodies, repeated headers, lengths that lie. Through granian, by raw sockets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_world import SECRET, World, event, signed
from django.conf import settings

from opsledger.ledger.models import Event, Operation, RawBody, Refusal
from opsledger.local.broker import free_port
from opsledger.local.postgres import Urls

pytestmark = pytest.mark.process
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def port(live_world: World, database_urls: Urls, broker_url: str) -> Iterator[int]:
    """A web process of one worker on the test's database; its port."""
    number = free_port()
    command = [
        sys.executable,
        "-m",
        "granian",
        "opsledger.wsgi:application",
        "--interface",
        "wsgi",
        "--no-ws",
    ]
    command += ["--host", "127.0.0.1", "--port", str(number), "--workers", "1", "--blocking-threads", "4"]
    environment = os.environ | {
        "DATABASE_URL": database_urls.app,
        "DATABASE_OWNER_URL": database_urls.owner,
        "REDIS_URL": broker_url,
        "PROCESS_KIND": "web",
        "API_TEST_SECRET": SECRET,
        "ALLOWED_HOSTS": "127.0.0.1",
    }
    server = subprocess.Popen(
        command, cwd=CHECKOUT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_ready(number, server)
        yield number
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_until_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return
        time.sleep(0.05)  # there is no event to wait for: the server tells nobody that it listens
    raise AssertionError("the server did not become ready")


def talk(port: int, head: list[str], body: bytes, *, end: bool = False) -> tuple[int, bytes]:
    """Sends exactly these bytes; the status and the body of what comes back."""
    lines = ["POST /hooks/shop HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *head, "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        peer.sendall("\r\n".join(lines).encode("latin-1") + body)
        if end:
            peer.shutdown(socket.SHUT_WR)
        reply = b""
        while part := peer.recv(65_536):
            reply += part
    status = int(reply.split(b" ", 2)[1]) if reply else 0
    return status, reply.partition(b"\r\n\r\n")[2]


def head(raw: bytes, *more: str) -> list[str]:
    return [
        "Content-Type: application/json",
        *(f"{name}: {value}" for name, value in signed(raw).items()),
        *more,
    ]


def chunked(raw: bytes, size: int = 7) -> bytes:
    parts = [raw[start : start + size] for start in range(0, len(raw), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_bodies_as_real_senders_frame_them(live_world: World, port: int) -> None:
    raw = json.dumps(event(1)).encode()
    # chunked, without a length: the same bytes as with one
    assert talk(port, head(raw, "Transfer-Encoding: chunked"), chunked(raw))[0] == 202
    assert bytes(RawBody.objects.get().content) == raw
    assert talk(port, head(raw, f"Content-Length: {len(raw)}"), raw)[0] == 202
    assert (Event.objects.get().delivery_count, Operation.objects.count()) == (2, 1)

    # chunked and larger than the limit: 413, and the worker lives
    large = raw + b" " * settings.INTAKE_BODY_BYTES_MAX
    status, said = talk(port, head(large, "Transfer-Encoding: chunked"), chunked(large, 65_536))
    assert status == 413
    assert str(settings.INTAKE_BODY_BYTES_MAX).encode() in said

    # announced larger than the limit: refused before it is read
    status, said = talk(port, head(raw, "Content-Length: 99999999"), raw)
    assert status == 413

    # announced longer than it is: the sender stopped early, nothing was recorded
    assert talk(port, head(raw, f"Content-Length: {len(raw) + 5}"), raw, end=True)[0] == 400

    # the signature header twice: the server hands on one of them, which has to verify like any other (S4)
    wrong = signed(raw)["X-Signature"].replace("v1=", "v1=00")
    twice = ["Content-Type: application/json", *[f"X-Signature: {wrong}"] * 2, f"Content-Length: {len(raw)}"]
    assert talk(port, twice, raw)[0] == 401
    odd = ["Content-Type: application/json", "X-Signature: t=1,v1=\xe9", f"Content-Length: {len(raw)}"]
    assert talk(port, odd, raw)[0] == 401

    counted = dict(Refusal.objects.values_list("reason", "count"))
    assert counted["body_too_large"] == 2
    assert (Event.objects.count(), Operation.objects.count()) == (1, 1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        assert answer.status == 200

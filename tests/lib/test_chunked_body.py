"""What arrives of a body, on servers whose input ends by itself and on those where it does not."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from opsledger.lib.chunked_body import read_chunked_bodies

CAP = 100_000


def seen(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answers with what Django would read: CONTENT_LENGTH bytes."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length <= CAP + 1 else b""
    text = json.dumps(
        {"length": length, "sha256": hashlib.sha256(body).hexdigest(), "read": len(body)}
    ).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text]


wrapped = read_chunked_bodies(seen, bytes_max=CAP)


class Input(BytesIO):
    """Gives at most seven bytes a time, as sockets may."""

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size > 0, "a read without a limit would wait for ever"
        return super().read(min(size, 7))


def call(body: bytes = b"", **environ: Any) -> tuple[str, dict[str, Any]]:
    got: list[str] = []
    stream = environ.pop("stream", None) or Input(body)
    full = {"REQUEST_METHOD": "POST", "wsgi.input": stream, "wsgi.input_terminated": True, **environ}
    answer = b"".join(wrapped(full, lambda status, headers: got.append(status)))  # type: ignore[arg-type, return-value]
    return got[0], json.loads(answer)


def sha(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 6, 7, 8, CAP - 1, CAP], ids=str)
def test_an_unannounced_body_within_the_cap_arrives_whole(size: int) -> None:
    body = os.urandom(size)
    status, answer = call(body, HTTP_TRANSFER_ENCODING="chunked")
    assert (status, answer) == ("200 OK", {"length": size, "sha256": sha(body), "read": size})


def test_an_unannounced_body_is_read_to_one_byte_above_the_cap_and_no_further() -> None:
    stream = Input(b"x" * (CAP + 500))
    assert call(stream=stream, HTTP_TRANSFER_ENCODING="Chunked")[1]["length"] == CAP + 1
    assert stream.tell() == CAP + 1


def test_a_body_without_length_and_encoding_is_read_where_the_input_ends_by_itself() -> None:
    assert call(b"hello")[1]["sha256"] == sha(b"hello")  # HTTP/2 has no chunks


def test_a_get_without_body_is_not_read() -> None:
    class Untouched:
        def read(self, size: int) -> bytes:
            assert size == 0
            return b""

    assert call(REQUEST_METHOD="GET", stream=Untouched())[0] == "200 OK"


def test_chunks_where_the_input_can_not_end_by_itself_are_411() -> None:
    status, problem = call(b"hello", HTTP_TRANSFER_ENCODING="chunked", **{"wsgi.input_terminated": False})
    assert (status, problem["status"]) == ("411 Length Required", 411)


@pytest.mark.parametrize(
    "length",
    ["abc", "-1", "+5", "1_0", "0x5", "5, 5", " 5", "5.0", "\u0665", "9" * 19, "9" * 5000],
    ids=lambda v: v[:8],
)
def test_a_length_that_is_no_number_is_400(length: str) -> None:
    status, problem = call(b"hello", CONTENT_LENGTH=length)
    assert (status, problem["title"]) == ("400 Bad Request", "Bad Request")
    assert "Nothing was recorded" in problem["detail"]


def test_a_body_shorter_than_announced_is_400() -> None:
    status, problem = call(b"hello", CONTENT_LENGTH="6")
    assert status == "400 Bad Request"
    assert "5 bytes; Content-Length announced 6" in problem["detail"]
    assert call(b"hello!", CONTENT_LENGTH="6")[0] == "200 OK"


def test_length_and_encoding_together_are_400() -> None:
    assert call(b"hello", CONTENT_LENGTH="5", HTTP_TRANSFER_ENCODING="chunked")[0] == "400 Bad Request"


def test_another_transfer_encoding_is_501() -> None:
    assert call(b"hello", HTTP_TRANSFER_ENCODING="gzip, chunked")[0] == "501 Not Implemented"


def test_a_body_announced_above_the_cap_is_passed_on_unread() -> None:
    stream = Input(b"x")
    assert call(stream=stream, CONTENT_LENGTH=str(CAP + 2))[1]["length"] == CAP + 2
    assert stream.tell() == 0


def test_a_broken_chunk_is_400_not_500() -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError("chunk without its end")

    assert call(stream=Broken(), HTTP_TRANSFER_ENCODING="chunked")[0] == "400 Bad Request"


def test_the_cap_comes_from_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTAKE_BODY_BYTES_MAX", "2048")
    lengths: list[str] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        lengths.append(environ["CONTENT_LENGTH"])
        return []

    environ = {"REQUEST_METHOD": "POST", "wsgi.input": Input(b"x" * 4096), "wsgi.input_terminated": True}
    read_chunked_bodies(app)(environ, lambda *_: None)  # type: ignore[arg-type, return-value]
    assert lengths == ["2049"]


# On real servers


def exchange(port: int, raw: bytes, *, end: bool = False) -> tuple[int, dict[str, Any]]:
    """Send bytes as they are; `end` closes our side afterwards."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        wire.sendall(raw)
        if end:
            wire.shutdown(socket.SHUT_WR)
        answer = b""
        while part := wire.recv(65_536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n world!\r\n0\r\n\r\n"


class Quiet(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def wsgiref_port() -> Iterator[int]:
    server = make_server("127.0.0.1", 0, wrapped, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def granian_port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).parent
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--port", str(port), "--no-log"]
    environment = os.environ | {"PYTHONPATH": f"{root}:{root.parents[1]}"}
    with subprocess.Popen([*command, "test_chunked_body:wrapped"], env=environment) as server:
        try:
            wait_for(port, server)
            yield port
        finally:
            server.terminate()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        assert server.poll() is None, "granian ended early"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            threading.Event().wait(0.05)
        else:
            return
    raise AssertionError("granian did not listen within ten seconds")


def test_wsgiref_refuses_chunks_instead_of_hanging(wsgiref_port: int) -> None:
    assert exchange(wsgiref_port, CHUNKED)[0] == 411


def test_wsgiref_reads_an_announced_body(wsgiref_port: int) -> None:
    status, answer = exchange(wsgiref_port, HEAD + b"Content-Length: 5\r\n\r\nhello")
    assert (status, answer["sha256"]) == (200, sha(b"hello"))


def test_wsgiref_refuses_a_cut_body(wsgiref_port: int) -> None:
    assert exchange(wsgiref_port, HEAD + b"Content-Length: 9\r\n\r\nhello", end=True)[0] == 400


def test_granian_reads_chunks(granian_port: int) -> None:
    status, answer = exchange(granian_port, CHUNKED)
    assert (status, answer["sha256"], answer["length"]) == (200, sha(b"hello world!"), 12)


def test_granian_stops_at_the_cap(granian_port: int) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    raw = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + 3 * chunk + b"0\r\n\r\n"
    assert exchange(granian_port, raw)[1]["length"] == CAP + 1


def test_granian_refuses_a_cut_body(granian_port: int) -> None:
    assert exchange(granian_port, HEAD + b"Content-Length: 9\r\n\r\nhello", end=True)[0] == 400

"""HTTP as it comes: lengths, chunks, expectations, connections, and what can't be read."""

from __future__ import annotations

import json

import pytest
from raw_http import RawClient, ask, request_bytes, task

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer

BODY = json.dumps(task("op-1")).encode()
START = b"POST /crm/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def test_a_connection_carries_many_requests(peer: SandboxPeer, control: SandboxControl) -> None:
    with RawClient(peer.url) as client:
        for number in range(3):
            assert client.ask("POST", "/crm/tasks", task(f"op-{number}")).end == "open"
    assert len(control.effects()) == 3


@pytest.mark.parametrize(
    ("version", "connection", "end"),
    [
        (b"1.1", b"", "open"),
        (b"1.1", b"Connection: close\r\n", "closed"),
        (b"1.0", b"", "closed"),
        (b"1.0", b"Connection: Keep-Alive\r\n", "open"),
    ],
)
def test_a_connection_ends_as_agreed(peer: SandboxPeer, version: bytes, connection: bytes, end: str) -> None:
    with RawClient(peer.url) as client:
        client.send(b"GET /crm/tasks HTTP/" + version + b"\r\nHost: x\r\n" + connection + b"\r\n")
        assert client.receive().end == end


def test_requests_in_one_packet_are_two_requests(peer: SandboxPeer, control: SandboxControl) -> None:
    with RawClient(peer.url) as client:
        client.send(
            request_bytes("GET", "/crm/tasks") + request_bytes("GET", "/mail/messages", connection="close")
        )
        arrived = client.receive().raw + client.receive().raw
    assert arrived.count(b"HTTP/1.1 200 OK") == 2
    assert len(control.requests()) == 2


def test_a_body_in_chunks_is_read(peer: SandboxPeer, control: SandboxControl) -> None:
    pieces = [BODY[:10], BODY[10:11], BODY[11:]]
    chunks = b"".join(b"%X;note=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    with RawClient(peer.url) as client:
        client.send(START + b"Transfer-Encoding: chunked\r\n\r\n")
        for byte in chunks + b"0\r\nTrailer: x\r\n\r\n":
            client.send(bytes([byte]))
        assert client.receive().status == 201
        assert client.ask("GET", "/crm/tasks").status == 200
    assert control.requests()[0]["body_bytes"] == len(BODY)


def test_an_expected_continue_is_sent_before_the_body(peer: SandboxPeer) -> None:
    with RawClient(peer.url) as client:
        client.send(START + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        assert client.receive().raw.startswith(b"HTTP/1.1 100 Continue")
        client.send(BODY)
        assert client.receive().status == 201


def test_an_early_answer_takes_the_place_of_the_expected_continue(
    peer: SandboxPeer, control: SandboxControl
) -> None:
    control.script("early_answer", status=401)
    with RawClient(peer.url) as client:
        client.send(START + b"Expect: 100-continue\r\nContent-Length: 99\r\n\r\n")
        assert client.receive().status == 401


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /crm/tasks HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET /crm/tasks HTTP/1.1\r\n\r\n", 400),
        (b"GET /crm/tasks HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n", 400),
        (b"GET /crm/tasks HTTP/1.1\r\nHost: x\r\nA: b\r\n folded\r\n\r\n", 400),
        (b"GET /crm/tasks HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /crm/tasks HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
        (START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (START + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}", 400),
        (START + b"Content-Length: +5\r\n\r\n{}", 400),
        (START + b"Content-Length: 99999999999\r\n\r\n{}", 413),
        (START + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (START + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400),
        (START + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
        (START + b"Expect: tea\r\nContent-Length: 2\r\n\r\n{}", 417),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_cannot_be_read_is_refused_recorded_and_does_nothing(
    peer: SandboxPeer, control: SandboxControl, request_text: bytes, status: int
) -> None:
    with RawClient(peer.url) as client:
        client.send(request_text)
        arrived = client.receive()
    assert (arrived.status, arrived.end) == (status, "closed")
    (request,) = control.requests()
    assert (request["behaviour"], request["status"], control.effects()) == ("malformed", status, [])


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 1000\r\n\r\n" + BODY, b"Transfer-Encoding: chunked\r\n\r\n%X\r\n" % len(BODY) + BODY],
    ids=["length", "chunks"],
)
def test_a_request_that_stops_half_way_is_recorded_and_does_nothing(
    peer: SandboxPeer, control: SandboxControl, body: bytes
) -> None:
    with RawClient(peer.url) as client:
        client.send(START + body)
        client.sock.shutdown(1)
        assert client.receive().raw == b""
    (request,) = control.requests()
    assert (request["behaviour"], request["complete"], request["acted"]) == ("incomplete", False, False)
    assert control.effects() == []


def test_leaving_between_requests_is_nothing(peer: SandboxPeer, control: SandboxControl) -> None:
    with RawClient(peer.url):
        pass
    assert control.requests() == []


def test_a_large_body_is_read_whole(peer: SandboxPeer, control: SandboxControl) -> None:
    reply = ask(peer.url, "POST", "/crm/tasks", task("op-1", note="x" * 3_000_000))
    assert reply.status == 201
    (request,) = control.requests()
    assert request["body_bytes"] > 3_000_000 > len(request["body"])


def test_head_is_get_without_the_body(peer: SandboxPeer) -> None:
    with RawClient(peer.url) as client:
        client.send(request_bytes("HEAD", "/crm/tasks", connection="close"))
        arrived = client.receive()
    assert (arrived.body, arrived.status, arrived.end) == (b"", 200, "closed")
    assert int(arrived.headers["content-length"]) > 0


def test_an_absolute_target_is_understood(peer: SandboxPeer, control: SandboxControl) -> None:
    assert ask(peer.url, "GET", "http://sandbox.test/crm/tasks?external_id=op-1").json["items"] == []
    assert control.requests()[0]["identity"] == "op-1"


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer t0kén"}, 401),
        ({"authorization": "Basic !!!"}, 401),
        ({"authorization": "Token t0ken"}, 401),
        ({"authorization": "Bearer t0ken"}, 201),
        ({"authorization": "bearer t0ken"}, 201),
    ],
    ids=str,
)
def test_a_token_is_asked_for_where_one_is_set(authorization: dict[str, str], status: int) -> None:
    with SandboxPeer(token="t0ken") as peer:
        control = SandboxControl(peer.url, token="t0ken")
        control.script("act_twice")
        assert ask(peer.url, "POST", "/crm/tasks", task("op-1"), **authorization).status == status
        assert len(control.effects()) == (2 if status == 201 else 0)
        assert control.requests()[0]["status"] == status
        assert ask(peer.url, "GET", "/_sandbox/effects").status == 401
        assert ask(peer.url, "GET", "/records").status == 401
        assert ask(peer.url, "GET", "/healthz").status == 200

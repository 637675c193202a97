"""C7: through a proxy, and which hop said what."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from opsledger.destinations.transport import AddressGuard, Proxy, SendLimits, WireRequest, send
from opsledger.rules.facts import Phase
from tests.destinations.transport.servers import Certificate, Peer, answers, closed_port, serving

CONNECT_SHORT = SendLimits(connect_seconds=0.3, total_seconds=8)
PATIENT = SendLimits(connect_seconds=4, total_seconds=8)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def post(url: str) -> WireRequest:
    return WireRequest("POST", url, (("Authorization", "Bearer secret"),), b"{}")


def tunnel_to(
    port: int, greeting: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
) -> Callable[[Peer], None]:
    """A CONNECT proxy that always leads to one port on the loopback."""

    def script(peer: Peer) -> None:
        peer.read_head()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as onward:
            peer.send(greeting)
            back = threading.Thread(target=pump, args=(onward, peer.sock), daemon=True)
            back.start()
            pump(peer.sock, onward)
            back.join(10)

    return script


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        pytest.param(b"502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad", 502, id="502"),
        pytest.param(b"407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", 407, id="407"),
        pytest.param(b'201 Created\r\nContent-Length: 8\r\n\r\n{"id":1}', 201, id="201 with a body"),
        pytest.param(b"204 No Content\r\n\r\n", 204, id="204"),
        pytest.param(b'200 OK\r\nContent-Length: 8\r\n\r\n{"id":1}', 200, id="200 with a body"),
        pytest.param(b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, id="200 chunked"),
        pytest.param(b"200 OK\r\n\r\n<html>hello", 200, id="200 with bytes behind it"),
        pytest.param(
            b"302 Found\r\nLocation: http://login.test/\r\nContent-Length: 0\r\n\r\n", 302, id="302"
        ),
    ],
)
def test_a_refused_connect_left_nothing_and_names_the_proxy(
    reply: bytes, status: int, guard: AddressGuard
) -> None:
    with serving(answers(b"HTTP/1.1 " + reply)) as proxy:
        fact = send(post("https://peer.test/"), PATIENT, guard, Proxy(proxy.url()))
    assert not fact.complete
    assert (fact.left, fact.phase, fact.error, fact.hop) == (False, Phase.PROXY, "proxy_refused", "proxy")
    assert (fact.status, fact.body) == (status, b"")
    assert len(proxy.requests) == 1


def closes(peer: Peer) -> None:
    peer.read_head()


def resets(peer: Peer) -> None:
    peer.read_head()
    peer.reset()


def drips(peer: Peer) -> None:
    peer.read_head()
    peer.drip(b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 500)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        pytest.param(closes, "closed", id="closes"),
        pytest.param(resets, "reset", id="resets"),
        pytest.param(drips, "timeout", id="drips"),
        pytest.param(Peer.wait_for_end, "timeout", id="silent"),
        pytest.param(answers(b"SSH-2.0-x\r\n\r\n"), "malformed_reply", id="another protocol"),
        pytest.param(answers(b"HTTP/1.1 200 OK\r\nX"), "cut_headers", id="cut headers"),
    ],
)
def test_a_proxy_that_does_not_answer_connect_left_nothing(
    script: Callable[[Peer], None], error: str, guard: AddressGuard
) -> None:
    with serving(script) as proxy:
        fact = send(post("https://peer.test/"), CONNECT_SHORT, guard, Proxy(proxy.url()))
    assert (fact.left, fact.phase, fact.error, fact.hop) == (False, Phase.PROXY, error, "proxy")
    assert fact.elapsed_seconds < 2


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named(scheme: str, guard: AddressGuard) -> None:
    proxy = Proxy(f"http://127.0.0.1:{closed_port()}")
    fact = send(post(f"{scheme}://peer.test/"), PATIENT, guard, proxy)
    assert (fact.left, fact.phase, fact.error, fact.hop) == (False, Phase.CONNECT, "refused", "proxy")


def test_through_a_tunnel_the_destination_answers(guard: AddressGuard, certificate: Certificate) -> None:
    with (
        serving(answers(OK), certificate.server_context()) as server,
        serving(tunnel_to(server.port)) as proxy,
    ):
        fact = send(post("https://peer.test/pay"), PATIENT, guard, Proxy(proxy.url(), "Basic cHJveHk="))
    assert (fact.complete, fact.status, fact.body, fact.hop) == (True, 200, b"ok", "destination")
    assert fact.address == f"127.0.0.1:{proxy.port}"
    assert server.names == ["peer.test"]
    assert (len(proxy.requests), len(server.requests)) == (1, 1)


def test_each_hop_gets_its_own_credentials_only(guard: AddressGuard, certificate: Certificate) -> None:
    with (
        serving(answers(OK), certificate.server_context()) as server,
        serving(tunnel_to(server.port)) as proxy,
    ):
        send(post("https://peer.test/pay"), PATIENT, guard, Proxy(proxy.url(), "Basic cHJveHk="))
    (asked,) = proxy.requests
    assert asked.splitlines() == [
        b"CONNECT peer.test:443 HTTP/1.1",
        b"Host: peer.test:443",
        b"Proxy-Authorization: Basic cHJveHk=",
        b"",
    ]
    assert b"Bearer secret" in server.requests[0]
    assert b"Proxy-Authorization" not in server.requests[0]


def test_a_tunnel_to_a_stranger_leaves_nothing(guard: AddressGuard, certificate: Certificate) -> None:
    with (
        serving(answers(OK), certificate.server_context()) as server,
        serving(tunnel_to(server.port)) as proxy,
    ):
        fact = send(post("https://other.test/"), PATIENT, guard, Proxy(proxy.url()))
    assert (fact.left, fact.phase, fact.error) == (False, Phase.TLS, "certificate_refused")
    assert server.requests == []


def test_a_tunnel_cut_after_the_request_has_left_once(guard: AddressGuard, certificate: Certificate) -> None:
    def reads_and_closes(peer: Peer) -> None:
        peer.read_request()

    context = certificate.server_context()
    with serving(reads_and_closes, context) as server, serving(tunnel_to(server.port)) as proxy:
        fact = send(post("https://peer.test/"), PATIENT, guard, Proxy(proxy.url()))
    assert (fact.left, fact.phase, fact.error) == (True, Phase.READ, "closed")
    assert len(server.requests) == 1


def test_plain_http_goes_in_absolute_form_and_the_proxy_is_the_hop(guard: AddressGuard) -> None:
    with serving(answers(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")) as proxy:
        fact = send(
            post("http://peer.test:8080/a?b=%20"), PATIENT, guard, Proxy(proxy.url(), "Basic cHJveHk=")
        )
    assert (fact.left, fact.phase, fact.status, fact.hop) == (True, Phase.DONE, 502, "proxy")
    (request,) = proxy.requests
    assert request.startswith(b"POST http://peer.test:8080/a?b=%20 HTTP/1.1\r\nHost: peer.test:8080\r\n")
    assert b"\r\nProxy-Authorization: Basic cHJveHk=\r\n" in request


def test_proxies_in_the_environment_are_not_used(
    guard: AddressGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    with serving(answers(OK)) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert (fact.complete, fact.hop) == (True, "destination")


@pytest.mark.parametrize(
    "url", ["https://proxy.test", "proxy.test:80", "http://u:p@proxy.test", "http://proxy.test/x"]
)
def test_a_proxy_that_is_not_a_plain_http_address_is_refused_when_configured(url: str) -> None:
    with pytest.raises(ValueError, match=r"proxy|URL"):
        Proxy(url)


def test_a_proxys_credentials_do_not_show_and_keep_to_one_line() -> None:
    assert "cHJveHk" not in repr(Proxy("http://proxy.test", "Basic cHJveHk="))
    with pytest.raises(ValueError, match="one line"):
        Proxy("http://proxy.test", "Basic x\r\nX: y")

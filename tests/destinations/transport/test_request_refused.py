"""What is never connected for, and what goes on the wire for the rest."""

from __future__ import annotations

import pytest

from opsledger.destinations.transport import AddressGuard, SendLimits, WireRequest, request_problem, send
from opsledger.rules.facts import Phase
from tests.destinations.transport.servers import Peer, answers, serving

LIMITS = SendLimits(connect_seconds=2, total_seconds=4)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

BAD_URLS = [
    ("ftp://{at}/", "http://"),
    ("//{at}/", "http://"),
    ("http:{at}/", "http://"),
    ("http:///path", "host"),
    ("http://user:secret@{at}/", "credentials"),
    ("http://user@{at}/", "credentials"),
    ("http://good.test\\@{at}/", "backslash"),
    ("http://{at}/a b", "spaces"),
    ("http://{at}/a\r\nX: y", "printable"),
    ("http://{at}/\x00", "printable"),
    ("\thttp://{at}/", "printable"),
    ("http://{at}/é", "ASCII"),
    ("http://bücher.test/", "ASCII"),
    ("http://{at}/#part", "fragment"),
    ("http://127.0.0.1:0/", "port 0"),
    ("http://127.0.0.1:99999/", "ort"),
    ("http://127.0.0.1:x/", "ort"),
    ("http://[::1]x.test/", "brackets"),
    ("http://[fe80::1%25lo]/", ""),
    ("http://[127.0.0.1/", ""),
    ("http://a..test/", "host"),
    ("http://%31/", "host"),
    (f"http://{'a' * 64}.test/", "host"),
    (f"http://{'a.' * 130}test/", "host"),
]


@pytest.mark.parametrize(("url", "says"), BAD_URLS, ids=[ascii(case[0])[:40] for case in BAD_URLS])
def test_a_url_that_could_be_read_in_two_ways_is_refused_before_any_connection(
    url: str, says: str, guard: AddressGuard
) -> None:
    with serving(answers(OK)) as server:
        request = WireRequest("POST", url.replace("{at}", f"127.0.0.1:{server.port}"))
        fact = send(request, LIMITS, guard)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.GUARD, "bad_request")
    assert says in request_problem(request) != ""
    assert server.connections == 0


BAD_HEADERS = [
    ("X-A", "b\r\nX-C: d", "one line"),
    ("X-A", "b\nc", "one line"),
    ("X-A", "b\rc", "one line"),
    ("X-A", "b\x00c", "one line"),
    ("X-A\r\nX-B", "c", "one line"),
    ("X A", "b", "one line"),
    ("", "b", "one line"),
    ("X-A", " b", "one line"),
    ("X-A", "é", "ASCII"),
    ("Host", "other.test", "host"),
    ("Content-Length", "5", "content-length"),
    ("Connection", "keep-alive", "connection"),
    ("Accept-Encoding", "gzip", "accept-encoding"),
    ("Transfer-Encoding", "chunked", "transfer-encoding"),
    ("Expect", "100-continue", "expect"),
    ("Upgrade", "h2c", "upgrade"),
    ("Proxy-Authorization", "Basic eA==", "proxy-authorization"),
]


@pytest.mark.parametrize(
    ("name", "value", "says"), BAD_HEADERS, ids=[ascii(case[:2]) for case in BAD_HEADERS]
)
def test_a_header_that_would_change_the_message_is_refused_before_any_connection(
    name: str, value: str, says: str, guard: AddressGuard
) -> None:
    with serving(answers(OK)) as server:
        request = WireRequest("POST", server.url(), ((name, value),), b"{}")
        fact = send(request, LIMITS, guard)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.GUARD, "bad_request")
    assert says in request_problem(request)
    assert server.connections == 0


@pytest.mark.parametrize("method", ["", "post", "PO ST", "POST\r\n", "CONNECT", "TRACE"])
def test_a_method_that_is_none_is_refused_before_any_connection(method: str, guard: AddressGuard) -> None:
    with serving(answers(OK)) as server:
        fact = send(WireRequest(method, server.url()), LIMITS, guard)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.GUARD, "bad_request")
    assert server.connections == 0


def test_the_bytes_on_the_wire_are_the_requests_own(guard: AddressGuard) -> None:
    received: list[bytes] = []

    def script(peer: Peer) -> None:
        received.append(peer.read_request())
        peer.send(OK)

    with serving(script) as server:
        headers = (("X-Key", "a  b"), ("content-length", "4"), ("x-key", "C"))
        request = WireRequest("POST", server.url("/a%2Fb/../c?q=%20&r="), headers, b"\x00\xff\r\n")
        assert request_problem(request) == ""
        assert send(request, LIMITS, guard).complete
    assert received == [
        b"POST /a%%2Fb/../c?q=%%20&r= HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Key: a  b\r\nx-key: C\r\n"
        b"Accept-Encoding: identity\r\nConnection: close\r\nContent-Length: 4\r\n\r\n\x00\xff\r\n"
        % server.port
    ]


@pytest.mark.parametrize(
    ("method", "announced"),
    [("GET", None), ("HEAD", None), ("DELETE", None), ("POST", b"0"), ("PUT", b"0"), ("PATCH", b"0")],
)
def test_an_empty_body_is_announced_only_where_the_method_has_one(
    method: str, announced: bytes | None, guard: AddressGuard
) -> None:
    with serving(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as server:
        assert send(WireRequest(method, server.url()), LIMITS, guard).complete
    found = server.requests[0].partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
    assert found == (announced or b"")


def test_a_path_is_never_empty(guard: AddressGuard) -> None:
    with serving(answers(OK)) as server:
        send(WireRequest("GET", server.url("")), LIMITS, guard)
        send(WireRequest("GET", server.url("?q=1")), LIMITS, guard)
    assert [request.split()[1] for request in server.requests] == [b"/", b"/?q=1"]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://peer.test:80/", "peer.test"),
        ("https://peer.test:443/", "peer.test"),
        ("http://peer.test:443/", "peer.test:443"),
        ("http://Peer.Test/", "Peer.Test"),
        ("http://[::1]:80/", "[::1]"),
    ],
)
def test_the_host_header_may_be_named_when_it_is_the_urls_own(url: str, host: str) -> None:
    assert request_problem(WireRequest("GET", url, (("Host", host),))) == ""
    assert request_problem(WireRequest("GET", url, (("Host", f"{host}x"),))) != ""
    assert request_problem(WireRequest("GET", url, (("Host", host), ("Host", host)))) != ""


def test_credentials_do_not_show_when_a_request_is_printed() -> None:
    request = WireRequest("POST", "http://peer.test/", (("Authorization", "Bearer secret"),), b"secret")
    assert "secret" not in repr(request)


@pytest.mark.parametrize(("connect", "total", "cap"), [(5, 5, 1), (6, 5, 1), (0, 5, 1), (1, 5, 0)])
def test_limits_that_do_not_nest_are_refused_when_made(connect: float, total: float, cap: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        SendLimits(connect, total, cap)

"""Complete and incomplete replies, early ones, large ones, slow ones: what is kept and what is said."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsledger.destinations.transport import AddressGuard, SendLimits, WireRequest, Word, send
from opsledger.rules.facts import Phase
from tests.destinations.transport.servers import (
    Certificate,
    Peer,
    Script,
    answers,
    answers_and_waits,
    serving,
)

SHORT = SendLimits(connect_seconds=0.35, total_seconds=0.4, reply_bytes_max=4096)
PATIENT = SendLimits(connect_seconds=4, total_seconds=8, reply_bytes_max=4096)
LARGE_BODY = bytes(16_000_000)  # more than the sockets' buffers hold


def post(url: str, body: bytes = b"{}") -> WireRequest:
    return WireRequest("POST", url, (), body)


COMPLETE = [
    pytest.param(b"200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True, id="length"),
    pytest.param(
        b"201 Created\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        201,
        b"ok",
        True,
        id="chunked",
    ),
    pytest.param(b"200 OK\r\n\r\nuntil close", 200, b"until close", False, id="until close"),
    pytest.param(b"204 No Content\r\n\r\n", 204, b"", True, id="204"),
    pytest.param(b"201 Created\r\nContent-Length: 0\r\n\r\n", 201, b"", True, id="empty"),
    pytest.param(b"500 Oops\r\nContent-Length: 1\r\n\r\n!", 500, b"!", True, id="500"),
    pytest.param(
        b"200 OK\r\nContent-Length: 4096\r\n\r\n" + b"x" * 4096, 200, b"x" * 4096, True, id="exactly the cap"
    ),
    pytest.param(b"200 OK\r\n\r\n" + b"x" * 4096, 200, b"x" * 4096, False, id="exactly the cap until close"),
    pytest.param(
        b"100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        200,
        b"ok",
        True,
        id="after interim replies",
    ),
]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("reply", "status", "body", "length_known"), COMPLETE)
def test_a_complete_reply_is_read_as_it_came(
    reply: bytes,
    status: int,
    body: bytes,
    length_known: bool,
    tls: bool,
    guard: AddressGuard,
    certificate: Certificate,
) -> None:
    def script(peer: Peer) -> None:
        answers(b"HTTP/1.1 " + reply)(peer)
        if tls:
            peer.sock.unwrap()  # type: ignore[attr-defined]

    with serving(script, certificate.server_context() if tls else None) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert fact.complete
    assert (fact.left, fact.phase, fact.error) == (True, Phase.DONE, "")
    assert (fact.status, fact.body, fact.length_known) == (status, body, length_known)
    assert (len(server.requests), server.connections) == (1, 1)


HEAD = b"HTTP/1.1 200 OK\r\nX-Id: 7\r\n"
INCOMPLETE = [
    pytest.param(b"HTTP/1.1 20", "cut_headers", None, id="cut in the status line"),
    pytest.param(b"HTTP/1.1 200 OK\r\nX-I", "cut_headers", 200, id="cut in the headers"),
    pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", "closed", 100, id="interim reply only"),
    pytest.param(HEAD + b"Content-Length: 10\r\n\r\nabc", "short_body", 200, id="short body"),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "missing_last_chunk",
        200,
        id="no last chunk",
    ),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc", "missing_last_chunk", 200, id="cut chunk"
    ),
]
BROKEN = [
    pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "malformed_reply", None, id="another protocol"),
    pytest.param(
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "malformed_reply", 200, id="two lengths"
    ),
    pytest.param(
        HEAD + b"Content-Length: %b\r\n\r\n" % (b"9" * 5000), "malformed_reply", 200, id="absurd length"
    ),
    pytest.param(
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "malformed_reply", 200, id="other coding"
    ),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "malformed_reply", 200, id="chunk size"
    ),
    pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "malformed_reply", 101, id="101 unasked"),
    pytest.param(
        HEAD + b"X: " + b"y" * 300_000 + b"\r\n\r\n", "headers_too_large", 200, id="headers too large"
    ),
    pytest.param(HEAD + b"X: y\r\n" * 60_000 + b"\r\n", "headers_too_large", 200, id="too many headers"),
]


@pytest.mark.parametrize(("reply", "error", "status"), INCOMPLETE)
def test_a_reply_that_is_cut_says_what_is_missing(
    reply: bytes, error: str, status: int | None, guard: AddressGuard
) -> None:
    with serving(answers(reply)) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert not fact.complete
    assert (fact.left, fact.phase, fact.error, fact.status) == (True, Phase.READ, error, status)
    assert (len(server.requests), server.connections) == (1, 1)


@pytest.mark.parametrize(("reply", "error", "status"), BROKEN)
def test_a_reply_that_breaks_the_protocol_is_incomplete_and_never_a_crash(
    reply: bytes, error: str, status: int | None, guard: AddressGuard
) -> None:
    with serving(answers_and_waits(reply)) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert not fact.complete
    assert (fact.left, fact.phase, fact.error, fact.status) == (True, Phase.READ, error, status)
    assert len(server.requests) == 1


def test_what_came_of_a_cut_body_is_kept(guard: AddressGuard) -> None:
    with serving(answers(HEAD + b"Content-Length: 10\r\n\r\nabc")) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert fact.body == b"abc"
    assert fact.header("X-ID") == "7"


def test_a_reset_inside_the_body_is_a_reset_with_its_status(guard: AddressGuard) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(b"HTTP/1.1 201 Created\r\n\r\n")
        peer.reset()

    with serving(script) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert not fact.complete
    assert (fact.error, fact.left) == ("reset", True)
    assert fact.status in (201, None)  # a reset may overtake what was sent before it


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nhalf a", "unproven_end", id="until close"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf a", "short_body", id="length"),
    ],
)
def test_over_tls_a_close_without_notice_proves_no_end(
    reply: bytes, error: str, guard: AddressGuard, certificate: Certificate
) -> None:
    with serving(answers(reply), certificate.server_context()) as server:  # closes TCP, not TLS
        fact = send(post(server.url()), PATIENT, guard)
    assert not fact.complete
    assert (fact.error, fact.status, fact.body) == (error, 200, b"half a")


def test_over_tls_a_complete_length_needs_no_closing_notice(
    guard: AddressGuard, certificate: Certificate
) -> None:
    with serving(
        answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), certificate.server_context()
    ) as server:
        assert send(post(server.url()), PATIENT, guard).complete


# the cap


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 9000000\r\n", b"Transfer-Encoding: chunked\r\n", b""],
    ids=["length", "chunked", "close"],
)
def test_a_reply_larger_than_the_cap_is_cut_there_and_said_to_be(framing: bytes, guard: AddressGuard) -> None:
    body = b"3e8\r\n" + b"x" * 1000 + b"\r\n" if b"chunked" in framing else b"x" * 1000

    def endless(peer: Peer) -> None:
        peer.read_request()
        peer.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
        while not peer.server.stopping.is_set():
            peer.send(body)

    with serving(endless) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert not fact.complete
    assert (fact.truncated, fact.error, fact.status) == (True, "reply_too_large", 200)
    assert fact.body == b"x" * 4096
    assert fact.elapsed_seconds < 4


# the deadline


@pytest.mark.parametrize(
    ("first", "dripped", "status"),
    [
        pytest.param(b"", b"HTTP/1.1 200 " + b"y" * 500, None, id="status line"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"y" * 500, 200, id="header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", b"y" * 500, 200, id="body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\ny\r\n" * 100, 200, id="chunks"
        ),
        pytest.param(
            b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n" * 20, 102, id="1xx"
        ),
    ],
)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_reply_that_drips_is_cut_at_the_total_deadline(
    first: bytes, dripped: bytes, status: int | None, tls: bool, guard: AddressGuard, certificate: Certificate
) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(first)
        peer.drip(dripped, 0.03)

    with serving(script, certificate.server_context() if tls else None) as server:
        fact = send(post(server.url()), SHORT, guard)
    assert (fact.left, fact.phase, fact.error) == (True, Phase.READ, "timeout")
    assert fact.status == status
    assert 0.4 <= fact.elapsed_seconds < 1.5
    assert len(server.requests) == 1


def test_interim_replies_without_pause_are_cut_at_the_total_deadline(guard: AddressGuard) -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        while not peer.server.stopping.is_set():
            peer.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 50)

    with serving(script) as server:
        fact = send(post(server.url()), SHORT, guard)
    assert (fact.left, fact.error, fact.status) == (True, "timeout", 102)
    assert 0.4 <= fact.elapsed_seconds < 1.5


def test_a_peer_that_reads_in_drips_is_cut_at_the_total_deadline(guard: AddressGuard) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        while not peer.server.stopping.wait(0.02):
            peer.sock.recv(20_000)

    with serving(script) as server:
        fact = send(post(server.url(), LARGE_BODY), SHORT, guard)
    assert (fact.left, fact.phase, fact.error) == (True, Phase.WRITE, "timeout")
    assert 0.4 <= fact.elapsed_seconds < 1.5


# C5: an answer while we still upload


TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig"


def refuses_and_closes(peer: Peer) -> None:
    peer.read_head()
    peer.send(TOO_LARGE)


def refuses_and_stays(peer: Peer) -> None:
    peer.read_head()
    peer.send(TOO_LARGE)
    peer.wait_for_end()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    "script", [refuses_and_closes, refuses_and_stays], ids=["closes", "stays open unread"]
)
def test_an_early_refusal_is_read_although_the_upload_broke(
    script: Script, tls: bool, guard: AddressGuard, certificate: Certificate
) -> None:
    with serving(script, certificate.server_context() if tls else None) as server:
        fact = send(post(server.url(), LARGE_BODY), PATIENT, guard)
    assert fact.complete
    assert (fact.left, fact.status, fact.body) == (True, 413, b"big")
    assert fact.elapsed_seconds < 4
    assert len(server.requests) == 1


def test_an_early_success_is_read_and_the_upload_goes_on(guard: AddressGuard) -> None:
    received: list[int] = []

    def script(peer: Peer) -> None:
        peer.read_head()
        peer.send(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nid")
        received.append(len(peer.read_exactly(len(LARGE_BODY))))

    with serving(script) as server:
        fact = send(post(server.url(), LARGE_BODY), PATIENT, guard)
    assert (fact.complete, fact.status, fact.body) == (True, 201, b"id")
    assert received == [len(LARGE_BODY)]


def test_an_interim_reply_does_not_end_the_upload(guard: AddressGuard) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        peer.server.stopping.wait(1.3)  # longer than the patience after a final early answer
        if len(peer.read_exactly(len(LARGE_BODY))) == len(LARGE_BODY):
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with serving(script) as server:
        fact = send(post(server.url(), LARGE_BODY), PATIENT, guard)
    assert (fact.complete, fact.status) == (True, 200)


@pytest.mark.parametrize("how", [Peer.reset, lambda peer: peer.sock.close()], ids=["reset", "close"])
def test_an_upload_cut_without_an_answer_is_broken_writing(
    how: Callable[[Peer], None], guard: AddressGuard
) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        how(peer)

    with serving(script) as server:
        fact = send(post(server.url(), LARGE_BODY), PATIENT, guard)
    assert not fact.complete
    assert (fact.left, fact.phase, fact.error, fact.status) == (True, Phase.WRITE, "reset", None)


def test_an_early_answer_that_only_a_reset_ends_is_incomplete(guard: AddressGuard) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\npartial")

    with serving(script) as server:
        fact = send(post(server.url(), LARGE_BODY), PATIENT, guard)
    assert not fact.complete
    assert fact.status == 400
    assert fact.error in ("unproven_end", "reset")


# what is done with a reply: nothing


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_reported_and_not_followed(status: int, guard: AddressGuard) -> None:
    with serving(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as elsewhere:
        moved = f"HTTP/1.1 {status} Moved\r\nLocation: {elsewhere.url()}\r\nContent-Length: 0\r\n\r\n"
        with serving(answers(moved.encode())) as server:
            fact = send(post(server.url()), PATIENT, guard)
    assert (fact.complete, fact.status, fact.header("location")) == (True, status, elsewhere.url())
    assert (len(server.requests), elsewhere.connections) == (1, 0)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_failure_is_reported_and_not_retried(status: int, guard: AddressGuard) -> None:
    with serving(
        answers(b"HTTP/1.1 %d No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n" % status)
    ) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert (fact.complete, fact.status) == (True, status)
    assert (len(server.requests), server.connections) == (1, 1)


def test_a_compressed_reply_is_not_asked_for_and_left_as_it_came(guard: AddressGuard) -> None:
    packed = gzip.compress(b"{}")
    reply = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with serving(answers(reply + packed)) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert fact.body == packed
    assert b"\r\nAccept-Encoding: identity\r\n" in server.requests[0]


def test_headers_keep_their_order_and_repeats(guard: AddressGuard) -> None:
    reply = b"HTTP/1.1 200 OK\r\nB: 2\r\nA: 1\r\nB: \xe9\r\nContent-Length: 0\r\n\r\n"
    with serving(answers(reply)) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert fact.headers == (("b", "2"), ("a", "1"), ("b", "é"), ("content-length", "0"))


FRAGMENTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.0 204\r\n",
        b"HTTP/9.9 999 \r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: upgrade\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"\x00",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
    ]
)


def test_no_reply_whatsoever_crashes_a_send(guard: AddressGuard) -> None:
    replies: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(replies[-1])

    with serving(script) as server:

        @settings(max_examples=200, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(FRAGMENTS | st.binary(max_size=20), max_size=8).map(b"".join))
        def check(reply: bytes) -> None:
            replies.append(reply)
            fact = send(post(server.url()), PATIENT, guard)
            assert fact.left
            assert (fact.error == "") == fact.complete == (fact.phase is Phase.DONE)
            assert fact.complete or fact.error in set(Word)

        check()
    assert len(server.requests) == len(replies) == server.connections

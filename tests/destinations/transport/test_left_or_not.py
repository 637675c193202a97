"""Whether a byte of the request may have left: rules.md, table 1, the HTTP rows."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpcore
import pytest

from opsledger.destinations.transport import AddressGuard, Endpoint, SendLimits, WireRequest, send
from opsledger.destinations.transport.deadline import Deadline
from opsledger.destinations.transport.stream import DeadlineStream, Progress
from opsledger.rules.facts import Phase
from tests.destinations.transport.servers import (
    Certificate,
    Peer,
    answers,
    closed_port,
    make_certificate,
    serving,
)

CONNECT_SHORT = SendLimits(connect_seconds=0.3, total_seconds=8)
SHORT = SendLimits(connect_seconds=0.35, total_seconds=0.4, reply_bytes_max=4096)
PATIENT = SendLimits(connect_seconds=4, total_seconds=8, reply_bytes_max=4096)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Resolve = Callable[[str, int], list[Endpoint]]


def post(url: str, body: bytes = b'{"amount": 1}') -> WireRequest:
    return WireRequest("POST", url, (("Authorization", "Bearer secret"),), body)


# before: nothing left


def test_a_name_that_is_not_resolved_leaves_nothing(guard: AddressGuard) -> None:
    def nobody(name: str, port: int) -> list[Endpoint]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    fact = send(post("http://peer.test/"), SHORT, guard, resolve=nobody)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.RESOLVE, "name_not_resolved")


def test_a_name_without_addresses_leaves_nothing(guard: AddressGuard) -> None:
    fact = send(post("http://peer.test/"), SHORT, guard, resolve=lambda name, port: [])
    assert (fact.left, fact.phase, fact.error) == (False, Phase.RESOLVE, "name_not_resolved")


def test_a_resolver_that_hangs_is_left_behind_at_the_deadline(guard: AddressGuard) -> None:
    answered = threading.Event()

    def hangs(name: str, port: int) -> list[Endpoint]:
        answered.wait(10)
        return []

    fact = send(post("http://peer.test/"), CONNECT_SHORT, guard, resolve=hangs)
    answered.set()
    assert (fact.left, fact.phase, fact.error) == (False, Phase.RESOLVE, "timeout")
    assert 0.3 <= fact.elapsed_seconds < 2


def test_a_mistake_in_a_resolver_is_raised_not_reported_as_the_networks(guard: AddressGuard) -> None:
    def wrong(name: str, port: int) -> list[Endpoint]:
        raise LookupError("a mistake of ours")

    with pytest.raises(LookupError, match="a mistake of ours"):
        send(post("http://peer.test/"), SHORT, guard, resolve=wrong)


def test_a_refused_connection_leaves_nothing(guard: AddressGuard) -> None:
    port = closed_port()
    fact = send(post(f"http://127.0.0.1:{port}/"), SHORT, guard)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.CONNECT, "refused")
    assert fact.address == f"127.0.0.1:{port}"


def test_a_connection_that_is_never_taken_leaves_nothing(guard: AddressGuard) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        queued = [socket.socket() for _ in range(3)]  # the accept queue is full: the next one gets no answer
        for sock in queued:
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        fact = send(post(f"http://127.0.0.1:{listener.getsockname()[1]}/"), CONNECT_SHORT, guard)
        for sock in queued:
            sock.close()
    assert (fact.left, fact.phase, fact.error) == (False, Phase.CONNECT, "timeout")


def test_no_descriptor_free_leaves_nothing(guard: AddressGuard, at_loopback: Resolve) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
        fact = send(post("http://peer.test/"), SHORT, guard, resolve=at_loopback)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.POOL, "no_connection_free")


def says_http(peer: Peer) -> None:
    peer.sock.recv(1)
    peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    peer.wait_for_close()


def hangs_up(peer: Peer) -> None:
    peer.sock.recv(1)


def resets(peer: Peer) -> None:
    peer.sock.recv(1)
    peer.reset()


def drips_a_handshake(peer: Peer) -> None:
    peer.sock.recv(1)
    peer.drip(b"\x16\x03\x03\x10\x00\x02" + bytes(200))


@pytest.mark.parametrize(
    ("script", "error"),
    [
        pytest.param(says_http, "tls_failed", id="speaks plain HTTP"),
        pytest.param(hangs_up, "tls_failed", id="hangs up"),
        pytest.param(resets, "tls_failed", id="resets"),
        pytest.param(Peer.wait_for_end, "timeout", id="silent"),
        pytest.param(drips_a_handshake, "timeout", id="drips"),
    ],
)
def test_tls_that_is_not_established_leaves_nothing(
    script: Callable[[Peer], None], error: str, guard: AddressGuard
) -> None:
    with serving(script) as server:
        fact = send(post(f"https://127.0.0.1:{server.port}/"), CONNECT_SHORT, guard)
    assert (fact.left, fact.phase, fact.error, fact.status) == (False, Phase.TLS, error, None)
    assert fact.elapsed_seconds < 2


def test_a_certificate_of_an_unknown_authority_leaves_nothing(certificate: Certificate) -> None:
    with serving(answers(OK), certificate.server_context()) as server:
        fact = send(post(server.url()), PATIENT, AddressGuard.of(["127.0.0.0/8"]))
    assert (fact.left, fact.phase, fact.error) == (False, Phase.TLS, "certificate_refused")
    assert server.requests == []


def test_a_certificate_for_another_name_leaves_nothing(guard: AddressGuard, tmp_path: Path) -> None:
    other = make_certificate(tmp_path, "DNS:other.test")
    trusting = AddressGuard(guard.allowed_networks, str(other.certificate))
    with serving(answers(OK), other.server_context()) as server:
        fact = send(post(server.url()), PATIENT, trusting)
    assert (fact.left, fact.phase, fact.error) == (False, Phase.TLS, "certificate_refused")
    assert server.requests == []


def test_the_next_address_is_tried_while_nothing_has_left(guard: AddressGuard) -> None:
    with serving(answers(OK)) as server:
        refused = Endpoint(socket.AF_INET, ("127.0.0.1", closed_port()))
        works = Endpoint(socket.AF_INET, ("127.0.0.1", server.port))
        fact = send(post("http://peer.test/"), PATIENT, guard, resolve=lambda name, port: [refused, works])
    assert fact.complete
    assert fact.address == works.text
    assert len(server.requests) == 1


# after: it left, or may have


def reads_and_resets(peer: Peer) -> None:
    peer.read_request()
    peer.reset()


def reads_and_closes(peer: Peer) -> None:
    peer.read_request()


def reads_and_is_silent(peer: Peer) -> None:
    peer.read_request()
    peer.wait_for_close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("script", "error"),
    [
        pytest.param(reads_and_resets, "reset", id="reset"),
        pytest.param(reads_and_closes, "closed", id="close"),
        pytest.param(reads_and_is_silent, "timeout", id="silence"),
    ],
)
def test_a_request_that_was_read_but_not_answered_has_left_once(
    script: Callable[[Peer], None], error: str, tls: bool, guard: AddressGuard, certificate: Certificate
) -> None:
    with serving(script, certificate.server_context() if tls else None) as server:
        fact = send(post(server.url()), SHORT, guard)
    assert (fact.left, fact.phase, fact.error, fact.status) == (True, Phase.READ, error, None)
    assert (len(server.requests), server.connections) == (1, 1)


def test_a_client_certificate_demanded_after_the_handshake_comes_too_late_to_prove_anything(
    guard: AddressGuard, certificate: Certificate
) -> None:
    """TLS 1.3: our side of the handshake is finished, the request is out, and then the peer refuses."""
    context = certificate.server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with serving(answers(OK), context) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert not fact.complete
    assert (fact.left, fact.status) == (True, None)
    assert fact.error in ("tls_failed", "reset", "closed")


def test_after_something_left_the_next_address_is_not_tried(guard: AddressGuard) -> None:
    with serving(reads_and_resets) as first, serving(answers(OK)) as second:
        endpoints = [Endpoint(socket.AF_INET, ("127.0.0.1", server.port)) for server in (first, second)]
        fact = send(post("http://peer.test/"), PATIENT, guard, resolve=lambda name, port: endpoints)
    assert (fact.left, fact.error) == (True, "reset")
    assert (len(first.requests), second.connections) == (1, 0)


def test_a_peer_that_takes_nothing_is_cut_at_the_deadline_and_it_left(guard: AddressGuard) -> None:
    with serving(Peer.wait_for_end) as server:
        fact = send(post(server.url(), bytes(16_000_000)), SHORT, guard)
    assert (fact.left, fact.phase, fact.error) == (True, Phase.WRITE, "timeout")
    assert 0.4 <= fact.elapsed_seconds < 1.5


def test_a_first_write_that_fails_counts_as_left() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    progress = Progress()
    stream = DeadlineStream(ours, Deadline.after(1), progress)
    stream.carry_request(Deadline.after(1))
    assert not progress.left
    with pytest.raises(httpcore.WriteError):
        stream.write(b"POST / HTTP/1.1\r\n")
    stream.close()
    assert progress.left


def test_what_is_written_before_the_request_has_not_left() -> None:
    ours, theirs = socket.socketpair()
    progress = Progress(phase=Phase.PROXY)
    stream = DeadlineStream(ours, Deadline.after(1), progress)
    stream.write(b"CONNECT peer.test:443 HTTP/1.1\r\n")
    stream.close()
    theirs.close()
    assert not progress.left


def test_sends_at_the_same_time_keep_their_replies_apart(
    guard: AddressGuard, certificate: Certificate
) -> None:
    def echo(peer: Peer) -> None:
        body = peer.read_request().partition(b"\r\n\r\n")[2]
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    barrier = threading.Barrier(16)
    wrong: list[object] = []

    def one(number: int) -> None:
        barrier.wait(10)
        fact = send(post(server.url(), b"n%d" % number), PATIENT, guard)
        if not fact.complete or fact.body != b"n%d" % number:
            wrong.append(fact)

    with serving(echo, certificate.server_context()) as server:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert wrong == []
    assert (len(server.requests), server.connections) == (16, 16)


def test_every_send_has_a_connection_of_its_own(guard: AddressGuard) -> None:
    """C2: where nothing is kept alive, no reset on a kept connection has to be guessed about."""

    def keeps_alive(peer: Peer) -> None:
        while peer.read_request():
            peer.send(OK)

    with serving(keeps_alive) as server:
        facts = [send(post(server.url()), PATIENT, guard) for _ in range(2)]
    assert [fact.complete for fact in facts] == [True, True]
    assert server.connections == 2
    assert all(b"\r\nConnection: close\r\n" in request for request in server.requests)


def test_elapsed_time_is_told(guard: AddressGuard) -> None:
    started = time.monotonic()
    with serving(answers(OK)) as server:
        fact = send(post(server.url()), PATIENT, guard)
    assert 0 < fact.elapsed_seconds <= time.monotonic() - started

"""S5: which addresses are connected to. The check is made on the address itself, at every send."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from opsledger.destinations.transport import AddressGuard, Endpoint, Proxy, SendLimits, WireRequest, send
from opsledger.rules.facts import Phase
from tests.destinations.transport.servers import Certificate, answers, serving

LIMITS = SendLimits(connect_seconds=2, total_seconds=4)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

REFUSED = [
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback, last"),
    ("0.0.0.0", "this host"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("192.168.1.1", "private"),
    ("100.64.0.1", "carrier-grade NAT"),
    ("169.254.169.254", "metadata"),
    ("192.0.2.1", "documentation"),
    ("198.18.0.1", "benchmarks"),
    ("192.88.99.1", "6to4 relay"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast, site"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "v4-compatible"),
    ("::ffff:127.0.0.1", "v4-mapped loopback"),
    ("::ffff:10.0.0.1", "v4-mapped private"),
    ("::ffff:169.254.169.254", "v4-mapped metadata"),
    ("::ffff:224.0.0.1", "v4-mapped multicast"),
    ("::ffff:0:127.0.0.1", "v4-translated"),
    ("64:ff9b::7f00:1", "NAT64 loopback"),
    ("64:ff9b::a9fe:a9fe", "NAT64 metadata"),
    ("64:ff9b:1::7f00:1", "local NAT64"),
    ("2002:7f00:1::", "6to4 loopback"),
    ("2002:a00:1::1", "6to4 private"),
    ("2001:0:7f00:1::", "Teredo"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation, new"),
    ("fe80::1", "link-local"),
    ("fec0::1", "site-local"),
    ("fd00::1", "unique local"),
    ("ff02::1", "multicast, link"),
    ("ff0e::1", "multicast, global"),
    ("100::1", "discard"),
    ("5f00::1", "segment routing"),
    ("4000::1", "unassigned"),
]
ALLOWED = [
    "93.184.216.34",
    "8.8.8.8",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", [case[0] for case in REFUSED], ids=["-".join(case) for case in REFUSED])
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not AddressGuard().allows(ip_address(address))


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_is_allowed(address: str) -> None:
    assert AddressGuard().allows(ip_address(address))


def test_an_allowed_network_allows_itself_and_no_neighbour() -> None:
    guard = AddressGuard.of(["10.1.0.0/16", "fd00:1::/32"])
    allowed = [
        guard.allows(ip_address(text)) for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5", "8.8.8.8")
    ]
    refused = [
        guard.allows(ip_address(text)) for text in ("10.2.0.1", "::ffff:10.2.0.1", "fd00:2::5", "127.0.0.1")
    ]
    assert (allowed, refused) == ([True] * 4, [False] * 4)


def test_a_network_that_is_none_is_an_error_when_configured() -> None:
    with pytest.raises(ValueError, match=r"10\.1"):
        AddressGuard.of(["10.1.0.0/99"])


def test_a_certificate_file_that_cannot_be_used_is_an_error_when_configured(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (empty, tmp_path / "absent.pem"):
        with pytest.raises(ValueError, match=path.name):
            AddressGuard.of([], str(path))


NOTATIONS = [
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
]


@pytest.mark.parametrize("host", NOTATIONS)
def test_the_loopback_is_refused_in_every_notation(host: str) -> None:
    with serving(answers(OK)) as server:
        fact = send(WireRequest("POST", server.url("/", host)), LIMITS, AddressGuard())
    assert (fact.left, fact.phase, fact.error) == (False, Phase.GUARD, "address_refused")
    assert fact.address.endswith(f":{server.port}")
    assert server.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "127.1", "[::ffff:127.0.0.1]"])
def test_the_same_notations_work_where_the_loopback_is_allowed(host: str, guard: AddressGuard) -> None:
    with serving(answers(OK)) as server:
        fact = send(WireRequest("POST", server.url("/", host)), LIMITS, guard)
    assert fact.complete
    assert len(server.requests) == 1


def test_a_name_that_moves_inside_between_two_sends_is_refused_at_the_second(guard: AddressGuard) -> None:
    """The name is resolved once per send, and the address checked is the one connected to."""
    asked: list[str] = []

    def moving(name: str, port: int) -> list[Endpoint]:
        asked.append(name)
        return [Endpoint(socket.AF_INET, ("127.0.0.1" if len(asked) == 1 else "169.254.169.254", port))]

    with serving(answers(OK)) as server:
        request = WireRequest("POST", server.url("/", "peer.test"))
        first, second = (send(request, LIMITS, guard, resolve=moving) for _ in range(2))
    assert (first.complete, first.address) == (True, f"127.0.0.1:{server.port}")
    assert (second.left, second.phase, second.error) == (False, Phase.GUARD, "address_refused")
    assert second.address == f"169.254.169.254:{server.port}"
    assert asked == ["peer.test", "peer.test"]


def test_of_several_addresses_only_the_allowed_ones_are_tried(guard: AddressGuard) -> None:
    with serving(answers(OK)) as server:
        endpoints = [
            Endpoint(socket.AF_INET, (host, server.port)) for host in ("169.254.169.254", "127.0.0.1")
        ]
        fact = send(
            WireRequest("POST", "http://peer.test/"), LIMITS, guard, resolve=lambda name, port: endpoints
        )
    assert (fact.complete, fact.address) == (True, f"127.0.0.1:{server.port}")


def test_a_link_local_address_with_its_interface_is_judged_too() -> None:
    endpoint = Endpoint(socket.AF_INET6, ("fe80::1%lo", 80, 0, 1))
    fact = send(
        WireRequest("GET", "http://peer.test/"), LIMITS, AddressGuard(), resolve=lambda name, port: [endpoint]
    )
    assert (fact.phase, fact.error) == (Phase.GUARD, "address_refused")


def test_behind_a_proxy_a_literal_address_is_still_refused() -> None:
    with serving(answers(OK)) as proxy:
        fact = send(
            WireRequest("POST", "http://2852039166/latest/meta-data"),
            LIMITS,
            AddressGuard(),
            Proxy(proxy.url()),
        )
    assert (fact.left, fact.phase, fact.address) == (False, Phase.GUARD, "169.254.169.254:80")
    assert proxy.connections == 0


def test_tls_keeps_the_name_while_the_address_is_connected_to(
    guard: AddressGuard, certificate: Certificate
) -> None:
    with serving(answers(OK), certificate.server_context()) as server:
        endpoint = Endpoint(socket.AF_INET, ("127.0.0.1", server.port))
        request = WireRequest("POST", server.url("/", "peer.test"))
        fact = send(request, LIMITS, guard, resolve=lambda name, port: [endpoint])
    assert fact.complete
    assert server.names == ["peer.test"]
    assert f"\r\nHost: peer.test:{server.port}\r\n".encode() in server.requests[0]

"""Names to addresses under a deadline, and which addresses may be connected to."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from opsledger.destinations.transport.deadline import Deadline
from opsledger.destinations.transport.tls import tls_context
from opsledger.destinations.transport.words import Stopped, Word
from opsledger.rules.facts import Phase

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_GLOBAL_UNICAST = IPv6Network(
    "2000::/3"
)  # all that is assigned; ::/8, fec0::/10 and the like pass `is_global`
_NAT64 = IPv6Network("64:ff9b::/96")
_NOT_PUBLIC: tuple[Network, ...] = (
    IPv4Network("192.88.99.0/24"),  # the withdrawn 6to4 relays (RFC 7526)
    IPv6Network("3fff::/20"),  # documentation (RFC 9637), unknown to older Pythons
)


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Which addresses may be connected to: public ones, and the networks that an installation allows.

    `ca_file` names further certificate authorities (PEM) that are trusted beside the public ones.
    """

    allowed_networks: tuple[Network, ...] = ()
    ca_file: str = ""

    def __post_init__(self) -> None:
        try:
            tls_context(self.ca_file)  # made here, so that a wrong file is found before anything is sent
        except OSError as error:
            raise ValueError(f"the certificate file {self.ca_file} can't be used: {error}") from error

    @classmethod
    def of(cls, networks: Iterable[str], ca_file: str = "") -> AddressGuard:
        """From text such as `10.0.0.0/8`. Raises ValueError for what is no network or no certificate."""
        return cls(tuple(ip_network(text) for text in networks), ca_file)

    def allows(self, address: Address) -> bool:
        """An address that embeds another one (v4-mapped, NAT64, 6to4) is judged by that one."""
        inner = embedded(address) or address
        return self._named(address) or self._named(inner) or is_public(inner)

    def _named(self, address: Address) -> bool:
        return any(address in network for network in self.allowed_networks)


def embedded(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


def is_public(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    return address.is_global and not address.is_multicast


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place to connect to, as the system's resolver gives it."""

    family: int
    sockaddr: tuple[Any, ...]

    @property
    def address(self) -> Address:
        return ip_address(str(self.sockaddr[0]).partition("%")[0])

    @property
    def text(self) -> str:
        host, port = self.sockaddr[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


# Gives the endpoints of a host and port; raises OSError when the name has none.
Resolver = Callable[[str, int], list[Endpoint]]


def system_resolver(host: str, port: int) -> list[Endpoint]:
    return _endpoints(host, port, flags=0)


def literal_endpoint(host: str, port: int) -> Endpoint | None:
    """The endpoint of a host that is an address in any notation, as 2130706433 or 0x7f.1; asks nobody."""
    with contextlib.suppress(OSError):
        return _endpoints(host, port, flags=socket.AI_NUMERICHOST)[0]
    return None


def _endpoints(host: str, port: int, *, flags: int) -> list[Endpoint]:
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(Endpoint(family, sockaddr) for family, _, _, _, sockaddr in found))


def resolve_within(deadline: Deadline, resolve: Resolver, host: str, port: int) -> list[Endpoint]:
    """Resolve in a thread, because the system's resolver knows no deadline. One that hangs is left behind and
    ends with the system's own limit. Raises Stopped."""
    answers: queue.SimpleQueue[list[Endpoint] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(resolve(host, port))
        except Exception as error:  # judged in the caller's thread
            answers.put(error)

    try:
        threading.Thread(target=ask, name="resolve", daemon=True).start()
        answer = answers.get(timeout=deadline.remaining_seconds())
    except queue.Empty:
        raise Stopped(Phase.RESOLVE, Word.TIMEOUT) from None
    except RuntimeError:  # no thread can be started
        raise Stopped(Phase.POOL, Word.NO_CONNECTION_FREE) from None
    if isinstance(answer, OSError) or answer == []:
        raise Stopped(Phase.RESOLVE, Word.NAME_NOT_RESOLVED)
    if isinstance(answer, Exception):
        raise answer
    return answer

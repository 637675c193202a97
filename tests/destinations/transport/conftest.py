from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from opsledger.destinations.transport import AddressGuard, Endpoint
from tests.destinations.transport.servers import Certificate, make_certificate

LOOPBACK = ("127.0.0.0/8", "::1/128")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "DNS:peer.test,IP:127.0.0.1")


@pytest.fixture
def guard(certificate: Certificate) -> AddressGuard:
    """The loopback is allowed and the tests' own certificate is trusted."""
    return AddressGuard.of(LOOPBACK, str(certificate.certificate))


@pytest.fixture
def at_loopback() -> Callable[[str, int], list[Endpoint]]:
    """A resolver that knows every name, at 127.0.0.1."""
    return lambda _name, port: [Endpoint(socket.AF_INET, ("127.0.0.1", port))]

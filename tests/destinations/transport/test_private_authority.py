"""A destination whose certificate a private authority has signed: trusted by what the system trusts, and only by that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opsledger.destinations.transport import AddressGuard, SendLimits, WireRequest, send
from opsledger.destinations.transport.tls import tls_context
from opsledger.rules.facts import Phase
from tests.destinations.transport.servers import Certificate, answers, serving

LIMITS = SendLimits(connect_seconds=2, total_seconds=4)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def _fresh_context() -> Iterator[None]:
    """As in a process that has just begun; nothing of these tests stays for others."""
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


@pytest.mark.parametrize(
    ("named", "phase"), [(True, Phase.DONE), (False, Phase.TLS)], ids=["named", "unknown"]
)
def test_the_systems_certificate_file_names_a_private_authority(
    monkeypatch: pytest.MonkeyPatch, certificate: Certificate, named: bool, phase: Phase
) -> None:
    if named:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    with serving(answers(OK), tls=certificate.server_context()) as server:
        request = WireRequest("GET", f"https://127.0.0.1:{server.port}/")
        fact = send(request, LIMITS, AddressGuard.of(["127.0.0.0/8"]))
    assert (fact.phase, fact.left) == (phase, named)

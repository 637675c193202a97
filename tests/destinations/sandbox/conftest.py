"""A sandbox peer in a thread, fresh for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opsledger.destinations.sandbox import SandboxControl, SandboxPeer


@pytest.fixture
def peer() -> Iterator[SandboxPeer]:
    with SandboxPeer() as peer:
        yield peer
    assert peer.failures == []


@pytest.fixture
def control(peer: SandboxPeer) -> SandboxControl:
    return SandboxControl(peer.url)

"""How this installation reaches the world, from its settings."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from opsledger.destinations.http import Wire
from opsledger.destinations.transport import AddressGuard, Proxy


@cache
def installed_wire() -> Wire:
    """The guard and the proxy that the settings name."""
    proxy = Proxy(settings.HTTPS_PROXY_URL) if settings.HTTPS_PROXY_URL else None
    return Wire(AddressGuard.of(settings.ALLOWED_PRIVATE_NETWORKS), proxy)

"""Where a request came from, as far as that can be known."""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The address that the outermost trusted proxy saw; without trusted proxies, the peer's own.

    Each of TRUSTED_PROXY_COUNT proxies appends one address to X-Forwarded-For; what stands before them is the
    client's own claim.
    """
    peer = str(request.META.get("REMOTE_ADDR", ""))
    count: int = settings.TRUSTED_PROXY_COUNT
    forwarded = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    if not count or len(forwarded) < count:
        return peer
    try:
        return str(ip_address(forwarded[-count]))
    except ValueError:
        return peer

"""Where a request came from, as far as that can be known."""

from __future__ import annotations

from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The address that the outermost trusted proxy saw; the peer's own without trusted proxies, and where they tell none."""
    return known_client_address(request) or str(request.META.get("REMOTE_ADDR", ""))


def known_client_address(request: HttpRequest) -> str:
    """The same where it decides what somebody may do: "" for a request that was forwarded, nobody can tell for whom.

    Each of TRUSTED_PROXY_COUNT proxies appends one address to X-Forwarded-For; what stands before them is the
    client's own claim.
    """
    count: int = settings.TRUSTED_PROXY_COUNT
    header = request.META.get("HTTP_X_FORWARDED_FOR")
    if not count or header is None:
        return str(request.META.get("REMOTE_ADDR", ""))
    forwarded = [part.strip() for part in header.split(",")]
    try:
        return str(ip_address(forwarded[-count])) if len(forwarded) >= count else ""
    except ValueError:
        return ""

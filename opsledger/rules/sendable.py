"""What a request must be so that it can be sent, known before an attempt is opened (rules.md, table 1, first row).

Addresses and headers of which two readers could think differently are refused, and so is what would change the framing,
the reuse or the route of a message: these are the transport's to decide.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

Headers = tuple[tuple[str, str], ...]

_PRINTABLE_URL = re.compile(r"[\x21-\x7e]+")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_BRACKETED = re.compile(r"\[[^\]]*\](:[0-9]*)?")
_HOST_LENGTH_MAX = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"([\x21-\x7e]+([ \t]+[\x21-\x7e]+)*)?")
_REFUSED_HEADERS = frozenset(
    {
        "expect",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_REFUSED_METHODS = frozenset({"CONNECT", "TRACE"})
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


@dataclass(frozen=True, slots=True)
class Target:
    """A URL in its parts. `path` keeps the bytes as written; `authority` is the Host header."""

    scheme: str
    host: str
    port: int
    authority: str
    path: str

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def host_and_port(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def unsendable(method: str, url: str, headers: Headers, body: bytes) -> tuple[tuple[str, str], ...]:
    """Where and why this request can't be sent, for people; empty when it can. No value is quoted."""
    try:
        target = parse_url(url)
    except ValueError as why:
        return (("address", str(why)),)
    problems = [] if _TOKEN.fullmatch(method) else [("method", "is not a method's name")]
    if not is_sent_method(method):
        problems.append(("method", "must be in capitals, and neither CONNECT nor TRACE"))
    for name, value in headers:
        if not is_header(name, value):
            problems.append(
                (f"header {name}", "must be ASCII text of one line, without blanks around the value")
            )
    own = own_headers(method, target.authority, body)
    problems += [(f"header {name}", why) for name, why in header_problems(own, headers)]
    return tuple(problems)


def is_header(name: str, value: str) -> bool:
    return _TOKEN.fullmatch(name) is not None and _HEADER_VALUE.fullmatch(value) is not None


def is_callers_header(name: str) -> bool:
    """Whether a definition may set it; Host and others that the transport computes are not for a definition either."""
    return name.lower() not in _REFUSED_HEADERS | {"host", "connection", "content-length", "accept-encoding"}


def is_sent_method(method: str) -> bool:
    return method not in _REFUSED_METHODS and method == method.upper()


def own_headers(method: str, authority: str, body: bytes) -> dict[str, str]:
    """What the transport adds, by name in lower case. A caller may name it too, with the same value."""
    own = {"host": authority, "accept-encoding": "identity", "connection": "close"}
    if body or method in _METHODS_WITH_BODY:
        own["content-length"] = str(len(body))
    return own


def header_problems(own: dict[str, str], headers: Headers) -> Iterator[tuple[str, str]]:
    """Each header that is not the caller's to set, in lower case, and why."""
    seen: set[str] = set()
    for name, value in headers:
        lower = name.lower()
        if lower in _REFUSED_HEADERS:
            yield lower, "is not the caller's to set"
        if lower == "content-length" and lower not in own:
            yield lower, "is announced, but there is no body"
        if lower in own and (lower in seen or value.lower() != own[lower].lower()):
            yield lower, "differs from what the transport sends"
        seen.add(lower)


@lru_cache(maxsize=512)  # a destination's addresses are few
def parse_url(url: str) -> Target:
    """Raises ValueError, with the reason, for every URL of which two readers could think differently."""
    if not _PRINTABLE_URL.fullmatch(url) or "\\" in url:
        raise ValueError("the URL may hold printable ASCII only, without spaces and backslashes")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not url[len(parts.scheme) :].startswith("://"):
        raise ValueError("the URL must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("the URL may not hold credentials")
    if "#" in url:
        raise ValueError("the URL may not hold a fragment")
    port = _DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    if port == 0:
        raise ValueError("port 0 can't be connected to")
    host = _host(parts.hostname or "", parts.netloc)
    rest = url[len(parts.scheme) + 3 + len(parts.netloc) :]
    path = rest if rest.startswith("/") else f"/{rest}"
    return Target(parts.scheme, host, port, _authority(parts.netloc, parts.scheme), path)


def _host(host: str, netloc: str) -> str:
    if "[" in netloc:
        if not _BRACKETED.fullmatch(netloc):
            raise ValueError("nothing but a port may follow the address in brackets")
        address = ipaddress.IPv6Address(host)  # its error is a ValueError with a reason
        if address.scope_id is not None:
            raise ValueError("the URL may not name a network interface")
    elif not _HOST_NAME.fullmatch(host) or len(host) > _HOST_LENGTH_MAX:
        raise ValueError("the URL must name a host; other letters than ASCII are written as xn--")
    return host


def _authority(netloc: str, scheme: str) -> str:
    """The Host header: as written, without the scheme's own port."""
    return netloc.removesuffix(f":{_DEFAULT_PORTS[scheme]}").removesuffix(":")

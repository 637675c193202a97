"""What is to be sent, checked to the last byte before any connection is made."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import h11

Headers = tuple[tuple[str, str], ...]

_PRINTABLE_URL = re.compile(r"[\x21-\x7e]+")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_BRACKETED = re.compile(r"\[[^\]]*\](:[0-9]*)?")
_HOST_LENGTH_MAX = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}
# They change framing, reuse or the route, which are the transport's to decide.
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
class WireRequest:
    """One request as it goes out. Headers may hold credentials, so neither they nor the body show in `repr`.

    Host, Connection, Accept-Encoding and Content-Length are added by the transport. A caller may name them
    too, with the transport's own value; any other value is refused.
    """

    method: str
    url: str
    headers: Headers = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Spans in seconds. `connect_seconds` covers all that comes before the request (name, connection, proxy,
    TLS), `total_seconds` everything. `reply_bytes_max` caps the reply's body."""

    connect_seconds: float = 5.0
    total_seconds: float = 30.0
    reply_bytes_max: int = 262_144

    def __post_init__(self) -> None:
        if not 0 < self.connect_seconds < self.total_seconds:
            raise ValueError("connect_seconds must be above zero and below total_seconds")
        if self.reply_bytes_max < 1:
            raise ValueError("reply_bytes_max must be at least 1")


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


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that the configuration names: `http://host:port`. Environment variables are never read.

    Its own address is trusted because it is configured. A destination's name is resolved by the proxy, so
    there the guard sees literal addresses only. `authorization` is the whole value of Proxy-Authorization and
    goes to the proxy alone.
    """

    url: str
    authorization: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        target = parse_url(self.url)
        if target.scheme != "http" or target.path != "/":
            raise ValueError("a proxy's URL is http://host:port")
        _check_syntax("GET", (("Host", target.authority), *self.headers))

    @property
    def headers(self) -> Headers:
        return (("Proxy-Authorization", self.authorization),) if self.authorization else ()

    @property
    def target(self) -> Target:
        return parse_url(self.url)


def request_problem(request: WireRequest) -> str:
    """What is wrong with the request, in words for a person; "" when it can be sent. Connects to nothing."""
    try:
        parse_url(request.url)
        wire_headers(request)
    except ValueError as error:
        return str(error)
    return ""


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


def wire_headers(request: WireRequest) -> Headers:
    """All headers in the order sent: Host first, the caller's, then the transport's. Raises ValueError."""
    if request.method in _REFUSED_METHODS or request.method != request.method.upper():
        raise ValueError("the method must be in capitals, and neither CONNECT nor TRACE")
    ours = _our_headers(request)
    _check_against(ours, request.headers)
    headers = (("Host", ours.pop("host")), *_without(ours, request.headers), *_titled(ours))
    _check_syntax(request.method, headers)
    return headers


def _check_syntax(method: str, headers: Headers) -> None:
    """h11's own check, before any connection: it refuses line breaks, NUL, and spaces around a value."""
    try:
        h11.Request(method=method, target="/", headers=list(headers))
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise ValueError("method, header names and values must be ASCII text of one line each") from error


def _our_headers(request: WireRequest) -> dict[str, str]:
    ours = {"host": parse_url(request.url).authority, "accept-encoding": "identity", "connection": "close"}
    if request.body or request.method in _METHODS_WITH_BODY:
        ours["content-length"] = str(len(request.body))
    return ours


def _check_against(ours: dict[str, str], headers: Headers) -> None:
    seen: set[str] = set()
    for name, value in headers:
        lower = name.lower()
        if lower in _REFUSED_HEADERS:
            raise ValueError(f"the header {lower} is not the caller's to set")
        if lower == "content-length" and lower not in ours:
            raise ValueError("content-length is announced, but there is no body")
        if lower in ours and (lower in seen or value.lower() != ours[lower].lower()):
            raise ValueError(f"the header {lower} differs from what the transport sends")
        seen.add(lower)


def _without(ours: dict[str, str], headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in (*ours, "host"))


def _titled(ours: dict[str, str]) -> Headers:
    return tuple((name.title(), value) for name, value in ours.items())

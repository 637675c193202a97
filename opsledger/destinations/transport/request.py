"""What is to be sent, checked to the last byte before any connection is made."""

from __future__ import annotations

from dataclasses import dataclass, field

import h11

from opsledger.rules.sendable import Headers, Target, header_problems, is_sent_method, own_headers, parse_url

__all__ = [
    "Headers",
    "Proxy",
    "SendLimits",
    "Target",
    "WireRequest",
    "parse_url",
    "request_problem",
    "wire_headers",
]


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


def wire_headers(request: WireRequest) -> Headers:
    """All headers in the order sent: Host first, the caller's, then the transport's. Raises ValueError."""
    if not is_sent_method(request.method):
        raise ValueError("the method must be in capitals, and neither CONNECT nor TRACE")
    ours = own_headers(request.method, parse_url(request.url).authority, request.body)
    for name, why in header_problems(ours, request.headers):
        raise ValueError(f"the header {name} {why}")
    headers = (("Host", ours.pop("host")), *_without(ours, request.headers), *_titled(ours))
    _check_syntax(request.method, headers)
    return headers


def _check_syntax(method: str, headers: Headers) -> None:
    """h11's own check, before any connection: it refuses line breaks, NUL, and spaces around a value."""
    try:
        h11.Request(method=method, target="/", headers=list(headers))
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise ValueError("method, header names and values must be ASCII text of one line each") from error


def _without(ours: dict[str, str], headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in (*ours, "host"))


def _titled(ours: dict[str, str]) -> Headers:
    return tuple((name.title(), value) for name, value in ours.items())

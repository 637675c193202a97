"""One send: one connection, one request, at most one reply, one deadline."""

from __future__ import annotations

import contextlib
import time

import httpcore

from opsledger.destinations.transport.addresses import (
    AddressGuard,
    Resolver,
    literal_endpoint,
    resolve_within,
    system_resolver,
)
from opsledger.destinations.transport.deadline import Deadline
from opsledger.destinations.transport.reply import Reply, why_incomplete
from opsledger.destinations.transport.request import (
    Headers,
    Proxy,
    SendLimits,
    Target,
    WireRequest,
    parse_url,
    wire_headers,
)
from opsledger.destinations.transport.stream import Allows, DeadlineStream, Progress, connect
from opsledger.destinations.transport.tls import tls_context
from opsledger.destinations.transport.words import Stopped, Word
from opsledger.rules.facts import Phase, SendFact


def send(
    request: WireRequest,
    limits: SendLimits,
    guard: AddressGuard,
    proxy: Proxy | None = None,
    *,
    resolve: Resolver = system_resolver,
) -> SendFact:
    """Send the request once and report what was observed. Thread-safe; nothing the network does raises.

    1. Check URL and headers.
    2. Resolve, check the address, connect, pass the proxy, establish TLS, all within `connect_seconds`.
    3. Hand over the request: `left` from here on.
    4. Read the reply up to the cap. All four within `total_seconds`.

    No retry, no redirect, no reuse of a connection, no decoding of the body.
    """
    started_at, progress, reply = time.monotonic(), Progress(), Reply()
    deadline = Deadline(started_at + limits.total_seconds)
    try:
        target, headers = _checked(request)
        stream = _open(
            target, guard, proxy, deadline.within(limits.connect_seconds), progress, resolve, reply
        )
        with contextlib.closing(stream):
            stream.carry_request(deadline)
            error = _exchange(_on_the_wire(request, target, headers, proxy), stream, reply, limits, progress)
    except Stopped as stopped:
        progress.phase, error = stopped.phase, stopped.word
    return SendFact(
        left=progress.left,
        phase=progress.phase,
        error=error.value if error else "",
        status=reply.status,
        headers=reply.headers,
        body=bytes(reply.body),
        truncated=reply.truncated,
        length_known=reply.length_known,
        hop=progress.hop,
        address=progress.address,
        elapsed_seconds=time.monotonic() - started_at,
    )


def _checked(request: WireRequest) -> tuple[Target, Headers]:
    try:
        return parse_url(request.url), wire_headers(request)
    except ValueError:
        raise Stopped(Phase.GUARD, Word.BAD_REQUEST) from None


# the connection, before anything leaves


def _open(
    target: Target,
    guard: AddressGuard,
    proxy: Proxy | None,
    deadline: Deadline,
    progress: Progress,
    resolve: Resolver,
    reply: Reply,
) -> DeadlineStream:
    """A stream on which the request may be written. Raises Stopped, with the stream closed."""
    if proxy is None:
        stream = _connect(
            target, lambda endpoint: guard.allows(endpoint.address), deadline, progress, resolve
        )
    else:
        _check_literal(target, guard, progress)
        progress.hop = "proxy"
        stream = _connect(proxy.target, lambda endpoint: True, deadline, progress, resolve)
    try:
        if proxy and target.tls:
            _pass_proxy(stream, proxy, target, progress, reply)
        if target.tls:
            stream.start_tls(tls_context(guard.ca_file), target.host.rstrip("."))
    except BaseException:
        stream.close()
        raise
    return stream


def _connect(
    target: Target, allows: Allows, deadline: Deadline, progress: Progress, resolve: Resolver
) -> DeadlineStream:
    endpoints = resolve_within(deadline, resolve, target.host, target.port)
    return connect(endpoints, allows, deadline, progress)


def _check_literal(target: Target, guard: AddressGuard, progress: Progress) -> None:
    """Behind a proxy only an address that the URL itself spells out can be checked."""
    endpoint = literal_endpoint(target.host, target.port)
    if endpoint and not guard.allows(endpoint.address):
        progress.address = endpoint.text
        raise Stopped(Phase.GUARD, Word.ADDRESS_REFUSED)


def _pass_proxy(
    stream: DeadlineStream, proxy: Proxy, target: Target, progress: Progress, reply: Reply
) -> None:
    """Ask for a tunnel. What the proxy answers is never the destination's word. Raises Stopped."""
    progress.phase = Phase.PROXY
    asked = _request(
        "CONNECT", proxy.target, target.host_and_port, (("Host", target.host_and_port), *proxy.headers)
    )
    try:
        response = httpcore.HTTP11Connection(asked.url.origin, stream).handle_request(asked)
        if not _is_tunnel(response):
            reply.take_head("CONNECT", response)
            raise Stopped(Phase.PROXY, Word.PROXY_REFUSED)
    except httpcore.TimeoutException:
        raise Stopped(Phase.PROXY, Word.TIMEOUT) from None
    except httpcore.NetworkError:
        raise Stopped(Phase.PROXY, stream.broken or stream.write_broken or Word.CLOSED) from None
    except httpcore.RemoteProtocolError as error:
        raise Stopped(Phase.PROXY, why_incomplete(error, reply, stream.tap, ended=stream.ended)) from None
    progress.hop = "destination"


def _is_tunnel(response: httpcore.Response) -> bool:
    """200 without a body, and silence until we speak: the destination's TLS waits for our first word."""
    announced = {name.lower(): value for name, value in response.headers}
    if (
        response.status != 200
        or b"transfer-encoding" in announced
        or announced.get(b"content-length", b"0") != b"0"
    ):
        return False
    try:
        response.extensions["network_stream"].read(1, timeout=0)
    except httpcore.ReadTimeout:
        return True
    return False


# the exchange, from the first byte that leaves


def _exchange(
    request: httpcore.Request, stream: DeadlineStream, reply: Reply, limits: SendLimits, progress: Progress
) -> Word | None:
    """Write the request, read the reply into `reply`; None when it is complete."""
    error = _read_reply(request, stream, reply, limits)
    if error is None:
        progress.phase = Phase.DONE
    elif reply.status is None:
        reply.status = stream.tap.status
    return error


def _read_reply(
    request: httpcore.Request, stream: DeadlineStream, reply: Reply, limits: SendLimits
) -> Word | None:
    try:
        response = httpcore.HTTP11Connection(request.url.origin, stream).handle_request(request)
        reply.take_head(request.method.decode(), response)
        reply.take_body(response, limits.reply_bytes_max)
    except httpcore.TimeoutException:
        return Word.TIMEOUT
    except httpcore.NetworkError:
        return stream.broken or stream.write_broken or Word.CLOSED
    except httpcore.RemoteProtocolError as error:
        return stream.write_broken or why_incomplete(error, reply, stream.tap, ended=stream.ended)
    if reply.truncated:
        return Word.REPLY_TOO_LARGE
    # A body that ends with the connection is whole only if that end was an orderly one.
    unproven = not reply.length_known and (stream.ragged or stream.write_broken)
    return Word.UNPROVEN_END if unproven else None


def _on_the_wire(
    request: WireRequest, target: Target, headers: Headers, proxy: Proxy | None
) -> httpcore.Request:
    """Through a proxy, plain HTTP goes in absolute form, and the proxy's credentials with it."""
    if proxy is None or target.tls:
        return _request(request.method, target, target.path, headers, request.body)
    absolute = f"http://{target.authority}{target.path}"
    return _request(request.method, proxy.target, absolute, (*headers, *proxy.headers), request.body)


def _request(
    method: str, peer: Target, written: str, headers: Headers, body: bytes = b""
) -> httpcore.Request:
    """`peer` is the next hop, `written` the target on the request line."""
    url = httpcore.URL(
        scheme=peer.scheme.encode(), host=peer.host.encode(), port=peer.port, target=written.encode("ascii")
    )
    return httpcore.Request(method, url, headers=list(headers), content=body)

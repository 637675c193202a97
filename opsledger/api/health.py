"""`/readyz`: intake may go on. `/readyz/work`: work is being done. `/metrics`: the few numbers for a monitor."""

from __future__ import annotations

import hmac
from ipaddress import IPv6Address, ip_address, ip_network

import redis
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from opsledger.ledger.queries.readiness import (
    CANARY_SECONDS_MAX,
    Figures,
    canary_age_seconds,
    figures,
    why_not_ready,
)
from opsledger.lib.client_address import known_client_address

BROKER_SECONDS_MAX = 1.0


def _said(status: int, text: str) -> HttpResponse:
    response = HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "no-store"
    return response


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """200 when the database can be reached and has every migration; 503 with the reason otherwise."""
    why = why_not_ready()
    return _said(503, why) if why else _said(200, "ready")


@require_safe
def working(request: HttpRequest) -> HttpResponse:
    """200 when the broker answers and a canary task finished lately; 503 with the reason otherwise."""
    why = why_not_ready() or _why_no_broker() or _why_no_canary()
    return _said(503, why) if why else _said(200, "working")


def _why_no_broker() -> str:
    try:
        client = redis.from_url(
            settings.REDIS_URL,
            socket_timeout=BROKER_SECONDS_MAX,
            socket_connect_timeout=BROKER_SECONDS_MAX,
        )
        try:
            client.ping()
        finally:
            client.close()
    except (redis.RedisError, OSError) as why:
        return f"The broker can't be reached ({type(why).__name__}). Work goes on with the sweep, later."
    return ""


def _why_no_canary() -> str:
    try:
        age = canary_age_seconds()
    except DatabaseError as why:
        return f"The database can't be read ({type(why).__name__})."
    if age is None:
        return "No task has finished yet: is a worker running?"
    if age > CANARY_SECONDS_MAX:
        return f"No task has finished for {age:.0f} seconds: are worker and beat running?"
    return ""


# Figures


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text. For METRICS_TOKEN’s bearer and METRICS_ALLOWED_NETWORKS; without both for this machine only."""
    if not _may_read(request):
        response = _said(
            401, "Send METRICS_TOKEN as a bearer token, or ask from a network that may read this."
        )
        response["WWW-Authenticate"] = "Bearer"
        return response
    try:
        text = exposition(figures())
    except DatabaseError as why:
        return _said(503, f"The database can't be read ({type(why).__name__}).")
    response = HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")
    response["Cache-Control"] = "no-store"
    return response


def _may_read(request: HttpRequest) -> bool:
    return _knows_the_token(request) or _is_from_where_it_may(request)


def _knows_the_token(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token = settings.METRICS_TOKEN
    return (
        bool(token)
        and scheme.lower() == "bearer"
        and hmac.compare_digest(
            given.encode("utf-8", "surrogateescape"), token.encode("utf-8", "surrogateescape")
        )
    )


_LOOPBACK = ["127.0.0.0/8", "::1/128"]


def _is_from_where_it_may(request: HttpRequest) -> bool:
    """Behind a proxy that we are not told of everybody seems to come from there, so a forwarded request does not count; nor
    does one of which our proxies do not tell whose it is."""
    networks = settings.METRICS_ALLOWED_NETWORKS
    if not networks:
        if settings.METRICS_TOKEN or settings.TRUSTED_PROXY_COUNT:
            return False
        networks = _LOOPBACK
    if not settings.TRUSTED_PROXY_COUNT and any(
        name in request.headers for name in ("X-Forwarded-For", "Forwarded")
    ):
        return False
    try:
        address = ip_address(known_client_address(request))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in ip_network(one) for one in networks)


def exposition(known: Figures) -> str:
    lines = [
        *_family("opsledger_open_holds", "gauge", "Open holds, by reason.",
                 [({"reason": reason}, count) for reason, count in sorted(known.open_holds.items())]),
        *_family("opsledger_due_steps", "gauge", "Steps whose planned act is due, by act.",
                 [({"act": act}, count) for act, count in sorted(known.due_steps.items())]),
        *_family("opsledger_oldest_due_seconds", "gauge", "How long the step that is due longest has been due.",
                 [({}, round(known.oldest_due_seconds, 3))]),
        *_family("opsledger_refusals_total", "counter", "Requests and deliveries refused at the door.",
                 [({"source": source, "reason": reason}, count)
                  for (source, reason), count in sorted(known.refusals.items())]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, words: str, samples: list[tuple[dict[str, str], float]]) -> list[str]:
    return [
        f"# HELP {name} {words}",
        f"# TYPE {name} {kind}",
        *(f"{name}{_labels(of)} {value}" for of, value in samples),
    ]


def _labels(of: dict[str, str]) -> str:
    if not of:
        return ""
    pairs = [f'{name}="{_quoted(value)}"' for name, value in of.items()]
    return "{" + ",".join(pairs) + "}"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

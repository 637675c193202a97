"""The transport: one send per attempt, reported as what was observed (docs/decisions/0002-transport.md)."""

from opsledger.destinations.transport.addresses import AddressGuard, Endpoint, Resolver
from opsledger.destinations.transport.request import Proxy, SendLimits, WireRequest, request_problem
from opsledger.destinations.transport.send import send
from opsledger.destinations.transport.words import Word

__all__ = [
    "AddressGuard",
    "Endpoint",
    "Proxy",
    "Resolver",
    "SendLimits",
    "WireRequest",
    "Word",
    "request_problem",
    "send",
]

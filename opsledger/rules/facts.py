"""What the transport and a lookup report: observations, before any rule reads meaning into them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """How far a send came. Everything before WRITE proves that nothing left."""

    RESOLVE = "resolve"
    GUARD = "guard"  # the connected address is refused by our own guard
    CONNECT = "connect"
    PROXY = "proxy"  # the proxy refused CONNECT
    TLS = "tls"
    POOL = "pool"  # no connection was free
    WRITE = "write"  # handing over the request
    READ = "read"  # waiting for or reading the reply
    DONE = "done"  # a complete reply


@dataclass(frozen=True, slots=True)
class SendFact:
    """One send. `left` is recorded by the transport itself, before the first write of the request."""

    left: bool
    phase: Phase
    error: str = (
        ""  # "" when a complete reply came; else one of our words: timeout, reset, closed, refused, ...
    )
    status: int | None = None  # also set when the reply was cut after its status line
    headers: tuple[tuple[str, str], ...] = ()  # names in lower case, in the order received
    body: bytes = b""  # at most the profile's cap
    truncated: bool = False  # the reply was larger than the cap
    length_known: bool = True  # False: the body ended only because the connection closed
    hop: str = "destination"  # who gave the answer: destination or proxy
    address: str = ""  # what was connected to
    elapsed_seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return self.phase is Phase.DONE and not self.error and not self.truncated

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


@dataclass(frozen=True, slots=True)
class SmtpFact:
    """One message handed to an SMTP server, one recipient."""

    final_dot: bool  # recorded before the final dot was written: it may have arrived
    code: int | None = (
        None  # the reply to the last command, or to the final dot; None: none came, or it was cut
    )
    error: str = ""  # as in SendFact
    elapsed_seconds: float = 0.0


class LookupStatus(StrEnum):
    RECORDS = "records"  # an answer that lists what was found, perhaps nothing
    RUNNING = "running"  # an operation-status lookup: still at work
    FAILED = "failed"  # an operation-status lookup: did not happen
    NO_ANSWER = "no_answer"  # error, timeout, 404 on a search path: not counted as a look
    ACCESS_REFUSED = "access_refused"


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record at the destination, as far as it was read. `fields` are by dotted path, as text."""

    reference: str
    identity: str | None
    fields: tuple[tuple[str, str], ...] = field(default=())
    url: str = ""


@dataclass(frozen=True, slots=True)
class LookupFact:
    """`searched` is said by the search itself. That a record can't be read by its reference says nothing about others."""

    status: LookupStatus
    records: tuple[FoundRecord, ...] = ()  # with our identity or alike; the rules tell them apart
    complete: bool = True  # all pages were read
    error: str = ""
    searched: bool = (
        False  # asked for everything that carries our identity; else one record was read or told of
    )

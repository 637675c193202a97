"""What can be wrong with a send, one word each: the values of `SendFact.error`."""

from __future__ import annotations

from enum import StrEnum

from opsledger.rules.facts import Phase


class Word(StrEnum):
    # before anything left
    BAD_REQUEST = "bad_request"
    ADDRESS_REFUSED = "address_refused"
    NAME_NOT_RESOLVED = "name_not_resolved"
    NO_CONNECTION_FREE = "no_connection_free"  # this machine has no socket or thread left
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    PROXY_REFUSED = "proxy_refused"
    CERTIFICATE_REFUSED = "certificate_refused"
    TLS_FAILED = "tls_failed"
    # before or after
    TIMEOUT = "timeout"
    RESET = "reset"
    CLOSED = "closed"  # closed without one byte of a reply
    # the reply is incomplete
    CUT_HEADERS = "cut_headers"
    HEADERS_TOO_LARGE = "headers_too_large"
    SHORT_BODY = "short_body"  # shorter than announced
    MISSING_LAST_CHUNK = "missing_last_chunk"
    UNPROVEN_END = "unproven_end"  # TLS: the close that ends the body was not announced by the peer
    MALFORMED_REPLY = "malformed_reply"
    REPLY_TOO_LARGE = "reply_too_large"


class Stopped(Exception):
    """The send ended before a byte of the request could leave."""

    def __init__(self, phase: Phase, word: Word) -> None:
        super().__init__(f"{phase}: {word}")
        self.phase = phase
        self.word = word

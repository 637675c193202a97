"""A send without a complete reply: whether nothing left, and in which words (rules.md, table 1)."""

from __future__ import annotations

from dataclasses import dataclass

from opsledger.rules.facts import Phase, SendFact
from opsledger.rules.words import error_words, lasted


@dataclass(frozen=True, slots=True)
class Observation:
    why: str  # one machine word
    sentence: str


_BEFORE_WRITING = frozenset(
    {Phase.RESOLVE, Phase.GUARD, Phase.CONNECT, Phase.PROXY, Phase.TLS, Phase.POOL},
)
# HTTP/2: the peer says itself that this stream was not looked at.
_NEVER_TAKEN_UP = frozenset({"refused_stream", "goaway_above_last"})
_INCOMPLETE = {
    "cut_headers": "broke off in its headers",
    "short_body": "was shorter than announced",
    "missing_last_chunk": "ended without its last part",
    "unproven_end": "ended without an orderly close",
    "malformed_reply": "could not be read",
    "headers_too_large": "had headers larger than are read here",
}


def never_left(fact: SendFact) -> Observation | None:
    """Proof that the destination did not take the request up; None when there is no such proof."""
    if fact.error in _NEVER_TAKEN_UP:
        return Observation(
            "refused_stream", "The destination refused the stream before it looked at the request."
        )
    if fact.left or fact.phase not in _BEFORE_WRITING:
        return None
    return Observation(f"{fact.phase.value}_failed", f"{_before_writing(fact)} Nothing was sent.")


def _before_writing(fact: SendFact) -> str:
    where = fact.address or "the destination"
    after = f"{error_words(fact.error)}, {lasted(fact.elapsed_seconds)}"
    if fact.phase is Phase.PROXY and fact.status is not None:
        return f"The proxy answered {fact.status} instead of opening a way to the destination."
    if fact.error == "bad_request":
        return "The request’s address or headers can’t be written."
    return {
        Phase.RESOLVE: f"The destination’s name was not resolved ({after}).",
        Phase.GUARD: f"The address {where} is not one that may be connected to.",
        Phase.CONNECT: f"No connection to {where} ({after}).",
        Phase.PROXY: f"The proxy opened no way to the destination ({after}).",
        Phase.TLS: f"No encrypted connection to {where} ({after}).",
        Phase.POOL: f"No connection was free ({after}).",
    }[fact.phase]


def left_without_reply(fact: SendFact) -> Observation:
    """What is known when the request left, or may have, and no complete reply came."""
    left = (
        "The request left in full"
        if fact.phase in {Phase.READ, Phase.DONE}
        else "The request may have left in part"
    )
    began = f"Its reply (status {fact.status})" if fact.status is not None else "Its reply"
    elapsed = lasted(fact.elapsed_seconds)
    if fact.truncated or fact.error == "reply_too_large":
        return Observation(
            "reply_too_large", f"{left}. {began} is larger than is read here; its first bytes are kept."
        )
    if fact.complete:
        return Observation(
            "contradictory", f"A reply came, but not to a request that is known to have left ({elapsed})."
        )
    if fact.error in _INCOMPLETE:
        return Observation("reply_cut", f"{left}. {began} {_INCOMPLETE[fact.error]}.")
    if fact.status is not None:
        return Observation("reply_cut", f"{left}. {began} was not complete after {elapsed}.")
    if fact.error == "timeout":
        return Observation("no_reply", f"{left}; then {elapsed} without a reply.")
    lost = {"reset": "reset", "closed": "closed"}.get(fact.error, "lost")
    return Observation(
        "connection_lost", f"{left}; then the connection was {lost} without a reply ({elapsed})."
    )

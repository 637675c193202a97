"""What really happens at the destination, beside what the record says of it.

At each send the peer decides, in every way that its profile allows, whether it acts and what it would answer. Replies,
lookups and reports are then generated from what happened. A reply may always be lost, and may always come late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from opsledger.rules.facts import FoundRecord, LookupFact, LookupStatus
from opsledger.rules.profile import ActionProfile, ProtectionKind, Settles
from tests.rules.builders import QUIET_SECONDS, TICK_SECONDS, WINDOW_SECONDS

IDENTITY = "ours"
FIELDS = (("subject", "Call Anna"),)
OTHER_FIELDS = (("subject", "Call Bert"),)


@dataclass(frozen=True, slots=True)
class Peer:
    """The truth about one step. Effects are named by their references."""

    effects: tuple[str, ...] = ()
    landing: str = ""  # an effect that is on its way; it happens before its attempt's lease ends
    key_seen: int | None = None  # the tick at which an effect was first stored under the key
    visible_at: float = 0.0  # in ticks: from then on a lookup shows every effect so far
    replies: tuple[str, ...] = ()  # per attempt, the answer that may still come: done:R1, rejected, … or ""
    final: str = ""  # of what was accepted: delivered, bounced
    gone: bool = False  # its records were deleted by a colleague, after one of them was found
    denied: bool = False  # a person said that it did not happen, and it did
    approved: tuple[int, ...] = ()  # revisions that a person approved
    revision: int = 1  # of the key that it was sent under last
    asked: tuple[str, LookupFact, int] | None = None  # a lookup under way: label, its answer to be, tick

    @property
    def happened(self) -> tuple[str, ...]:
        return (*self.effects, self.landing) if self.landing else self.effects

    def landed(self) -> Peer:
        if not self.landing:
            return self
        return replace(self, effects=self.happened, landing="")


# Sending


def sends(
    peer: Peer, shape: ActionProfile, tick: int, *, few: bool, names: bool = False
) -> Iterator[tuple[str, Peer]]:
    """All ways in which one send may go. `few`: only that it acts, or that it is lost. `names`: a reply may name the
    record and say nothing else."""
    made, reference = _made(peer, shape, tick)
    yield "it acts", _answering(made, f"done:{reference}")
    yield "it is lost on the way", _answering(peer, "error")
    if names:
        yield "it acts, and its record is only named", _answering(made, f"named:{reference}")
    if few:
        return
    yield "it acts, and answers with an error", _answering(made, "error")
    if made.effects != peer.effects:
        late = replace(made, effects=peer.effects, landing=reference)
        yield "it acts late", _answering(late, f"done:{reference}")
    yield "it never leaves", _answering(peer, "not_sent")
    yield "it is refused", _answering(peer, "rejected")
    yield "it is put off", _answering(peer, "deferred")


def _made(peer: Peer, shape: ActionProfile, tick: int) -> tuple[Peer, str]:
    """The same key inside the window makes no second effect; after it, or without one, each send makes its own."""
    keyed = shape.protection.kind is ProtectionKind.IDEMPOTENCY_KEY
    window_ticks = WINDOW_SECONDS / TICK_SECONDS
    if keyed and peer.key_seen is not None and tick < peer.key_seen + window_ticks:
        return peer, peer.happened[-1]
    reference = f"R{len(peer.replies) + 1}"
    visible_at = tick + (shape.timing.lease_seconds + QUIET_SECONDS) / TICK_SECONDS
    made = replace(peer, effects=(*peer.effects, reference), key_seen=tick, visible_at=visible_at)
    return made, reference


def _answering(peer: Peer, reply: str) -> Peer:
    return replace(peer, replies=(*peer.replies, reply))


def may_arrive(peer: Peer, attempt: int) -> str:
    """The reply to an attempt that may come now; an effect that is still to happen answers afterwards."""
    reply = peer.replies[attempt - 1]
    return "" if peer.landing and reply == f"done:{peer.landing}" else reply


def consumed(peer: Peer, attempt: int) -> Peer:
    replies = list(peer.replies)
    replies[attempt - 1] = ""
    return replace(peer, replies=tuple(replies))


# Looking


def looks(
    peer: Peer, shape: ActionProfile, tick: int, *, differing: bool
) -> Iterator[tuple[str, LookupFact]]:
    """Everything that a lookup may answer at this tick."""
    yield "no answer", LookupFact(LookupStatus.NO_ANSWER, error="timeout")
    for found in sorted(_visible(peer, shape, tick)):
        yield f"finds {', '.join(found) or 'nothing'}", _records(found)
        if differing and len(found) == 1:
            yield f"finds {found[0]}, which differs", _records(found, OTHER_FIELDS)


def _visible(peer: Peer, shape: ActionProfile, tick: int) -> set[tuple[str, ...]]:
    effects = peer.effects
    assert shape.lookup is not None
    if peer.gone:
        return {()}
    if shape.lookup.settles is Settles.BOTH and tick >= peer.visible_at:
        return {effects}
    return {(), effects, *((one,) for one in effects)}


def _records(references: tuple[str, ...], fields: tuple[tuple[str, str], ...] = FIELDS) -> LookupFact:
    found = tuple(FoundRecord(reference, IDENTITY, fields) for reference in references)
    return LookupFact(LookupStatus.RECORDS, found, searched=True)

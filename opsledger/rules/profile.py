"""A destination action's profile: what the destination documents about it. Its versions are ledger rows.

Where a profile says nothing, the cautious answer stands. Every override of a default names its source.
All spans are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Effect(StrEnum):
    CREATE = "create"  # makes one new record; its reference belongs to one step only
    UPDATE = "update"  # changes a record that several steps may share
    MESSAGE = "message"  # sends something that can't be taken back


class ProtectionKind(StrEnum):
    NONE = "none"
    IDEMPOTENCY_KEY = "idempotency_key"
    CLIENT_ID = "client_id"
    UPSERT = "upsert"
    CONDITIONAL = "conditional"


class ReplayMeaning(StrEnum):
    """What the destination answers to the same request under the same key."""

    FIRST_ANSWER = "first_answer"
    FIRST_SUCCESS_ONLY = "first_success_only"
    RERUNS_FAILED = "reruns_failed"
    CURRENT_STATE = "current_state"
    ERROR_WITH_REFERENCE = "error_with_reference"
    ERROR_WITHOUT_REFERENCE = "error_without_reference"
    ANSWER_EVEN_IF_DIFFERENT = "answer_even_if_different"


class Meaning(StrEnum):
    """What a reply says, where a profile knows better than the default table (rules.md 2)."""

    CONFIRMED = "confirmed"
    ACCEPTED = "accepted"
    NOT_SENT = "not_sent"
    DEFERRED = "deferred"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    ACCESS_REFUSED = "access_refused"
    STILL_RUNNING = "still_running"  # 409: our own first attempt is still at work
    EXISTS_NAMED = "exists_named"  # 409: exists, and names the record: fetch it, match it
    EXISTS_UNNAMED = "exists_unnamed"  # 409: used, not proven
    PRECONDITION_FAILED = "precondition_failed"
    KEY_MISMATCH = "key_mismatch"  # same key, other parameters: integrity alarm


class Settles(StrEnum):
    POSITIVE_ONLY = "positive_only"
    BOTH = "both"


class FieldKind(StrEnum):
    """How a decisive field is compared with a found record's."""

    TEXT = "text"  # byte for byte
    NUMBER = "number"  # by value: 1.1 is 1.10
    DATE = "date"  # by the day or the moment, in whatever zone it is written


class FinalEffectBy(StrEnum):
    REPORT = "report"  # a webhook or a delivery report tells
    LOOKUP = "lookup"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact is documented. An unconfirmed fact never widens protection."""

    url: str
    checked: str  # ISO date
    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class Protection:
    kind: ProtectionKind = ProtectionKind.NONE
    window_seconds: int | None = None  # None: unpublished (idempotency_key) or unlimited (client_id, upsert)
    operator_window_seconds: int | None = (
        None  # set by the operator where unpublished; shown as the operator's own
    )
    key_length_max: int = 255
    key_in: str = ""  # "header:Idempotency-Key" or "body:idempotency_key"
    replay: ReplayMeaning = ReplayMeaning.FIRST_ANSWER
    replay_marker: str = ""  # response header that marks a replayed answer
    margin_seconds: int = 30
    side_effects_again: str = ""  # what an upsert runs again (notifications, triggers)
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    settles: Settles
    quiet_seconds: int  # how long a new record may stay invisible
    delays_seconds: tuple[int, ...]  # between looks, increasing; the last one repeats
    last_look_seconds: int  # counted from the latest moment at which the attempt could be processed
    looks_min: int = 2  # never below two
    identity: str = ""  # field of a found record that carries our identity, as a dotted path
    decisive: tuple[tuple[str, str], ...] = ()  # (field of the request, field of the record), dotted paths
    kinds: tuple[
        tuple[str, FieldKind], ...
    ] = ()  # (field of the request, how it is compared); others: as text
    by_reference: bool = False  # a typed reference can be read
    failed_means_no_change: bool = False  # an operation-status lookup's "failed" is documented as no effect
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class FinalEffect:
    by: FinalEffectBy
    deadline_seconds: int
    look_delays_seconds: tuple[int, ...] = ()
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """How the reply is read."""

    reference: str = ""  # dotted path of the reference in a JSON reply; "" = none expected
    accepts_only: bool = False  # a 2xx of this action only takes the work over
    empty_ok: bool = False  # a 2xx with an empty body is a success; the reference is then found by a read
    items: str = ""  # dotted path of per-item results in a 207 or 200
    item_status: str = "status"  # field of an item: its status
    item_place: str = "index"  # field of an item: its place in the request, from 0
    required: str = ""  # a field without which a close-delimited body counts as incomplete
    meanings: tuple[tuple[str, Meaning], ...] = ()  # ("409" or "409:code.path=value", meaning)
    exists_reference: str = (
        ""  # dotted path of the record that an `exists_named` reply names; "" = `reference`
    )
    source: Source | None = None  # where the meanings are documented; without it they may only add caution
    id_space: str = (
        ""  # which records count the references; "" = all of the destination's are counted together
    )
    bytes_max: int = 262_144


@dataclass(frozen=True, slots=True)
class Retries:
    tries_max: int = 5  # automatic tries per step and revision, whoever asks
    delays_seconds: tuple[int, ...] = (5, 30, 120, 600)
    delay_max_seconds: int = 3600


@dataclass(frozen=True, slots=True)
class Timing:
    """connect < total < lease < the broker's visibility timeout; refused when loaded otherwise."""

    connect_seconds: float = 5.0
    total_seconds: float = 30.0
    lease_seconds: float = 60.0
    claim_within_seconds: int = 3600  # for steps performed by an automation


@dataclass(frozen=True, slots=True)
class ActionProfile:
    destination: str
    action: str
    effect: Effect = Effect.CREATE
    protection: Protection = field(default_factory=Protection)
    lookup: Lookup | None = None
    final_effect: FinalEffect | None = None  # None: `accepted` is all that can be known
    reply: Reply = field(default_factory=Reply)
    retries: Retries = field(default_factory=Retries)
    timing: Timing = field(default_factory=Timing)
    client_sends_max: int = 1  # requests that the client library, as it is set up, may send for one call

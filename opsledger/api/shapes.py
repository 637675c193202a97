"""What calls take, as models: nothing is converted, nothing unknown is let through."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

BATCH_MAX = 1_000
HOW_LENGTH_MAX = 4_000
REPLY_LENGTH_MAX = 65_536
REFERENCE_LENGTH_MAX = 2_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_YEARS = range(1970, 10_000)


def _text(value: object) -> object:
    """Text that a database can hold. Another type is left to the model, which refuses it."""
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise ValueError("holds NUL or half of a surrogate pair, which can't be kept")
    return value


def _time(value: object) -> datetime:
    wanted = "must be a time with its zone, such as 2026-03-01T09:00:00Z"
    if not isinstance(value, str) or len(value) > 40:
        raise ValueError(wanted)
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError(wanted)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None
    if moment.year not in _YEARS:
        raise ValueError(wanted)
    return moment


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= 31_536_000:
        raise ValueError("must be a number of seconds from 0 to 31536000")
    return float(value)


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0.01 <= value <= 10_000:
        raise ValueError("must be a number from 0.01 to 10000")
    return float(value)


Text = Annotated[str, BeforeValidator(_text)]
Time = Annotated[datetime, BeforeValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"})]
Seconds = Annotated[
    float, BeforeValidator(_seconds), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 31_536_000})
]
Rate = Annotated[
    float, BeforeValidator(_rate), WithJsonSchema({"type": "number", "minimum": 0.01, "maximum": 10_000})
]
How = Annotated[Text, Field(min_length=1, max_length=HOW_LENGTH_MAX)]
Reference = Annotated[Text, Field(min_length=1, max_length=REFERENCE_LENGTH_MAX)]
Reason = Annotated[
    Text,
    Field(min_length=1, max_length=4_000, description="Why; kept with the decision, outside the journal."),
]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# Recording


class SourceEvent(Shape):
    """The event that asked for this, by the name its source gave it."""

    source: Text = Field(description="A source's slug.", max_length=63)
    event_id: Text = Field(min_length=1, max_length=4_000, description="The source's own id, byte for byte.")


class NewOperation(Shape):
    """An intended action."""

    operation_id: str = Field(
        description="Your own id of this action: 1 to 200 printable characters, opaque, byte for byte. No e-mail "
        "address and no telephone number: identities hold no personal data."
    )
    workflow: Text = Field(description="A workflow's slug.", max_length=63)
    params: dict[str, Any] = Field(
        description="What the workflow declares. Numbers keep their digits: `1.10` stays `1.10`."
    )
    content: Content | None = Field(
        default=None,
        description="Versioned content: names a version, or brings one, which starts unapproved. Refused where the "
        "workflow declares none: send params only.",
    )
    source_event: SourceEvent | None = Field(
        default=None, description="Another event of the same action is added, without a conflict."
    )
    owner: Text | None = Field(
        default=None, max_length=254, description="The sign-in name of the person who is to answer for it."
    )
    replaces: Text | None = Field(
        default=None,
        max_length=200,
        description="`op_…` or your own id of the settled operation that this replaces.",
    )
    not_after: Time | None = Field(
        default=None, description="Past this moment nothing is sent for the first time; a person is asked."
    )


class Author(Shape):
    """Who wrote a text. A person is named by the sign-in name, and may not approve it."""

    kind: Literal["person", "automation", "model"]
    name: Text = Field(min_length=1, max_length=254)


class Content(Shape):
    """A content version that an operation shows: `version` names one, `fields` bring one."""

    content_id: Text = Field(
        max_length=200, description="Your own id of this content, without personal data."
    )
    version: int | None = Field(default=None, ge=1, le=2**31 - 1)
    fields: dict[str, Any] | None = Field(default=None, description="What the workflow declares as content.")
    author: Author | None = Field(default=None, description="With `fields`; the caller when absent.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Content:
        if (self.version is None) == (self.fields is None):
            raise ValueError("needs either version or fields")
        if self.author is not None and self.fields is None:
            raise ValueError("has an author without fields")
        return self


NewOperation.model_rebuild()


class Batch(Shape):
    """Up to 1,000 operations. Each is answered by itself, in order; one bad item spoils no other."""

    items: list[Any] = Field(
        min_length=1,
        max_length=BATCH_MAX,
        json_schema_extra={"items": {"$ref": "#/components/schemas/NewOperation"}},
    )


# Doing the work oneself


class Outcome(Shape):
    """What an attempt did, as far as it is proven."""

    outcome: Literal["confirmed", "accepted", "no_change", "unknown"]
    reference: Reference | None = Field(
        default=None,
        description="The destination's reference, byte for byte, with `confirmed` or `accepted`.",
    )
    no_change: Literal["not_sent", "deferred", "rejected"] | None = Field(
        default=None,
        description="The kind, needed with `no_change`: it never left, was put off, or was refused.",
    )
    retry_after_seconds: Seconds | None = Field(
        default=None, description="What the destination asked to wait, with `deferred`."
    )
    evidence: HowKnown


class HowKnown(Shape):
    how: How = Field(description="How it is known, in words. Kept outside the journal, and erasable.")
    status: int | None = Field(default=None, ge=100, le=599, description="The reply’s HTTP status.")
    reply: Text = Field(
        default="", max_length=REPLY_LENGTH_MAX, description="The beginning of what came back."
    )
    occurred_at: Time | None = None


Outcome.model_rebuild()


class Heartbeat(Shape):
    """Nothing needs to be said; an empty object."""


class Evidence(Shape):
    """Something learnt about a step, outside of an attempt."""

    says: Literal["delivered", "not_delivered", "found", "seen"] = Field(
        description="`delivered` and `not_delivered`: the final effect. `found`: a record at the destination, judged like "
        "a lookup’s answer. `seen`: kept for people, decides nothing."
    )
    how: How
    reference: Reference | None = None
    identity: Text | None = Field(
        default=None,
        max_length=REFERENCE_LENGTH_MAX,
        description="Of a found record: what it carries of ours.",
    )
    fields: dict[Text, Text] = Field(
        default_factory=dict,
        max_length=200,
        description="Of a found record: its fields as text, by dotted path.",
    )
    reply: Text = Field(default="", max_length=REPLY_LENGTH_MAX)
    occurred_at: Time | None = None


# Deciding


class WithReason(Shape):
    reason: Reason


AnswerWord = Literal[
    "happened", "happened_accepted", "absent_send_again", "absent_end", "absent_revise", "still_unknown", "close_unknown",
    "ours", "not_ours", "keep_one", "same_again", "revise", "end_failed", "more_tries", "delivered", "not_delivered",
    "leave_accepted", "replaced", "end", "go_on", "first_stands", "recorded_apart",
]  # fmt: skip


class StepAnswer(Shape):
    """An answer with what it needs."""

    answer: AnswerWord
    reason: Reason
    reference: Reference | None = Field(
        default=None, description="The destination's reference, where it happened."
    )
    no_reference_why: Text = Field(default="", max_length=4_000)
    checked_how: Text = Field(default="", max_length=4_000, description="Needed with *it did not happen*.")
    tries: int = Field(default=1, ge=1, le=20, description="With `more_tries`: how many.")
    next_check_at: Time | None = Field(default=None, description="With `still_unknown`.")
    keep_later: list[Text] = Field(
        default_factory=list, max_length=100, description="Names of later steps that go on, or come back."
    )
    ticket: Text = Field(default="", max_length=400, description="Whom you asked: their ticket.")
    others: dict[Text, Text] = Field(
        default_factory=dict,
        max_length=200,
        description="With `keep_one`, by reference: what was done with each record that is not kept, and with what "
        "depends on it.",
    )
    replaced_by: Text = Field(
        default="", max_length=200, description="With `replaced`: the new operation, `op_…` or your own id."
    )
    params: dict[str, Any] = Field(
        default_factory=dict,
        max_length=200,
        description="With `revise` and `absent_revise`: the parameters that change; null takes one away.",
    )
    content: ContentVersion | None = Field(
        default=None, description="With `revise` and `absent_revise`: another content version."
    )


class Settlement(StepAnswer):
    """An answer to a hold. Which answers are valid is in the hold's `answers`."""

    accept_difference: bool = Field(
        default=False, description="Settle although the record that was read at the destination differs."
    )
    rate_per_second: Rate | None = Field(
        default=None, description="With `go_on` at a destination: how fast its backlog leaves."
    )
    operation: Text | None = Field(
        default=None,
        max_length=200,
        description="With `recorded_apart`: the operation that was recorded for this event.",
    )


class ContentVersion(Shape):
    """A content version by its content and number."""

    content_id: Text = Field(max_length=200)
    version: int = Field(ge=1, le=2**31 - 1)


StepAnswer.model_rebuild()
Settlement.model_rebuild()


class AnswerProposal(StepAnswer):
    """An answer for somebody who may give it. What a model thought up is said to be a model's, whoever passes it on."""

    author: Author | None = Field(default=None, description="Whose thought it is; the caller when absent.")


class AcceptedProposal(Shape):
    reason: Text = Field(default="", max_length=4_000, description="Your own; else the proposal's stands.")
    accept_difference: bool = Field(
        default=False, description="Accept although the record that was read at the destination differs."
    )


class DismissedProposal(Shape):
    reason: Text = Field(
        default="", max_length=4_000, description="Needed, except for a proposal of your own."
    )


class Assignment(Shape):
    owner: Text | None = Field(max_length=254, description="A sign-in name; null gives it back to nobody.")


class Note(Shape):
    text: Reason


class Check(Shape):
    at: Time | None = Field(default=None, description="When to look; now when absent. Reads only.")


# Content versions and approvals

Digest = Annotated[
    Text,
    Field(
        min_length=64,
        max_length=64,
        description="Over everything that the decision covers, as it was read. Another one by now: stale.",
    ),
]


class VersionOfContent(Shape):
    """A proposed content version. It is approved by somebody who is neither its author nor its requester."""

    workflow: Text = Field(
        max_length=63, description="A workflow's slug; its fields are this workflow's content."
    )
    fields: dict[str, Any]
    author: Author | None = Field(default=None, description="The caller when absent.")
    origin: Text = Field(default="", max_length=400, description="Where it comes from, in a few words.")
    client_key: Text | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Your own: the same proposal again under it is the first one, another one is refused.",
    )


class NewVersion(VersionOfContent):
    """The same, for a content whose id can't stand in a path."""

    content_id: Text = Field(max_length=200)


class Approval(Shape):
    covered_digest: Digest
    reason: Text = Field(default="", max_length=4_000)


class Rejection(Shape):
    """What waits returns to the approved version where it is named in `return`; the rest is cancelled."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_alias=True)

    covered_digest: Digest
    reason: Reason
    returns: list[Text] = Field(
        default_factory=list,
        alias="return",
        max_length=10_000,
        description="Operations, by `op_…` or your own id, that go back to the approved version.",
    )


class RevisionApproval(Shape):
    revision: int = Field(ge=1, le=32_767)
    covered_digest: Digest
    reason: Text = Field(default="", max_length=4_000)


class RevisionRejection(Shape):
    """With `return`, the step goes back to the newest request of it that was approved; without, the step is ended."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_by_alias=True)

    revision: int = Field(ge=1, le=32_767)
    covered_digest: Digest
    reason: Reason
    returns: bool = Field(default=False, alias="return")


# Replays


class ReplayScope(Shape):
    """Which operations: a list of them, or a filter of `GET /operations` as it matches now. Never all."""

    operations: list[Text] | None = Field(
        default=None,
        min_length=1,
        max_length=10_000,
        description="`op_…`, or own ids that may stand in a path.",
    )
    filter: dict[Text, Text] | None = Field(
        default=None,
        min_length=1,
        max_length=8,
        description="`state`, `workflow`, `destination`, `owner`, `operation_id`, `reference`, `event_id`, `q`.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> ReplayScope:
        if (self.operations is None) == (self.filter is None):
            raise ValueError("must have either operations or filter")
        return self


class ReplayPlan(Shape):
    scope: ReplayScope
    newest: list[Text] = Field(
        default_factory=list,
        max_length=200,
        description="Destinations whose newest definition is taken, where a request is not frozen yet.",
    )


class ReplayStart(Shape):
    """What a plan answered, and what a person says with it."""

    plan: str = Field(max_length=950_000, description="`plan` as it was answered.")
    plan_digest: str = Field(max_length=64, description="`plan_digest` as it was answered, and read.")
    name: Text = Field(description="The batch’s name: one line of at most 200 characters.")
    reason: Text = Field(description="Why; kept with the replay, outside the journal.")
    touches: list[Text] = Field(max_length=200, description="Every destination that the plan touches.")
    per_second: dict[Text, Rate] = Field(
        default_factory=dict,
        max_length=200,
        description="Steps to be started a second, by destination; else the destination’s own rate.",
    )
    stop_after_unknown: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="It pauses by itself when so many outcomes of its steps are unknown; null: it does not.",
    )
    mended: bool = Field(
        default=False, description="Whether the causes of rejections were mended at the destinations."
    )

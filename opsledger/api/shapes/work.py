"""What calls take from automations that do the work themselves: outcomes, heartbeats, evidence."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from opsledger.api.shapes.values import (
    REFERENCE_LENGTH_MAX,
    REPLY_LENGTH_MAX,
    How,
    Reference,
    Seconds,
    Shape,
    Text,
    Time,
)


class HowKnown(Shape):
    how: How = Field(description="How it is known, in words. Kept outside the journal, and erasable.")
    status: int | None = Field(default=None, ge=100, le=599, description="The reply’s HTTP status.")
    reply: Text = Field(
        default="", max_length=REPLY_LENGTH_MAX, description="The beginning of what came back."
    )
    occurred_at: Time | None = None


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


class Nothing(Shape):
    """Of calls that need no body: an empty object, where one is sent at all."""


class Evidence(Shape):
    """Something learnt about a step, outside of an attempt."""

    says: Literal["delivered", "not_delivered", "found", "seen"] = Field(
        description="`delivered` and `not_delivered`: the final effect, only where the destination documents one; with the "
        "reference while it is not known that the request was taken over. `found`: a record at the destination, judged like "
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

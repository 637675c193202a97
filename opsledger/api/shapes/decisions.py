"""What calls take that decide, or propose a decision: answers to holds, reasons, owners, notes, checks."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from opsledger.api.shapes.content import Author, ContentVersion
from opsledger.api.shapes.values import Rate, Reason, Reference, Shape, Text, Time


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
        default=None,
        description="The destination's reference, where it happened. With `ours` the record that the hold is about; refused "
        "with an answer that names no record.",
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


class AnswerProposal(StepAnswer):
    """An answer for somebody who may give it. What a model thought up is said to be a model's, whoever passes it on."""

    author: Author | None = Field(
        default=None,
        description="Whose thought it is; the caller when absent. A person proposes with their own token.",
    )


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

"""What calls about holds answer: holds, proposed answers, and how a hold was settled."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from opsledger.api.answer_shapes.answer import Answer


class HoldOfRecord(Answer):
    id: str
    about: Literal["step", "destination", "event"]
    operation: str | None
    operation_id: str | None
    step: int | None
    destination: str | None
    event: str | None
    reason: str
    title: str
    version: int = Field(description="Decisions carry it: `If-Match`.")
    opened_at: datetime
    due_at: datetime
    closed_at: datetime | None
    closed_by: str | None
    answer: str | None
    owner: str | None
    if_nobody: str
    answers: list[str] = Field(description="Those that are valid now; none when it is closed.")
    facts: dict[str, Any]


class ProposalOfHold(Answer):
    """An answer that somebody proposes. It decides nothing, and is no evidence."""

    id: str
    hold: str
    by: str
    author_kind: Literal["person", "automation", "model"]
    author: str = Field(description="Of a model or an automation, by the proposer's word; else empty.")
    answer: str
    reference: str | None
    reason: str | None = Field(description="Null: it was erased.")
    hold_version: int = Field(description="Of the hold, as the proposer read it; another one by now: stale.")
    made_at: datetime


class HoldAnswer(HoldOfRecord):
    proposals: list[ProposalOfHold] = Field(description="Open ones, oldest first.")


class HoldPage(Answer):
    items: list[HoldAnswer]
    next: str | None


class AnswerProposed(Answer):
    proposal: ProposalOfHold
    result: Literal["proposed", "same"]


class ProposalEnded(Answer):
    proposal: str
    result: Literal["dismissed", "withdrawn", "ended_before"]


class FieldPair(Answer):
    field: str
    ours: str | None
    theirs: str | None
    match: bool


class ReadingAnswer(Answer):
    compared: bool
    why: str
    rows: list[FieldPair]


class SettleAnswer(Answer):
    hold: HoldAnswer
    operation_state: str | None
    reading: ReadingAnswer | None


class NoteAnswer(Answer):
    hold: str
    version: int

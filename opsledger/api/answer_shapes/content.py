"""What calls about content answer: versions, what waits for them, approvals and rejections."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from opsledger.api.answer_shapes.answer import Answer
from opsledger.api.answer_shapes.operations import OperationRecord, ParamAnswer


class AuthorAnswer(Answer):
    kind: Literal["person", "automation", "model"]
    name: str


class VersionAnswer(Answer):
    id: str = Field(description="`cv_…`")
    content_id: str
    workflow: str
    number: int
    version: int = Field(description="Decisions carry it: `If-Match`.")
    state: Literal["proposed", "approved", "rejected", "superseded"]
    author: AuthorAnswer
    origin: str
    requested_by: str
    created_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    reason: str | None
    digest: str
    fields: list[ParamAnswer]


class VersionPage(Answer):
    items: list[VersionAnswer]
    next: str | None


class ProposalAnswer(Answer):
    version: VersionAnswer
    result: Literal["proposed", "same"] = Field(description="`same`: it was there already; nothing changed.")
    moved: int = Field(description="Operations that show it now instead of an earlier version.")


class CoveredStepAnswer(Answer):
    operation: str
    operation_id: str
    title: str
    step: int
    name: str
    destination: str
    action: str
    revision: int
    request_digest: str = Field(description="Of the request as it would be sent, without its key.")


class CoveredAnswer(Answer):
    version: int
    covered_digest: str = Field(description="Over everything that waits for the version, on all pages.")
    covered_count: int
    items: list[CoveredStepAnswer]
    next: str | None


class WaitingVersionAnswer(Answer):
    kind: Literal["version"]
    version: VersionAnswer
    operations: int
    opened_at: datetime
    due_at: datetime | None
    nobody_may_approve: bool


class WaitingRevisionAnswer(Answer):
    kind: Literal["revision"]
    hold: str
    operation: str
    operation_id: str
    title: str
    step: int
    revision: int
    opened_at: datetime
    due_at: datetime
    nobody_may_approve: bool


class WaitingAnswer(Answer):
    items: list[WaitingVersionAnswer | WaitingRevisionAnswer]
    next: str | None


class LeftOutAnswer(Answer):
    operation: str
    operation_id: str
    why: str


class ApprovalAnswer(Answer):
    approval: str
    version: VersionAnswer
    approved: int = Field(description="Requests that may be sent now.")
    left_out: list[LeftOutAnswer] = Field(description="They wait on for somebody else's approval.")
    until: datetime


class RejectionAnswer(Answer):
    version: VersionAnswer
    returned: int
    approved_again: int
    cancelled: int


class StepApprovalAnswer(Answer):
    approval: str
    revision: int
    until: datetime


class StepRejectionAnswer(Answer):
    revision: int = Field(description="The one that was rejected.")
    returned_to: int | None = Field(
        description="The approved revision whose request the step is back at; null: the step is ended."
    )
    approved_again: bool = Field(description="Whether the caller's approval of that request came with it.")
    operation: OperationRecord = Field(description="As it is now.")


class ShownFieldAnswer(Answer):
    name: str
    value: str


class ShownRequestAnswer(Answer):
    method: str
    url: str
    headers: list[list[str]]
    fields: list[ShownFieldAnswer] = Field(description="Of the body, by dotted path; sensitive ones masked.")
    revision: int
    content_version: int | None
    missing: list[str]
    covered_digest: str | None = Field(
        description="For an approval, where this request is approved by itself."
    )

"""What calls about operations answer: that they are recorded, lists of them, and the whole record of one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from opsledger.api.answer_shapes.answer import Answer
from opsledger.api.answer_shapes.holds import HoldOfRecord

_STANDS = Field(
    default=None,
    description="With `same`: what was told otherwise this time. As it is recorded, it stands: read the operation.",
)


class Recorded(Answer):
    id: str = Field(description="`op_…`, given by us; used in all paths.")
    operation_id: str
    state: str
    result: Literal["recorded", "same"] = Field(
        description="`same`: it was recorded before; nothing changed."
    )
    url: str
    stands: list[str] | None = _STANDS


class ErrorField(Answer):
    field: str
    message: str


class BatchItem(Answer):
    """201 and 200 carry the operation; 409 and 422 carry the problem's members."""

    status: int
    operation_id: str | None = None
    id: str | None = None
    state: str | None = None
    result: Literal["recorded", "same"] | None = None
    url: str | None = None
    stands: list[str] | None = _STANDS
    code: str | None = None
    detail: str | None = None
    todo: str | None = None
    differs: list[str] | None = None
    errors: list[ErrorField] | None = None


class BatchAnswer(Answer):
    items: list[BatchItem]


class NextDecision(Answer):
    by: Literal["person", "engine", "automation", "nobody"]
    what: str
    at: datetime | None
    step: int | None
    hold: str | None


class Counters(Answer):
    steps: int
    confirmed: int
    attempts: int
    events: int


class StepSummary(Answer):
    number: int
    name: str
    title: str
    destination: str
    action: str
    performer: str
    state: str
    reference: str | None
    next_act: str
    next_act_at: datetime | None


class HoldSummary(Answer):
    id: str
    step: int
    reason: str
    version: int
    due_at: datetime
    owner: str | None


class OperationSummary(Answer):
    id: str
    operation_id: str
    title: str
    workflow: str
    state: str
    version: int
    owner: str | None = Field(description="A name; null while nobody has taken it.")
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    not_after: datetime | None
    references: list[str]
    steps: list[StepSummary]
    holds: list[HoldSummary]
    next: NextDecision
    counters: Counters
    url: str


class OperationPage(Answer):
    items: list[OperationSummary]
    next: str | None = Field(description="The cursor of the next page; null when nothing is left.")


class ParamAnswer(Answer):
    name: str
    label: str
    value: Any
    masked: bool


class AttemptAnswer(Answer):
    id: str
    number: int
    revision: int
    opened_at: datetime
    lease_ends_at: datetime
    ended_at: datetime | None
    outcome: str | None
    no_change: str | None
    reference: str | None
    known_by: str | None
    status: int | None
    phase: str
    error: str
    elapsed_seconds: float | None
    sentence: str


class ProtectionAnswer(Answer):
    kind: str
    protected: bool
    sentence: str
    until: datetime | None


class StepApproval(Answer):
    """Whether this revision of the request needs an approval, and has it."""

    needed: bool
    approved: bool
    until: datetime | None = Field(description="How long it is good for a first send.")
    content_version: int | None = Field(description="The number of the content version that is shown.")


class StepAnswer(StepSummary):
    revision: int
    request_digest: str | None
    idempotency_key: str | None
    tries_used: int
    tries_max: int
    approval: StepApproval
    protection: ProtectionAnswer
    attempts: list[AttemptAnswer]


class EventAnswer(Answer):
    id: str
    source: str
    event_id: str
    topic: str
    occurred_at: datetime | None
    occurred_text: str
    received_at: datetime
    deliveries: int


class EvidenceAnswer(Answer):
    id: str
    step: int | None
    attempt: str | None
    kind: str
    origin: str
    received_at: datetime
    occurred_at: datetime | None
    says: str
    sentence: str
    late: bool
    bytes: int
    digest: str
    facts: dict[str, Any]


class OwnerAnswer(Answer):
    name: str
    by: Literal["operation", "workflow", "team"]
    taken: bool


class OperationRecord(Answer):
    id: str
    operation_id: str
    title: str
    workflow: str
    workflow_version: int
    state: str
    version: int = Field(description="Cancelling and withdrawing carry it: `If-Match`.")
    cancelled: bool
    owner: OwnerAnswer
    replaces: str | None
    replaced_by: list[str]
    not_after: datetime | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    unknown_at: datetime | None
    params: list[ParamAnswer]
    content: str | None = Field(description="Your own id of the content that it shows.")
    steps: list[StepAnswer]
    references: list[str]
    holds: list[HoldOfRecord]
    events: list[EventAnswer]
    evidence: list[EvidenceAnswer]
    took_effect: list[str] = Field(description="Names of the steps that took effect or were taken over.")
    next: NextDecision
    counters: Counters
    url: str

"""What calls answer, as models for the document. Tests hold every answer against them; `answers` builds the values."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Recorded(Answer):
    id: str = Field(description="`op_…`, given by us; used in all paths.")
    operation_id: str
    state: str
    result: Literal["recorded", "same"] = Field(
        description="`same`: it was recorded before; nothing changed."
    )
    url: str


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


class AnswerProposed(Answer):
    proposal: ProposalOfHold
    result: Literal["proposed", "same"]


class ProposalEnded(Answer):
    proposal: str
    result: Literal["dismissed", "withdrawn", "ended_before"]


class HoldPage(Answer):
    items: list[HoldAnswer]
    next: str | None


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


class RequestAnswer(Answer):
    method: str
    url: str
    headers: list[list[str]] = Field(description="Without credentials: add your own.")
    body: str
    body_encoding: Literal["utf-8", "base64"]
    digest: str


class Claim(Answer):
    attempt_id: str
    step: str
    idempotency_key: str
    request: RequestAnswer
    lease_expires_at: datetime
    longest_until: datetime = Field(description="Heartbeats stretch the lease up to here.")


class LeaseAnswer(Answer):
    attempt_id: str
    lease_expires_at: datetime
    longest_until: datetime


class ReportAnswer(Answer):
    operation: str
    operation_state: str
    step: str
    state: str
    reference: str | None
    attempt_outcome: str | None
    late: bool = Field(description="It came after the attempt had ended: kept as evidence.")
    repeated: bool = Field(description="It had been told before; nothing changed.")


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


# Replays


class PlanItem(Answer):
    operation: str
    operation_id: str
    step: int
    title: str
    destination: str
    verdict: Literal["keep", "send", "send_protected", "look_first", "refuse", "behind"]
    reason: str
    says: str
    protected_until: datetime | None
    reference: str | None
    hold: str | None


class PlanCounts(Answer):
    run: int
    keep: int
    refuse: int


class PlanDestination(Answer):
    slug: str
    steps: int
    sends_per_second: float
    stopped: str | None
    runs_with_versions: list[int]
    newest_version: int
    keep_an_older_version: int = Field(description="Their requests are frozen; they run with what they have.")
    could_take_the_newest: int = Field(
        description="Their requests are not frozen yet: plan again with `newest`."
    )
    takes_the_newest: bool


class PlanWorkflow(Answer):
    slug: str
    runs_with_versions: list[int]
    newest_version: int


class PlanAnswer(Answer):
    id: str = Field(description="`rpl_…`: the address of the start.")
    plan_digest: str
    plan: str = Field(description="The frozen list, signed for this person and team. Give it back as it is.")
    scope: str
    counts: PlanCounts
    run: list[PlanItem] = Field(description="The first hundred.")
    keep: list[PlanItem] = Field(description="The first hundred.")
    refuse: list[PlanItem] = Field(description="The first hundred.")
    refused_by_reason: dict[str, int]
    asks_whether_mended: bool = Field(description="Some were rejected: they run only with `mended`.")
    destinations: list[PlanDestination]
    workflows: list[PlanWorkflow]


class ReplaySummary(Answer):
    id: str
    name: str
    scope: str
    state: Literal["running", "paused", "aborting", "aborted", "finished"]
    version: int
    plan_digest: str
    started_by: str
    started_at: datetime
    answered_for_by: str = Field(
        description="In whose name it begins steps: who started it, or resumed it last."
    )
    changed_by: str | None = Field(description="Who paused, resumed or aborted it last; null: the engine.")
    stop_after_unknown: int | None
    stopped_after_unknown: int | None = Field(
        description="So many unknown outcomes paused it; null: they did not."
    )
    stopped_without_right: bool = Field(
        description="It paused because `answered_for_by` may not start replays here any more."
    )
    ended_at: datetime | None
    items: int
    counts: dict[str, int] = Field(
        description="Each item once: by its result where it has ended, else by its state. `recovered` is a proven effect."
    )
    url: str


class ReplayPace(Answer):
    slug: str
    per_second: float
    waiting: int
    stopped: str | None


class ReplayAnswer(ReplaySummary):
    destinations: list[ReplayPace]


class ReplayPage(Answer):
    items: list[ReplaySummary]
    next: str | None


class ReplayItem(Answer):
    position: int
    operation: str
    operation_id: str
    step: int
    title: str
    destination: str
    verdict: str
    reason: str
    says: str
    state: Literal["waiting", "started", "ended", "skipped", "aborted", "kept", "refused"]
    result: Literal["recovered", "accepted", "held", "closed_unknown", "failed", "cancelled", "behind"] | None
    said: str | None
    reference: str | None
    hold: str | None
    started_at: datetime | None
    ended_at: datetime | None


class ReplayItemPage(Answer):
    items: list[ReplayItem]
    next: str | None


# Content versions and approvals


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
    version: VersionAnswer
    operations: int
    opened_at: datetime
    due_at: datetime | None
    nobody_may_approve: bool


class WaitingRevisionAnswer(Answer):
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
    versions: list[WaitingVersionAnswer]
    revisions: list[WaitingRevisionAnswer]


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

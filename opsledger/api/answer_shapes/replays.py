"""What calls about replays answer: plans, replays, and their items."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from opsledger.api.answer_shapes.answer import Answer


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
    changed_by: str | None = Field(description="Who paused, resumed or aborted it last; null: the engine.")
    stop_after_unknown: int | None
    stopped_after_unknown: int | None = Field(
        description="So many unknown outcomes paused it; null: it did not pause by itself."
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

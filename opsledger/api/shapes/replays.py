"""What calls take about replays: a scope, a plan, a start."""

from __future__ import annotations

from pydantic import Field, model_validator

from opsledger.api.shapes.values import Rate, Shape, Text


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

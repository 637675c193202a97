"""What calls take about content: versions that are shown or proposed, and decisions on them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from opsledger.api.shapes.values import Reason, Shape, Text


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


class ContentVersion(Shape):
    """A content version by its content and number."""

    content_id: Text = Field(max_length=200)
    version: int = Field(ge=1, le=2**31 - 1)


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
        default=None, min_length=1, max_length=200, description="The same proposal again under the same key."
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

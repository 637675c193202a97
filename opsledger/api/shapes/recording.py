"""What calls take that record operations."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from opsledger.api.shapes.content import Content
from opsledger.api.shapes.values import Shape, Text, Time

BATCH_MAX = 1_000


class SourceEvent(Shape):
    """The event that asked for this, by the name its source gave it."""

    source: Text = Field(description="A source's slug.", max_length=63)
    event_id: Text = Field(min_length=1, max_length=4_000, description="The source's own id, byte for byte.")


class NewOperation(Shape):
    """An intended action."""

    operation_id: str = Field(
        description="Your own id of this action: 1 to 200 printable characters, opaque, byte for byte. No e-mail "
        "address and no telephone number: identities hold no personal data. Not what reads as one of our numbers, `op_…`."
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
        default=None,
        max_length=254,
        description="The sign-in name of the person who is to answer for it. Once recorded, it stands.",
    )
    replaces: Text | None = Field(
        default=None,
        max_length=200,
        description="`op_…` or your own id of the settled operation that this replaces. One other replaces it, no second.",
    )
    not_after: Time | None = Field(
        default=None,
        description="Past this moment nothing is sent for the first time; a person is asked. Once recorded, it stands.",
    )


class Batch(Shape):
    """Up to 1,000 operations. Each is answered by itself, in order; one bad item spoils no other."""

    items: list[Any] = Field(
        min_length=1,
        max_length=BATCH_MAX,
        json_schema_extra={"items": {"$ref": "#/components/schemas/NewOperation"}},
    )

"""The kinds of values that calls take: nothing is converted, nothing unknown is let through."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

HOW_LENGTH_MAX = 4_000
REPLY_LENGTH_MAX = 65_536
REFERENCE_LENGTH_MAX = 2_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_YEARS = range(1970, 10_000)


def _text(value: object) -> object:
    """Text that a database can hold. Another type is left to the model, which refuses it."""
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise ValueError("holds NUL or half of a surrogate pair, which can't be kept")
    return value


def _time(value: object) -> datetime:
    wanted = "must be a time with its zone, such as 2026-03-01T09:00:00Z"
    if not isinstance(value, str) or len(value) > 40:
        raise ValueError(wanted)
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError(wanted)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(wanted) from None
    if moment.year not in _YEARS:
        raise ValueError(wanted)
    return moment


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= 31_536_000:
        raise ValueError("must be a number of seconds from 0 to 31536000")
    return float(value)


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0.01 <= value <= 10_000:
        raise ValueError("must be a number from 0.01 to 10000")
    return float(value)


Text = Annotated[str, BeforeValidator(_text)]
Time = Annotated[datetime, BeforeValidator(_time), WithJsonSchema({"type": "string", "format": "date-time"})]
Seconds = Annotated[
    float, BeforeValidator(_seconds), WithJsonSchema({"type": "number", "minimum": 0, "maximum": 31_536_000})
]
Rate = Annotated[
    float, BeforeValidator(_rate), WithJsonSchema({"type": "number", "minimum": 0.01, "maximum": 10_000})
]
How = Annotated[Text, Field(min_length=1, max_length=HOW_LENGTH_MAX)]
Reference = Annotated[Text, Field(min_length=1, max_length=REFERENCE_LENGTH_MAX)]
Reason = Annotated[
    Text,
    Field(min_length=1, max_length=4_000, description="Why; kept with the decision, outside the journal."),
]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

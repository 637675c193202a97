"""What every answer’s shape has in common. Tests hold every answer against its shape; `answers` builds the values."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

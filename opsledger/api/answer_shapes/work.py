"""What automations are answered that do the work themselves: claims, leases, reports."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from opsledger.api.answer_shapes.answer import Answer


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

"""A cast of sources and a sender that signs as they do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from opsledger.rules.definitions import SourceDefinition, build_definition
from opsledger.sources.profiles import completed
from opsledger.sources.signatures import Headers, Secret, sign

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
KEY = "whsec_c2l4dGVlbiBieXRlcyBvZiBrZXk="


def source(**changes: Any) -> SourceDefinition:
    """A source that signs as Standard Webhooks does, unless changed."""
    table: dict[str, Any] = {
        "name": "Shop",
        "delivery": "standard_webhooks",
        "secrets": [{"environment": "SHOP_SECRET"}],
        "starts": "call",
        "operation_id": "shop:{event.id}",
        "params": {"subject": "data.subject"},
    }
    definition, problems = build_definition("source", "shop", table | changes)
    assert problems == []
    assert isinstance(definition, SourceDefinition)
    return definition


def secret(value: str = KEY, name: str = "SHOP_SECRET", until: datetime | None = None) -> Secret:
    return Secret(name, value, until)


def delivery(
    of: SourceDefinition,
    raw: bytes,
    *,
    key: str = KEY,
    event_id: str = "evt_1",
    at: datetime = NOW,
    content_type: str = "application/json",
    **headers: str,
) -> Headers:
    """The headers of a delivery, signed over exactly these bytes."""
    signature = completed(of).signature
    assert signature is not None
    signed = sign(signature, key, raw, timestamp=int(at.timestamp()), event_id=event_id)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [*(signed | {"content-type": content_type} | named).items()]

"""What one operation carries everywhere in the measurement: about 600 bytes of JSON."""

from __future__ import annotations

import json

_NOTE = "The customer asked for a call about the terms of delivery and the price of the second order. " * 4


def params(number: int) -> dict[str, str]:
    return {
        "campaign": "Spring launch",
        "company": "Alder Works",
        "account": f"ACC-{number}",
        "subject": "Call Alder Works about the second order",
        "note": _NOTE.strip(),
        "due_date": "2026-12-16",
    }


def text() -> str:
    return json.dumps(params(4417))

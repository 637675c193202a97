"""What a problem's `detail` says is a sentence, whatever it is made of."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World, wanted

DETAILS: dict[str, tuple[str, Any, str]] = {
    "a field that is nearly known": (
        "/operations",
        wanted() | {"owners": "x"},
        "owners is not a known field; did you mean owner? Nothing was recorded.",
    ),
    "no items": (
        "/operations/batch",
        {"items": []},
        "items must have at least 1 entry. Nothing was recorded.",
    ),
    "too many items": (
        "/operations/batch",
        {"items": [{}] * 1_001},
        "items must have at most 1,000 entries; these are 1,001. Nothing was recorded.",
    ),
}


@pytest.mark.parametrize(("path", "body", "detail"), DETAILS.values(), ids=DETAILS.keys())
def test_a_detail_is_a_sentence(world: World, path: str, body: Any, detail: str) -> None:
    assert world.auto.post(path, body).json()["detail"] == detail


def test_what_an_action_asks_for_follows_its_field(world: World) -> None:
    world.record("order:1")
    answer = world.owner.post("/operations/order:1/cancel", {"reason": "  "}, if_match=1)
    assert (
        answer.json()["detail"]
        == "reason: Write the reason; it is kept with the decision. Nothing was recorded."
    )

"""What is written by hand for speed is what the library would write."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from api_world import World, wanted

from opsledger.api.answers import recorded, recorded_text
from opsledger.ledger.actions.new_operations import _headers_text
from opsledger.ledger.actions.opened import Opened
from opsledger.rules.states import OperationState

OWN = ["a", 'quoted "id"', "back\\slash", "é 日本", "</script>", "\u2028", "x" * 200]


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("stands", [(), ("owner", "not_after")], ids=["", "some stand"])
def test_an_item_is_the_answer_as_json_with_its_status(own: str, new: bool, stands: tuple[str, ...]) -> None:
    number = UUID(int=4711)
    for state in OperationState:
        status = 201 if new else 200
        opened = Opened(number, state, new, stands=stands)
        item = {"status": status, **recorded(opened, own)}
        text = recorded_text(opened, own, status)
        assert text == json.dumps(item, separators=(",", ":"))


@pytest.mark.parametrize(
    "headers",
    [(), (("Accept", "a/b"),), (("X-Q", 'a "b" \\ \t'), ("X-É", "é")), (("A", ""), ("B", "x"), ("C", "y"))],
)
def test_headers_are_kept_as_json(headers: tuple[tuple[str, str], ...]) -> None:
    assert _headers_text(headers) == json.dumps(headers)


def test_ids_follow_the_order_of_the_items_whatever_way_each_is_made(world: World) -> None:
    """Pages show operations by their ids; with a latest moment one is made by the rules, without by its kind's mould."""
    items = [
        wanted(f"a:{n}") | ({"not_after": "2100-01-01T00:00:00Z"} if n % 3 == 0 else {}) for n in range(9)
    ]
    answers = world.auto.post("/operations/batch", {"items": items}).json()["items"]
    assert [one["status"] for one in answers] == [201] * 9
    assert [one["id"] for one in answers] == sorted(one["id"] for one in answers)

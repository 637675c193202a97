"""What a call does not know is refused, not ignored: in the body, also of calls that need none, and in the query."""

from __future__ import annotations

from typing import Any

import pytest
from api_world import World

from opsledger.ledger.models import Attempt


def fields_of(answer: Any) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]


@pytest.fixture
def ready(live_world: World) -> World:
    assert live_world.record("order:1", "by_hand").status_code == 201
    return live_world


CLAIM = "/operations/order:1/steps/create_task/claim"


def test_a_claim_with_something_that_it_does_not_take_opens_nothing(ready: World) -> None:
    answer = ready.auto.post(CLAIM, {"lease_seconds": 600})
    assert (answer.status_code, fields_of(answer)) == (422, ["lease_seconds"])
    assert ready.auto.post(CLAIM, b"lease=600").json()["code"] == "bad_json"
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("body", [b"", b"{}"], ids=["no body", "an empty object"])
def test_a_claim_needs_no_body(ready: World, body: bytes) -> None:
    assert ready.auto.post(CLAIM, body).status_code == 201


def test_a_heartbeat_says_nothing(ready: World) -> None:
    attempt = ready.auto.post(CLAIM).json()["attempt_id"]
    answer = ready.auto.post(f"/attempts/{attempt}/heartbeat", {"extend_seconds": 7})
    assert (answer.status_code, fields_of(answer)) == (422, ["extend_seconds"])
    assert ready.auto.post(f"/attempts/{attempt}/heartbeat", b"").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("post", "/operations?dry_run=true", "dry_run"),
        ("post", "/operations/order:1/cancel?reason=none", "reason"),
        ("post", f"{CLAIM}?lease=1", "lease"),
        ("get", "/operations/order:1?fields=state", "fields"),
        ("get", "/operations?order=state", "order"),
        ("get", "/operations?owner=a&owner=b", "owner"),
        ("get", "/holds?reason=disputed&reason=too_late", "reason"),
        ("get", "/holds?sort=due", "sort"),
        ("get", "/replays?cursor=a&cursor=b", "cursor"),
        ("get", "/content-versions?content_id=a&content_id=b", "content_id"),
        ("get", "/approvals?state=open", "state"),
    ],
)
def test_a_query_that_is_not_known_or_said_twice_is_refused(
    ready: World, method: str, path: str, field: str
) -> None:
    caller = ready.owner if "cancel" in path else ready.auto
    answer = caller._client.generic(
        method.upper(),
        f"/api/v1{path}",
        '{"reason": "not wanted"}',
        "application/json",
        headers={**caller._headers, "If-Match": '"1"'},
    )
    assert (answer.status_code, fields_of(answer)) == (422, [field])
    assert not Attempt.objects.exists()


def test_states_are_the_one_filter_that_may_be_said_twice(ready: World) -> None:
    found = ready.auto._client.get("/api/v1/operations?state=held&state=running", headers=ready.auto._headers)
    assert [one["operation_id"] for one in found.json()["items"]] == ["order:1"]

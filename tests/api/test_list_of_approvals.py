"""What waits for an approval is one list in pages, and nothing is left out of it."""

from __future__ import annotations

from typing import Any

import pytest
from test_content import FIELDS, Letters, changed, live, record

from opsledger.api.paging import cursor_of
from opsledger.ledger.models import Hold

__all__ = ["live"]


def pages(world: Letters, limit: int) -> list[list[dict[str, Any]]]:
    found, cursor = [], None
    while True:
        query = {"limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        page = world.owner.get("/approvals", query).json()
        found.append(page["items"])
        cursor = page["next"]
        if cursor is None:
            return found


def named(item: dict[str, Any]) -> str:
    return str(item["operation_id"] if item["kind"] == "revision" else item["version"]["content_id"])


@pytest.fixture
def waiting(live: Letters) -> Letters:
    """A changed request, two versions that operations wait for, one that nothing waits for yet; all due at one moment."""
    changed(live)
    for name in ("b", "c"):
        record(live, f"letter:{name}", content_id=f"letter:{name}", fields=FIELDS | {"text": name})
    live.auto.post("/content-versions", {"content_id": "letter:d", "workflow": "letter", "fields": FIELDS})
    Hold.objects.update(due_at=Hold.objects.values_list("due_at", flat=True).first())
    return live


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_every_page_follows_the_one_before(waiting: Letters, limit: int) -> None:
    found = pages(waiting, limit)
    names = [named(item) for page in found for item in page]
    assert sorted(names) == ["letter:a", "letter:b", "letter:c", "letter:d"]
    assert names[-1] == "letter:d", "nothing waits for it yet"
    assert [len(page) for page in found][:-1] == [limit] * (len(found) - 1)


def test_what_was_decided_meanwhile_moves_no_later_page(waiting: Letters) -> None:
    first = waiting.owner.get("/approvals", {"limit": "2"}).json()
    seen = [named(item) for item in first["items"]]
    version = next(item["version"] for item in first["items"] if item["kind"] == "version")
    digest = waiting.owner.get(f"/content-versions/{version['id']}/covered").json()["covered_digest"]
    decided = waiting.owner.post(
        f"/content-versions/{version['id']}/approve", {"covered_digest": digest}, if_match=version["version"]
    )
    assert decided.status_code == 200, decided.content
    rest = waiting.owner.get("/approvals", {"limit": "50", "cursor": first["next"]}).json()
    assert sorted([*seen, *map(named, rest["items"])]) == ["letter:a", "letter:b", "letter:c", "letter:d"]


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "201"}, {"limit": "x"}, {"cursor": "\u00e9"}, {"cursor": "&&"}]
)
def test_a_page_that_cant_be_asked_for_is_refused(live: Letters, query: dict[str, str]) -> None:
    assert live.owner.get("/approvals", query).status_code == 422


def test_another_teams_are_not_listed(waiting: Letters) -> None:
    assert waiting.other.get("/approvals").json()["items"] == []


@pytest.mark.parametrize(
    "held",
    [
        "",
        "due",
        "due 2026-11-30",
        "due 2026-11-30T00:00:00+00:00",
        "\x00 2026-11-30T00:00:00.000000+00:00 00000000-0000-0000-0000-000000000000",
        "due 2026-11-30T00:00:00.000000+00:00 00000000-0000-0000-0000-00000000000z",
        "due 2026-02-30T00:00:00.000000+00:00 00000000-0000-0000-0000-000000000000",
        "2026-11-30T00:00:00+00:00~hold_00000000000000000000000000",
        "7",
    ],
    ids=[
        "nothing",
        "a word",
        "a day",
        "without an id",
        "NUL",
        "no id",
        "no day",
        "of the holds",
        "of versions",
    ],
)
def test_a_cursor_that_this_list_never_gave_is_refused(waiting: Letters, held: str) -> None:
    answer = waiting.owner.get("/approvals", {"cursor": cursor_of(held) or "~"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "cursor"

"""The intake table at the API: what two readers could understand differently is refused, counted, and never a 500."""

from __future__ import annotations

import gzip
import json

import pytest
from api_world import World, wanted
from django.conf import settings

from opsledger.ledger.models import Operation, Refusal

GOOD = json.dumps(wanted()).encode()


def nested(depth: int) -> bytes:
    inner = b"[" * (depth - 1) + b"]" * (depth - 1)
    return b'{"operation_id":"a","workflow":"follow_up","params":{"subject":"x"},"content":' + inner + b"}"


BODIES: list[tuple[str, bytes, str, int, str]] = [
    (
        "duplicate key",
        b'{"operation_id":"a","operation_id":"b","workflow":"follow_up","params":{}}',
        "",
        400,
        "duplicate_key",
    ),
    (
        "duplicate key inside",
        GOOD.replace(b'{"subject"', b'{"subject": "y", "subject"'),
        "",
        400,
        "duplicate_key",
    ),
    ("20,000 brackets", b"[" * 20_000, "", 400, "depth"),
    ("depth 101", nested(101), "", 400, "depth"),
    ("depth 99", nested(99), "", 422, "invalid"),
    ("utf-16", GOOD.decode().encode("utf-16-le"), "", 400, "encoding"),
    ("latin-1", b'{"a":"\xe8"}', "", 400, "encoding"),
    ("form", b"payload=%7B%7D", "application/x-www-form-urlencoded", 415, "content_type"),
    ("multipart", b"--x--", "multipart/form-data; boundary=x", 415, "content_type"),
    ("other charset", GOOD, "application/json; charset=latin-1", 415, "content_type"),
    ("nothing", b"", "", 400, "empty"),
    ("null", b"null", "", 400, "not_an_object"),
    ("list", b"[]", "", 400, "not_an_object"),
    ("NaN", b'{"a":NaN}', "", 400, "syntax"),
    ("not JSON", b"{", "", 400, "syntax"),
]


@pytest.mark.parametrize(
    ("raw", "kind", "status", "reason"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_a_body_that_can_not_be_taken_is_refused_with_its_reason_and_counted(
    world: World, raw: bytes, kind: str, status: int, reason: str
) -> None:
    answer = world.auto.post("/operations", raw, Content_Type=kind or "application/json")
    assert answer.status_code == status, answer.content
    counted = Refusal.objects.get()
    assert (counted.source_slug, counted.team, counted.reason, counted.count) == (
        "",
        world.cast.launch,
        reason,
        1,
    )
    assert not Operation.objects.exists()


def test_a_byte_order_mark_is_tolerated(world: World) -> None:
    assert world.auto.post("/operations", b"\xef\xbb\xbf" + GOOD).status_code == 201
    assert not Refusal.objects.exists()


def test_the_api_takes_no_compressed_bodies(world: World) -> None:
    answer = world.auto.post("/operations", gzip.compress(GOOD), Content_Encoding="gzip")
    assert answer.status_code == 415


@pytest.mark.parametrize("extra", [-1, 0, 1], ids=["limit-1", "limit", "limit+1"])
def test_there_is_one_limit_and_it_is_named(world: World, extra: int) -> None:
    limit = settings.INTAKE_BODY_BYTES_MAX
    raw = GOOD + b" " * (limit + extra - len(GOOD))
    answer = world.auto.post("/operations", raw)
    if extra <= 0:
        assert answer.status_code == 201
    else:
        assert answer.status_code == 413
        assert str(limit) in answer.json()["detail"]
        assert Refusal.objects.get().reason == "body_too_large"


def test_refusals_are_counted_on_one_row_per_reason_and_team(world: World) -> None:
    for _ in range(3):
        world.auto.post("/operations", b"{")
    world.other.post("/operations", b"{")
    rows = {(row.team, row.reason): row.count for row in Refusal.objects.all()}
    assert rows == {(world.cast.launch, "syntax"): 3, (world.cast.returns, "syntax"): 1}


def test_a_refusal_keeps_nothing_of_what_was_sent(world: World) -> None:
    world.auto.post("/operations", b'{"secret-name@harbour.example": 1}')
    assert "secret" not in Refusal.objects.get().last_sentence

"""Whatever refuses a request of the API or of a source, the answer is a problem with its code and with what to do."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from api_world import World, wanted
from django.db import OperationalError
from lane_client import LaneClient
from test_lane import ask, bearer, kept_connection  # noqa: F401

from opsledger.api import operations
from opsledger.api.problems import KINDS
from opsledger.lib.chunked_body import read_chunked_bodies


def told(status: int, headers: dict[str, str], raw: bytes) -> dict[str, Any]:
    """The problem, held against the kind that its code names."""
    assert headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = json.loads(raw)
    assert problem["status"] == status == KINDS[problem["code"]].status
    assert problem["type"] == f"/api/docs#problem-{problem['code']}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["todo"] == KINDS[problem["code"]].todo
    return problem


def test_a_host_that_is_not_ours(world: World) -> None:
    answer = ask("POST", "/api/v1/operations", wanted(), host="evil.example", **bearer(world))
    assert "Nothing was recorded" in told(*answer)["detail"]
    assert "page" not in answer[2].decode()


@pytest.mark.parametrize("path", ["/hooks/", "/hooks/shop/more", "/api/v1/"])
def test_an_address_that_is_none(world: World, path: str) -> None:
    assert told(*ask("POST", path, {}, **bearer(world)))["code"] == "not_found"


def test_the_same_through_the_console_s_way(world: World) -> None:
    answer = LaneClient().post("/hooks/", "{}", content_type="application/json")
    told(answer.status_code, dict(answer.headers), answer.content)


def test_what_broke_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "page_of", None)
    answer = ask("GET", "/api/v1/operations", **bearer(world))
    assert told(*answer)["code"] == "broken"
    assert "TypeError" not in answer[2].decode()
    assert "page" not in answer[2].decode()


def test_a_database_that_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_given: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(operations, "page_of", away)
    answer = ask("GET", "/api/v1/operations", **bearer(world))
    assert told(*answer)["code"] == "unavailable"
    assert "page" not in answer[2].decode()


def test_what_broke_while_it_was_recorded_may_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "open_intended", None)
    problem = told(*ask("POST", "/api/v1/operations", wanted(), **bearer(world)))
    assert "not known here whether" in problem["detail"]
    assert "safe to repeat" in problem["todo"]


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        ({"CONTENT_LENGTH": "abc"}, "bad_request"),
        ({"CONTENT_LENGTH": "6"}, "bad_request"),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, "length_required"),
        ({"HTTP_TRANSFER_ENCODING": "gzip", "wsgi.input_terminated": True}, "transfer_encoding"),
    ],
    ids=["no length", "cut short", "no end", "another encoding"],
)
def test_a_body_that_can_not_be_brought_in(environ: dict[str, Any], code: str) -> None:
    found: list[Any] = []
    app = read_chunked_bodies(lambda environ, start: [])
    whole = {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(b"hello"), **environ}
    raw = b"".join(app(whole, lambda status, headers: found.extend((int(status[:3]), dict(headers)))))  # type: ignore[arg-type, return-value]
    assert told(found[0], found[1], raw)["code"] == code

"""The API's own way through the application: the same answers as through the console's, and as well guarded."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_world import World, wanted
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import RequestFactory, override_settings

from opsledger.api.lane import _Handler, with_lane

NEEDED = {
    "Content-Length", "Content-Security-Policy", "Cross-Origin-Opener-Policy", "Referrer-Policy", "X-Content-Type-Options",
    "X-Frame-Options", "X-Request-Id",
}  # fmt: skip


@pytest.fixture(autouse=True)
def kept_connection() -> Iterator[None]:
    """As Django's own test client does: requests of a test see its transaction."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


def _console(environ: Any, start_response: Any) -> list[bytes]:
    start_response("299 Console", [])
    return [b""]


def ask(method: str, path: str, body: Any = None, host: str = "testserver", **headers: str) -> Any:
    """Status, headers and body as a server would send them."""
    raw = json.dumps(body).encode() if body is not None else b""
    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "SERVER_NAME": host, "SERVER_PORT": "80", "HTTP_HOST": host,
        "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(raw)), "wsgi.input": io.BytesIO(raw),
        "wsgi.url_scheme": "http", **headers,
    }  # fmt: skip
    told: list[Any] = []
    answer = with_lane(_console)(environ, lambda status, found: told.extend((status, dict(found))))
    return int(told[0][:3]), told[1], b"".join(answer)


def bearer(world: World) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": world.auto._headers["Authorization"]}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/operations", wanted("lane:1")),
        ("POST", "/api/v1/operations", {"operation_id": 7}),
        ("GET", "/api/v1/operations", None),
        ("GET", "/api/v1/operations/op_0", None),
        ("PUT", "/api/v1/operations", None),
        ("GET", "/api/v1/nothing", None),
        ("POST", "/hooks/nobody", {}),
        ("GET", "/api/v1/openapi.json", None),
    ],
    ids=["recorded", "invalid", "list", "none", "method", "no call", "no source", "openapi"],
)
def test_answers_are_those_of_the_console_s_way(world: World, method: str, path: str, body: Any) -> None:
    status, headers, raw = ask(method, path, body, **bearer(world))
    again = world.auto._client.generic(
        method,
        path,
        json.dumps(body) if body is not None else "",
        "application/json",
        headers=world.auto._headers,
    )
    assert status in {again.status_code, 201}  # the second time it is the same one again
    assert headers["Content-Type"] == again["Content-Type"]
    assert headers.get("Cache-Control") == again.get("Cache-Control")
    assert json.loads(raw).keys() == again.json().keys()
    assert headers.keys() >= NEEDED
    assert int(headers["Content-Length"]) == len(raw)
    assert "Set-Cookie" not in headers


def test_without_a_token_it_is_401(db: None) -> None:
    assert ask("GET", "/api/v1/operations")[0] == 401


def test_a_host_that_is_not_ours_is_refused(world: World) -> None:
    status, headers, raw = ask("POST", "/api/v1/operations", wanted(), host="evil.example", **bearer(world))
    assert status == 400
    assert headers["Content-Type"] == "application/problem+json"
    assert b"evil" not in raw


@override_settings(SECURE_SSL_REDIRECT=True)
def test_plain_http_is_redirected_where_https_is_asked_for(world: World) -> None:
    status, headers, _ = ask("POST", "/api/v1/operations", wanted(), **bearer(world))
    assert (status, headers["Location"]) == (301, "https://testserver/api/v1/operations")


@pytest.mark.parametrize(
    "path", ["/", "/api/docs", "/healthz", "/api/v10/operations", "/hooksmith", "//api/v1/operations"]
)
def test_everything_else_goes_the_console_s_way(path: str) -> None:
    assert ask("GET", path)[0] == 299


def test_an_address_is_found_again_and_no_other_with_it(world: World) -> None:
    handler = _Handler()
    handler.load_middleware()
    for _ in range(2):
        found = [handler.resolve_request(RequestFactory().post(path)) for path in ASKED]
        assert [match.url_name for match in found] == [
            "record_operation",
            "record_batch",
            "read_operation",
            None,
        ]
        assert [match.kwargs for match in found] == [{}, {}, {"operation": "op_1"}, {}]
    assert set(handler._known) == {"/api/v1/operations", "/api/v1/operations/batch"}


ASKED = ["/api/v1/operations", "/api/v1/operations/batch", "/api/v1/operations/op_1", "/api/v1/nothing"]

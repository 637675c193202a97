"""One JSON line per request, with ids and without payloads."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from opsledger.lib.request_log import (
    JsonFormatter,
    LogContextFilter,
    RequestLogMiddleware,
    current_ids,
    log_context,
)


class Lines(logging.Handler):
    """Keeps what would have been written, as parsed JSON; a second line in one record would not parse."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.addFilter(LogContextFilter())
        self.seen: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        assert "\n" not in text
        assert text.isascii()
        self.seen.append(json.loads(text))


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("opsledger")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before[0])
    logger.propagate = before[1]


def serve(request: HttpRequest, **marks: Any) -> HttpResponse:
    def view(request: HttpRequest) -> HttpResponse:
        for name, value in marks.items():
            setattr(request, name, value)
        logging.getLogger("opsledger.view").info("inside")
        return HttpResponse("{}", status=201)

    response = RequestLogMiddleware(view)(request)
    assert isinstance(response, HttpResponse)
    return response


def test_a_request_is_one_line_without_query_string_or_body(lines: Lines) -> None:
    request = RequestFactory().post("/hooks/shop?token=secret", b"payload-secret", "application/json")
    serve(request)
    inside, line = lines.seen
    assert (line["method"], line["path"], line["status"]) == ("POST", "/hooks/shop", 201)
    assert line["milliseconds"] >= 0
    assert inside["request_id"] == line["request_id"]
    assert "secret" not in json.dumps(lines.seen)


def test_a_sane_request_id_is_kept_and_answered(lines: Lines) -> None:
    response = serve(RequestFactory().get("/", HTTP_X_REQUEST_ID="gateway-0a1b2c3d"))
    assert response["X-Request-Id"] == "gateway-0a1b2c3d" == lines.seen[-1]["request_id"]


@pytest.mark.parametrize(
    "offered",
    [
        "",
        "short",
        "a" * 129,
        "has space inside",
        "line\r\nSet-Cookie: x=1",
        "<b>12345678</b>",
        "caf\u00e9-12345",
        "-12345678",
    ],
    ids=repr,
)
def test_any_other_request_id_is_replaced(lines: Lines, offered: str) -> None:
    made = serve(RequestFactory().get("/", HTTP_X_REQUEST_ID=offered))["X-Request-Id"]
    assert made != offered
    assert len(made) == 32
    assert made == lines.seen[-1]["request_id"]


def test_the_line_names_a_person_only_when_one_was_looked_up(lines: Lines) -> None:
    class NeverLoaded:
        @property
        def is_authenticated(self) -> bool:
            raise AssertionError("logging asked the database")

    serve(RequestFactory().get("/"), user=NeverLoaded())
    serve(RequestFactory().get("/"), _cached_user=SimpleNamespace(is_authenticated=True, pk=7))
    serve(RequestFactory().get("/"), _cached_user=SimpleNamespace(is_authenticated=False, pk=None))
    serve(RequestFactory().get("/"), log_ids={"token_id": "tok_1"})
    done = [line for line in lines.seen if line["message"] == "request"]
    assert [line.get("person_id") for line in done] == [None, 7, None, None]
    assert [line.get("token_id") for line in done] == [None, None, None, "tok_1"]


def test_contexts_nest_and_end(lines: Lines) -> None:
    logger = logging.getLogger("opsledger.engine")
    with log_context(operation_id="op_1", attempt_id=None):
        with log_context(attempt_id="att_1"):
            logger.info("both")
        logger.info("outer")
    logger.info("none")
    kept = [
        {name: line[name] for name in ("operation_id", "attempt_id") if name in line} for line in lines.seen
    ]
    assert kept == [{"operation_id": "op_1", "attempt_id": "att_1"}, {"operation_id": "op_1"}, {}]


def test_a_context_ends_when_its_block_raises() -> None:
    with pytest.raises(ValueError, match="broken"), log_context(operation_id="op_1"):
        raise ValueError("broken")
    assert dict(current_ids()) == {}


def test_two_threads_do_not_share_a_context() -> None:
    meet, seen = threading.Barrier(2), {}

    def work(name: str) -> None:
        with log_context(operation_id=name):
            meet.wait(5)
            seen[name] = current_ids()["operation_id"]
            meet.wait(5)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("op_a", "op_b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"op_a": "op_a", "op_b": "op_b"}


def test_values_that_would_break_a_line_are_escaped(lines: Lines) -> None:
    logging.getLogger("opsledger.x").info("a\nb \ud83d \x00", extra={"name_given": "\u2028"})
    assert lines.seen[0]["message"] == "a\nb � ␀"
    assert lines.seen[0]["name_given"] == "\u2028"


def test_objects_are_named_by_type_and_requests_by_path(lines: Lines) -> None:
    class Payload:
        def __repr__(self) -> str:
            return "card 4417"

    request = RequestFactory().get("/hooks/shop?token=secret")
    logging.getLogger("opsledger.x").info(
        "seen", extra={"body": Payload(), "request": request, "n": {"a": (1, 2.5)}}
    )
    assert lines.seen[0]["body"] == "<Payload>"
    assert lines.seen[0]["request"] == "GET /hooks/shop"
    assert lines.seen[0]["n"] == {"a": [1, 2.5]}


def test_an_exception_stays_on_one_line(lines: Lines) -> None:
    try:
        raise LookupError("no such step")
    except LookupError:
        logging.getLogger("opsledger.x").exception("failed")
    assert "LookupError: no such step" in lines.seen[0]["exc_info"]
    assert lines.seen[0]["level"] == "ERROR"
    assert sys.exc_info() == (None, None, None)

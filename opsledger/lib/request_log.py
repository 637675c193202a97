"""Logs as one JSON object per line, with the ids of what is worked on; never payloads or query strings."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from pythonjsonlogger.json import JsonFormatter as BaseJsonFormatter

from opsledger.lib.strict_json import projection

logger = logging.getLogger("opsledger.request")

_NOTHING: Mapping[str, str] = MappingProxyType({})
_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=_NOTHING)
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,127}", re.ASCII)
_HIDDEN = frozenset({"server_time"})  # django.server's own clock, beside ours


@contextmanager
def log_context(**ids: object) -> Iterator[None]:
    """Every line logged inside carries these ids (`operation_id=…`); None leaves one out. Nests.

    A new thread starts without them: open the context in the thread that does the work.
    """
    added = {name: str(value) for name, value in ids.items() if value is not None}
    token = _context.set({**_context.get(), **added})
    try:
        yield
    finally:
        _context.reset(token)


def current_ids() -> Mapping[str, str]:
    """The ids of the innermost `log_context`; the request's id is among them while one is served."""
    return _context.get()


class LogContextFilter(logging.Filter):
    """Adds the ids of the context to each record that does not carry them itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in _context.get().items():
            record.__dict__.setdefault(name, value)
        return True


class JsonFormatter(BaseJsonFormatter):
    """`time`, `level`, `logger`, `message`, then the record's own fields and the context's ids.

    The output is ASCII, so no line break in a value can break a line; what strict readers of JSON refuse is shown replaced.
    A value that can't be written as JSON is shown by its type only: its `repr` might hold a payload.
    """

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger", "timestamp": "time"},
            timestamp=True,
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        # Django puts the request itself (or a socket) into `request`: its repr holds the query string.
        return {
            "time": log_data.pop("time"),
            **{k: _plain(v) for k, v in log_data.items() if k not in _HIDDEN},
        }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return projection(value)
    if isinstance(value, HttpRequest):
        return f"{value.method} {value.path}"
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return projection({str(key): _plain(item) for key, item in value.items()})
    return f"<{type(value).__name__}>"


class RequestLogMiddleware:
    """Gives each request an id, keeps it in the log context, answers with it, and logs one line.

    A sane `X-Request-Id` (8 to 128 of `A-Z a-z 0-9 . _ : -`) is taken over, anything else is replaced.
    Code that learns more sets `request.log_ids = {"token_id": …}`.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        request_id = _request_id(request.META.get("HTTP_X_REQUEST_ID", ""))
        request.request_id = request_id  # type: ignore[attr-defined]
        with log_context(request_id=request_id):
            response = self._get_response(request)
            response["X-Request-Id"] = request_id
            logger.info("request", extra=_line(request, response, time.perf_counter() - started))
        return response


def _request_id(offered: str) -> str:
    return offered if _SANE_ID.fullmatch(offered) else uuid.uuid4().hex


def _line(request: HttpRequest, response: HttpResponseBase, seconds: float) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "method": request.method,
        "path": request.path,
        "status": response.status_code,
        "milliseconds": round(seconds * 1000, 1),
    }
    # Only a person who was looked up anyway: logging must not cost a query.
    person = getattr(request, "_cached_user", None)
    if person is not None and person.is_authenticated:
        fields["person_id"] = person.pk
    return fields | dict(getattr(request, "log_ids", _NOTHING))

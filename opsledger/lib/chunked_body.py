"""Bodies as Django can read them: complete, of known length, and never more than the cap plus one byte.

Django reads `CONTENT_LENGTH` bytes and nothing where it is absent, so a chunked delivery would arrive empty,
and a body shorter than announced would arrive cut. Both are put right here, before Django sees the request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from opsledger.lib.env import Env

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BYTES_MAX_DEFAULT = 1_048_576
_READ_BYTES = 65_536
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


# Codes of what is refused here, and what a sender does about each (opsledger/api/problems.py has them all).
REMEDIES = {
    "bad_request": "Send the whole of it again, as one request.",
    "length_required": "Send Content-Length with the body.",
    "transfer_encoding": "Send Content-Length, or `Transfer-Encoding: chunked`.",
}
_CODES = {"400": "bad_request", "411": "length_required", "501": "transfer_encoding"}


class _Refused(Exception):
    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def read_chunked_bodies(app: WSGIApplication, *, bytes_max: int | None = None) -> WSGIApplication:
    """Wrap a WSGI application; `bytes_max` is by default the setting INTAKE_BODY_BYTES_MAX.

    1. A `Content-Length` that is no number, or that comes with a transfer encoding: 400.
    2. Announced within the cap: read whole; the sender stopped early: 400.
    3. Announced above the cap: passed on unread, so that the application answers 413 and counts it.
    4. Unannounced (chunked, HTTP/2): read up to the cap plus one byte, and announced as that long; where the
       server's input can't end by itself (`wsgi.input_terminated` is not set): 411, as reading would hang.

    A chunked body that breaks off looks complete on some servers (granian ends the input without an error),
    so what is read here still has to verify or parse.
    """
    cap = bytes_max or Env().number("INTAKE_BODY_BYTES_MAX", BYTES_MAX_DEFAULT, least=1_024, most=67_108_864)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            _bring_in(environ, cap)
        except _Refused as why:
            return _problem(why, start_response)
        return app(environ, start_response)

    return application


def _bring_in(environ: WSGIEnvironment, cap: int) -> None:
    announced = environ.get("CONTENT_LENGTH", "")
    encoded = environ.get("HTTP_TRANSFER_ENCODING", "")
    if announced and encoded:
        raise _Refused(
            "400 Bad Request", "Content-Length and Transfer-Encoding are both set; send one of them."
        )
    if announced:
        _bring_in_announced(environ, _length(announced), cap)
    elif encoded or (environ["REQUEST_METHOD"] not in _BODILESS and environ.get("wsgi.input_terminated")):
        _bring_in_unannounced(environ, encoded, cap)


def _length(announced: str) -> int:
    # int() alone would take "+5", "1_0" and Arabic digits; nobody sends 10^18 bytes.
    if not (announced.isascii() and announced.isdigit() and len(announced) <= 18):
        raise _Refused("400 Bad Request", "Content-Length is not a number of bytes.")
    return int(announced)


def _bring_in_announced(environ: WSGIEnvironment, length: int, cap: int) -> None:
    if not 0 < length <= cap:
        return
    body = _read(environ["wsgi.input"], length)
    if len(body) < length:
        raise _Refused(
            "400 Bad Request",
            f"The body ended after {len(body)} bytes; Content-Length announced {length}. Send it again.",
        )
    environ["wsgi.input"] = BytesIO(body)


def _bring_in_unannounced(environ: WSGIEnvironment, encoded: str, cap: int) -> None:
    if encoded and encoded.strip().lower() != "chunked":
        raise _Refused("501 Not Implemented", "This transfer encoding is not supported; use chunked.")
    if not environ.get("wsgi.input_terminated"):
        raise _Refused(
            "411 Length Required", "This server can't read a body of unknown length; send Content-Length."
        )
    body = _read(environ["wsgi.input"], cap + 1)
    environ["wsgi.input"] = BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    # What follows sees an ordinary body; a second decoder must not look for chunks in it.
    environ.pop("HTTP_TRANSFER_ENCODING", None)


def _read(stream: Any, length: int) -> bytes:
    """Up to `length` bytes; fewer only where the input ended. A broken chunk is the sender's fault: 400."""
    read: Callable[[int], bytes] = stream.read
    parts: list[bytes] = []
    missing = length
    while missing:
        try:
            part = read(min(missing, _READ_BYTES))
        except (OSError, ValueError) as why:
            raise _Refused(
                "400 Bad Request", "The body could not be read to its end. Send it again."
            ) from why
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _problem(why: _Refused, start_response: StartResponse) -> Iterable[bytes]:
    code = _CODES[why.status[:3]]
    problem = {
        "type": f"/api/docs#problem-{code}",
        "title": why.status[4:],
        "status": int(why.status[:3]),
        "code": code,
        "detail": f"{why.detail} Nothing was recorded.",
        "todo": REMEDIES[code],
    }
    body = json.dumps(problem).encode()
    headers = [("Content-Type", "application/problem+json"), ("Content-Length", str(len(body)))]
    start_response(why.status, headers)
    return [body]

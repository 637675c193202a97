"""Every behaviour at the socket. The request was recorded before any of these runs.

Each performance returns whether the connection may stay open.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from .act import STRAIGHT, Twist
from .behaviours import Behaviour
from .clock import Clock
from .desk import Desk
from .documents import dump
from .keys import exists_reply, mismatch_reply, running_reply
from .refusal import Refused, invalid
from .wire import JSON, Reply, Request, Wire, json_reply, refusal_reply

Options = dict[str, Any]

SIGN_IN_PAGE = b"<!doctype html><title>Sign in</title><h1>Sign in</h1><p>Your session has ended.</p>\n"
DRAIN_SECONDS = 2.0
_PADDING = b"x" * 65_536


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded request, and what can be done with it."""

    wire: Wire
    desk: Desk
    clock: Clock
    stopping: Event
    number: int
    request: Request

    def act(self, twist: Twist = STRAIGHT) -> Reply:
        return self.desk.act(self.number, self.request, twist)

    def note(self, reply: Reply) -> None:
        """The status is remembered before its first byte leaves."""
        self.desk.store.note_status(self.number, reply.status)

    def send(self, reply: Reply) -> bool:
        keep = self.request.keeps_alive and not self.stopping.is_set()
        self.note(reply)
        self.wire.send(reply.encode(close=not keep, without_body=self.request.method == "HEAD"))
        return keep

    def hold_until(self, moment: float | None) -> bool:
        """Silence. True when the moment came on the peer's clock; False when the client left first."""
        return self.wire.hold(None if moment is None else lambda: self.clock.now() >= moment)


Performance = Callable[[Exchange, Options], bool]


def perform(exchange: Exchange, behaviour: Behaviour, options: Options) -> bool:
    return _PERFORMANCES[behaviour](exchange, options)


def _answer(exchange: Exchange, options: Options) -> bool:
    if not options["seconds"]:
        return exchange.send(exchange.act())
    refusal = exchange.desk.reserve(exchange.number, exchange.request)
    if refusal is not None:
        return exchange.send(refusal)
    if not exchange.clock.wait_until(exchange.clock.now() + options["seconds"]):
        return False
    return exchange.send(exchange.act())


def _lose_reply_after_acting(exchange: Exchange, _: Options) -> bool:
    exchange.act()
    return False


def _lose_reply_before_acting(_: Exchange, __: Options) -> bool:
    return False


def _reset_after_acting(exchange: Exchange, _: Options) -> bool:
    exchange.act()
    exchange.wire.reset()
    return False


def _silence_after_acting(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act()
    seconds = options["seconds"]
    ended = exchange.hold_until(None if seconds is None else exchange.clock.now() + seconds)
    return ended and options["answer"] and exchange.send(reply)


def _act_late(exchange: Exchange, options: Options) -> bool:
    """The act is promised here, and done by the late acts' thread. A known key is answered at once."""
    act_at = exchange.clock.now() + options["seconds"]
    refusal = exchange.desk.promise(exchange.number, exchange.request, act_at)
    if refusal is not None:
        return exchange.send(refusal)
    if options["hold"]:
        exchange.hold_until(act_at)
        return False
    return options["status"] is not None and exchange.send(_server_error(options["status"]))


def _error_after_acting(exchange: Exchange, options: Options) -> bool:
    error = _server_error(options["status"], *_retry_after(options))
    stored = options["status"] == 500 if options["stored"] is None else options["stored"]
    exchange.act(Twist(said=error) if stored else STRAIGHT)
    return exchange.send(error)


def _error_before_acting(exchange: Exchange, options: Options) -> bool:
    error = _server_error(options["status"], *_retry_after(options))
    if options["stored"]:
        exchange.desk.keep_answer(exchange.number, exchange.request, error)
    return exchange.send(error)


def _cut_reply(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act()
    exchange.note(reply)
    whole = reply.encode(close=True)
    body_bytes = len(reply.body)
    sent = body_bytes // 2 if options["sent"] is None else min(options["sent"], max(body_bytes - 1, 0))
    exchange.wire.send(whole[: len(whole) - body_bytes + sent])
    return False


def _cut_headers(exchange: Exchange, _: Options) -> bool:
    reply = exchange.act()
    exchange.note(reply)
    whole = reply.encode(close=True)
    exchange.wire.send(whole[: (len(whole) - len(reply.body)) // 2])
    return False


def _missing_last_chunk(exchange: Exchange, _: Options) -> bool:
    reply = exchange.act()
    exchange.note(reply)
    head = reply.head((("Transfer-Encoding", "chunked"), ("Connection", "close")))
    exchange.wire.send(head + b"%x\r\n%b\r\n" % (len(reply.body), reply.body))
    return False


def _close_delimited(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act()
    exchange.note(reply)
    exchange.wire.send(reply.head((("Connection", "close"),)) + reply.body[: options["sent"]])
    return False


def _drip(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act()
    exchange.note(reply)
    for place, byte in enumerate(reply.encode(close=True)):
        if place and exchange.stopping.wait(options["interval"]):
            return False
        exchange.wire.send(bytes([byte]))
    return False


def _empty_success(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act()
    if not reply.succeeds:
        return exchange.send(reply)
    location = tuple(header for header in reply.headers if header[0] == "Location")
    body = b" \n" if options["whitespace"] and options["status"] != 204 else b""
    return exchange.send(Reply(options["status"], body, location if options["location"] else ()))


def _not_json(exchange: Exchange, options: Options) -> bool:
    if options["act"]:
        exchange.act()
    return exchange.send(Reply(200, SIGN_IN_PAGE, (("Content-Type", options["content_type"]),)))


def _wrong_shape(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act() if options["act"] else Reply(200)
    if not reply.succeeds:
        return exchange.send(reply)
    return exchange.send(json_reply(reply.status, {"result": "ok", "data": {}}))


def _conflict_running(exchange: Exchange, options: Options) -> bool:
    return exchange.send(running_reply(*_retry_after(options)))


def _conflict_exists_named(exchange: Exchange, options: Options) -> bool:
    if options["id"] is not None:
        return exchange.send(exists_reply(options["id"]))
    return _conflict(exchange, act=options["act"], named=True)


def _conflict_exists_unnamed(exchange: Exchange, options: Options) -> bool:
    return _conflict(exchange, act=options["act"], named=False)


def _conflict(exchange: Exchange, *, act: bool, named: bool) -> bool:
    reference = exchange.desk.existing(exchange.request)
    if reference is None and act:
        reply = exchange.act()
        if not reply.succeeds:
            return exchange.send(reply)
        reference = _reference(reply)
    return exchange.send(exists_reply(reference if named else None))


def _key_mismatch(exchange: Exchange, _: Options) -> bool:
    return exchange.send(mismatch_reply(exchange.desk.mode))


def _rate_limited(exchange: Exchange, options: Options) -> bool:
    refused = Refused(429, "rate_limited", "Too many requests. Nothing was done.")
    return exchange.send(refusal_reply(refused, *_retry_after(options)))


def _unauthorised(exchange: Exchange, _: Options) -> bool:
    return exchange.send(unauthorised_reply())


def _forbidden(exchange: Exchange, _: Options) -> bool:
    return exchange.send(refusal_reply(Refused(403, "forbidden", "This is not allowed. Nothing was done.")))


def _invalid(exchange: Exchange, options: Options) -> bool:
    refused = invalid([(options["field"], options["message"])])
    return exchange.send(json_reply(options["status"], refused.document()))


def _redirect(exchange: Exchange, options: Options) -> bool:
    if options["act"]:
        exchange.act()
    return exchange.send(Reply(options["status"], b"", (("Location", options["location"]),)))


def _too_large(exchange: Exchange, options: Options) -> bool:
    reply = exchange.act()
    exchange.note(reply)
    opening = reply.body[:-1] + b',"padding":"'
    length = len(opening) + options["bytes"] + 2
    exchange.wire.send(
        Reply(reply.status, b"", reply.headers).head((("Content-Length", str(length)),)) + opening
    )
    left = options["bytes"]
    while left > 0:
        exchange.wire.send(_PADDING[:left])
        left -= len(_PADDING)
    exchange.wire.send(b'"}')
    return exchange.request.keeps_alive


def _multi(exchange: Exchange, options: Options) -> bool:
    statuses = options["statuses"]
    first: dict[str, Any] = {}
    if statuses and statuses[0] is not None and statuses[0] < 300:
        reply = exchange.act()
        if not reply.succeeds:
            return exchange.send(reply)
        first = {"id": _reference(reply), "external_id": exchange.request.identity}
    items = [_item(place, status, first) for place, status in enumerate(statuses) if status is not None]
    return exchange.send(json_reply(options["status"], {"items": items, "requested": len(statuses)}))


def _item(place: int, status: int, first: dict[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = {"index": place, "status": status}
    if status >= 300:
        return {**item, "error": {"code": "item_failed", "message": "This item was not done."}}
    return {**item, **first} if place == 0 else item


def _act_twice(exchange: Exchange, _: Options) -> bool:
    return exchange.send(exchange.act(Twist(copies_count=2)))


def _act_with_difference(exchange: Exchange, options: Options) -> bool:
    return exchange.send(exchange.act(Twist(difference=(options["field"], options["value"]))))


def _find_late(exchange: Exchange, options: Options) -> bool:
    twist = Twist(find_after_seconds=options["seconds"], hide_reads=options["reads"])
    return exchange.send(exchange.act(twist))


def _early_answer(exchange: Exchange, options: Options) -> bool:
    """The body lies unread on the socket: closing resets the connection, unless it is drained first."""
    if options["status"] is not None:
        reply = Reply(options["status"], dump({"status": "answered before the body was read"}), (JSON,))
        exchange.note(reply)
        exchange.wire.send(reply.encode(close=True))
    if not options["reset"]:
        exchange.wire.drain(DRAIN_SECONDS)
    return False


def unauthorised_reply() -> Reply:
    refused = Refused(401, "unauthorised", "The credential is missing or wrong. Nothing was done.")
    return refusal_reply(refused, ("WWW-Authenticate", 'Bearer realm="sandbox"'))


def _server_error(status: int, *headers: tuple[str, str]) -> Reply:
    return refusal_reply(Refused(status, "server_error", "Something went wrong."), *headers)


def _reference(reply: Reply) -> str | None:
    document = json.loads(reply.body)
    return document.get("id") if isinstance(document, dict) else None


def _retry_after(options: Options) -> tuple[tuple[str, str], ...]:
    return () if options["retry_after"] is None else (("Retry-After", options["retry_after"]),)


_PERFORMANCES: dict[Behaviour, Performance] = {
    Behaviour.ANSWER: _answer,
    Behaviour.LOSE_REPLY_AFTER_ACTING: _lose_reply_after_acting,
    Behaviour.LOSE_REPLY_BEFORE_ACTING: _lose_reply_before_acting,
    Behaviour.RESET_AFTER_ACTING: _reset_after_acting,
    Behaviour.SILENCE_AFTER_ACTING: _silence_after_acting,
    Behaviour.ACT_LATE: _act_late,
    Behaviour.ERROR_AFTER_ACTING: _error_after_acting,
    Behaviour.ERROR_BEFORE_ACTING: _error_before_acting,
    Behaviour.CUT_REPLY: _cut_reply,
    Behaviour.CUT_HEADERS: _cut_headers,
    Behaviour.MISSING_LAST_CHUNK: _missing_last_chunk,
    Behaviour.CLOSE_DELIMITED: _close_delimited,
    Behaviour.DRIP: _drip,
    Behaviour.EMPTY_SUCCESS: _empty_success,
    Behaviour.NOT_JSON: _not_json,
    Behaviour.WRONG_SHAPE: _wrong_shape,
    Behaviour.CONFLICT_RUNNING: _conflict_running,
    Behaviour.CONFLICT_EXISTS_NAMED: _conflict_exists_named,
    Behaviour.CONFLICT_EXISTS_UNNAMED: _conflict_exists_unnamed,
    Behaviour.KEY_MISMATCH: _key_mismatch,
    Behaviour.RATE_LIMITED: _rate_limited,
    Behaviour.UNAUTHORISED: _unauthorised,
    Behaviour.FORBIDDEN: _forbidden,
    Behaviour.INVALID: _invalid,
    Behaviour.REDIRECT: _redirect,
    Behaviour.TOO_LARGE: _too_large,
    Behaviour.MULTI: _multi,
    Behaviour.ACT_TWICE: _act_twice,
    Behaviour.ACT_WITH_DIFFERENCE: _act_with_difference,
    Behaviour.FIND_LATE: _find_late,
    Behaviour.EARLY_ANSWER: _early_answer,
}

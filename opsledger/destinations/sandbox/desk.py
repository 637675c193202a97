"""Where a request is understood and takes effect: routes, identities, keys. Knows nothing of sockets."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

from . import keys, mail, tasks
from .act import STRAIGHT, Act, Performance, Twist
from .clock import Clock
from .documents import decode_segment, identity_in, is_unicode, parse_query
from .modes import Mode
from .refusal import Refused
from .store import Store
from .wire import Reply, Request, refusal_reply, split_target


@dataclass(frozen=True, slots=True)
class Route:
    perform: Performance
    keyed: bool = False


class Desk:
    def __init__(self, store: Store, clock: Clock, mode: Mode) -> None:
        self.store = store
        self.clock = clock
        self.mode = mode

    def identify(self, request: Request) -> None:
        """Fill in identity and key as far as they can be read; what is wrong is refused when it acts."""
        request.key = request.value("idempotency-key") or None
        try:
            request.identity = self._identity(request)
        except Refused:
            request.identity = ""

    def act(self, number: int, request: Request, twist: Twist = STRAIGHT) -> Reply:
        """Let the request take effect, or be answered from its key, in one transaction. Nothing is sent here.

        Raises Forgotten when a reset came in between: then nothing was done.
        """
        with self.store.transaction():
            act = self._begin(number, request, twist)
            try:
                reply = self._perform(act)
            except Refused as refused:
                reply = refusal_reply(refused)
            acted = act.reference is not None
            self.store.close_request(number, act.now, acted=acted, replay_of=act.replay_of)
        if act.promised_reports:
            self.clock.ring()
        return reply

    def reserve(self, number: int, request: Request) -> Reply | None:
        """Put the key in use for a request that acts later. A reply means that it will not act, and why."""
        with self.store.transaction():
            act = self._begin(number, request, STRAIGHT)
            try:
                route = find_route(request)
                key = keys.key_in_use(request, self.mode) if route.keyed else None
                known = keys.recall(act, key) if key else None
                if key and known is None:
                    keys.reserve(act, key)
            except Refused as refused:
                known = refusal_reply(refused)
            if known is not None:
                self.store.close_request(number, act.now, acted=False, replay_of=act.replay_of)
        return known

    def promise(self, number: int, request: Request, act_at: float) -> Reply | None:
        """Have the request act at `act_at`, its key in use until then, a restart in between included.

        A reply means that it will not act, and why.
        """
        with self.store.transaction() as db:
            known = self.reserve(number, request)
            if known is None:
                db.execute(
                    "INSERT INTO late (request, act_at, body) VALUES (?,?,?)", (number, act_at, request.body)
                )
        self.clock.ring()
        return known

    def keep_due_promises(self) -> float | None:
        """Let every promised request act that is due, in their order. Returns when the next one is."""
        while promised := self.store.row("SELECT request, act_at FROM late ORDER BY act_at, request LIMIT 1"):
            if promised["act_at"] > self.clock.now():
                return float(promised["act_at"])
            self._keep_promise(promised["request"])
        return None

    def _keep_promise(self, number: int) -> None:
        """Let a promised request act now; nothing happens when it did already or was forgotten."""
        with self.store.transaction() as db:
            row = db.execute(
                "SELECT target, method, headers, identity, key, late.body FROM late JOIN requests"
                " ON number = request WHERE request = ?",
                (number,),
            ).fetchone()
            if row is not None:
                db.execute("DELETE FROM late WHERE request = ?", (number,))
                self.act(number, request_from_row(dict(row), row["body"]))

    def keep_answer(self, number: int, request: Request, reply: Reply) -> None:
        """Store an answer under the key although nothing was done."""
        with self.store.transaction():
            act = self._begin(number, request, STRAIGHT)
            route = find_route(request)
            key = keys.key_in_use(request, self.mode) if route.keyed else None
            if key and keys.recall(act, key) is None:
                keys.keep(act, key, reply, said=reply)

    def existing(self, request: Request) -> str | None:
        """The reference of the first record of the request's kind that has its identity."""
        kind = "message" if request.path.startswith("/mail/") else "task"
        wanted = (kind, request.identity)
        found = self.store.records("kind = ? AND identity = ?", wanted, 1) if request.identity else []
        return found[0].reference if found else None

    def _begin(self, number: int, request: Request, twist: Twist) -> Act:
        return Act(self.store, self.mode, self.clock.now(), number, request, twist)

    def _perform(self, act: Act) -> Reply:
        if not act.request.complete:
            raise Refused(400, "incomplete", "Nothing was done. The body did not arrive as announced.")
        route = find_route(act.request)
        key = keys.key_in_use(act.request, act.mode) if route.keyed else None
        if key is None:
            return route.perform(act)
        known = keys.recall(act, key)
        if known is not None:
            return known
        try:
            reply = route.perform(act)
        except Refused as refused:
            reply = refusal_reply(refused)
        keys.keep(act, key, reply, said=act.twist.said if act.reference else None)
        return reply

    def _identity(self, request: Request) -> str:
        segments = _segments(request.path)
        if request.method == "POST":
            return _posted_identity(segments, request)
        if len(segments) == 2:
            name = "external_id" if segments[0] == "crm" else "metadata_operation"
            return parse_query(request.query, ("external_id", "metadata_operation", "subject", "cursor")).get(
                name, ""
            )
        if segments[2:3] == ("by-external-id",):
            return segments[3] if len(segments) == 4 else ""
        found = self.store.records("reference = ?", segments[2:3], 1) if len(segments) == 3 else []
        return found[0].identity if found else ""


def _posted_identity(segments: tuple[str, ...], request: Request) -> str:
    if segments == ("crm", "tasks"):
        return identity_in(request.document(), "external_id")
    return (
        identity_in(request.document(), "metadata", "operation") if segments == ("mail", "messages") else ""
    )


@functools.lru_cache(maxsize=256)
def _segments(path: str) -> tuple[str, ...]:
    """The path's segments, each decoded once, after splitting: an encoded slash stays inside its segment."""
    return tuple(decode_segment(part) for part in path.split("/")[1:])


_COLLECTIONS: dict[tuple[str, ...], dict[str, Route]] = {
    ("crm", "tasks"): {"GET": Route(tasks.find), "POST": Route(tasks.create, keyed=True)},
    ("mail", "messages"): {"GET": Route(mail.find), "POST": Route(mail.send, keyed=True)},
}


def find_route(request: Request) -> Route:
    """What answers this request. Raises Refused (404, 405)."""
    segments = _segments(request.path)
    routes = _COLLECTIONS.get(segments) or _record_routes(segments)
    if not routes:
        raise Refused(404, "no_such_path", "Nothing was done. There is nothing at this path.")
    route = routes.get("GET" if request.method == "HEAD" else request.method)
    if route is None:
        allowed = ", ".join(routes)
        raise Refused(405, "method_not_allowed", f"Nothing was done. Here is only {allowed}.")
    return route


def _record_routes(segments: tuple[str, ...]) -> dict[str, Route]:
    match segments:
        case ("crm", "tasks", "by-external-id", identity) if identity and is_unicode(identity):
            return {
                "GET": Route(lambda act: tasks.read_by_identity(act, identity)),
                "PUT": Route(lambda act: tasks.upsert(act, identity)),
            }
        case ("crm", "tasks", reference):
            return {
                "GET": Route(lambda act: tasks.read(act, reference)),
                "PATCH": Route(lambda act: tasks.change(act, reference)),
            }
        case ("mail", "messages", reference):
            return {"GET": Route(lambda act: mail.read(act, reference))}
    return {}


def request_from_row(row: dict[str, object], body: bytes) -> Request:
    """A recorded request, as far as acting needs it."""
    target = str(row["target"])
    path, query = split_target(target)
    headers = [(name, value) for name, value in json.loads(str(row["headers"]))]
    request = Request(str(row["method"]), target, path, query, 1, headers, body, complete=True)
    request.identity, key = str(row["identity"]), row["key"]
    request.key = None if key is None else str(key)
    return request

"""The control: what was received, what took effect, what is to happen next. Not part of the play."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict

from .behaviours import DESCRIPTIONS, YEAR_SECONDS
from .clock import iso
from .documents import Document, parse_query
from .modes import KEY_MODES
from .modes import OPTIONS as MODE_OPTIONS
from .options import Option, choice, list_of, number, read_options
from .refusal import Refused, invalid
from .script import read_rule
from .wire import Reply, Request, json_reply
from .world import PARTS, World

PREFIX = "/_sandbox/"
PAGE_MAX = 10_000

_RESET_OPTIONS = (Option("only", list_of(choice(*PARTS), len(PARTS)), PARTS, "what is reset"),)
_CLOCK_OPTIONS = (Option("advance_seconds", number(0, YEAR_SECONDS), 0.0, "how far"),)


def answer(world: World, request: Request) -> Reply:
    """The answer to a control request. Raises Refused (400, 404, 405, 415, 422)."""
    routes = _ROUTES.get(request.path.removeprefix(PREFIX))
    if routes is None:
        known = ", ".join(PREFIX + name for name in _ROUTES)
        raise Refused(404, "no_such_path", f"Nothing is at this path. There are: {known}.")
    perform = routes.get("GET" if request.method == "HEAD" else request.method)
    if perform is None:
        raise Refused(405, "method_not_allowed", f"Here is only {', '.join(routes)}.")
    return perform(world, request)


def _requests(world: World, request: Request) -> Reply:
    query = parse_query(request.query, ("since", "identity", "limit"))
    return _page(world, query, "requests", request_document)


def _effects(world: World, request: Request) -> Reply:
    query = parse_query(request.query, ("since", "identity", "limit"))
    return _page(world, query, "effects", effect_document)


def _page(
    world: World, query: dict[str, str], table: str, document: Callable[[sqlite3.Row], Document]
) -> Reply:
    """Rows after number `since`, oldest first. `next` is the `since` of the next page, or null."""
    since, limit = _whole(query, "since", 0), min(_whole(query, "limit", 1_000), PAGE_MAX)
    where = "number > ? AND identity = ?" if "identity" in query else "number > ?"
    values = (since, query["identity"], limit + 1) if "identity" in query else (since, limit + 1)
    rows = world.store.rows(f"SELECT * FROM {table} WHERE {where} ORDER BY number LIMIT ?", values)
    following = rows[limit - 1]["number"] if len(rows) > limit else None
    return json_reply(200, {"items": [document(row) for row in rows[:limit]], "next": following})


def _whole(query: dict[str, str], name: str, default: int) -> int:
    value = query.get(name, str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 19) or (name == "limit" and int(value) < 1):
        raise invalid([(name, "must be a whole number")])
    return int(value)


def request_document(row: sqlite3.Row) -> Document:
    return {
        "number": row["number"],
        "received_at": iso(row["received_at"]),
        "method": row["method"],
        "path": row["target"],
        "headers": json.loads(row["headers"]),
        "body": row["body"].decode(errors="replace"),
        "body_bytes": row["body_bytes"],
        "body_sha256": row["body_sha256"],
        "complete": bool(row["complete"]),
        "identity": row["identity"],
        "key": row["key"],
        "behaviour": row["behaviour"],
        "options": json.loads(row["options"]),
        "acted": bool(row["acted"]),
        "acted_at": None if row["acted_at"] is None else iso(row["acted_at"]),
        "replay_of": row["replay_of"],
        "status": row["status"],
    }


def effect_document(row: sqlite3.Row) -> Document:
    return {
        "number": row["number"],
        "at": iso(row["at"]),
        "kind": row["kind"],
        "identity": row["identity"],
        "key": row["key"],
        "request": row["request"],
        "reference": row["reference"],
        "fields": json.loads(row["fields"]),
    }


def _script(world: World, _: Request) -> Reply:
    return json_reply(200, {"rules": world.script.document()})


def _add_rule(world: World, request: Request) -> Reply:
    return json_reply(201, asdict(world.add_rule(read_rule(request.document()))))


def _random(world: World, _: Request) -> Reply:
    return json_reply(200, {"random": world.random_document})


def _set_random(world: World, request: Request) -> Reply:
    world.set_random(request.document())
    return _random(world, request)


def _mode(world: World, _: Request) -> Reply:
    return json_reply(200, world.desk.mode.document())


def _set_mode(world: World, request: Request) -> Reply:
    return json_reply(200, world.set_mode(request.document()).document())


def _clock(world: World, _: Request) -> Reply:
    return json_reply(200, {"now": iso(world.clock.now()), "advanced_seconds": world.clock.advanced_seconds})


def _advance(world: World, request: Request) -> Reply:
    world.advance(read_options(_CLOCK_OPTIONS, request.document())["advance_seconds"])
    return _clock(world, request)


def _reset(world: World, request: Request) -> Reply:
    parts = read_options(_RESET_OPTIONS, request.document() if request.body else {})["only"]
    world.reset(parts)
    return json_reply(200, {"reset": parts})


def _behaviours(_: World, __: Request) -> Reply:
    """What can be scripted, from the same tables that are used."""
    behaviours = {
        behaviour: {
            "sentence": described.sentence,
            "acts": described.acts,
            "fits": described.fits,
            "options": _options(described.options),
        }
        for behaviour, described in DESCRIPTIONS.items()
    }
    modes = {"options": _options(MODE_OPTIONS), "keys": KEY_MODES}
    return json_reply(200, {"behaviours": behaviours, "mode": modes})


def _options(options: tuple[Option, ...]) -> Document:
    return {one.name: {"default": one.default, "sentence": one.sentence} for one in options}


Perform = Callable[[World, Request], Reply]

_ROUTES: dict[str, dict[str, Perform]] = {
    "requests": {"GET": _requests},
    "effects": {"GET": _effects},
    "script": {"GET": _script, "POST": _add_rule},
    "random": {"GET": _random, "POST": _set_random},
    "mode": {"GET": _mode, "POST": _set_mode},
    "clock": {"GET": _clock, "POST": _advance},
    "reset": {"POST": _reset},
    "behaviours": {"GET": _behaviours},
}

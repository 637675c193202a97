"""Pages for people who look at "the other system": a record, a message, everything that is held."""

from __future__ import annotations

import functools
import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from .act import message_document
from .behaviours import DESCRIPTIONS, Behaviour
from .documents import parse_query
from .refusal import Refused
from .store import Record
from .wire import Reply, Request, json_reply
from .world import World

ROWS_MAX = 50

_RECORD_PAGE = re.compile(r"/(?:crm/tasks|mail/messages)/((?:T|M)-[0-9]{1,18})\.html")
_ASSETS = {"sandbox.css": "text/css; charset=utf-8", "sandbox.svg": "image/svg+xml"}
CSP = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_LABELS = {"due_date": "Due date", "external_id": "External id", "to": "To", "ended_at": "Ended"}
_KINDS = {
    "task_created": "Task created",
    "task_updated": "Task changed",
    "message_sent": "Message taken over",
}
_SHAPES = {
    "yes": '<circle cx="8" cy="8" r="6.5" fill="currentColor" stroke="none"/>'
    '<path d="m5.3 8.2 1.9 1.9 3.5-4" stroke="var(--tint)"/>',
    "no": '<circle cx="8" cy="8" r="5.75"/><path d="m4 12 8-8"/>',
    "wait": '<circle cx="8" cy="8" r="5.75" stroke-dasharray="1.6 2.9"/>',
    "bad": '<path d="M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3l-3.8-3.8V5.3z" fill="currentColor" stroke="none"/>'
    '<path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4" stroke="var(--tint)"/>',
    "two": '<rect x="1.75" y="1.75" width="8.5" height="8.5" rx="1.5"/>'
    '<rect x="5.75" y="5.75" width="8.5" height="8.5" rx="1.5" fill="var(--tint)"/>',
}


def is_page(path: str) -> bool:
    return (
        path in ("/", "/records", "/healthz")
        or path.startswith("/assets/")
        or bool(_RECORD_PAGE.fullmatch(path))
    )


def is_open(path: str) -> bool:
    """Whether a path tells nothing, and so needs no token."""
    return path == "/healthz" or path.startswith("/assets/")


def answer(world: World, request: Request) -> Reply:
    """The page at this path. Raises Refused (400, 404, 405)."""
    if request.method not in ("GET", "HEAD"):
        raise Refused(405, "method_not_allowed", "Pages can only be read. Nothing was done.")
    path = request.path
    if path == "/healthz":
        return json_reply(200, {"status": "ok"})
    if path == "/":
        return Reply(303, b"", (("Location", "/records"),))
    if path.startswith("/assets/"):
        return _asset(path.removeprefix("/assets/"))
    if match := _RECORD_PAGE.fullmatch(path):
        return _record_page(world, "task" if path.startswith("/crm/") else "message", match[1])
    return _records_page(world, request)


@functools.cache
def _asset(name: str) -> Reply:
    if name not in _ASSETS:
        raise Refused(404, "no_such_path", "There is nothing at this path.")
    body = Path(__file__).with_name(name).read_bytes()
    return Reply(
        200, body, (("Content-Type", _ASSETS[name]), *_HEADERS[1:4], ("Cache-Control", "max-age=300"))
    )


# one record


def _record_page(world: World, kind: str, reference: str) -> Reply:
    now = world.clock.now()
    found = world.store.records("kind = ? AND reference = ?", (kind, reference))
    if not found:
        message = (
            f"No {kind} has the id {_id(reference)}. This page reads the records themselves, without a lag."
        )
        return _page(f"No {kind} {reference}", f"<p>{message}</p>", now, status=404)
    record = found[0]
    others = world.store.records(
        "kind = ? AND identity = ? AND number <> ?", (kind, record.identity, record.number), 20
    )
    effects = world.store.rows(
        "SELECT * FROM effects WHERE reference = ? ORDER BY number DESC LIMIT ?", (reference, 50)
    )
    requests = (
        _newest(world, "requests", "identity = ?", [record.identity], None)[0] if record.identity else []
    )
    body = (
        f'<p class="row">{_id(reference)}{_state(record, now)}</p>'
        + _others(others if record.identity else [])
        + _facts(_shown_fields(record, now))
        + _effects_table(effects, "What happened to it, newest first")
        + _requests_table(requests, "Requests that carried this identity, newest first")
    )
    return _page(str(record.fields.get("subject") or reference), body, now)


def _state(record: Record, now: float) -> str:
    if record.kind == "task":
        return f'<span class="q">version {record.version}</span>'
    status = str(message_document(record, now)["status"])
    hues = {"delivered": ("yes", "green"), "bounced": ("bad", "red")}
    return _badge(*hues.get(status, ("wait", "grey")), status.capitalize())


def _others(others: list[Record]) -> str:
    if not others:
        return ""
    links = ", ".join(_link(record.reference) for record in others)
    return _note("two", "amber", f"The same identity is also carried by {links}.")


def _shown_fields(record: Record, now: float) -> list[tuple[str, str]]:
    pairs = [(_label(name), _value(value)) for name, value in record.fields.items() if name != "subject"]
    pairs += [("Created", _time(record.created_at)), ("Last change", _time(record.updated_at))]
    if record.kind == "message" and record.deliver_at is not None and record.deliver_at <= now:
        pairs.append((str(record.outcome).capitalize(), _time(record.deliver_at)))
    return pairs


def _label(name: str) -> str:
    return escape(_LABELS.get(name) or name[:1].upper() + name[1:].replace("_", " "))


def _value(value: Any) -> str:
    if value is None or value == "":
        return '<span class="q">not given</span>'
    return (
        escape(value)
        if isinstance(value, str)
        else f"<code>{escape(json.dumps(value, ensure_ascii=False))}</code>"
    )


# everything


def _records_page(world: World, request: Request) -> Reply:
    query = parse_query(request.query, ("q", "effects_before", "requests_before"))
    sought = query.get("q", "")
    where, values = "1", []
    effects_where, requests_where = where, where
    if sought:
        effects_where = "(instr(identity, ?) OR instr(coalesce(key, ''), ?) OR reference = ?)"
        requests_where = "(instr(identity, ?) OR instr(coalesce(key, ''), ?) OR instr(target, ?))"
        values = [sought] * 3
    effects, older_effects = _newest(world, "effects", effects_where, values, query.get("effects_before"))
    requests, older_requests = _newest(
        world, "requests", requests_where, values, query.get("requests_before")
    )
    body = (
        '<p class="lead">This sandbox plays a CRM and a mail provider. Here is everything that it holds,'
        " without the lag that its searches may have.</p>"
        + _search_form(sought)
        + (_nothing(sought) if sought and not effects and not requests else "")
        + _effects_table(effects, "Effects, newest first", _older(query, "effects_before", older_effects))
        + _requests_table(
            requests, "Wire requests, newest first", _older(query, "requests_before", older_requests)
        )
    )
    return _page("Records", body, world.clock.now())


def _newest(
    world: World, table: str, where: str, values: list[str], before: str | None
) -> tuple[list[sqlite3.Row], int | None]:
    """A page of rows, newest first, and the number to continue before, if there are more."""
    if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise Refused(400, "bad_query", "The page's place can't be read.")
    bound = int(before) if before is not None else (1 << 62)
    sql = f"SELECT * FROM {table} WHERE {where} AND number < ? ORDER BY number DESC LIMIT ?"
    rows = world.store.rows(sql, (*values, bound, ROWS_MAX + 1))
    return rows[:ROWS_MAX], rows[ROWS_MAX - 1]["number"] if len(rows) > ROWS_MAX else None


def _search_form(sought: str) -> str:
    return (
        '<form class="row" action="/records" role="search"><label for="q">Identity, key or reference</label>'
        f'<input id="q" name="q" type="search" value="{escape(sought)}" autocomplete="off">'
        '<button type="submit">Find</button></form>'
    )


def _nothing(sought: str) -> str:
    text = f"Nothing here carries {_id(sought)}: no effect, and no request that was received."
    return _note("no", "grey", text)


def _older(query: dict[str, str], name: str, before: int | None) -> str:
    if before is None:
        return ""
    return f'<p><a href="/records?{escape(urlencode({**query, name: str(before)}))}">Older</a></p>'


def _effects_table(rows: list[sqlite3.Row], title: str, older: str = "") -> str:
    cells = [
        (
            _time(row["at"]),
            escape(_KINDS[row["kind"]]),
            _link(row["reference"]),
            _id(row["identity"]),
            escape(str(json.loads(row["fields"]).get("subject") or "")),
            f"request {row['request']}",
        )
        for row in rows
    ]
    return _table(title, ("When", "Effect", "Reference", "Identity", "Subject", "By"), cells) + older


def _requests_table(rows: list[sqlite3.Row], title: str, older: str = "") -> str:
    cells = [
        (
            str(row["number"]),
            _time(row["received_at"]),
            f"<code>{escape(row['method'])} {escape(row['target'])}</code>",
            _id(row["identity"]),
            _id(row["key"] or ""),
            _behaviour(row["behaviour"]),
            _took_effect(row),
            str(row["status"] or "none sent"),
        )
        for row in rows
    ]
    heads = ("No.", "Received", "Request", "Identity", "Key", "Behaviour", "Effect", "Status")
    return _table(title, heads, cells) + older


def _behaviour(name: str) -> str:
    known = name in list(Behaviour)
    title = f' title="{escape(DESCRIPTIONS[Behaviour(name)].sentence)}"' if known else ""
    return f"<span{title}>{escape(name.replace('_', ' '))}</span>"


def _took_effect(row: sqlite3.Row) -> str:
    if row["acted"]:
        return _badge("yes", "green", "Took effect")
    if row["replay_of"]:
        return _badge("no", "grey", f"None, as request {row['replay_of']}")
    return _badge("no", "grey", "None")


# parts


def _page(title: str, body: str, now: float, status: int = 200) -> Reply:
    document = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Sandbox peer</title>"
        '<link rel="stylesheet" href="/assets/sandbox.css">'
        '<link rel="icon" href="/assets/sandbox.svg"></head>'
        '<body><a class="skip" href="#main">Skip to the content</a>'
        '<header class="top"><a class="brand" href="/records">Sandbox peer</a>'
        f'<span class="q">its clock: {_time(now)}</span></header>'
        f'<main id="main" tabindex="-1"><h1>{escape(title)}</h1>{body}</main></body></html>'
    )
    return Reply(status, document.encode(errors="replace"), _HEADERS)


def _table(title: str, heads: Iterable[str], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return f'<h2>{escape(title)}</h2><p class="q">None.</p>'
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    region = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">'
    return (
        f"<h2>{escape(title)}</h2>{region}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _facts(pairs: list[tuple[str, str]]) -> str:
    return (
        '<dl class="kv">' + "".join(f"<dt>{label}</dt><dd>{value}</dd>" for label, value in pairs) + "</dl>"
    )


def _id(text: str) -> str:
    return f'<span class="id">{escape(text)}</span>' if text else '<span class="q">none</span>'


def _link(reference: str) -> str:
    folder = "crm/tasks" if reference.startswith("T-") else "mail/messages"
    return f'<a class="id" href="/{folder}/{escape(reference)}.html">{escape(reference)}</a>'


def _time(moment: float) -> str:
    at = datetime.fromtimestamp(moment, UTC)
    shown = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
    return f'<time datetime="{at.isoformat()}">{shown} UTC</time>'


def _note(shape: str, hue: str, html: str) -> str:
    return f'<p class="note" data-hue="{hue}">{_shape(shape)}<span>{html}</span></p>'


def _badge(shape: str, hue: str, word: str) -> str:
    return f'<span class="badge" data-hue="{hue}">{_shape(shape)}{escape(word)}</span>'


def _shape(name: str) -> str:
    return f'<svg class="i" viewBox="0 0 16 16" aria-hidden="true">{_SHAPES[name]}</svg>'

"""What the peer remembers, in SQLite: one connection, guarded by one lock.

Each transaction is handed to the operating system when it commits (WAL, synchronous off): the death of the
process loses nothing, the death of the machine may lose the last moments. A file belongs to one peer only.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .wire import Reply, Request

FORMAT = 1
BODY_KEPT_BYTES = 16_384
REFERENCE_OFFSET = 58_212
SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})
RECORD_TABLES = ("requests", "effects", "records", "keys", "late", "reports")
PREFIXES = {"task": "T-", "message": "M-"}

_NO_BODY_SHA256 = hashlib.sha256(b"").hexdigest()
_RECORD_COLUMNS = (
    "number, kind, reference, identity, fields, version, created_at, updated_at, visible_at, readable_at,"
    " deliver_at, outcome"
)


class StateUnusable(Exception):
    """The state file can't be used; nothing in it was changed."""


class Forgotten(Exception):
    """The request was recorded before a reset, or the peer has stopped: it must not act any more."""


@dataclass(frozen=True, slots=True)
class Record:
    number: int
    kind: str
    reference: str
    identity: str
    fields: dict[str, Any]
    version: int
    created_at: float
    updated_at: float
    visible_at: float
    readable_at: float
    deliver_at: float | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class KnownKey:
    digest: str
    request: int
    first_at: float
    running: bool
    reference: str | None
    said: Reply | None
    meant: Reply | None


class Store:
    def __init__(self, path: str) -> None:
        self._lock = threading.RLock()
        self._statuses: list[tuple[int, int]] = []
        self._open = True
        self._db = _connect(path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, one at a time; nested, part of the outer one. Raises Forgotten after `close`."""
        with self._lock:
            if not self._open:
                raise Forgotten
            if self._db.in_transaction:
                yield self._db
                return
            self._db.execute("BEGIN")
            try:
                self._flush_statuses()
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            if not self._open:
                return
            with self.transaction():
                pass
            self._open = False
            self._db.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self.transaction() as db:
            return db.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        return next(iter(self.rows(sql, values)), None)

    # requests

    def add_request(self, now: float, request: Request, behaviour: str, options: dict[str, Any]) -> int:
        """Record a wire request before anything is done with it. Returns its number."""
        digest = hashlib.sha256(request.body).hexdigest() if request.body else _NO_BODY_SHA256
        values = (
            now,
            request.method,
            request.target,
            json.dumps([_without_secret(header) for header in request.headers]),
            request.body[:BODY_KEPT_BYTES],
            len(request.body),
            digest,
            request.complete,
            request.identity,
            request.key,
            behaviour,
            json.dumps(options) if options else "{}",
        )
        with self.transaction() as db:
            number = db.execute(
                "INSERT INTO requests (received_at, method, target, headers, body, body_bytes, body_sha256,"
                " complete, identity, key, behaviour, options) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                values,
            ).lastrowid
        return int(number or 0)

    def note_status(self, number: int, status: int) -> None:
        """Remember the status that is about to be sent. It is written with the next transaction."""
        with self._lock:
            self._statuses.append((status, number))

    def _flush_statuses(self) -> None:
        if self._statuses:
            self._db.executemany("UPDATE requests SET status = ? WHERE number = ?", self._statuses)
            self._statuses.clear()

    def close_request(self, number: int, now: float, *, acted: bool, replay_of: int | None) -> None:
        """Say whether a request acted. Raises Forgotten when a reset came in between."""
        with self.transaction() as db:
            count = db.execute(
                "UPDATE requests SET acted = ?, acted_at = ?, replay_of = ? WHERE number = ?",
                (acted, now if acted else None, replay_of, number),
            ).rowcount
        if not count:
            raise Forgotten

    def identity_counts(self, since: int) -> dict[tuple[str, bool], int]:
        """Requests per identity after number `since`, lookups (True) and writes (False) apart."""
        rows = self.rows(
            "SELECT identity, method IN ('GET','HEAD') AS lookup, count(*) AS count FROM requests"
            " WHERE number > ? GROUP BY 1, 2",
            (since,),
        )
        return {(row["identity"], bool(row["lookup"])): row["count"] for row in rows}

    def last_request(self) -> int:
        row = self.row("SELECT seq FROM sqlite_sequence WHERE name = 'requests'")
        return int(row["seq"]) if row else 0

    # records and effects

    def add_record(
        self,
        kind: str,
        identity: str,
        fields: dict[str, Any],
        now: float,
        *,
        visible_at: float,
        readable_at: float,
        deliver_at: float | None = None,
        outcome: str | None = None,
    ) -> Record:
        with self.transaction() as db:
            row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
            number = (row["seq"] if row else 0) + 1
            record = Record(
                number=number,
                kind=kind,
                reference=f"{PREFIXES[kind]}{REFERENCE_OFFSET + number}",
                identity=identity,
                fields=fields,
                version=1,
                created_at=now,
                updated_at=now,
                visible_at=visible_at,
                readable_at=readable_at,
                deliver_at=deliver_at,
                outcome=outcome,
            )
            db.execute(
                f"INSERT INTO records ({_RECORD_COLUMNS}, subject) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    number,
                    kind,
                    record.reference,
                    identity,
                    json.dumps(fields),
                    1,
                    now,
                    now,
                    visible_at,
                    readable_at,
                    deliver_at,
                    outcome,
                    json.dumps(fields.get("subject")),
                ),
            )
        return record

    def change_record(self, record: Record, fields: dict[str, Any], now: float) -> Record:
        """The record with all its fields replaced and its version one higher."""
        with self.transaction() as db:
            db.execute(
                "UPDATE records SET fields = ?, subject = ?, version = version + 1, updated_at = ?"
                " WHERE number = ?",
                (json.dumps(fields), json.dumps(fields.get("subject")), now, record.number),
            )
        return self.records("reference = ?", (record.reference,))[0]

    def add_effect(
        self, now: float, kind: str, record: Record, request: int, key: str | None, fields: dict[str, Any]
    ) -> None:
        with self.transaction() as db:
            db.execute(
                "INSERT INTO effects (at, kind, identity, key, request, reference, fields)"
                " VALUES (?,?,?,?,?,?,?)",
                (now, kind, record.identity, key, request, record.reference, json.dumps(fields)),
            )

    def records(self, where: str, values: Sequence[Any], limit: int = -1) -> list[Record]:
        """Records in the order of their making. `where` is the caller's own SQL."""
        rows = self.rows(
            f"SELECT {_RECORD_COLUMNS} FROM records WHERE {where} ORDER BY number LIMIT ?", (*values, limit)
        )
        return [Record(**{**dict(row), "fields": json.loads(row["fields"])}) for row in rows]

    # keys

    def known_key(self, scope: str, key: str) -> KnownKey | None:
        row = self.row(
            "SELECT digest, request, first_at, running, reference, said, meant FROM keys"
            " WHERE scope = ? AND key = ?",
            (scope, key),
        )
        if row is None:
            return None
        return KnownKey(
            row["digest"],
            row["request"],
            row["first_at"],
            bool(row["running"]),
            row["reference"],
            _load_reply(row["said"]),
            _load_reply(row["meant"]),
        )

    def keep_key(self, scope: str, key: str, known: KnownKey) -> None:
        with self.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO keys (scope, key, digest, request, first_at, running, reference,"
                " said, meant) VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    scope,
                    key,
                    known.digest,
                    known.request,
                    known.first_at,
                    known.running,
                    known.reference,
                    _dump_reply(known.said),
                    _dump_reply(known.meant),
                ),
            )

    def forget_key(self, scope: str, key: str) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM keys WHERE scope = ? AND key = ?", (scope, key))

    def free_stopped_keys(self) -> None:
        """Keys whose request was interrupted by a stop, and will not act late, are free again."""
        with self.transaction() as db:
            db.execute("DELETE FROM keys WHERE running AND request NOT IN (SELECT request FROM late)")

    # settings

    def setting(self, name: str) -> Any:
        row = self.row("SELECT value FROM settings WHERE name = ?", (name,))
        return json.loads(row["value"]) if row else None

    def save_setting(self, name: str, value: Any) -> None:
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO settings VALUES (?,?)", (name, json.dumps(value)))

    def forget_records(self) -> None:
        """Forget every request, effect, record and key. Numbers go on, so no reference is used twice."""
        with self.transaction() as db:
            for table in RECORD_TABLES:
                db.execute(f"DELETE FROM {table}")


def _connect(path: str) -> sqlite3.Connection:
    db: sqlite3.Connection | None = None
    try:
        db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=0)
        db.row_factory = sqlite3.Row
        for pragma in (
            "locking_mode = EXCLUSIVE",
            "journal_mode = WAL",
            "synchronous = OFF",
            "cache_size = -16000",
        ):
            db.execute(f"PRAGMA {pragma}")
        _prepare(db, path)
    except (sqlite3.Error, StateUnusable) as wrong:
        if db is not None:
            db.close()
        if isinstance(wrong, StateUnusable):
            raise
        raise StateUnusable(_why(path, wrong)) from wrong
    return db


def _prepare(db: sqlite3.Connection, path: str) -> None:
    db.execute("BEGIN EXCLUSIVE")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if not found and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StateUnusable(f"{path} is another program's database. Nothing in it was changed.")
    if found not in (0, FORMAT):
        raise StateUnusable(
            f"{path} has format {found}; this peer reads format {FORMAT}. Nothing was changed."
        )
    if not found:
        for statement in Path(__file__).with_name("schema.sql").read_text().split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {FORMAT}")
    db.execute("COMMIT")


def _why(path: str, wrong: sqlite3.Error) -> str:
    if "locked" in str(wrong):
        return f"{path} is in use by another sandbox peer. Stop that one, or give this one its own file."
    return f"{path} can't be used as the peer's state: {wrong}. Nothing in it was changed."


def _without_secret(header: tuple[str, str]) -> tuple[str, str]:
    name, value = header
    return (name, f"hidden, {len(value)} characters") if name.lower() in SECRET_HEADERS else header


def _dump_reply(reply: Reply | None) -> str | None:
    if reply is None:
        return None
    return json.dumps([reply.status, reply.body.decode("latin-1"), reply.headers])


def _load_reply(text: str | None) -> Reply | None:
    if text is None:
        return None
    status, body, headers = json.loads(text)
    return Reply(status, body.encode("latin-1"), tuple((name, value) for name, value in headers))

"""One request taking effect: what it may write, and how a behaviour bends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .clock import iso
from .documents import Document
from .modes import Mode
from .store import Record, Store
from .wire import Reply, Request


@dataclass(frozen=True, slots=True)
class Twist:
    """How a behaviour bends the effect."""

    copies_count: int = 1
    difference: tuple[str, Any] | None = None  # field, and what is written there instead
    find_after_seconds: float = 0.0
    hide_reads: bool = False
    said: Reply | None = None  # what the client is told, where the key's stored answer is that too


STRAIGHT = Twist()


@dataclass(slots=True)
class Act:
    store: Store
    mode: Mode
    now: float
    number: int  # of the request
    request: Request
    twist: Twist = STRAIGHT
    reference: str | None = None  # of the first record that was made or changed
    replay_of: int | None = None
    promised_reports: bool = False

    def add_record(
        self,
        kind: str,
        identity: str,
        fields: Document,
        lag_seconds: float,
        deliver_at: float | None = None,
        outcome: str | None = None,
    ) -> Record:
        """A new record and its effect."""
        hidden_seconds = self.twist.find_after_seconds
        record = self.store.add_record(
            kind,
            identity,
            fields,
            self.now,
            visible_at=self.now + max(lag_seconds, hidden_seconds),
            readable_at=self.now + (hidden_seconds if self.twist.hide_reads else 0.0),
            deliver_at=deliver_at,
            outcome=outcome,
        )
        self._add_effect("task_created" if kind == "task" else "message_sent", record, fields)
        return record

    def change_record(self, record: Record, changes: Document) -> Record:
        """The record with `changes` merged in, and the effect."""
        changed = self.store.change_record(record, {**record.fields, **changes}, self.now)
        self._add_effect("task_updated", changed, changes)
        return changed

    def bend(self, fields: Document) -> Document:
        if self.twist.difference is None:
            return fields
        name, value = self.twist.difference
        return {**fields, name: value}

    def _add_effect(self, kind: str, record: Record, fields: Document) -> None:
        self.store.add_effect(self.now, kind, record, self.number, self.request.key, fields)
        self.reference = self.reference or record.reference


Performance = Callable[[Act], Reply]


def record_document(record: Record, now: float) -> Document:
    """A record as the API shows it."""
    return task_document(record) if record.kind == "task" else message_document(record, now)


def task_document(record: Record) -> Document:
    return {
        "id": record.reference,
        **record.fields,
        "created_at": iso(record.created_at),
        "updated_at": iso(record.updated_at),
        "version": record.version,
    }


def message_document(record: Record, now: float) -> Document:
    ended = record.deliver_at is not None and now >= record.deliver_at
    return {
        "id": record.reference,
        "status": record.outcome if ended else "queued",
        **record.fields,
        "created_at": iso(record.created_at),
        "ended_at": iso(record.deliver_at or 0.0) if ended else None,
    }

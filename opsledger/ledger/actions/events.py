"""Events: each kept once, each time we were told of it counted, the bytes kept as they came.

1. INSERT … ON CONFLICT DO NOTHING: the unique key of source and event id decides who is first.
2. No row back: a second statement counts the delivery on the event that is there.
3. The same event id with another body is never merged and never guessed about: a hold asks a person (`event_questions`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from opsledger.journal.append import Line, append, body
from opsledger.ledger import assignment
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Definition
from opsledger.lib.ids import new_id, new_ids
from opsledger.rules.identity import dedupe_key
from opsledger.rules.states import HoldReason

DUE_SECONDS = 4 * 3600
_NAMED_ONLY = bytes(32)  # the digest of an event that an automation named and no delivery has brought yet


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One delivery, verified and read. Texts are storable: without NUL and halves of surrogate pairs."""

    team_id: UUID
    source_id: UUID
    source_version_id: UUID
    event_id: str
    raw: bytes  # as received
    said: str  # what it says, as canonical JSON: blanks and compression make no other event of it
    content_type: str
    content_encoding: str = ""
    topic: str = ""
    occurred_at: datetime | None = None
    occurred_text: str = ""
    occurred_flagged: bool = False
    projection: str = ""
    secret_name: str = ""


@dataclass(frozen=True, slots=True)
class OpenedEvent:
    id: UUID
    new: bool  # no delivery had told of it before; an automation may have named it
    conflict: bool = False  # the id is known with another body
    delivery_count: int = 1
    hold_id: UUID | None = None  # of such a conflict: the question in which its body was asked about


def open_event_here(event: NewEvent, *, actor: str) -> OpenedEvent:
    """Keeps an event and this delivery of it, inside the caller's transaction.

    The event's row stays locked until the commit, so that simultaneous copies follow each other.
    """
    key = dedupe_key(str(event.source_id), event.event_id)
    digest = hashlib.sha256(event.said.encode()).digest()
    body_id = _keep_body(event)
    made = _insert(event, key, digest)
    opened = OpenedEvent(made, new=True) if made else _count_delivery(event, key, digest, body_id)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_delivery (id, event_id, received_at, body_id, digest, secret_name, conflict, hold_id)"
            " VALUES (%s, %s, now(), %s, %s, %s, %s, %s)",
            [new_id(), opened.id, body_id, digest, event.secret_name, opened.conflict, opened.hold_id],
        )
    if opened.new:
        append([Line("event", opened.id, "event_received", actor, body({"digest": digest.hex()}))])
    return opened


def _keep_body(event: NewEvent) -> int:
    """The row of these bytes: the same bytes from the same source are kept once."""
    digest = hashlib.sha256(event.raw).digest()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_rawbody (source_id, digest, content, content_type, content_encoding)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (source_id, digest) DO NOTHING RETURNING id",
            [event.source_id, digest, event.raw, event.content_type, event.content_encoding],
        )
        row = cursor.fetchone()
        if row is None:
            cursor.execute(
                "SELECT id FROM ledger_rawbody WHERE source_id = %s AND digest = %s",
                [event.source_id, digest],
            )
            row = cursor.fetchone()
        kept: int = row[0]
        return kept


def _insert(event: NewEvent, key: bytes, digest: bytes) -> UUID | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_event (id, team_id, source_id, source_version_id, event_id, event_key, digest, topic,"
            " occurred_at, occurred_text, occurred_flagged, received_at, delivery_count, projection)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, now(), 1, %s)"
            " ON CONFLICT (source_id, event_key) DO NOTHING RETURNING id",
            [
                new_id(), event.team_id, event.source_id, event.source_version_id, event.event_id, key, digest,
                event.topic, event.occurred_at, event.occurred_text, event.occurred_flagged, event.projection,
            ],
        )  # fmt: skip
        row = cursor.fetchone()
        return row[0] if row else None


# What was there before is read where it is locked: an update tells only what it has made of it.
_COUNT = """
WITH known AS (SELECT id, digest = %(named)s AS named FROM ledger_event
                WHERE source_id = %(source)s AND event_key = %(key)s FOR NO KEY UPDATE)
UPDATE ledger_event e SET
    delivery_count = delivery_count + CASE WHEN named THEN 0 ELSE 1 END,
    digest = CASE WHEN named THEN %(digest)s ELSE digest END,
    source_version_id = CASE WHEN named THEN %(version)s::uuid ELSE source_version_id END,
    topic = CASE WHEN named THEN %(topic)s ELSE topic END,
    occurred_at = CASE WHEN named THEN %(occurred_at)s::timestamptz ELSE occurred_at END,
    occurred_text = CASE WHEN named THEN %(occurred_text)s ELSE occurred_text END,
    occurred_flagged = CASE WHEN named THEN %(occurred_flagged)s ELSE occurred_flagged END,
    projection = CASE WHEN named THEN %(projection)s ELSE projection END
  FROM known WHERE e.id = known.id RETURNING e.id, named, digest, delivery_count
"""
# The same bytes are the same body, also where an earlier release took the digest over something else of it, or took none.
_TOLD_BEFORE = """
SELECT conflict, hold_id FROM ledger_delivery WHERE event_id = %s AND (digest = %s OR body_id = %s)
 ORDER BY conflict, hold_id IS NULL, id LIMIT 1
"""


def _count_delivery(event: NewEvent, key: bytes, digest: bytes, body_id: int) -> OpenedEvent:
    """Counts a delivery of an event that is there. The first one of an event that was only named fills it in, and is new."""
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT,
            {
                "named": _NAMED_ONLY, "digest": digest, "version": event.source_version_id, "topic": event.topic,
                "occurred_at": event.occurred_at, "occurred_text": event.occurred_text,
                "occurred_flagged": event.occurred_flagged, "projection": event.projection,
                "source": event.source_id, "key": key,
            },
        )  # fmt: skip
        event_id, named, known, count = cursor.fetchone()
        if bytes(known) == digest:
            return OpenedEvent(event_id, named, delivery_count=count)
        cursor.execute(_TOLD_BEFORE, [event_id, digest, body_id])
        conflict, hold_id = cursor.fetchone() or (True, None)
    return OpenedEvent(event_id, False, conflict, count, hold_id)


@dataclass(frozen=True, slots=True, order=True)
class EventName:
    """An event by the name that its source gave it. They are noted in this order, whoever names them."""

    source_id: UUID
    key: bytes
    event_id: str = field(compare=False)
    source_version_id: UUID = field(compare=False)


def event_names(team_id: UUID, named: Iterable[tuple[str, str]]) -> dict[tuple[str, str], EventName]:
    """By source and event id; what names no source of this team is left out. Reads only."""
    wanted = set(named)
    if not wanted:
        return {}
    rows = Definition.objects.filter(
        team_id=team_id, kind="source", slug__in={source for source, _ in wanted}, current__isnull=False
    )
    sources = {slug: rest for slug, *rest in rows.values_list("slug", "pk", "current_id")}
    return {
        (source, own): EventName(sources[source][0], dedupe_key(str(sources[source][0]), own), own, sources[source][1])
        for source, own in wanted
        if source in sources
    }  # fmt: skip


def open_named_events_here(team_id: UUID, names: Iterable[EventName], *, actor: str) -> dict[EventName, UUID]:
    """The events that an automation names; those that no delivery has brought are noted.

    They are written in one order, whoever names them: two calls with the same new ones wait for each other, never in a ring.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            _NAME,
            {
                "ids": new_ids(len(wanted)),
                "team": team_id,
                "sources": [one.source_id for one in wanted],
                "versions": [one.source_version_id for one in wanted],
                "event_ids": [one.event_id for one in wanted],
                "keys": [one.key for one in wanted],
                "named": _NAMED_ONLY,
            },
        )
        made = {(row[0], bytes(row[1])): row[2] for row in cursor.fetchall()}
        append(Line("event", event_id, "event_named", actor, body({})) for event_id in made.values())
        others = [one for one in wanted if (one.source_id, one.key) not in made]
        if others:
            cursor.execute(_NAMED, [[one.source_id for one in others], [one.key for one in others]])
            made |= {(row[0], bytes(row[1])): row[2] for row in cursor.fetchall()}
    return {one: made[one.source_id, one.key] for one in wanted}


_NAME = """
INSERT INTO ledger_event (id, team_id, source_id, source_version_id, event_id, event_key, digest, topic,
                          occurred_text, occurred_flagged, received_at, delivery_count, projection)
SELECT w.id, %(team)s, w.source_id, w.version_id, w.event_id, w.key, %(named)s, '', '', false, now(), 1, ''
  FROM unnest(%(ids)s::uuid[], %(sources)s::uuid[], %(versions)s::uuid[], %(event_ids)s::text[], %(keys)s::bytea[])
       WITH ORDINALITY AS w(id, source_id, version_id, event_id, key, place)
 ORDER BY w.place
ON CONFLICT (source_id, event_key) DO NOTHING RETURNING source_id, event_key, id
"""
_NAMED = """
SELECT e.source_id, e.event_key, e.id
  FROM unnest(%s::uuid[], %s::bytea[]) AS w(source_id, key)
  JOIN ledger_event e ON e.source_id = w.source_id AND e.event_key = w.key
"""


# Holds at an event


@dataclass(frozen=True, slots=True)
class EventQuestion:
    """Why a person has to look at an event. `facts` are for the page, without personal data."""

    event_id: UUID
    team_id: UUID
    reason: HoldReason
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)


_IF_NOBODY = {
    HoldReason.EVENT_CONFLICT: "What was taken first stands; from the other nothing follows.",
    HoldReason.DATA_MISSING: "No operation follows from this event.",
}


def open_event_hold_here(question: EventQuestion, *, actor: str) -> UUID | None:
    """Asks a person about an event, inside the caller's transaction. None when something is being asked already."""
    now, hold_id = database_now(), new_id()
    given = assignment.given_to(question.team_id, "", "", question.reason.value)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_hold (id, team_id, event_id, reason, version, opened_at, due_at, closed_by, answer,"
            " owner_id, facts, if_nobody, title, operation_text_id, destination_slug, action, workflow_slug)"
            " VALUES (%s, %s, %s, %s, 1, %s, %s, '', '', %s, %s, %s, %s, '', '', '', '')"
            " ON CONFLICT (event_id) WHERE closed_at IS NULL AND event_id IS NOT NULL DO NOTHING RETURNING id",
            [
                hold_id, question.team_id, question.event_id, question.reason.value, now,
                now + timedelta(seconds=DUE_SECONDS), given.owner if given else None,
                json.dumps(dict(question.facts), sort_keys=True),
                _IF_NOBODY[question.reason], question.title,
            ],
        )  # fmt: skip
        if cursor.fetchone() is None:
            return None
    by_rule = assignment.told_of([{"id": str(hold_id), "given": assignment.told(given)}])
    asked = {name: question.facts[name] for name in ("other_body",) if name in question.facts}
    facts = {"hold": str(hold_id), "reason_of_hold": question.reason.value, **asked, **by_rule}
    append([Line("event", question.event_id, "event_held", actor, body(facts))])
    return hold_id


# What was refused at the door


def record_refusal(
    source_slug: str, team_id: UUID | None, reason: str, sentence: str, *, times: int = 1
) -> None:
    """Counts a refusal on its row of the day; one statement of its own. `reason` is one of our words."""
    with connection.cursor() as cursor:
        cursor.execute(
            _REFUSED_BY_TEAM if team_id else _REFUSED, [source_slug, team_id, reason, times, sentence]
        )


_REFUSAL = """
INSERT INTO ledger_refusal (source_slug, team_id, reason, day, count, last_at, last_sentence)
VALUES (%s, %s, %s, (now() AT TIME ZONE 'UTC')::date, %s, now(), %s)
ON CONFLICT {referee} DO UPDATE
   SET count = ledger_refusal.count + excluded.count, last_at = excluded.last_at, last_sentence = excluded.last_sentence
"""
_REFUSED_BY_TEAM = _REFUSAL.format(referee="(team_id, source_slug, reason, day) WHERE team_id IS NOT NULL")
_REFUSED = _REFUSAL.format(referee="(source_slug, reason, day) WHERE team_id IS NULL")

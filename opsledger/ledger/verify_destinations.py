"""Proving definitions and destinations: versions, stops with their holds, and what recovers by itself follow the journal.

A destination shares its definition's chain.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from opsledger.journal.verify import EntryRow, Fault
from opsledger.ledger import definitions
from opsledger.ledger.models import Definition
from opsledger.lib.named_rows import named_rows
from opsledger.rules.definition_types import Recovery as DeclaredRecovery
from opsledger.rules.states import HoldReason

_VERSIONS = """
SELECT id, definition_id, number, encode(digest, 'hex') AS digest, encode(sha256(convert_to(body, 'UTF8')), 'hex') AS body
  FROM ledger_definitionversion WHERE definition_id = ANY(%s) ORDER BY definition_id, number
"""
_DESTINATIONS = """
SELECT definition_id, team_id, slug, paused_at, access_refused_at, circuit_opened_at
  FROM ledger_destination WHERE definition_id = ANY(%s)
"""
_HOLDS = """
SELECT destination_id, id, reason, opened_at FROM ledger_hold WHERE destination_id = ANY(%s) AND closed_at IS NULL
"""
_RECOVERIES = "SELECT destination_id, action, enabled FROM ledger_recovery WHERE destination_id = ANY(%s)"


class _Version(NamedTuple):
    number: int
    digest: str


class _Stop(NamedTuple):
    """Why nothing is sent, since when, and the question that asks about it."""

    reason: str
    at: datetime
    hold: str


@dataclass(slots=True)
class _Rows:
    """What stands of one definition."""

    definition: Any
    versions: list[Any] = field(default_factory=list)
    destination: Any = None
    holds: list[Any] = field(default_factory=list)
    recoveries: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class _Told:
    """What the chain tells of one definition."""

    kind: str = ""
    slug: str = ""
    versions: list[_Version] = field(default_factory=list)
    stops: dict[str, _Stop] = field(default_factory=dict)  # by reason
    recovers: dict[str, bool] = field(default_factory=dict)  # by action, where a line says so


def definition_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each definition of these journals: what its rows, or those of its destination, say that its journal doesn't."""
    if not entries:
        return []
    rows = _read(list(entries))
    faults = []
    for definition_id, lines in entries.items():
        told = _folded(lines)
        whole = rows.get(definition_id)
        why = _difference(whole, told) if whole else "its row is missing"
        if why:
            faults.append(Fault("definition", definition_id, why))
    return faults


def _read(ids: list[UUID]) -> dict[UUID, _Rows]:
    rows = {one.pk: _Rows(one) for one in Definition.objects.filter(pk__in=ids)}
    for version in named_rows(_VERSIONS, [ids]):
        rows[version.definition_id].versions.append(version)
    for destination in named_rows(_DESTINATIONS, [ids]):
        rows[destination.definition_id].destination = destination
    for hold in named_rows(_HOLDS, [ids]):
        rows[hold.destination_id].holds.append(hold)
    for recovery in named_rows(_RECOVERIES, [ids]):
        rows[recovery.destination_id].recoveries[recovery.action] = recovery.enabled
    return rows


def _folded(lines: list[EntryRow]) -> _Told:
    told = _Told()
    for line in lines:
        body = json.loads(line.body)
        if line.kind == "definition_loaded":
            told.kind, told.slug = body["kind"], body["slug"]
            told.versions.append(_Version(body["version"], body["digest"]))
        elif line.kind == "sending_stopped":
            told.stops[body["stopped"]] = _Stop(body["stopped"], line.at, body["hold"])
        elif line.kind == "sending_resumed":
            told.stops.pop(body["went_on"], None)
        elif "recovers" in body:  # a choice of somebody: which actions recover by themselves from then on
            told.recovers |= body["recovers"]
    return told


def _difference(rows: _Rows, told: _Told) -> str:
    if (rows.definition.kind, rows.definition.slug) != (told.kind, told.slug):
        return f"it is not the {told.kind} {told.slug} of its journal"
    versions = [_Version(one.number, one.digest) for one in rows.versions]
    if versions != told.versions or any(one.digest != one.body for one in rows.versions):
        return "its versions are not those of its journal"
    if rows.definition.current_id != rows.versions[-1].id:
        return "its current version is not the one that was loaded last"
    if told.kind != Definition.Kind.DESTINATION:
        return ""
    return _of_destination(rows, told)


_STOPPED_BY = {
    HoldReason.PAUSED.value: "paused_at",
    HoldReason.ACCESS_REFUSED.value: "access_refused_at",
    HoldReason.CIRCUIT_OPEN.value: "circuit_opened_at",
}


def _of_destination(rows: _Rows, told: _Told) -> str:
    row = rows.destination
    if row is None:
        return "its destination is missing"
    if (row.team_id, row.slug) != (rows.definition.team_id, rows.definition.slug):
        return "its destination has another name or team"
    for reason, column in _STOPPED_BY.items():
        stop = told.stops.get(reason)
        if getattr(row, column) != (stop.at if stop else None):
            return f"whether sending to it is stopped ({reason}) is not as its journal says"
    holds = {(hold.reason, hold.opened_at, str(hold.id)) for hold in rows.holds}
    if holds != set(told.stops.values()):
        return "its open questions are not those of its journal"
    return _of_recovery(rows, told)


def _of_recovery(rows: _Rows, told: _Told) -> str:
    """What was chosen for an action stands; else it recovers by itself where a version of its definition asked for that."""
    asked = {
        name
        for version in rows.versions
        for name, action in definitions.destination(version.id).actions.items()
        if action.automatic_recovery is DeclaredRecovery.NOT_DRILLED
    }
    recovers = dict.fromkeys(asked, True) | told.recovers
    for action in sorted(recovers.keys() | rows.recoveries):
        if rows.recoveries.get(action, False) != recovers.get(action, False):
            return f"whether {action} recovers by itself is not as its journal says"
    return ""


def definitions_without_journal(limit: int = 10) -> list[Fault]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT d.id FROM ledger_definition d WHERE d.current_id IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM journal_chain c WHERE c.subject_id = d.id) LIMIT %s",
            [limit],
        )
        return [Fault("definition", row[0], "it has no journal") for row in cursor.fetchall()]

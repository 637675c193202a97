"""Proving contents: who wrote and who decided each version, and what it says, as the journal has it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple
from uuid import UUID

from opsledger.journal.verify import EntryRow, Fault
from opsledger.ledger.models import Content, ContentVersion
from opsledger.rules.content import VersionState

_DECIDED = (VersionState.APPROVED, VersionState.REJECTED)


class _Version(NamedTuple):
    state: str
    digest: str
    body: str  # its digest
    author_kind: str
    author_person: str | None
    requested_by: str
    decided_by: str


def content_faults(entries: dict[UUID, list[EntryRow]]) -> list[Fault]:
    """For each content of these journals: what its row or its versions say that its journal doesn't."""
    if not entries:
        return []
    contents = {
        one.pk: one for one in Content.objects.select_related("workflow").filter(pk__in=list(entries))
    }
    rows: dict[UUID, dict[int, _Version]] = {of_id: {} for of_id in entries}
    for version in ContentVersion.objects.filter(of_id__in=list(entries)):
        rows[version.of_id][version.number] = _as_row(version)
    return [
        Fault("content", of_id, why)
        for of_id, lines in entries.items()
        if (why := _difference(contents.get(of_id), rows[of_id], lines))
    ]


def _as_row(version: ContentVersion) -> _Version:
    author = str(version.author_person_id) if version.author_person_id else None
    body = hashlib.sha256(version.body.encode()).hexdigest()
    digest = bytes(version.digest).hex()
    return _Version(
        version.state, digest, body, version.author_kind, author, version.requested_by, version.decided_by
    )


def _difference(content: Content | None, rows: dict[int, _Version], lines: list[EntryRow]) -> str:
    if content is None:
        return "its row is missing"
    told = [(line, json.loads(line.body)) for line in lines]
    wanted = _folded(told)
    differing = [number for number in sorted({*rows, *wanted}) if rows.get(number) != wanted.get(number)]
    if differing:
        return f"version {differing[0]} differs from its journal"
    if content.latest_number != max(wanted, default=0):
        return f"its row says that version {content.latest_number} is its latest"
    if any(
        body["workflow"] != content.workflow.slug for line, body in told if line.kind == "content_proposed"
    ):
        return "it belongs to another workflow than its journal says"
    return ""


def _folded(told: list[tuple[EntryRow, Any]]) -> dict[int, _Version]:
    versions: dict[int, _Version] = {}
    for line, body in told:
        if line.kind == "content_proposed":
            digest = body["digest"]
            versions[body["number"]] = _Version(
                "", digest, digest, body["author_kind"], body.get("author_person"), line.actor, ""
            )
        for number, state in body.get("states", {}).items():
            moved = versions[int(number)]._replace(state=state)
            versions[int(number)] = moved._replace(decided_by=line.actor) if state in _DECIDED else moved
    return versions

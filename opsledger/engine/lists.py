"""Reading the references of a list at their destination, before anything of it is decided. Reads only."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from opsledger.destinations import http
from opsledger.destinations.credentials import CredentialMissing
from opsledger.engine.reading import Reading, read_reference
from opsledger.engine.wire import installed_wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.lists import record_read
from opsledger.ledger.models import BulkItem, Hold
from opsledger.ledger.queries.lists import Look, Target, can_be_read
from opsledger.rules.facts import LookupStatus
from opsledger.rules.list_matching import Read

READ_SECONDS = 2.0  # of one batch, or of one press; a read under way is finished


def readings_of(run_id: UUID, items: Sequence[BulkItem]) -> Mapping[UUID, Any]:
    """By hold what its destination shows under the reference that the list names; None where it can't be read.

    Takes READ_SECONDS and one read at most; the items that had no turn are left out, and come again with the next batch.
    """
    ends, found = time.monotonic() + READ_SECONDS, dict[UUID, Reading | None]()
    holds = Hold.objects.select_related("step").in_bulk([one.hold_id for one in items])
    for item in items:
        if found and time.monotonic() > ends:
            break
        hold_id = item.thing_id
        step = holds[hold_id].step
        assert step is not None  # a list is refused for holds that are about something else
        action = definitions.destination(step.destination_version_id).actions[step.action]
        reference = json.loads(item.given or "{}").get("reference")
        read = reference is not None and can_be_read(action)
        found[hold_id] = read_reference(step.pk, reference) if read else None
    return found


def read_alone(look: Look) -> int:
    """Reads references that stand alone in a list, for READ_SECONDS at most, and keeps whose they are. Returns how many."""
    target, ends, count = look.reader, time.monotonic() + READ_SECONDS, 0
    if target is None:
        return 0
    lines: dict[str, int] = {}
    for row in look.listed.rows:
        if row.reference is not None:
            lines.setdefault(row.reference, row.line)
    for reference in look.matched.to_be_read:
        if count and time.monotonic() > ends:
            break
        record_read(look.line.id, lines[reference], _whose(target, reference))
        count += 1
    return count


def _whose(target: Target, reference: str) -> Read:
    """The identity that the record under a reference carries, or why it can't be told."""
    destination = definitions.destination(target.destination_version_id)
    try:
        found = http.read(installed_wire(), destination, destination.actions[target.action], reference)
    except CredentialMissing as missing:
        return Read(why=str(missing))
    if found.fact.status is not LookupStatus.RECORDS:
        return Read(why=f"{target.destination} could not be read ({found.fact.error or 'no answer'}).")
    if not found.fact.records:
        return Read(why=f"{target.destination} has no record {reference}.")
    identity = found.fact.records[0].identity
    return Read(identity) if identity else Read(why="The record carries no identity of ours.")

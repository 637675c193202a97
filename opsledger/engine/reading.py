"""Reading a typed reference at its destination, so that a person confirms what was compared. Reads only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

from opsledger.destinations import http
from opsledger.destinations.credentials import CredentialMissing
from opsledger.engine.wire import installed_wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.change import NewEvidence
from opsledger.ledger.actions.references import taken_by_other
from opsledger.ledger.models import Step, StepRequest
from opsledger.ledger.rendering import identity_of
from opsledger.lib.ids import new_id
from opsledger.rules.facts import LookupStatus
from opsledger.rules.matching import FieldRow, compare, sent_fields
from opsledger.rules.rendering import mask
from opsledger.rules.words import error_words


@dataclass(frozen=True, slots=True)
class Reading:
    """What the destination shows under a reference, compared field by field; or why nothing was compared."""

    reference: str
    compared: bool
    why: str  # a sentence: what was compared, or why nothing was
    rows: tuple[FieldRow, ...] = ()  # sensitive values masked
    ours: bool = False  # the record carries this step's identity
    taken_by: str | None = None  # the operation that holds this reference already
    evidence: NewEvidence | None = None

    @property
    def matches(self) -> bool:
        return self.compared and self.ours and all(row.match for row in self.rows)


def read_reference(step_id: UUID, reference: str) -> Reading:
    """Reads one record. Takes as long as the action's total deadline at most; never called inside a transaction."""
    step = Step.objects.get(pk=step_id)
    destination = definitions.destination(step.destination_version_id)
    action = destination.actions[step.action]
    taken_by = taken_by_other(step, reference)
    if action.read is None or action.profile.lookup is None:
        return Reading(
            reference, False, f"{step.destination_slug} can’t be read by a reference.", taken_by=taken_by
        )
    try:
        found = http.read(installed_wire(), destination, action, reference)
    except CredentialMissing as missing:
        return Reading(reference, False, str(missing), taken_by=taken_by)
    evidence = _evidence(step, reference, found)
    if found.fact.status is not LookupStatus.RECORDS:
        why = f"{step.destination_slug} could not be read ({error_words(found.fact.error, nothing='no answer')})."
        return Reading(reference, False, why, taken_by=taken_by, evidence=evidence)
    if not found.fact.records:
        why = f"{step.destination_slug} has no record {reference}."
        return Reading(reference, False, why, taken_by=taken_by, evidence=evidence)
    record = found.fact.records[0]
    body = (
        StepRequest.objects.filter(step=step, revision=step.revision).values_list("body", flat=True).first()
    )
    lookup = action.profile.lookup
    rows = compare(sent_fields(bytes(body or b""), lookup), record.fields, lookup.decisive, lookup.kinds)
    ours = record.identity == identity_of(step.identity, step.operation_id, step.number)
    matching = sum(1 for row in rows if row.match)
    whose = "It carries this step’s identity." if ours else "It does not carry this step’s identity."
    why = f"Read at {step.destination_slug} just now; {matching} of {len(rows)} fields match. {whose}"
    shown = tuple(_masked(row, action.sensitive) for row in rows)
    return Reading(reference, True, why, shown, ours, taken_by, evidence)


def _masked(row: FieldRow, sensitive: tuple[str, ...]) -> FieldRow:
    if row.field not in sensitive:
        return row
    ours, theirs = (mask(value) if value is not None else None for value in (row.ours, row.theirs))
    return FieldRow(row.field, ours, theirs, row.match)


def _evidence(step: Step, reference: str, found: http.Lookup) -> NewEvidence:
    return NewEvidence(
        id=new_id(),
        step=step.number,
        attempt_id=None,
        kind="lookup",
        origin=step.destination_slug,
        says="read",
        sentence=f"Reference {reference} was read for a decision.",
        digest=hashlib.sha256(found.content).digest(),
        content=found.content,
        facts={"status": found.status, "error": found.fact.error, "reference": reference},
    )

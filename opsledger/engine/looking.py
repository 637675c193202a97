"""Lookups: asking a destination what it has for an action. They read; nothing is sent (rules.md, table 5)."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from opsledger.destinations import http
from opsledger.destinations.credentials import CredentialMissing
from opsledger.destinations.http import Lookup, Wire
from opsledger.ledger import definitions
from opsledger.ledger.actions.change import NewEvidence
from opsledger.ledger.actions.claim import ClaimedLook
from opsledger.ledger.actions.record import Looked
from opsledger.ledger.rendering import identity_of, read_params
from opsledger.lib.ids import new_id
from opsledger.rules.facts import LookupFact, LookupStatus
from opsledger.rules.matching import sent_fields
from opsledger.rules.record import KnownBy

log = logging.getLogger(__name__)


def look(claimed: ClaimedLook, wire: Wire) -> Looked:
    """Makes one lookup, in a thread that touches no database.

    One that breaks in our own code is no answer, and was made all the same: it would break again each time, and nobody
    would ever be asked about the step.
    """
    destination = definitions.destination(claimed.destination_version_id)
    action = destination.actions[claimed.action]
    try:
        if claimed.state == "accepted" and claimed.reference and action.read is not None:
            found = http.read(wire, destination, action, claimed.reference)
        else:
            found = _search(claimed, wire)
    except CredentialMissing as why:
        found = Lookup(LookupFact(LookupStatus.ACCESS_REFUSED, error=str(why)))
    except Exception:
        log.exception("a lookup broke; it counts as no answer", extra={"operation_id": claimed.operation_id})
        found = Lookup(LookupFact(LookupStatus.NO_ANSWER, error="it_broke_here"))
    return looked_of(claimed, found)


def _search(claimed: ClaimedLook, wire: Wire) -> Lookup:
    """By our identity; and by the reference under which the record was found or named before (409: it exists, this is it).

    A reading by reference is no search: that it finds nothing proves nothing.
    """
    destination = definitions.destination(claimed.destination_version_id)
    action = destination.actions[claimed.action]
    identity = identity_of(claimed.identity, claimed.operation_id, claimed.step_number)
    params = read_params(claimed.params)
    params |= read_params(claimed.revised) if claimed.revised else {}
    named = claimed.hint if action.read is not None else None
    if action.search is None and named:
        return _read_as(http.read(wire, destination, action, named), named)
    found = http.search(wire, destination, action, identity, params)
    if named and not any(record.reference == named for record in found.fact.records):
        read = _read_as(http.read(wire, destination, action, named), named)
        if read.fact.records:
            records = (*found.fact.records, *read.fact.records)
            fact = replace(found.fact, status=LookupStatus.RECORDS, records=records, error="")
            return Lookup(fact, read.content, read.status, read.final if not found.fact.records else "")
    return found


def _read_as(read: Lookup, reference: str) -> Lookup:
    """A record that is read by its reference need not repeat it."""
    records = tuple(replace(one, reference=one.reference or reference) for one in read.fact.records)
    return replace(read, fact=replace(read.fact, records=records))


def looked_of(claimed: ClaimedLook, found: Lookup) -> Looked:
    """The record's view of a lookup; the rules judge it when it is recorded."""
    action = definitions.destination(claimed.destination_version_id).actions[claimed.action]
    evidence = NewEvidence(
        id=new_id(),
        step=claimed.step_number,
        attempt_id=None,
        kind="lookup",
        origin=claimed.destination_slug,
        says="",
        sentence="",
        digest=hashlib.sha256(found.content).digest(),
        content=found.content,
        facts={"status": found.status, "error": found.fact.error, "final": found.final},
    )
    return Looked(
        operation_id=claimed.operation_id,
        step_number=claimed.step_number,
        identity=identity_of(claimed.identity, claimed.operation_id, claimed.step_number),
        request_fields=sent_fields(claimed.body, action.profile.lookup),
        fact=found.fact,
        final=found.final,
        evidence=evidence,
        actor=f"destination:{claimed.destination_slug}",
        known_by=KnownBy.LOOKUP,
        destination_id=claimed.destination_id,
        asked_at=claimed.asked_at,
    )

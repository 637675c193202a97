"""One claimed step, sent once. Runs in a send thread and touches no database."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from opsledger.destinations.credentials import CredentialMissing
from opsledger.destinations.http import Wire, limits_of, wire_request
from opsledger.ledger import definitions
from opsledger.ledger.actions.change import NewEvidence
from opsledger.ledger.actions.claim import ClaimedSend
from opsledger.ledger.actions.record import Sent
from opsledger.lib.ids import new_id
from opsledger.lib.strict_json import loads_stored
from opsledger.rules.facts import Phase, SendFact
from opsledger.rules.learning import Finding
from opsledger.rules.outcomes import Verdict, classify
from opsledger.rules.profile import Protection
from opsledger.rules.record import KnownBy
from opsledger.rules.rendering import keyless_digest, request_digest
from opsledger.rules.states import NoChange, Outcome

CONTENT_BYTES_MAX = 16_384
_HEADERS_KEPT = frozenset(
    {"content-type", "content-length", "location", "retry-after", "date", "x-request-id"}
)


def send_claimed(claimed: ClaimedSend, wire: Wire) -> Sent:
    """Sends the frozen bytes once and reads meaning into what was observed.

    1. The bytes at hand must be the frozen ones, and where an approval is needed, without the key the approved ones (law 7);
       otherwise nothing is sent and a person is asked.
    2. The credential is added; without it nothing is sent.
    3. One send, one fact, one verdict.
    """
    destination = definitions.destination(claimed.destination_version_id)
    profile = destination.actions[claimed.action].profile
    headers = [(name, value) for name, value in json.loads(claimed.headers)]
    if not _bytes_are_approved(claimed, profile.protection, headers):
        sentence = "The bytes at hand are not the approved ones; nothing was sent."
        return not_sent(claimed, "bytes_differ", sentence, alarm=True)
    try:
        request = wire_request(destination, claimed.method, claimed.url, headers, bytes(claimed.body))
    except CredentialMissing as why:
        return not_sent(claimed, "credential_missing", f"Nothing was sent: {why}")
    fact = wire.send(request, limits_of(profile))
    return sent_of(claimed, fact, classify(fact, profile), id_space=profile.reply.id_space)


def _bytes_are_approved(claimed: ClaimedSend, protection: Protection, headers: list[tuple[str, str]]) -> bool:
    body = bytes(claimed.body)
    digest = request_digest(claimed.method, claimed.url, headers, body)
    if not digest == claimed.digest == claimed.request_digest:
        return False
    if not claimed.approval_needed:
        return True
    try:
        parsed = loads_stored(body.decode()) if body else None
    except ValueError:
        return False
    return claimed.approved_digest == keyless_digest(
        protection, claimed.method, claimed.url, headers, body, parsed
    )


def sent_of(claimed: ClaimedSend, fact: SendFact, verdict: Verdict, *, id_space: str = "") -> Sent:
    """The record's view of a verdict. `id_space`: of the action's references."""
    finding = Finding(
        outcome=verdict.outcome,
        known_by=KnownBy.TRANSPORT if not fact.left else KnownBy.REPLY,
        no_change=verdict.no_change,
        reference=verdict.reference or verdict.exists_reference,
        integrity_alarm=verdict.integrity_alarm,
        settles_earlier=verdict.settles_earlier,
        answered_with_error=fact.complete and (fact.status or 0) >= 500,
        facts={"why": verdict.why, "status": fact.status},
    )
    seen: dict[str, Any] = {
        "left_house": fact.left,
        "phase": fact.phase.value,
        "error": fact.error,
        "status": fact.status,
        "elapsed_seconds": round(fact.elapsed_seconds, 3),
    }
    return Sent(
        operation_id=claimed.operation_id,
        step_number=claimed.step_number,
        attempt_id=claimed.attempt_id,
        finding=finding,
        evidence=_evidence(claimed, fact, verdict.why or verdict.outcome.value, verdict.sentence),
        actor=_actor(claimed),
        seen=seen,
        retry_after_seconds=verdict.retry_after_seconds,
        access_refused=verdict.access_refused,
        id_space=id_space,
    )


def _actor(claimed: ClaimedSend) -> str:
    return f"destination:{claimed.destination_slug}"


def _evidence(claimed: ClaimedSend, fact: SendFact, says: str, sentence: str) -> NewEvidence:
    kept = {name: value for name, value in fact.headers if name in _HEADERS_KEPT}
    facts = {
        "status": fact.status,
        "headers": kept,
        "address": fact.address,
        "hop": fact.hop,
        "phase": fact.phase.value,
    }
    return NewEvidence(
        id=new_id(),
        step=claimed.step_number,
        attempt_id=claimed.attempt_id,
        kind="reply",
        origin=claimed.destination_slug,
        says=says,
        sentence=sentence,
        digest=hashlib.sha256(fact.body).digest(),
        content=fact.body[:CONTENT_BYTES_MAX],
        facts=facts,
    )


def not_sent(claimed: ClaimedSend, why: str, sentence: str, *, alarm: bool = False) -> Sent:
    """The result of a send that was not begun; `why` is one machine word."""
    fact = SendFact(left=False, phase=Phase.GUARD, error=why)
    finding = Finding(
        Outcome.NO_CHANGE, KnownBy.TRANSPORT, no_change=NoChange.NOT_SENT, integrity_alarm=alarm
    )
    return Sent(
        operation_id=claimed.operation_id,
        step_number=claimed.step_number,
        attempt_id=claimed.attempt_id,
        finding=finding,
        evidence=_evidence(claimed, fact, why, sentence),
        actor=_actor(claimed),
        seen={"left_house": False, "phase": "guard", "error": why},
        access_refused=why == "credential_missing",
    )

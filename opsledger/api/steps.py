"""Steps and attempts: what automations that do the work themselves claim and report, and what owners take back."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from opsledger.api.answers import respond
from opsledger.api.caller import Caller
from opsledger.api.operations import answer_with, here, on_version, operation_id_of, refused
from opsledger.api.problems import Problem
from opsledger.api.shapes import work
from opsledger.api.shapes.decisions import WithReason
from opsledger.api.versions import version_of
from opsledger.engine import bell
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.evidence import Says, Statement, add_evidence
from opsledger.ledger.actions.interventions import settle_withdraw
from opsledger.ledger.actions.report import (
    ClaimedWork,
    NoSuchThing,
    NotClaimable,
    Report,
    Reported,
    claim_for_automation,
    extend_lease,
    report_outcome,
)
from opsledger.ledger.queries.record import Record
from opsledger.lib.ids import parse, public
from opsledger.rules.settling import NotNow
from opsledger.rules.states import NoChange, Outcome

NO_STEP = "This operation has no such step."
NO_ATTEMPT = "This team has no such attempt."


def claim(caller: Caller, request: HttpRequest, operation: str, step: str) -> HttpResponse:
    """The attempt is committed before this answers: only then may the work begin."""
    operation_id = operation_id_of(caller, operation)
    try:
        claimed = claim_for_automation(caller.team_id, operation_id, step, caller.by)
    except NoSuchThing:
        raise Problem("not_found", NO_STEP) from None
    except NotClaimable as why:
        raise Problem(
            "not_claimable",
            why.following,
            state=why.state,
            reference=why.reference,
            reason=why.reason,
            next=why.following,
        ) from why
    return respond(201, _claim(claimed))


def _claim(claimed: ClaimedWork) -> dict[str, Any]:
    try:
        body, encoding = claimed.body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(claimed.body).decode(), "base64"
    return {
        "attempt_id": public("att", claimed.attempt_id),
        "step": claimed.step,
        "idempotency_key": claimed.idempotency_key,
        "request": {
            "method": claimed.method,
            "url": claimed.url,
            "headers": json.loads(claimed.headers),
            "body": body,
            "body_encoding": encoding,
            "digest": claimed.digest,
        },
        "lease_expires_at": claimed.lease_ends_at,
        "longest_until": claimed.longest_until,
    }


def _attempt_id(text: str) -> UUID:
    found = parse("att", text)
    if found is None:
        raise Problem("not_found", NO_ATTEMPT)
    return found


def heartbeat(caller: Caller, request: HttpRequest, attempt: str) -> HttpResponse:
    try:
        lease = extend_lease(caller.team_id, _attempt_id(attempt), caller.by)
    except NoSuchThing:
        raise Problem("not_found", NO_ATTEMPT) from None
    except (NotNow, Refused) as why:
        raise Problem("not_now", why.why) from why
    return respond(
        200,
        {
            "attempt_id": public("att", lease.attempt_id),
            "lease_expires_at": lease.lease_ends_at,
            "longest_until": lease.longest_until,
        },
    )


def outcome(caller: Caller, request: HttpRequest, attempt: str, given: work.Outcome) -> HttpResponse:
    report = Report(
        outcome=Outcome(given.outcome),
        how=given.evidence.how,
        reference=given.reference,
        no_change=NoChange(given.no_change) if given.no_change else None,
        status=given.evidence.status,
        reply=given.evidence.reply,
        occurred_at=given.evidence.occurred_at,
        retry_after_seconds=given.retry_after_seconds,
    )
    try:
        reported = report_outcome(caller.team_id, _attempt_id(attempt), report, caller.by)
    except NoSuchThing:
        raise Problem("not_found", NO_ATTEMPT) from None
    except Refused as why:
        raise refused(why) from why
    bell.ring()  # the next step may be the engine's
    return respond(200, _reported(reported))


def evidence(
    caller: Caller, request: HttpRequest, operation: str, step: str, given: work.Evidence
) -> HttpResponse:
    statement = Statement(
        says=Says(given.says),
        how=given.how,
        reference=given.reference,
        identity=given.identity,
        fields=given.fields,
        reply=given.reply,
        occurred_at=given.occurred_at,
    )
    operation_id = operation_id_of(caller, operation)
    try:
        reported = add_evidence(caller.team_id, operation_id, step, statement, caller.by)
    except NoSuchThing:
        raise Problem("not_found", NO_STEP) from None
    except Refused as why:
        raise refused(why) from why
    bell.ring()
    return respond(200, _reported(reported))


def _reported(reported: Reported) -> dict[str, Any]:
    return {
        "operation": public("op", reported.operation_id),
        "operation_state": reported.operation_state,
        "step": reported.step,
        "state": reported.state,
        "reference": reported.reference,
        "attempt_outcome": reported.attempt_outcome,
        "late": reported.late,
        "repeated": reported.repeated,
    }


def withdraw(
    caller: Caller, request: HttpRequest, operation: str, step: str, given: WithReason
) -> HttpResponse:
    """An owner takes a person's answer back; the step is disputed."""
    operation_id = operation_id_of(caller, operation)
    number = _number(here(caller, operation_id), step)
    version = version_of(request)
    with on_version(caller, operation_id):
        settle_withdraw(operation_id, number, given.reason, caller.by, version=version)
    return answer_with(caller, operation_id)


def _number(record: Record, name: str) -> int:
    for step in record.steps:
        if step.line.name == name:
            return step.line.number
    raise Problem("not_found", NO_STEP)

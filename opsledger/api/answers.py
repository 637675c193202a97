"""Building answers: plain values from what the queries read, and JSON from these. Their shapes are in `answer_shapes`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.http import HttpResponse

from opsledger.ledger.actions.opened import Opened
from opsledger.ledger.queries.answer_proposals import ProposedAnswer
from opsledger.ledger.queries.if_nobody import Outlook
from opsledger.ledger.queries.operation_lines import NextDecision as Next
from opsledger.ledger.queries.operation_lines import OperationLine
from opsledger.ledger.queries.record import HoldRecord, Record, StepRecord
from opsledger.lib.ids import public
from opsledger.lib.strict_json import dumps


def respond(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A JSON answer; numbers keep their digits. Never stored by anybody on the way."""
    return respond_text(status, dumps(plain(body)), headers)


class _Answer(HttpResponse):
    """Looks after the thread's connections at the next request's beginning, as Django does there for every request, and not
    at its own end, too: that took a seventh of the time of recording one operation."""

    def close(self) -> None:
        for closer in self._resource_closers:  # type: ignore[attr-defined]
            closer()
        self.closed = True


def respond_text(status: int, body: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """The same of JSON that is text already."""
    response = _Answer(body, status=status, content_type="application/json")
    response["Cache-Control"] = "no-store"
    for name, value in (headers or {}).items():
        response[name] = value
    return response


def plain(value: Any) -> Any:
    """Times as text in UTC; everything else as it is."""
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def when(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


_OPERATIONS = "/api/v1/operations/"


def url_of(operation_id: UUID) -> str:
    return f"{_OPERATIONS}{public('op', operation_id)}"


def recorded(opened: Opened, own: str) -> dict[str, Any]:
    name = public("op", opened.id)
    told: dict[str, Any] = {
        "id": name,
        "operation_id": own,
        "state": str(opened.state),
        "result": "recorded" if opened.new else "same",
        "url": f"{_OPERATIONS}{name}",
    }
    return told | {"stands": list(opened.stands)} if opened.stands else told


def recorded_text(opened: Opened, own: str, status: int) -> str:
    """An item of a batch's answer: the same as JSON, with its status. A state is a plain word."""
    name = public("op", opened.id)
    stands = f',"stands":{dumps(opened.stands)}' if opened.stands else ""
    return (
        f'{{"status":{status},"id":"{name}","operation_id":{dumps(own)},"state":"{opened.state}",'
        f'"result":"{"recorded" if opened.new else "same"}","url":"{_OPERATIONS}{name}"{stands}}}'
    )


def next_of(decision: Next) -> dict[str, Any]:
    return {
        "by": decision.by,
        "what": decision.what,
        "at": decision.at,
        "step": decision.step,
        "hold": public("hold", decision.hold_id) if decision.hold_id else None,
    }


def summary(line: OperationLine) -> dict[str, Any]:
    return {
        "id": public("op", line.id),
        "operation_id": line.operation_id,
        "title": line.title,
        "workflow": line.workflow,
        "state": line.state.value,
        "version": line.version,
        "owner": line.owner_name or None,
        "created_at": line.created_at,
        "updated_at": line.updated_at,
        "ended_at": line.ended_at,
        "not_after": line.not_after,
        "references": line.references,
        "steps": [_step(step) for step in line.steps],
        "holds": [
            {
                "id": public("hold", hold.id),
                "step": hold.step,
                "reason": hold.reason.value,
                "version": hold.version,
                "due_at": hold.due_at,
                "owner": hold.owner_name or None,
            }
            for hold in line.holds
        ],
        "next": next_of(line.next),
        "counters": _counters(line.step_count, line.confirmed_count, line.attempt_count, line.event_count),
        "url": url_of(line.id),
    }


def _counters(steps: int, confirmed: int, attempts: int, events: int) -> dict[str, int]:
    return {"steps": steps, "confirmed": confirmed, "attempts": attempts, "events": events}


def _step(line: Any) -> dict[str, Any]:
    return {
        "number": line.number,
        "name": line.name,
        "title": line.title,
        "destination": line.destination,
        "action": line.action,
        "performer": line.performer,
        "state": line.state,
        "reference": line.reference,
        "next_act": line.act,
        "next_act_at": line.act_at,
    }


def record_answer(record: Record) -> dict[str, Any]:
    steps = [_step_record(step) for step in record.steps]
    return {
        "id": public("op", record.id),
        "operation_id": record.operation_id,
        "title": record.title,
        "workflow": record.workflow,
        "workflow_version": record.workflow_version,
        "state": record.state.value,
        "version": record.version,
        "cancelled": record.cancelled,
        "owner": {"name": record.owner.name, "by": record.owner.by, "taken": record.owner.taken},
        "replaces": public("op", record.replaces) if record.replaces else None,
        "replaced_by": [public("op", one) for one in record.replaced_by],
        "not_after": record.not_after,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "ended_at": record.ended_at,
        "unknown_at": record.unknown_at,
        "params": [
            {"name": p.name, "label": p.label, "value": p.value, "masked": p.masked} for p in record.params
        ],
        "content": record.content_id,
        "steps": steps,
        "references": [step["reference"] for step in steps if step["reference"]],
        "holds": [_hold_of_record(record, hold) for hold in record.holds],
        "events": [
            {
                "id": public("evt", event.id),
                "source": event.source,
                "event_id": event.event_id,
                "topic": event.topic,
                "occurred_at": event.occurred_at,
                "occurred_text": event.occurred_text,
                "received_at": event.received_at,
                "deliveries": event.delivery_count,
            }
            for event in record.events
        ],
        "evidence": [_evidence(line) for line in record.evidence],
        "took_effect": [step.line.name for step in record.took_effect],
        "next": next_of(record.next),
        "counters": _counters(
            len(record.steps), record.confirmed_count, record.attempt_count, record.event_count
        ),
        "url": url_of(record.id),
    }


def _step_record(step: StepRecord) -> dict[str, Any]:
    return {
        **_step(step.line),
        "revision": step.revision,
        "request_digest": step.request_digest,
        "idempotency_key": step.idempotency_key,
        "tries_used": step.tries_used,
        "tries_max": step.tries_max,
        "approval": {
            "needed": step.approval_needed,
            "approved": step.approved,
            "until": step.approved_until,
            "content_version": step.content_number,
        },
        "protection": {
            "kind": step.protected.kind.value,
            "protected": step.protected.protected,
            "sentence": step.protected.sentence,
            "until": step.protected.until,
        },
        "attempts": [
            {
                "id": public("att", attempt.id),
                "number": attempt.number,
                "revision": attempt.revision,
                "opened_at": attempt.opened_at,
                "lease_ends_at": attempt.lease_ends_at,
                "ended_at": attempt.ended_at,
                "outcome": attempt.outcome,
                "no_change": attempt.no_change,
                "reference": attempt.reference,
                "known_by": attempt.known_by,
                "status": attempt.status,
                "phase": attempt.phase,
                "error": attempt.error,
                "elapsed_seconds": attempt.elapsed_seconds,
                "sentence": attempt.sentence,
            }
            for attempt in step.attempts
        ],
    }


def _evidence(line: Any) -> dict[str, Any]:
    return {
        "id": public("ev", line.id),
        "step": line.step,
        "attempt": public("att", line.attempt_id) if line.attempt_id else None,
        "kind": line.kind,
        "origin": line.origin,
        "received_at": line.received_at,
        "occurred_at": line.occurred_at,
        "says": line.says,
        "sentence": line.sentence,
        "late": line.late,
        "bytes": line.size,
        "digest": line.digest,
        "facts": dict(line.facts),
    }


def _hold_of_record(record: Record, hold: HoldRecord) -> dict[str, Any]:
    return {
        "id": public("hold", hold.id),
        "about": "step",
        "operation": public("op", record.id),
        "operation_id": record.operation_id,
        "step": hold.step,
        "destination": record.steps[hold.step - 1].line.destination,
        "event": None,
        "reason": hold.reason.value,
        "title": record.title,
        "version": hold.version,
        "opened_at": hold.opened_at,
        "due_at": hold.due_at,
        "closed_at": hold.closed_at,
        "closed_by": hold.closed_by or None,
        "answer": hold.answer or None,
        "owner": hold.owner_name or None,
        "if_nobody": if_nobody(hold.if_nobody, hold.outlook, about_step=True),
        "answers": [answer.value for answer in hold.answers],
        "facts": dict(hold.facts),
    }


def if_nobody(base: str, outlook: Outlook | None, *, about_step: bool) -> str:
    """The workflow's sentence, and while the hold is open who is told and when; times in UTC."""
    if outlook is None:
        return base
    said = outlook.sentence(lambda at: f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
    return " ".join(filter(None, [base, said, NOTHING_IS_SENT if about_step else ""]))


NOTHING_IS_SENT = "Nothing is sent meanwhile."


def proposal_answer(one: ProposedAnswer) -> dict[str, Any]:
    return {
        "id": public("prop", one.id),
        "hold": public("hold", one.hold_id),
        "by": one.name,
        "author_kind": one.author_kind,
        "author": one.author_name,
        "answer": one.answer.value,
        "reference": one.reference,
        "reason": one.texts.get("reason"),
        "hold_version": one.hold_version,
        "made_at": one.made_at,
    }


def hold_answer(
    hold: Any, answers: Sequence[str], outlook: Outlook | None, proposals: Sequence[ProposedAnswer] = ()
) -> dict[str, Any]:
    """A row of ledger.models.Hold, with its step, event and owner, and its open proposals."""
    about = "step" if hold.step_id else "destination" if hold.destination_id else "event"
    return {
        "id": public("hold", hold.pk),
        "about": about,
        "operation": public("op", hold.operation_id) if hold.operation_id else None,
        "operation_id": hold.operation_text_id or None,
        "step": hold.step.number if hold.step else None,
        "destination": hold.destination_slug or None,
        "event": public("evt", hold.event_id) if hold.event_id else None,
        "reason": hold.reason,
        "title": hold.title,
        "version": hold.version,
        "opened_at": hold.opened_at,
        "due_at": hold.due_at,
        "closed_at": hold.closed_at,
        "closed_by": hold.closed_by or None,
        "answer": hold.answer or None,
        "owner": hold.owner.display_name if hold.owner else None,
        "if_nobody": if_nobody(hold.if_nobody, outlook, about_step=bool(hold.step_id)),
        "answers": list(answers),
        "proposals": [proposal_answer(one) for one in proposals],
        "facts": json.loads(hold.facts),
    }

"""The file about an operation for somebody outside: what was observed and decided, and what remains."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console.duplicates import extra_records
from opsledger.console.masked import hidden_texts, hide
from opsledger.console.vocabulary import shown, step_word
from opsledger.console.wording import answers
from opsledger.console.wording.entries import entry_word
from opsledger.console.wording.statements import evidence_word
from opsledger.ledger.queries.page import OperationView, StepView
from opsledger.ledger.queries.record import AttemptRecord
from opsledger.ledger.queries.timeline import EvidenceLine, Told
from opsledger.lib import ids
from opsledger.rules.record import Act
from opsledger.rules.states import Outcome


def evidence_file(view: OperationView, told: list[Told], names: Mapping[str, str]) -> str:
    """Markdown: what was observed, what was decided, what remains. Without sensitive values and without free text."""
    record = view.record
    lines = [
        f"# {_inline(record.title)}",
        "",
        _("Evidence about one intended action, as OpsLedger recorded it. All times are UTC."),
        "",
        f"- {_('Operation')}: `{_code(record.operation_id)}` (`{ids.public('op', record.id)}`)",
        f"- {_('State')}: {shown(record.state, 'operation').word}",
        f"- {_('Recorded')}: {_utc(record.created_at)}",
        f"- {_('Workflow')}: {record.workflow}, {_('version')} {record.workflow_version}",
    ]
    lines += [
        f"- {_('Source event')}: `{_code(one.event_id)}` ({one.source}), {_('delivered')} {one.delivery_count}×"
        for one in record.events
    ]
    for step in view.steps:
        lines += _step_part(view, step)
    lines += _decided(view, told, names)
    lines += _remains(view)
    lines += ["", _("Reasons and notes that people wrote are kept in OpsLedger and left out here.")]
    hidden = hidden_texts(view)
    return hide("\n".join(lines) + "\n", hidden)


def _step_part(view: OperationView, step: StepView) -> list[str]:
    lines = [
        "",
        f"## {_('Step')} {step.step.number}: {_inline(step.title)}",
        "",
        f"- {_('Destination')}: {step.destination.name} ({step.step.destination}), {step.action.title}",
        f"- {_('State')}: {step_word(step.step)}",
        f"- {_('Our identity on the record')}: `{step.identity}`",
    ]
    if step.step.reference:
        lines.append(f"- {_('Reference')}: `{_code(step.step.reference)}`")
    if step.digest:
        lines.append(f"- {_('Request')}: {step.method}, SHA-256 `{step.digest}`")
    if step.record.idempotency_key:
        lines.append(f"- {_('Idempotency key')}: `{_code(step.record.idempotency_key)}`")
    lines.append(f"- {_('Protection')}: {step.record.protected.sentence}")
    lines += ["", f"### {_('What was observed')}", ""]
    about = [one for one in view.record.evidence if one.step == step.step.number and one.kind != "statement"]
    observed = [(attempt.opened_at, _attempt(step, attempt, about)) for attempt in step.record.attempts]
    told = {(attempt.id, attempt.sentence) for attempt in step.record.attempts}
    observed += [
        (one.received_at, f"{evidence_word(one.kind)}: {_inline(one.sentence)}{_kept(one)}")
        for one in about
        if (one.attempt_id, one.sentence) not in told
    ]
    lines += [f"- {_utc(at)} {text}" for at, text in sorted(observed, key=lambda one: one[0])]
    return lines if observed else [*lines, _("Nothing was sent and nothing was looked up.")]


def _attempt(step: StepView, attempt: AttemptRecord, about: list[EvidenceLine]) -> str:
    """One attempt with its outcome, what was seen of it, and the digest of what was kept of the reply."""
    outcome = shown(attempt.outcome, "outcome").word.lower() if attempt.outcome else _("no answer yet")
    if attempt.outcome == Outcome.NO_CHANGE and step.step.undelivered:
        outcome = _("taken over, then not delivered")
    seen = f"{_('Attempt')} {attempt.number} (`{ids.public('att', attempt.id)}`): {outcome}."
    kept = [one for one in about if (one.attempt_id, one.sentence) == (attempt.id, attempt.sentence)]
    return f"{seen} {_inline(attempt.sentence)}{''.join(_kept(one) for one in kept)}"


def _kept(one: EvidenceLine) -> str:
    """The digest of the bytes that were kept; nothing where none came."""
    return f" (SHA-256 `{one.digest}`)" if one.size else ""


def _decided(view: OperationView, told: list[Told], names: Mapping[str, str]) -> list[str]:
    decisions = [
        entry for entry in reversed(told) if entry.kind in {"answered", "withdrawn", "cancel_requested"}
    ]
    lines = ["", f"## {_('What was decided')}", ""]
    for entry in decisions:
        who = names.get(entry.actor, entry.actor.partition(":")[0])
        what = (
            answers.given(str(entry.body["answer"]))
            if "answer" in entry.body
            else entry_word(entry.kind).lower()
        )
        reference = entry.body.get("reference")
        tail = f" ({_('reference')} `{_code(str(reference))}`)" if reference else ""
        lines.append(f"- {_utc(entry.at)} {_inline(who)}: {what}{tail}")
        lines += [
            f"  - {_('Known extra record, not kept')}: `{_code(extra or _('not on file'))}` (SHA-256 `{digest}`)"
            for extra, digest in extra_records(view, entry)
        ]
    return lines if decisions else [*lines, _("Nothing yet.")]


def _remains(view: OperationView) -> list[str]:
    lines = ["", f"## {_('What remains')}", ""]
    open_holds = [
        f"- {shown(one.record.reason, 'hold').word} ({_('step')} {one.record.step}), "
        f"{_('due')} {_utc(one.record.due_at)}"
        for one in view.holds
    ]
    planned = [
        f"- {_(_PLANNED[step.step.act])} ({_('step')} {step.step.number}), {_utc(step.step.act_at)}"
        for step in view.steps
        if step.step.act_at is not None and step.step.act in _PLANNED
    ]
    return [*lines, *open_holds, *planned] if open_holds or planned else [*lines, _("Nothing is open.")]


_PLANNED: Mapping[Act, str] = {
    Act.SEND: noop("It is to be sent"),
    Act.OFFER: noop("It is offered to automations until then"),
    Act.LEASE: noop("An answer is waited for until then"),
    Act.LOOK: noop("Next lookup"),
    Act.AWAIT: noop("A proof of its final effect is waited for until then"),
}


def _utc(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if moment else _("not known")


def _inline(text: str) -> str:
    """Text in a line of Markdown: one line, and no character of it is markup."""
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|" else char for char in flat)


def _code(text: str) -> str:
    return text.replace("`", "'").replace("\n", " ")

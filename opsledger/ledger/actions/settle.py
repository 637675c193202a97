"""Answers to holds about steps. Each carries the version it was made on, an author and a reason (laws 10 and 14)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import keep_text
from opsledger.ledger.actions import revise
from opsledger.ledger.actions.change import Change, Changed, NewEvidence, change_here
from opsledger.ledger.actions.deciding import By, Refused, Stale, check_length, check_reason
from opsledger.ledger.actions.proposed import Accepted, NotOpen, accept_here
from opsledger.ledger.actions.record import statement_evidence
from opsledger.ledger.actions.references import once_more, references_of, taken_by_other, taken_from
from opsledger.ledger.approvals import replaced_by
from opsledger.ledger.definitions import reference_key
from opsledger.ledger.models import ContentVersion, Hold
from opsledger.ledger.queries.names import find_named
from opsledger.ledger.records import Loaded, lock
from opsledger.rules.answers import REVISES, SENDS_AGAIN, Answer, Given, answered
from opsledger.rules.record import Operation
from opsledger.rules.settling import Moment, NotNow
from opsledger.rules.states import NEVER_SENT_STATES, HoldReason, Outcome, StepState


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to a hold, with what the journal keeps beside it."""

    answer: Answer
    reason: str
    version: int  # of the hold, as it was read
    reference: str | None = None
    no_reference_why: str = ""
    checked_how: str = ""
    tries: int = 1
    next_check_at: datetime | None = None
    keep_later: frozenset[int] = field(default_factory=frozenset)
    compared: str = (
        ""  # digest of the evidence that the typed reference was compared with; "" = nothing was compared
    )
    replaced_by: str = ""
    ticket: str = ""
    # of several records: for each that is not kept, what was done with it and with what depends on it
    others: Mapping[str, str] = field(default_factory=dict)
    # of a revision: the parameters that change (None takes one away), and another content version by id and number
    params: Mapping[str, Any] = field(default_factory=dict)
    content: tuple[str, int] | None = None
    proposal: UUID | None = None  # the proposed answer that is accepted with it


_SAY_ABSENT = frozenset({Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_END, Answer.ABSENT_REVISE})
NEEDS_REFERENCE = frozenset({Answer.HAPPENED, Answer.KEEP_ONE, Answer.OURS})
NAMES_REFERENCE = NEEDS_REFERENCE | {Answer.HAPPENED_ACCEPTED, Answer.DELIVERED}
_NOT_SENT = NEVER_SENT_STATES | {StepState.CANCELLED}
_SAY_THAT_IT_HAPPENED = frozenset({Answer.HAPPENED, Answer.HAPPENED_ACCEPTED, Answer.OURS, Answer.KEEP_ONE})
_OF_THE_HOLD = frozenset({Answer.OURS, Answer.NOT_OURS})  # of the record that the hold is about


def settle_hold(hold_id: UUID, decision: Decision, by: By, *, extra: tuple[NewEvidence, ...] = ()) -> Changed:
    """Gives one answer to a hold about a step.

    1. The operation's row is locked, then the hold is read again.
    2. Another version than the one decided on: Stale, nothing is written.
    3. The answer is applied by `rules.answers`; a reference that another step holds is Refused, and its holder named.
    4. Rows, statement, reason and journal line are written together.
    5. Another step took the reference at the same moment: all of it again, and now its holder is known.
    """
    check_decision(decision)
    return once_more(lambda: _settle_hold(hold_id, decision, by, extra))


def _settle_hold(hold_id: UUID, decision: Decision, by: By, extra: tuple[NewEvidence, ...]) -> Changed:
    with transaction.atomic(durable=True):
        hold = Hold.objects.select_related("step").get(pk=hold_id)
        if hold.operation_id is None or hold.step is None:
            raise Refused("This hold is not about a step; it is settled where it belongs.")
        content = _content_for(hold, decision)
        lock([hold.operation_id])
        hold.refresh_from_db()
        if hold.version != decision.version or hold.closed_at is not None:
            raise Stale(hold)
        _still_sendable(hold, decision)
        if decision.answer is Answer.KEEP_ONE:
            _others_told(hold, decision)
        if decision.answer in _OF_THE_HOLD:
            _is_of_the_hold(hold, decision)
        if decision.answer in NAMES_REFERENCE:
            _still_free(decision.reference, taken_by_other(hold.step, decision.reference))
        replacement = _replacement(hold, decision) if decision.answer is Answer.REPLACED else None
        accepted = _accepted(hold, decision, by)
        one = answer_change(
            hold, decision, by, extra=extra, replacement=replacement, content=content, accepted=accepted
        )
        changed = change_here({hold.operation_id: one})[hold.operation_id]
        if decision.answer is Answer.STILL_UNKNOWN:
            _keep_open(hold, decision)
        return changed


def _accepted(hold: Hold, decision: Decision, by: By) -> Accepted | None:
    if decision.proposal is None:
        return None
    try:
        return accept_here(decision.proposal, hold, by.actor)
    except NotOpen as why:
        raise Refused(str(why)) from why


def _content_for(hold: Hold, decision: Decision) -> ContentVersion | None:
    if decision.content is None:
        return None
    try:
        return revise.locked_version(hold.team_id, *decision.content)
    except revise.BadRevision as why:
        raise Refused(why.why, field=why.field) from why


def _still_sendable(hold: Hold, decision: Decision) -> None:
    """What another operation replaces is never sent again: both would take effect."""
    if decision.answer not in SENDS_AGAIN | REVISES:
        return
    assert hold.operation_id is not None
    found = replaced_by([hold.operation_id])
    if found:
        raise Refused(
            f"Operation {found[hold.operation_id]} replaces this one, so nothing of it is sent again. End it instead."
        )


def _ticks_no_replaced_step(loaded: Loaded, decision: Decision) -> None:
    """A tick would have a step sent that table 4 cancels, since another operation does it; so it is not taken in silence."""
    if not loaded.record.replaced:
        return
    later = [step.number for step in loaded.record.steps if step.state in _NOT_SENT]
    ticked = sorted(decision.keep_later.intersection(later))
    if ticked:
        raise Refused(
            f"Operation {replaced_by([loaded.id])[loaded.id]} replaces this one, and step {ticked[0]} would still be sent."
            " Answer without keeping it.",
            field="keep_later",
        )


def _is_of_the_hold(hold: Hold, decision: Decision) -> None:
    """Whether it is ours is said of the record that was found, and of no other; what is not ours need not be named."""
    found = json.loads(hold.facts).get("reference")
    wanted = {found} if decision.answer is Answer.OURS else {found, None}
    if found is not None and decision.reference not in wanted:
        raise Refused(f"This question is about record {found}; name that one.", field="reference")


def _others_told(hold: Hold, decision: Decision) -> None:
    """One of the records that were found is kept; of each other it is said what was done with it. Nothing is deleted."""
    found = records_of(hold)
    if found and decision.reference not in found:
        raise Refused(f"Choose one of the records that were found: {', '.join(found)}.", field="reference")
    for other in found:
        text = decision.others.get(other, "")
        if other != decision.reference and not text.strip():
            raise Refused(
                f"Say what was done with record {other}, and with what depends on it.",
                field=f"others.{other}",
            )
        check_length(text, f"What is said of record {other}", f"others.{other}")


def records_of(hold: Hold) -> list[str]:
    """The references of the records that a hold *duplicate found* is about, as the rules listed them."""
    found = json.loads(hold.facts).get("references")
    return [str(one) for one in found] if isinstance(found, list) else []


def _others_kept(hold: Hold, decision: Decision) -> dict[str, Any]:
    """What the journal keeps of the records that are not kept: their digests, and the texts outside of it."""
    others = [one for one in records_of(hold) if one != decision.reference]
    if decision.answer is not Answer.KEEP_ONE or not others:
        return {}
    assert hold.operation_id is not None
    texts = {f"other_{n}": keep_text(hold.operation_id, decision.others[one]) for n, one in enumerate(others)}
    return {"extra_records": [reference_key(one) for one in others], **texts}


def _still_free(reference: str | None, taken_by: str | None) -> None:
    if taken_by is not None:
        raise Refused(f"Reference {reference} already belongs to operation {taken_by}.", field="reference")


def _references_still_free(loaded: Loaded, after: Operation) -> None:
    """Also those that nobody typed: an answer may confirm an attempt with what was heard of it in a dispute."""
    for step in after.steps:
        for reference in sorted(references_of(step) - references_of(loaded.record.step(step.number))):
            _still_free(reference, taken_from(loaded, step.number, reference))


def _held_elsewhere(loaded: Loaded, hold: Hold, decision: Decision) -> frozenset[str]:
    """Of the records that were found or named for a step, those that are another step's by now.

    They give way to the record that is named with the answer. Who names none in a dispute means the one that was heard.
    """
    if decision.answer not in _SAY_THAT_IT_HAPPENED or hold.step is None:
        return frozenset()
    if not decision.reference and hold.reason == HoldReason.DISPUTED:
        return frozenset()
    number = hold.step.number
    heard = {one.reference for one in loaded.record.step(number).attempts_with(Outcome.UNKNOWN)}
    return frozenset(one for one in heard if one and taken_from(loaded, number, one) is not None)


def _replacement(hold: Hold, decision: Decision) -> UUID:
    """The operation that is said to replace this one: another one of its team, by its own id or as `op_…`."""
    found = find_named(hold.team_id, decision.replaced_by)
    if found is None:
        raise Refused("There is no such operation in this team.", field="replaced_by")
    if found == hold.operation_id:
        raise Refused(
            "An operation can’t replace itself. Name the new one, which is recorded first.",
            field="replaced_by",
        )
    return found


def check_decision(decision: Decision) -> None:
    """Whether an answer has what it needs by itself; Refused names the field that it lacks."""
    check_reason(
        decision.reason, asked="Write the reason: what you saw, and where. It is kept with the decision."
    )
    if (
        decision.answer in NEEDS_REFERENCE
        and not decision.reference
        and not decision.no_reference_why.strip()
    ):
        raise Refused("Give the destination’s reference, or say why there is none.", field="reference")
    if decision.reference and decision.answer not in NAMES_REFERENCE | _OF_THE_HOLD:
        raise Refused(
            "This answer takes no reference: leave it out, or choose the answer that the record proves.",
            field="reference",
        )
    if decision.answer in _SAY_ABSENT and not decision.checked_how.strip():
        raise Refused("Say how it was checked.", field="checked_how")
    if decision.answer is Answer.STILL_UNKNOWN and decision.next_check_at is None:
        raise Refused("Choose when to check next.", field="next_check_at")
    if decision.answer is Answer.MORE_TRIES and not 1 <= decision.tries <= 20:
        raise Refused("Grant between 1 and 20 more tries.", field="tries")
    if (decision.params or decision.content) and decision.answer not in REVISES:
        raise Refused("Changed parameters or content make a revision; choose that answer.", field="answer")
    if decision.answer is Answer.REPLACED and not decision.replaced_by.strip():
        raise Refused("Name the operation that replaces this one.", field="replaced_by")


def answer_change(
    hold: Hold,
    decision: Decision,
    by: By,
    *,
    extra: tuple[NewEvidence, ...] = (),
    replacement: UUID | None = None,
    content: ContentVersion | None = None,
    accepted: Accepted | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Change:
    """What an answer makes of the hold's operation. `facts`: more for the journal's line; no free text.

    Its `decide` raises Refused where the rules say no. Texts are kept once the answer stands, so a refused one leaves none.
    """
    given = Given(
        answer=decision.answer,
        reference=decision.reference or None,
        tries=decision.tries,
        next_check_at=decision.next_check_at,
        keep_later=decision.keep_later,
    )

    def decide(loaded: Loaded, moment: Moment) -> Operation:
        _ticks_no_replaced_step(loaded, decision)
        try:
            if decision.answer not in REVISES:
                known = replace(given, elsewhere=_held_elsewhere(loaded, hold, decision))
                after = answered(loaded.record, str(hold.pk), known, moment)
            else:
                after = _revised(loaded, moment)
        except NotNow as why:
            raise Refused(why.why) from why
        except revise.BadRevision as bad:
            raise Refused(bad.why, field=bad.field) from bad
        _references_still_free(loaded, after)
        _say(made, hold, decision, by)
        return after

    def _revised(loaded: Loaded, moment: Moment) -> Operation:
        assert hold.step is not None
        number = hold.step.number
        prepared = revise.prepare(loaded, number, decision.params, content)
        asked = replace(given, content_number=prepared.content_number, content_steps=prepared.content_steps)
        after = answered(loaded.record, str(hold.pk), asked, moment)
        revise.still_missing(loaded, after, number)
        made.facts = {**made.facts, **prepared.facts}
        return after

    made = Change(
        kind="answered",
        actor=by.actor,
        decide=decide,
        facts={
            **(facts or {}),
            **(accepted.facts if accepted else {}),
            **({"replacement": str(replacement)} if replacement else {}),
        },
        evidence=extra,
        closed_by=by.actor,
        answer=decision.answer.value,
        # a revision's author is whoever accepts it, its author as a person whoever thought it up; neither may approve it
        author_person=(accepted and accepted.person_id) or by.person_id,
    )
    return made


def _say(made: Change, hold: Hold, decision: Decision, by: By) -> None:
    """The line's facts and the statement, with their texts."""
    assert hold.step is not None and hold.operation_id is not None
    reason = keep_text(hold.operation_id, decision.reason)
    facts = {
        "hold": str(hold.pk),
        "reason_of_hold": hold.reason,
        "hold_version": hold.version,
        "answer": decision.answer.value,
        "step": hold.step.number,
        "reference": decision.reference,
        "compared": decision.compared,
        "tries": decision.tries if decision.answer is Answer.MORE_TRIES else None,
        "reason": reason,
        **_texts(hold.operation_id, decision),
        **_others_kept(hold, decision),
    }
    made.facts = {**{name: value for name, value in facts.items() if value not in (None, "")}, **made.facts}
    says = f"{by.name}: {decision.answer.value.replace('_', ' ')}"
    statement = statement_evidence(
        hold.step.number, by.actor, decision.answer.value, says, reason=reason["text"]
    )
    made.evidence = (statement, *made.evidence)


def _texts(operation_id: UUID, decision: Decision) -> dict[str, Any]:
    texts = {
        "no_reference_why": decision.no_reference_why,
        "checked_how": decision.checked_how,
        "ticket": decision.ticket,
        "replaced_by": decision.replaced_by,
    }
    return {name: keep_text(operation_id, text) for name, text in texts.items() if text.strip()}


def _keep_open(hold: Hold, decision: Decision) -> None:
    """*Still unknown*: the hold stays, its deadline moves with the next check, and whoever read it before is stale."""
    Hold.objects.filter(pk=hold.pk, closed_at__isnull=True).update(
        due_at=decision.next_check_at,
        reminded_at=None,
        escalate_at=None,
        escalated_at=None,
        version=hold.version + 1,
    )

"""Proposed answers: made by people who may not settle, by automations, and on behalf of models; dismissed or taken back.

Nothing follows from a proposal by itself. Whoever may settle accepts it by `settle_hold` with `Decision.proposal`, on the
version of the hold that it was made on, and everything is checked again then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from opsledger.journal.append import Line, append, body, keep_text
from opsledger.ledger.actions.deciding import By, Refused, Stale, check_reason
from opsledger.ledger.actions.proposed import end_here
from opsledger.ledger.actions.settle import Decision, check_decision
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Hold, Proposal
from opsledger.ledger.queries.answer_proposals import texts_of
from opsledger.ledger.records import load, lock
from opsledger.ledger.rendering import read_params
from opsledger.lib.ids import new_id
from opsledger.rules.answers import Answer, answers_for
from opsledger.rules.content import AuthorKind
from opsledger.rules.identity import canonical_json

MODEL_NAME_LENGTH_MAX = 254


@dataclass(frozen=True, slots=True)
class Thought:
    """Whose thought a proposal is. A model's stays a model's, whoever passes it on."""

    kind: AuthorKind
    name: str = ""


@dataclass(frozen=True, slots=True)
class Proposed:
    id: UUID
    new: bool


def open_proposal(hold_id: UUID, decision: Decision, by: By, thought: Thought) -> Proposed:
    """Keeps one proposed answer.

    1. It needs what the answer itself needs (Refused), and must be one of the hold's answers now.
    2. The operation is locked; a hold at another version than the one read is Stale.
    3. The same again is the first one; another one takes the place of the proposer's earlier one.
    4. The row, its texts and the journal's line are written together. The hold stays as it is.
    """
    check_decision(decision)
    if len(thought.name) > MODEL_NAME_LENGTH_MAX:
        raise Refused(f"The author's name is longer than {MODEL_NAME_LENGTH_MAX} characters.", field="author")
    with transaction.atomic(durable=True):
        hold = Hold.objects.select_related("step").get(pk=hold_id)
        if hold.operation_id is None or hold.step is None:
            raise Refused("An answer can be proposed to a hold about a step only.")
        lock([hold.operation_id])
        hold.refresh_from_db()
        if hold.version != decision.version or hold.closed_at is not None:
            raise Stale(hold)
        _is_an_answer(hold, decision.answer)
        earlier = Proposal.objects.filter(hold_id=hold.pk, proposer=by.actor, ended_at__isnull=True).first()
        if earlier is not None:
            if _is_same(earlier, decision, thought):
                return Proposed(earlier.pk, new=False)
            end_here(earlier, Proposal.Ending.REPLACED, by.actor)
        return Proposed(_keep(hold, decision, by, thought), new=True)


def _is_an_answer(hold: Hold, answer: Answer) -> None:
    assert hold.operation_id is not None
    record = load([hold.operation_id])[hold.operation_id].record
    known = next((one for one in record.holds if one.id == str(hold.pk)), None)
    if known is None or answer not in answers_for(record, known):
        raise Refused("This is no answer to the hold as it stands now.", field="answer")


def _keep(hold: Hold, decision: Decision, by: By, thought: Thought) -> UUID:
    assert hold.operation_id is not None and hold.step is not None
    texts = {name: keep_text(hold.operation_id, text) for name, text in _texts(decision).items()}
    proposal = Proposal.objects.create(
        id=new_id(),
        team_id=hold.team_id,
        hold=hold,
        hold_version=hold.version,
        proposer=by.actor,
        proposer_person_id=by.person_id,
        author_kind=thought.kind.value,
        author_name=thought.name,
        answer=decision.answer.value,
        form=json.dumps(_form(decision), sort_keys=True),
        texts=json.dumps(texts, sort_keys=True),
        made_at=database_now(),
    )
    facts = {
        "hold": str(hold.pk),
        "hold_version": hold.version,
        "proposal": str(proposal.pk),
        "proposal_author": thought.kind.value,
        "answer": decision.answer.value,
        "step": hold.step.number,
        "reference": decision.reference,
        "reason": texts["reason"],
    }
    line = body({name: value for name, value in facts.items() if value is not None})
    append([Line("operation", hold.operation_id, "answer_proposed", by.actor, line)])
    return proposal.pk


def _form(decision: Decision) -> dict[str, Any]:
    """What the answer needs that is no free text."""
    return {
        "reference": decision.reference,
        "tries": decision.tries,
        "next_check_at": decision.next_check_at.isoformat() if decision.next_check_at else None,
        "keep_later": sorted(decision.keep_later),
        "content": list(decision.content) if decision.content else None,
        "others": sorted(decision.others),
    }


def _texts(decision: Decision) -> dict[str, str]:
    """What a person wrote, and parameters, which may be sensitive: all that must be erasable."""
    texts = {
        "reason": decision.reason,
        "checked_how": decision.checked_how,
        "no_reference_why": decision.no_reference_why,
        "ticket": decision.ticket,
        "replaced_by": decision.replaced_by,
        "params": canonical_json(dict(decision.params)) if decision.params else "",
    }
    texts |= {f"other_{n}": decision.others[one] for n, one in enumerate(sorted(decision.others))}
    return {name: text for name, text in texts.items() if text.strip()}


def _is_same(earlier: Proposal, decision: Decision, thought: Thought) -> bool:
    return (
        (earlier.hold_version, earlier.answer) == (decision.version, decision.answer.value)
        and (earlier.author_kind, earlier.author_name) == (thought.kind.value, thought.name)
        and json.loads(earlier.form) == _form(decision)
        and texts_of([earlier])[earlier.pk] == _texts(decision)
    )


# What it becomes


def decision_of(
    proposal: Proposal, texts: Mapping[str, str | None], version: int, reason: str = ""
) -> Decision:
    """The proposal as a decision of whoever accepts it, on the version that they read. `reason`: their own, if any."""
    if any(text is None for text in texts.values()):
        raise Refused("A text of this proposal was erased. Give the answer yourself.")
    form = json.loads(proposal.form)
    known = {name: text or "" for name, text in texts.items()}
    content = form["content"]
    decision = Decision(
        answer=Answer(proposal.answer),
        reason=reason if reason.strip() else known["reason"],
        version=version,
        reference=form["reference"],
        no_reference_why=known.get("no_reference_why", ""),
        checked_how=known.get("checked_how", ""),
        tries=form["tries"],
        next_check_at=_still_ahead(form["next_check_at"]),
        keep_later=frozenset(form["keep_later"]),
        replaced_by=known.get("replaced_by", ""),
        ticket=known.get("ticket", ""),
        others={one: known.get(f"other_{n}", "") for n, one in enumerate(form["others"])},
        params=read_params(known["params"]) if "params" in known else {},
    )
    return replace(decision, content=(content[0], content[1]) if content else None, proposal=proposal.pk)


def _still_ahead(text: str | None) -> datetime | None:
    moment = datetime.fromisoformat(text) if text else None
    if moment is not None and moment <= database_now():
        raise Refused("The proposed time of the next check has passed. Give the answer yourself.")
    return moment


# Set aside


def settle_dismissal(proposal_id: UUID, reason: str, by: By) -> bool:
    """Sets a proposal aside: dismissed with a reason by whoever may settle, or withdrawn by whoever made it. False when it
    had ended already."""
    row = Proposal.objects.select_related("hold").get(pk=proposal_id)
    own = row.proposer == by.actor
    check_reason(reason, asked="" if own else "Write the reason; whoever proposed it reads it.")
    operation_id = row.hold.operation_id
    assert operation_id is not None
    with transaction.atomic(durable=True):
        lock([operation_id])
        row = Proposal.objects.select_for_update(of=("self",)).get(pk=proposal_id)
        if row.ended_at is not None:
            return False
        how = Proposal.Ending.WITHDRAWN if own else Proposal.Ending.DISMISSED
        end_here(row, how, by.actor)
        facts: dict[str, Any] = {
            "hold": str(row.hold_id),
            "proposal": str(row.pk),
            "answer": row.answer,
            "proposed_by": row.proposer,
        }
        if reason.strip():
            facts["reason"] = keep_text(operation_id, reason)
        kind = "proposal_withdrawn" if own else "proposal_dismissed"
        append([Line("operation", operation_id, kind, by.actor, body(facts))])
        return True

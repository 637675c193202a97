"""Proposed answers: made with a person's or an automation's token, accepted and dismissed with a person's."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse

from opsledger.accounts.permissions import Permission
from opsledger.api import holds
from opsledger.api.answers import proposal_answer, respond
from opsledger.api.caller import Caller
from opsledger.api.content import author_of
from opsledger.api.operations import refused
from opsledger.api.problems import Problem
from opsledger.api.reading import invalid
from opsledger.api.shapes.content import Author
from opsledger.api.shapes.decisions import AcceptedProposal, AnswerProposal, DismissedProposal
from opsledger.api.versions import tagged, version_of
from opsledger.engine import bell
from opsledger.ledger.actions.deciding import Refused, Stale
from opsledger.ledger.actions.propose import Thought, decision_of, open_proposal, settle_dismissal
from opsledger.ledger.actions.settle import settle_hold
from opsledger.ledger.models import Proposal
from opsledger.ledger.queries.answer_proposals import proposal_of, shown, texts_of
from opsledger.lib.ids import parse, public
from opsledger.rules.content import AuthorKind


def propose(caller: Caller, request: HttpRequest, hold: str, given: AnswerProposal) -> HttpResponse:
    """Keeps an answer for somebody who may give it. The hold stays as it is, at its version."""
    found, version = holds.find(caller, hold), version_of(request)
    if found.operation_id is None:
        raise Problem("not_now", "An answer can be proposed to a hold about a step only. Nothing was kept.")
    thought = _thought(caller, given.author)
    try:
        made = open_proposal(found.pk, holds.decision_of(found, given, version, None), caller.by, thought)
    except Stale as why:
        raise holds.stale(why.hold) from why
    except Refused as why:
        raise refused(why) from why
    row = _found(caller, public("prop", made.id))
    body = {"proposal": proposal_answer(shown([row])[0]), "result": "proposed" if made.new else "same"}
    return respond(201 if made.new else 200, body, tagged(version))


def _thought(caller: Caller, given: Author | None) -> Thought:
    """A person's thought is proposed by that person, who is the proposer: nobody speaks in another's name."""
    kind, name = author_of(caller, given)
    if kind is not AuthorKind.PERSON:
        return Thought(kind, name)
    person = caller.token.person
    if person is None:
        own = "must be automation or model: a person proposes with their own token, or on the hold's page"
        raise invalid([("author.kind", own)])
    if name.strip().lower() != person.email:
        raise invalid([("author.name", "must be your own sign-in name: others propose for themselves")])
    return Thought(kind)


def accept(caller: Caller, request: HttpRequest, proposal: str, given: AcceptedProposal) -> HttpResponse:
    """Settles with the proposal's values, checked again, on the version of the hold that the caller read."""
    row, version = _found(caller, proposal), version_of(request)
    if row.hold.version != version or row.hold.closed_at is not None:
        raise holds.stale(row.hold)
    try:
        decision = decision_of(row, texts_of([row])[row.pk], version, given.reason)
        reading = holds.read_compared(row.hold, row.answer, decision.reference, given.accept_difference)
        compared = replace(decision, compared=holds.compared_with(reading))
        settle_hold(row.hold_id, compared, caller.by, extra=holds.evidence_of(reading))
    except Stale as why:
        raise holds.stale(why.hold) from why
    except Refused as why:
        raise refused(why) from why
    bell.ring()
    return holds.settled(caller, row.hold, reading)


def dismiss(caller: Caller, request: HttpRequest, proposal: str, given: DismissedProposal) -> HttpResponse:
    """Sets a proposal aside; one of the caller's own is taken back. The hold stays as it is."""
    row = _found(caller, proposal)
    own = row.proposer == caller.by.actor
    if not own:
        caller.require(Permission.SETTLE)
    try:
        done = settle_dismissal(row.pk, given.reason, caller.by)
    except Refused as why:
        raise refused(why) from why
    result = ("withdrawn" if own else "dismissed") if done else "ended_before"
    return respond(200, {"proposal": public("prop", row.pk), "result": result})


def _found(caller: Caller, text: str) -> Proposal:
    number = parse("prop", text)
    row = proposal_of(number, [caller.team_id]) if number else None
    if row is None:
        raise Problem("not_found", "This team has no such proposal.")
    return row

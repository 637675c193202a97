"""The panel of an operation’s page where a hold is decided: what is asked, what is known, and the answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from opsledger.accounts.permissions import answers_of
from opsledger.accounts.roles import Permission, Role, allowed
from opsledger.console import answer_proposals, decision, desk, disputes, duplicates
from opsledger.console.forms import Asked
from opsledger.console.vocabulary import shown
from opsledger.console.wording.knowledge import Known, looked_in_vain, what_we_know
from opsledger.console.wording.protection import ProtectionWords, sending_again
from opsledger.console.wording.questions import question
from opsledger.ledger.queries.comparison import Findings, findings
from opsledger.ledger.queries.hold_lines import line_of
from opsledger.ledger.queries.page import HoldView, OperationView
from opsledger.ledger.queries.timeline import EvidenceLine, Told
from opsledger.lib import ids
from opsledger.rules.matching import FOUND_NOTHING, GAVE_NO_ANSWER
from opsledger.rules.rendering import record_page
from opsledger.rules.states import HoldReason


def panel_of(
    view: OperationView,
    hold: HoldView | None,
    asked: Asked,
    roles: frozenset[Role],
    person_id: UUID,
    told: list[Told],
) -> dict[str, Any]:
    """Everything for the panel; only `hold`, and that None, where nothing is asked."""
    if hold is None:
        return {"hold": None}
    found = findings(hold.record.facts)
    may = answers_of(roles)
    may_propose = allowed(roles, Permission.PROPOSE)
    cards = decision.cards_of(view, hold, found, may, desk.clock, may_propose=may_propose)
    line = line_of(hold.record.id, [view.record.team_id])
    if line is None:
        return {"hold": None}
    known = desk.known_of(line, view.now)
    step = view.step(hold.record.step)
    revisable = decision.revisable(view, hold.record.step, cards)
    return {
        "revise_fields": revisable.fields(asked.typed) if revisable else [],
        "revisable": revisable,
        "to_approve": hold.record.reason is HoldReason.APPROVAL_NEEDED,
        "hold": hold.record,
        "hold_public": ids.public("hold", hold.record.id),
        "hold_step": step,
        "question": question(known),
        "knows": _sentences(view, hold, found, known),
        "found": found,
        "cards": cards,
        "proposals": answer_proposals.lines_of(hold, may, cards, person_id, view.now),
        "may_settle": allowed(roles, Permission.SETTLE),
        "dispute": disputes.dispute_of(view, hold, told),
        "duplicates": duplicates.duplicates_of(view, hold, asked.typed, asked.errors),
        "chosen": asked.typed.get("answer") or decision.default_card(cards),
        "protection": protection_of_step(view, hold.record.step),
        "sending_again": sending_again(
            step.record.protected,
            may_have_had_effect=step.may_have_had_effect,
            until=desk.clock(step.record.protected.until, view.now),
            ended=desk.clock(step.record.protected.window_ends_at, view.now),
        ),
        "open_for": desk.open_for(hold.record.opened_at, view.now),
        "due_in": desk.open_for(view.now, hold.record.due_at),
        "late": hold.record.due_at < view.now,
        "late_by": desk.open_for(hold.record.due_at, view.now),
        "readable": step.action.read is not None and step.action.profile.lookup is not None,
        "planned_look": step.step.act_at if step.step.act == "look" else None,
        "links": links_of(step, found),
        "reference_value": asked.typed.get("reference") or _proposed(found),
        "other_holds": [
            (ids.public("hold", one.record.id), shown(one.record.reason).word, one.record.step)
            for one in view.holds
            if one is not hold
        ],
    }


def _proposed(found: Findings) -> str:
    return found.reference if found.looked in {"confirmed", "accepted", "differs"} else ""


def protection_of_step(view: OperationView, number: int) -> ProtectionWords:
    step = view.step(number)
    words = desk.protection_words(
        step.record.protected,
        state=step.step.state,
        attempts=len(step.step.attempts),
        may_have_had_effect=step.may_have_had_effect,
        accepted=step.step.accepted_at is not None,
        now=view.now,
    )
    assert words is not None
    return words


def _sentences(view: OperationView, hold: HoldView, found: Findings, known: Known) -> list[tuple[str, str]]:
    """What is known, one sentence a line: icon and text, from the evidence. Nothing is said twice."""
    step = view.step(hold.record.step)
    said: list[tuple[str, str]] = []
    for attempt in step.record.attempts[-3:]:
        when = desk.clock(attempt.opened_at, view.now)
        text = attempt.sentence or _("No answer yet.")
        sent = _("Attempt %(number)s, %(time)s: %(text)s")
        said.append(("attempt", sent % {"number": attempt.number, "time": when, "text": text}))
    said += _looked(view, hold, found, known)
    if not said or hold.record.reason not in _TOLD_BY_FACTS:
        said.insert(0, ("info", what_we_know(known)))
    text = desk.if_nobody(hold.record.if_nobody, hold.record.outlook, view.now)
    if text:
        said.append(("clock", _("If nobody acts: %(text)s") % {"text": text}))
    return said


# Attempts and lookups say it all, and the statements of a dispute stand side by side; a summary would only repeat it.
_TOLD_BY_FACTS = frozenset(
    {HoldReason.OUTCOME_UNKNOWN, HoldReason.PROTECTION_EXPIRED, HoldReason.DISPUTED, HoldReason.REJECTED}
)


# Their summary and the table beside it name the record that was found.
_TOLD_BY_SUMMARY = frozenset({HoldReason.RECORD_DIFFERS, HoldReason.DUPLICATE_FOUND})


def _looked(view: OperationView, hold: HoldView, found: Findings, known: Known) -> list[tuple[str, str]]:
    """What lookups brought: how they ended when they found nothing or failed, else what the last one says."""
    step = view.step(hold.record.step)
    if hold.record.reason in _TOLD_BY_SUMMARY or step.step.looked_at is None:
        return []
    when = desk.clock(step.step.looked_at, view.now)
    looks, last = step.record.looks, _last_look(view, hold.record.step)
    if (
        last is not None
        and last.says in GAVE_NO_ANSWER | FOUND_NOTHING
        and looks.failed
        and not found.references
    ):
        summary = _("%(looked)s Last at %(time)s.")
        return [("search", summary % {"looked": looked_in_vain(known), "time": when})]
    if last is None or not last.sentence:
        return []
    number = _("Lookup %(number)s, %(time)s: %(text)s")
    said = [("search", number % {"number": looks.made or 1, "time": when, "text": last.sentence})]
    return [*_found_before(view, hold.record.step, found, last), *said]


def _found_before(
    view: OperationView, step: int, found: Findings, last: EvidenceLine
) -> list[tuple[str, str]]:
    """The record that the question still names, where a later lookup found it no more."""
    in_vain = GAVE_NO_ANSWER | FOUND_NOTHING
    if last.says not in in_vain or not found.references:
        return []
    before = [one for one in _looks(view, step) if one.says not in in_vain and one.sentence]
    if not before:
        return []
    newest = max(before, key=lambda one: one.received_at)
    words = _("An earlier lookup, %(time)s: %(text)s")
    return [("search", words % {"time": desk.clock(newest.received_at, view.now), "text": newest.sentence})]


def _looks(view: OperationView, step: int) -> list[EvidenceLine]:
    return [
        one
        for one in view.record.evidence
        if one.kind == "lookup" and one.step == step and one.says != "read"
    ]


def _last_look(view: OperationView, step: int) -> EvidenceLine | None:
    return max(_looks(view, step), key=lambda one: one.received_at, default=None)


def links_of(step: Any, found: Findings) -> list[tuple[str, str]]:
    """Pages of the destination itself: records that were found, and a search for this action."""
    links = []
    for reference in (found.references or ((step.step.reference,) if step.step.reference else ()))[:5]:
        address = record_page(step.destination, reference=reference)
        if address and step.destination.record_url:
            links.append((_("Open %(reference)s") % {"reference": reference}, address))
    if step.destination.search_url and step.step.attempts:
        address = record_page(step.destination, identity=step.identity)
        if address:
            links.append((_("Search at %(destination)s") % {"destination": step.destination.slug}, address))
    return links

"""A dispute as the decision panel shows it: what was said first beside what was heard later, each with its source and time,
what was sent since, and what is stopped while it is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from opsledger.console.wording import statements
from opsledger.console.wording.phrases import listed
from opsledger.ledger.queries.page import HoldView, OperationView, StepView
from opsledger.ledger.queries.record import AttemptRecord
from opsledger.ledger.queries.timeline import EvidenceLine, Told, names_of
from opsledger.lib import ids
from opsledger.rules.absence import FOUND_UNNAMED
from opsledger.rules.record import KnownBy
from opsledger.rules.states import HoldReason, StepState

KNEW_MAX = 6


@dataclass(frozen=True, slots=True)
class Side:
    """One statement. `at` is None where its time is not on file any more."""

    heading: str
    says: str
    who: str
    at: datetime | None
    evidence: str = ""  # public id
    quote: str = ""  # a person's reason
    knew: list[str] = field(default_factory=list)  # what was known when it was said


@dataclass(frozen=True, slots=True)
class Dispute:
    sides: list[Side]
    sent_since: list[str]
    stopped: list[str]


def dispute_of(view: OperationView, hold: HoldView, told: Sequence[Told]) -> Dispute | None:
    """None for another question."""
    if hold.record.reason is not HoldReason.DISPUTED:
        return None
    recorded = [one for one in hold.record.facts.get("statements") or [] if one]
    step = view.step(hold.record.step)
    sides = [_first(view, step, hold, recorded[0], told)] if recorded else []
    sides += [_later(view, one, number) for number, one in enumerate(recorded[1:], start=2)]
    withdrawn = _withdrawal(hold, told)
    if withdrawn is not None:
        sides.append(withdrawn)
    since = sides[0].at if sides else None
    return Dispute(sides, _sent_since(view, step, since), _stopped(view, step))


def _first(
    view: OperationView, step: StepView, hold: HoldView, said: Mapping[str, Any], told: Sequence[Told]
) -> Side:
    """What was decided or learnt first: a person's answer, or what ended the attempt."""
    heading, says = _("Said first"), _says(said)
    if said.get("known_by") == KnownBy.PERSON:
        answer = _answer(step, hold, told)
        if answer is not None:
            who = names_of([answer.actor]).get(answer.actor, _("A person"))
            quote = answer.texts.get("reason") or _("(erased)")
            return Side(heading, says, who, answer.at, "", quote, _known_at(view, step, answer.at))
        return Side(heading, says, _("A person"), None)
    if said.get("outcome") == "found":
        return _found(view, step, said)
    found = _ended(step, said, hold.record.opened_at)
    if found is None:
        return Side(heading, says, statements.origin(str(said.get("known_by") or "")), None)
    kept = next((one for one in view.record.evidence if one.attempt_id == found.id and not one.late), None)
    who = kept.origin if kept else statements.origin(str(said.get("known_by") or ""))
    evidence = ids.public("ev", kept.id) if kept else ""
    at = found.ended_at
    return Side(heading, says, who, at, evidence, "", _known_at(view, step, at) if at else [])


def _found(view: OperationView, step: StepView, said: Mapping[str, Any]) -> Side:
    """A record that was found or named, where it is told first."""
    reference, told = said.get("reference"), reversed(view.record.evidence)
    number = step.step.number
    kept = next((one for one in told if one.step == number and _tells_of(one, reference)), None)
    if kept is None:
        return Side(_("Said first"), _says(said), statements.origin(""), None)
    return Side(
        _("Said first"), _says(said), _who(kept), kept.received_at, ids.public("ev", kept.id), kept.sentence
    )


def _tells_of(evidence: EvidenceLine, reference: Any) -> bool:
    told = evidence.facts.get("reference") == reference if reference else evidence.facts.get(FOUND_UNNAMED)
    return bool(told) or evidence.says == "exists_named"


def _answer(step: StepView, hold: HoldView, told: Sequence[Told]) -> Told | None:
    """The newest answer to this step before the dispute; entries come newest first."""
    return next(
        (
            one
            for one in told
            if one.kind == "answered"
            and one.body.get("step") == step.step.number
            and one.at <= hold.record.opened_at
        ),
        None,
    )


def _ended(step: StepView, said: Mapping[str, Any], before: datetime) -> AttemptRecord | None:
    """The attempt that the first statement was about: the newest that had ended before the dispute."""
    ended = [one for one in step.record.attempts if one.ended_at is not None and one.ended_at <= before]
    same = [one for one in ended if said.get("reference") and one.reference == said.get("reference")]
    return max(same or ended, key=lambda one: one.number, default=None)


def _later(view: OperationView, said: Mapping[str, Any], number: int) -> Side:
    kept = next((one for one in view.record.evidence if str(one.id) == said.get("evidence")), None)
    heading = _("Heard later") if number == 2 else _("And later")
    at = datetime.fromisoformat(str(said["at"])) if said.get("at") else None
    who = _who(kept) if kept else statements.origin(str(said.get("known_by") or ""))
    evidence = ids.public("ev", kept.id) if kept else ""
    return Side(heading, _says(said), who, at, evidence, kept.sentence if kept else "")


def _who(kept: EvidenceLine) -> str:
    return names_of([kept.origin]).get(kept.origin, kept.origin)


def _withdrawal(hold: HoldView, told: Sequence[Told]) -> Side | None:
    by = hold.record.facts.get("withdrawn_by")
    entry = next((one for one in told if one.kind == "withdrawn" and one.at == hold.record.opened_at), None)
    if by is None or entry is None:
        return None
    who = names_of([str(by)]).get(str(by), _("A person"))
    says = _("The answer is taken back.")
    return Side(_("Taken back"), says, who, entry.at, "", entry.texts.get("reason") or _("(erased)"))


def _says(said: Mapping[str, Any]) -> str:
    text = statements.said(str(said.get("outcome")), said.get("reference"))
    return f"{text[:1].upper()}{text[1:]}."


def _known_at(view: OperationView, step: StepView, at: datetime) -> list[str]:
    """What had been learnt of the step before that moment, newest first; people's own statements are not evidence."""
    known = [
        one
        for one in view.record.evidence
        if one.step == step.step.number and one.received_at < at and one.kind != "statement"
    ]
    said = list(dict.fromkeys(one.sentence or one.says.replace("_", " ") for one in known))
    if len(said) > KNEW_MAX:
        more = len(said) - KNEW_MAX
        rest = ngettext("and one more", "and %(count)s more", more) % {"count": more}
        return [*said[:KNEW_MAX], rest]
    return said


def _sent_since(view: OperationView, step: StepView, since: datetime | None) -> list[str]:
    """Attempts that were opened after the first statement, of this step and of later ones; none where its time is lost."""
    said = []
    for one in view.steps:
        if one.step.number < step.step.number or since is None:
            continue
        numbers = [
            str(a.number) for a in one.record.attempts if a.opened_at > since and a.no_change != "not_sent"
        ]
        if numbers:
            shown = {"step": one.step.number, "title": one.title, "attempts": listed(numbers)}
            said.append(
                ngettext(
                    "Step %(step)s, %(title)s: attempt %(attempts)s",
                    "Step %(step)s, %(title)s: attempts %(attempts)s",
                    len(numbers),
                )
                % shown
            )
    return said


def _stopped(view: OperationView, step: StepView) -> list[str]:
    waiting = [
        _("Step %(step)s, %(title)s") % {"step": one.step.number, "title": one.title}
        for one in view.steps
        if one.step.number > step.step.number and one.step.state in {StepState.WAITING, StepState.READY}
    ]
    own = _("Step %(step)s, %(title)s, itself") % {"step": step.step.number, "title": step.title}
    return [own, *waiting]

"""Proposed answers as the decision panel shows them, and as its form takes them over."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.console import desk
from opsledger.console.decision import CARD_OF, REVISED, Card
from opsledger.console.duplicates import field_of
from opsledger.console.fields import shown_text
from opsledger.console.wording import answers
from opsledger.ledger.queries.answer_proposals import ProposedAnswer, open_proposals
from opsledger.ledger.queries.page import HoldView
from opsledger.ledger.rendering import read_params
from opsledger.lib import ids
from opsledger.rules.answers import Answer


@dataclass(frozen=True, slots=True)
class ProposalLine:
    """One open proposal, and what this person may do with it."""

    public: str
    says: str  # “Jon proposes: it happened, T-123”
    at: datetime
    quotes: list[tuple[str, str]]
    author: str  # a sentence where it is a model's or an automation's thought
    changed: str  # parameters that it changes, by name
    follows: str  # what accepting it brings about
    fresh: bool  # made on the state that is shown
    mine: bool
    may_accept: bool
    may_dismiss: bool


def lines_of(
    hold: HoldView, may: Collection[Answer], cards: Sequence[Card], person_id: UUID, now: datetime
) -> list[ProposalLine]:
    """`cards`: of the panel; what each answer brings about is foreseen there."""
    follows = {option.answer: option.consequence for card in cards for option in card.options}
    return [_line(one, hold, may, follows, person_id, now) for one in open_proposals(hold.record.id)]


def _line(
    one: ProposedAnswer,
    hold: HoldView,
    may: Collection[Answer],
    follows: Mapping[Answer, str],
    person_id: UUID,
    now: datetime,
) -> ProposalLine:
    fresh = one.hold_version == hold.record.version
    mine = one.proposer == f"person:{person_id}"
    whole = all(text is not None for text in one.texts.values())
    return ProposalLine(
        public=ids.public("prop", one.id),
        says=_says(one, now),
        at=one.made_at,
        quotes=_quotes(one),
        author=_author(one),
        changed=_changed(one),
        follows=follows.get(one.answer, ""),
        fresh=fresh,
        mine=mine,
        may_accept=fresh and whole and one.answer in may,
        may_dismiss=mine or Answer.HAPPENED in may,
    )


def _says(one: ProposedAnswer, now: datetime) -> str:
    what = answers.given(one.answer.value)
    if one.reference:
        what = _("%(answer)s, %(reference)s") % {"answer": what, "reference": one.reference}
    if one.form.get("next_check_at"):
        when = desk.clock(datetime.fromisoformat(str(one.form["next_check_at"])), now)
        what = _("%(answer)s, next check %(time)s") % {"answer": what, "time": when}
    return _("%(name)s proposes: %(answer)s") % {"name": one.name, "answer": what}


_LABELS = {
    "reason": "",
    "checked_how": noop("How it was checked"),
    "no_reference_why": noop("Why there is no reference"),
    "ticket": noop("Asked"),
    "replaced_by": noop("Replaced by"),
}


def _quotes(one: ProposedAnswer) -> list[tuple[str, str]]:
    """The free texts, the reason first; parameters are named apart, without their values."""
    erased = _("(erased)")
    said = [
        (_(label) if label else "", erased if one.texts[name] is None else str(one.texts[name]))
        for name, label in _LABELS.items()
        if name in one.texts
    ]
    for number, reference in enumerate(one.form.get("others", [])):
        text = one.texts.get(f"other_{number}")
        said.append(
            (_("Record %(record)s, not kept") % {"record": reference}, erased if text is None else text)
        )
    return said


def _author(one: ProposedAnswer) -> str:
    if one.author_kind == "model":
        return _("A model’s proposal (%(name)s). It is no evidence: check it yourself.") % {
            "name": one.author_name
        }
    if one.author_kind == "automation":
        return _("An automation’s proposal. It is no evidence: check it yourself.")
    return ""


def _changed(one: ProposedAnswer) -> str:
    text = one.texts.get("params")
    return ", ".join(sorted(read_params(text))) if text else ""


# The form, filled in with a proposal


def asked_for(query: QueryDict, hold: HoldView | None, sensitive: Collection[str]) -> dict[str, str]:
    """What `?proposal=` fills into the form; nothing for one that is not open at this hold."""
    wanted = ids.parse("prop", query.get("proposal", ""))
    if wanted is None or hold is None:
        return {}
    found = next((one for one in open_proposals(hold.record.id) if one.id == wanted), None)
    return filled(found, sensitive) if found else {}


def filled(one: ProposedAnswer, sensitive: Collection[str]) -> dict[str, str]:
    """The fields of the decision form as the proposal would fill them; sensitive parameters stay unfilled."""
    card, choice, value = CARD_OF[one.answer]
    fields = {"answer": card, "reference": one.reference or "", "kept_reference": one.reference or ""}
    if choice:
        fields[choice] = value
    fields |= {name: text or "" for name, text in one.texts.items() if name in _LABELS}
    fields["tries"] = str(one.form.get("tries", 1))
    if one.form.get("next_check_at"):
        here = timezone.localtime(datetime.fromisoformat(str(one.form["next_check_at"])))
        fields |= {"next_check": "at", "next_check_at": f"{here:%Y-%m-%dT%H:%M}"}
    if one.form.get("content"):
        fields["content_version"] = str(one.form["content"][1])
    for number, reference in enumerate(one.form.get("others", [])):
        fields[field_of(reference)] = one.texts.get(f"other_{number}") or ""
    return fields | _params(one.texts, sensitive)


def _params(texts: Mapping[str, str | None], sensitive: Collection[str]) -> dict[str, str]:
    given = read_params(texts.get("params") or "{}")
    return {
        f"{REVISED}.{name}": "" if value is None else shown_text(value)
        for name, value in given.items()
        if name not in sensitive
    }

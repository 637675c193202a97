"""What people post, read into decisions. What is missing or can't be meant is Refused, with the field that it is about.

Texts are taken as they are: a reference may begin or end with a blank. Fields of answers that were not chosen are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.accounts.models import Person, Team
from opsledger.accounts.roles import members_of
from opsledger.console.decision import REVISED, Card, Revisable
from opsledger.console.duplicates import OTHERS, others_told
from opsledger.console.fields import read_field
from opsledger.console.http import ConsoleRequest
from opsledger.ledger.actions.deciding import By, Refused
from opsledger.ledger.actions.settle import Decision
from opsledger.lib import ids
from opsledger.rules.answers import REVISES, Answer
from opsledger.rules.identity import canonical_json

HOLDS_MAX = 200
TEXT_MAX = 4000
REFERENCE_MAX = 2000
# Fields whose texts are shown again when a decision was not taken.
TYPED = (
    "answer", "happened_as", "then", "reference", "no_reference_why", "checked_how", "next_check", "next_check_at",
    "ticket", "owner", "reason", "kept_reference", "tries", "replaced_by", "compared",
    "compared_reference", "accept_difference", "content_version",
)  # fmt: skip


def by_person(person: Person) -> By:
    """The signed-in person as the author of what is written."""
    return By(f"person:{person.pk}", person.display_name, person.pk)


_PREFIXES = {"hold": "hold", "step": "stp"}
_TICK_FIRST = {"hold": noop("Tick at least one hold first."), "step": noop("Tick at least one step first.")}


def ticked(post: QueryDict, kind: str = "hold") -> dict[UUID, int]:
    """The row whose own button was pressed, else the ticked ones, each with the version that it showed.

    `kind`: what the rows are about: hold, or step.
    """
    texts = post.getlist("one") or post.getlist(kind)
    if not texts:
        raise Refused(_(_TICK_FIRST[kind]), field=kind)
    if len(texts) > HOLDS_MAX:
        raise Refused(
            _("More than %(count)s rows are ticked. Choose all instead.") % {"count": HOLDS_MAX}, field=kind
        )
    found = {}
    for text in texts:
        public, _tilde, version = text.partition("~")
        number = ids.parse(_PREFIXES[kind], public)
        if number is None or not version.isdecimal() or len(version) > 9:
            raise Refused(
                _("A ticked row can’t be read. Reload the page and tick again; nothing was done."), field=kind
            )
        found[number] = int(version)
    return found


def hold_ids(post: QueryDict) -> list[UUID]:
    return list(ticked(post))


def new_owner(request: ConsoleRequest, *, name: str = "owner", team: Team | None = None) -> Person | None:
    """Whom the holds are given to: oneself, a person of the team (the chosen one unless given), or nobody."""
    wanted = request.POST.get(name, "")
    if request.POST.get("one") or wanted == "me":
        return request.user
    if wanted == "none":
        return None
    people = {str(member.person.pk): member.person for member in members_of(team or request.team)}
    person = people.get(wanted)
    if person is None or not person.is_active:
        raise Refused(_("Choose somebody of this team."), field=name)
    return person


def typed(post: QueryDict) -> dict[str, str]:
    """What was typed, for the form that is shown again."""
    names = [name for name in post if name.startswith((f"{REVISED}.", f"{OTHERS}."))]
    return {
        **{name: post.get(name, "")[:TEXT_MAX] for name in TYPED},
        **{name: post.get(name, "")[: TEXT_MAX * 4] for name in names},
        "keep": " ".join(post.getlist("keep")[:50]),
    }


# Digits with at most one comma or point, as long as the field lets anybody type.
_RATE = re.compile(r"(?=.{1,12}\Z)(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)")


def read_rate(text: str) -> float | None:
    """A rate as people write it, with a comma or a point; None for anything else that Python takes for a number."""
    written = text.strip()
    return float(written.replace(",", ".")) if _RATE.fullmatch(written) else None


def version_of(post: QueryDict) -> int:
    text = post.get("version", "")
    if not text.isdecimal() or len(text) > 9:
        raise Refused(_("This form lacks the version that it was made on. Reload the page."))
    return int(text)


@dataclass(slots=True)
class Asked:
    """A form that is shown again: what was typed, what is wrong, and what changed meanwhile."""

    typed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    changed: str = ""  # one sentence above the fresh panel
    operation_changed: str = ""  # the same above the page
    reading: Any = None  # a comparison made just now
    reveal: bool = False


class Lacking(Exception):
    """An answer without what it needs: for each field, what to write. Nothing was recorded."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__(*errors.values())
        self.errors = errors


def _lacking(post: QueryDict, card: Card, answer: Answer) -> dict[str, str]:
    """Everything that is missing, so that nobody is told of one field after the other."""
    errors = {}
    if (
        answer is Answer.HAPPENED
        and not post.get("reference")
        and not post.get("no_reference_why", "").strip()
    ):
        errors["reference"] = _("Give the destination’s reference, or say why there is none.")
    if answer in {Answer.ABSENT_SEND_AGAIN, Answer.ABSENT_END} and not post.get("checked_how", "").strip():
        errors["checked_how"] = _("Say how it was checked.")
    if answer is Answer.KEEP_ONE:
        errors |= _lacking_of_records(post, card)
    if answer is Answer.REPLACED and not post.get("replaced_by", "").strip():
        errors["replaced_by"] = _("Name the operation that replaces this one.")
    if not post.get("reason", "").strip():
        errors["reason"] = _("Write the reason: what you saw, and where. It is kept with the decision.")
    return errors


def _lacking_of_records(post: QueryDict, card: Card) -> dict[str, str]:
    kept, told = post.get("kept_reference", ""), others_told(post, card.references)
    if kept not in card.references:
        return {"kept_reference": _("Choose the record that is kept.")}
    said = _("Write what was done with this record, and with what depends on it.")
    return {f"{OTHERS}.{one}": said for one in card.references if one != kept and one not in told}


def read_decision(
    post: QueryDict,
    cards: Mapping[str, Card],
    *,
    now: datetime,
    planned_look: datetime | None,
    revisable: Revisable | None = None,
    content_id: str = "",
) -> Decision:
    """One answer with what it needs. `cards` are those that were offered to this person; `revisable` and `content_id`
    say what a changed request may differ in."""
    card = cards.get(post.get("answer", ""))
    if card is None:
        raise Refused(_("Choose one of the answers."), field="answer")
    answer = _answer_of(post, card)
    if lacking := _lacking(post, card, answer):
        raise Lacking(lacking)
    reference, why = _reference(post, card, answer)
    revises = answer in REVISES and revisable is not None
    params, content = _revised(post, revisable, content_id) if revises and revisable else ({}, None)
    return Decision(
        answer=answer,
        reason=_text(post, "reason"),
        version=version_of(post),
        reference=reference,
        no_reference_why=why,
        checked_how=_text(post, "checked_how"),
        tries=_tries(post) if answer is Answer.MORE_TRIES else 1,
        next_check_at=next_check(post, now, planned_look) if answer is Answer.STILL_UNKNOWN else None,
        keep_later=_keep(post, card),
        compared=_compared(post, reference),
        replaced_by=_text(post, "replaced_by") if answer is Answer.REPLACED else "",
        ticket=_text(post, "ticket") if answer is Answer.STILL_UNKNOWN else "",
        params=params,
        content=content,
        others=others_told(post, card.references) if answer is Answer.KEEP_ONE else {},
    )


def _revised(
    post: QueryDict, revisable: Revisable, content_id: str
) -> tuple[dict[str, Any], tuple[str, int] | None]:
    """The parameters that change, None for those taken away, and another content version."""
    changed: dict[str, Any] = {}
    for one in revisable.params:
        before = revisable.values.get(one.name)
        after = read_field(one, before, prefix=REVISED, post=post)
        if canonical_json({"v": after}) != canonical_json({"v": before}):
            changed[one.name] = after
    text = post.get("content_version", "")
    wanted = int(text) if text.isdecimal() and len(text) < 9 else None
    if wanted is not None and wanted not in {number for number, _state in revisable.versions}:
        raise Refused(_("Choose one of the content’s versions."), field="content.version")
    moves = wanted is not None and wanted != revisable.content_number
    content = (content_id, wanted) if moves and wanted is not None else None
    if not changed and content is None:
        raise Refused(_("Nothing is changed yet. Change a value, or choose another answer."), field="revise")
    return changed, content


def _answer_of(post: QueryDict, card: Card) -> Answer:
    """The answer that a card means, by the choice inside it where it holds several."""
    if len(card.options) == 1:
        return card.options[0].answer
    chosen = post.get(card.choice, "")
    for option in card.options:
        if option.value == chosen:
            return option.answer
    raise Refused(_("Choose how it goes on."), field=card.choice)


def _reference(post: QueryDict, card: Card, answer: Answer) -> tuple[str | None, str]:
    if answer in {Answer.OURS, Answer.NOT_OURS}:
        return card.reference or None, ""
    if answer is Answer.KEEP_ONE:
        return post.get("kept_reference", ""), ""
    if answer in {Answer.HAPPENED, Answer.HAPPENED_ACCEPTED}:
        reference = post.get("reference", "")
        if len(reference) > REFERENCE_MAX:
            raise Refused(
                _("A reference has at most %(count)s characters.") % {"count": REFERENCE_MAX},
                field="reference",
            )
        return reference or None, "" if reference else _text(post, "no_reference_why")
    return None, ""


def _whole(text: str) -> int | None:
    """The number that a text of digits is; None for any other text, and for one with more digits than a form has use for."""
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def _tries(post: QueryDict) -> int:
    tries = _whole(post.get("tries", ""))
    if tries is None or not 1 <= tries <= 20:
        raise Refused(_("Grant between 1 and 20 more tries."), field="tries")
    return tries


def next_check(post: QueryDict, now: datetime, planned: datetime | None) -> datetime:
    """When to look next: as planned, after a span, tomorrow morning, or at a time of one’s own zone."""
    choice = post.get("next_check", "")
    if choice == "planned" and planned is not None:
        return planned
    minutes = _whole(choice)
    if minutes is not None and 1 <= minutes <= 43_200:
        return now + timedelta(minutes=minutes)
    if choice == "tomorrow":
        day = timezone.localtime(now).date() + timedelta(days=1)
        return timezone.make_aware(datetime.combine(day, time(8)))
    if choice == "at":
        return _chosen_time(post, now)
    raise Refused(_("Choose when to check next."), field="next_check")


def _chosen_time(post: QueryDict, now: datetime) -> datetime:
    try:
        naive = datetime.fromisoformat(post.get("next_check_at", ""))
    except ValueError as why:
        raise Refused(_("Write the day and the time of the next check."), field="next_check_at") from why
    chosen = timezone.make_aware(naive) if naive.tzinfo is None else naive
    if not now < chosen < now + timedelta(days=90):
        raise Refused(_("The next check is between now and 90 days from now."), field="next_check_at")
    return chosen


def _keep(post: QueryDict, card: Card) -> frozenset[int]:
    offered = {step.number for step in card.keep_later}
    return frozenset(number for text in post.getlist("keep") if (number := _whole(text)) in offered)


def _compared(post: QueryDict, reference: str | None) -> str:
    """The digest of what the reference was compared with, if it was this reference."""
    if reference is None or post.get("compared_reference", "") != reference:
        return ""
    return post.get("compared", "")[:64]


def too_long(most: int) -> str:
    return _("This is longer than %(count)s characters; nothing was lost.") % {"count": most}


def _text(post: QueryDict, name: str) -> str:
    """A sentence, with the line ends that browsers send made plain; else as it was typed."""
    text = post.get(name, "").replace("\r\n", "\n")
    if len(text) > TEXT_MAX:
        raise Refused(too_long(TEXT_MAX), field=name)
    return text

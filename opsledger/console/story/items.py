"""Items of a timeline, as people read them: what one shows, and how those that say the same are folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from opsledger.ledger.queries.timeline import Told

SHOWN = {
    "everything": noop("Everything"),
    "decisions": noop("Decisions"),
    "lookups": noop("Lookups"),
    "attempts": noop("Attempts"),
}


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the strip. `state` gives its hue; `about` are categories of the filter."""

    at: datetime
    icon: str
    title: str
    about: str = ""
    state: str = ""
    badge: tuple[str, str] | None = None  # state and kind
    text: str = ""
    quotes: tuple[tuple[str, str], ...] = ()  # label, text
    facts: tuple[tuple[str, str], ...] = ()  # label, identifier or value
    evidence_id: str = ""
    key: str = ""
    more: tuple[Item, ...] = ()  # earlier ones in a row that say the very same


FOLDED_FROM = 3  # lookups in a row that say the same


def folded(items: Iterable[Item]) -> list[Item]:
    """The items with lookups that say the same folded into the newest of each row; nothing is left out."""
    shown: list[Item] = []
    for _same, row in groupby(items, key=lambda item: (item.icon, item.title, item.text, item.badge)):
        several = list(row)
        if several[0].icon == "search" and len(several) >= FOLDED_FROM:
            shown.append(replace(several[0], more=tuple(several[1:])))
        else:
            shown += several
    return shown


_TEXT_LABELS = {
    "reason": "",
    "note": "",
    "checked_how": noop("How it was checked"),
    "no_reference_why": noop("Why there is no reference"),
    "ticket": noop("Asked"),
    "replaced_by": noop("Replaced by"),
    "origin": noop("Origin"),
    "proposal_reason": noop("As it was proposed"),
}


def quotes(entry: Told) -> tuple[tuple[str, str], ...]:
    """The free texts of an entry, each with its label; an erased one is said to be so."""
    return tuple(
        (_(_TEXT_LABELS[name]) if _TEXT_LABELS.get(name) else "", text if text is not None else _("(erased)"))
        for name, text in sorted(
            entry.texts.items(), key=lambda one: (one[0] not in {"reason", "note"}, one[0])
        )
    )

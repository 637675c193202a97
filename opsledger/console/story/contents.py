"""The chain of one content: its versions, who asked for them, and what was decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext

from opsledger.console.story.items import Item, quotes
from opsledger.console.wording.entries import revealed_words
from opsledger.ledger.queries.timeline import Told

_CONTENT: Mapping[str, tuple[str, str]] = {
    "content_proposed": ("pen", noop("%(name)s asked for version %(number)s")),
    "content_approved": ("confirmed", noop("%(name)s approved version %(number)s")),
    "content_rejected": ("rejected", noop("%(name)s rejected version %(number)s")),
    "content_waiting_rejected": ("rejected", noop("%(name)s rejected what waited for version %(number)s")),
    "revealed": ("masked", noop("%(name)s looked at masked values")),
}


def content_items(told: Iterable[Told], names: Mapping[str, str]) -> list[Item]:
    """The chain of one content, newest first."""
    items = []
    for entry in told:
        icon, title = _CONTENT.get(entry.kind, ("info", entry.kind.replace("_", " ").capitalize()))
        words = {"name": names.get(entry.actor, entry.actor), "number": entry.body.get("number", "")}
        items.append(
            Item(
                entry.at, icon, _(title) % words, text=_content_facts(entry), quotes=quotes(entry), key=str(entry.seq)
            )
        )  # fmt: skip
    return items


def _content_facts(entry: Told) -> str:
    count = entry.body.get("covered_count")
    if entry.kind == "content_approved":
        return ngettext(
            "one request that waited for it", "%(count)s requests that waited for it", count or 0
        ) % {"count": count or 0}
    if entry.kind == "content_rejected":
        cancelled = entry.body.get("cancelled_count", 0)
        parts = [
            ngettext("one operation cancelled", "%(count)s operations cancelled", cancelled)
            % {"count": cancelled}
        ]
        if entry.body.get("returned_to"):
            parts.append(_("the others back at version %(number)s") % {"number": entry.body["returned_to"]})
        return ", ".join(parts)
    return revealed_words(str(entry.body.get("what", "")))

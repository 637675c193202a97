"""What people decided on what is to be sent: content versions, and changed requests."""

from __future__ import annotations

from django.utils.translation import gettext as _

from opsledger.console.story.items import Item, quotes
from opsledger.console.story.telling import Telling
from opsledger.ledger.queries.timeline import Told


def approved(telling: Telling, entry: Told) -> Item:
    number, name = entry.body.get("content_number"), telling.name(entry.actor)
    title = _("%(name)s approved what is to be sent") % {"name": name}
    if number:
        title = _("%(name)s approved content version %(number)s for it") % {
            "name": name,
            "number": number,
        }
    text = _("Exactly what was shown may be sent, and nothing else.")
    return _decision(entry, "approval", title, text, "confirmed")


def content_moved(telling: Telling, entry: Told) -> Item:
    title = _("It shows content version %(number)s now") % {"number": entry.body.get("content_number")}
    text = _("%(name)s proposed it. Any approval of what it showed before is void.")
    return _decision(entry, "arrow", title, text % {"name": telling.name(entry.actor)}, "")


def content_rejected(telling: Telling, entry: Told) -> Item:
    title = _("%(name)s rejected content version %(number)s") % {
        "name": telling.name(entry.actor),
        "number": entry.body.get("content_number"),
    }
    back = entry.body.get("returned_to")
    text = (
        _("It is back at version %(number)s.") % {"number": back}
        if back
        else _("The operation is cancelled.")
    )
    return _decision(entry, "rejected", title, text, "rejected")


def request_rejected(telling: Telling, entry: Told) -> Item:
    title = _("%(name)s rejected revision %(number)s of the request") % {
        "name": telling.name(entry.actor),
        "number": entry.body.get("revision"),
    }
    back = entry.body.get("returned_to")
    words = _("It is back at the request of revision %(number)s, under a new key.")
    text = words % {"number": back} if back else _("The step is ended.")
    return _decision(entry, "rejected", title, text, "rejected")


def _decision(entry: Told, icon: str, title: str, text: str, state: str) -> Item:
    return Item(
        entry.at, icon, title, about="decisions", state=state, text=text, quotes=quotes(entry), key=str(entry.seq)
    )  # fmt: skip

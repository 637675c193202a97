"""Whose a hold was, and who was told of it."""

from __future__ import annotations

from django.utils.translation import gettext as _

from opsledger.console.story.items import Item
from opsledger.console.story.telling import Telling
from opsledger.ledger.queries.timeline import Told


def assigned(telling: Telling, entry: Told) -> Item:
    owner, name = entry.body.get("owner"), telling.name(entry.actor)
    if owner is None:
        title = _("%(name)s gave the hold back") % {"name": name}
    elif entry.actor == f"person:{owner}":
        title = _("%(name)s took the hold") % {"name": name}
    else:
        title = _("%(name)s gave the hold to %(owner)s") % {
            "name": name,
            "owner": telling.names.get(f"person:{owner}", _("somebody")),
        }
    number = entry.body.get("position")
    by_rule = _("By assignment rule %(number)s.") % {"number": number} if number else ""
    return Item(entry.at, "user", title, about="decisions", text=by_rule, key=str(entry.seq))


def reminded(telling: Telling, entry: Told) -> Item:
    to = entry.body.get("to")
    name = telling.names.get(f"person:{to}", _("somebody")) if to else _("every owner of the team")
    title = _("Past its due time: %(name)s was reminded") % {"name": name}
    return Item(entry.at, "too-late", title, key=str(entry.seq))


def escalated(telling: Telling, entry: Told) -> Item:
    """Nobody acted, or the owner was gone."""
    before, to = entry.body.get("from"), entry.body.get("to")
    name = telling.names.get(f"person:{to}", _("somebody"))
    if before == to:
        title = _("Nobody acted: %(name)s was told again and keeps the hold") % {"name": name}
    elif entry.body.get("cause") == "owner_gone":
        title = _("The owner is gone: the hold went to %(name)s") % {"name": name}
    else:
        title = _("Nobody acted: the hold went to %(name)s") % {"name": name}
    gave = telling.names.get(f"person:{before}", "") if before and before != to else ""
    text = _("Before, it was %(name)s’s.") % {"name": gave} if gave else ""
    return Item(entry.at, "user", title, text=text, key=str(entry.seq))

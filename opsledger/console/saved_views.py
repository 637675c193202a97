"""Saved views of the inbox: the filter that an address names, what it asks for that is gone, and the tabs with counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from opsledger.accounts.roles import Permission, allowed
from opsledger.console.filters import VIEWS, InboxFilter
from opsledger.console.http import ConsoleRequest
from opsledger.ledger.queries import hold_counts, inbox, saved_views
from opsledger.ledger.queries.inbox import View
from opsledger.ledger.queries.saved_views import COUNT_MAX, TABS_MAX, SavedLine
from opsledger.lib import ids

PREFIX = "view"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the inbox shows: a filter, and the saved view that it comes from. `unreadable` shows nothing at all."""

    filter: InboxFilter
    line: SavedLine | None = None
    unreadable: bool = False

    def whose(self, person_id: UUID) -> str:
        """Whose it is, for those who look at it; "" for one’s own and where it is none."""
        if self.line is None or self.line.person_id == person_id:
            return ""
        if self.line.person_id is None:
            return _("A view of the team, saved by %(name)s.") % {"name": self.line.author}
        return _("%(name)s’s own view. “Mine” in it means you.") % {"name": self.line.author}


def chosen_filter(request: ConsoleRequest) -> Chosen:
    """By `saved` where the address has it, else by what it spells out. 404 for a view that this team does not have."""
    text = request.GET.get("saved", "")
    if not text:
        return Chosen(InboxFilter.read(request.GET, request.team.pk, request.user.pk))
    number = ids.parse(PREFIX, text)
    line = saved_views.view_of(number, request.team.pk) if number else None
    if line is None:
        raise Http404(_("There is no such saved view in this team. It may have been removed."))
    place = {name: request.GET[name] for name in ("after", "before") if name in request.GET}
    try:
        found = read(line, request.user.pk)
    except BadRequest:
        empty = InboxFilter.read({}, request.team.pk, request.user.pk)
        return Chosen(replace(empty, saved=text), line, unreadable=True)
    places = InboxFilter.read(place, request.team.pk, request.user.pk)
    return Chosen(replace(found, saved=text, after=places.after, before=places.before), line)


def read(line: SavedLine, person_id: UUID) -> InboxFilter:
    """The kept filter, for who looks at it. BadRequest where it names a view or reason that there is no more."""
    return InboxFilter.read(QueryDict(line.query), line.team_id, person_id)


def canonical(text: str, team_id: UUID, person_id: UUID) -> str:
    """A posted filter in the one form that is kept. BadRequest where it can’t be read."""
    return InboxFilter.read(QueryDict(text), team_id, person_id).query()


def gone(chosen: Chosen, choices: Mapping[str, Any]) -> list[str]:
    """What a saved view asks for that the team no longer has, a sentence for each."""
    if chosen.unreadable:
        return [_("It asks for something that this list does not know any more, so it shows nothing.")]
    if chosen.line is None:
        return []
    wanted, said = chosen.filter.wanted, []
    for kind, value, there in (
        (_("destination"), wanted.destination, choices["destinations"]),
        (_("workflow"), wanted.workflow, choices["workflows"]),
    ):
        if value and value not in there:
            text = _("It asks for the %(kind)s “%(name)s”, which the team does not have any more.")
            said.append(text % {"kind": kind, "name": value})
    if wanted.incident is not None and choices.get("incident") is None:
        said.append(_("It asks for an incident that is not there any more."))
    if wanted.owner is not None and wanted.owner not in {one.pk for one in choices["people"]}:
        said.append(_("It asks for an owner who is no longer active in the team."))
    return said


# Tabs


@dataclass(frozen=True, slots=True)
class Tabs:
    tabs: list[dict[str, Any]]
    more_count: int = 0  # saved views that have no tab
    of_person: list[SavedLine] = field(default_factory=list)


def tabs_of(request: ConsoleRequest, chosen: Chosen, counts: hold_counts.Counts) -> Tabs:
    """The built-in views, then the first saved ones, each with its count now."""
    lines = saved_views.views_of(request.team.pk, request.user.pk)
    shown = lines[:TABS_MAX]
    if chosen.line is not None and chosen.line.id not in {line.id for line in shown}:
        shown = [*shown, chosen.line]
    may_approve = allowed(request.roles, Permission.APPROVE_CONTENT)
    awaiting = inbox.Wanted(request.team.pk, request.user.pk, View.AWAITING)
    filters = {line.id: found for line in shown if (found := _readable(line, request.user.pk))}
    asked = [*([awaiting] if may_approve else []), *(found.wanted for found in filters.values())]
    counted = hold_counts.count_each(asked, COUNT_MAX)
    by_view = dict(counts.by_view)
    if may_approve:
        by_view[View.AWAITING] = counted.pop(0)
    of_saved = dict(zip(filters, counted, strict=True))
    more = len({line.id for line in lines} - {line.id for line in shown})
    built_in = [_built_in(chosen, view, by_view[view]) for view in VIEWS if view in by_view]
    return Tabs([*built_in, *(_saved(chosen, line, of_saved) for line in shown)], more, lines)


def _readable(line: SavedLine, person_id: UUID) -> InboxFilter | None:
    try:
        return read(line, person_id)
    except BadRequest:
        return None


def _built_in(chosen: Chosen, view: View, count: int) -> dict[str, Any]:
    return {
        "key": view.value,
        "label": _(VIEWS[view]),
        "count": _count(count) if view is View.AWAITING else count,
        "url": f"{reverse('inbox')}?{chosen.filter.of_view(view)}".rstrip("?")
        if chosen.line is None
        else f"{reverse('inbox')}?view={view.value}",
        "current": chosen.line is None and view is chosen.filter.wanted.view,
    }


def _saved(chosen: Chosen, line: SavedLine, counted: Mapping[UUID, int]) -> dict[str, Any]:
    public = ids.public(PREFIX, line.id)
    return {
        "key": public,
        "label": line.name,
        "count": _count(counted[line.id]) if line.id in counted else "?",
        "url": address_of(line),
        "current": chosen.line is not None and chosen.line.id == line.id,
        "saved": True,
    }


def address_of(line: SavedLine) -> str:
    return f"{reverse('inbox')}?saved={ids.public(PREFIX, line.id)}"


def _count(count: int) -> str:
    return f"{count:,}" if count < COUNT_MAX else f"{COUNT_MAX:,}+"


# Lists


def rows_of(lines: Sequence[SavedLine], person_id: UUID, words: Any) -> list[dict[str, Any]]:
    """Saved views for their own page, each with its count and in words what it shows."""
    filters = {line.id: found for line in lines if (found := _readable(line, person_id))}
    counted = hold_counts.count_each([found.wanted for found in filters.values()], COUNT_MAX)
    counts = dict(zip(filters, counted, strict=True))
    return [
        {
            "line": line,
            "public": ids.public(PREFIX, line.id),
            "url": address_of(line),
            "count": _count(counts[line.id]) if line.id in counts else "",
            "words": words_of(filters[line.id], words) if line.id in filters else [],
            "first": index == 0,
            "last": index == len(lines) - 1,
        }
        for index, line in enumerate(lines)
    ]


def words_of(found: InboxFilter, words: Any) -> list[str]:
    """“Unowned”, “crm”: what a filter shows, as people read it."""
    view = [_(VIEWS[found.wanted.view])] if found.wanted.view is not View.ALL or not found.narrowed else []
    narrowed: Collection[str] = words(found.chosen)
    return [*view, *narrowed]

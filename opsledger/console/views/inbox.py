"""The inbox: open holds of the team, soonest due first, and what can be done with several at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission, allowed, members_of
from opsledger.console import desk, incident_pages, saved_views
from opsledger.console.addresses import address
from opsledger.console.filters import InboxFilter, cursor_text
from opsledger.console.forms import by_person, new_owner, ticked
from opsledger.console.http import ConsoleRequest, back_to, page, see_other, wants_fragment
from opsledger.console.inbox_words import chosen_words
from opsledger.console.permissions import needs, why_not
from opsledger.console.templatetags.ops import badge, icon, who, words_of_span
from opsledger.console.views.selections import act_on_ticked
from opsledger.console.vocabulary import rows_of
from opsledger.console.wording.knowledge import what_we_know, with_proposals
from opsledger.console.wording.protection import event_protection, stopped_protection
from opsledger.console.wording.questions import next_decision
from opsledger.ledger.actions.assign import settle_assign
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.interventions import settle_check
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries import hold_counts, holds, inbox, incidents
from opsledger.ledger.queries.answer_proposals import proposers_of
from opsledger.ledger.queries.choices import choices
from opsledger.ledger.queries.hold_lines import HoldLine
from opsledger.ledger.queries.inbox import View
from opsledger.ledger.queries.looks import watching
from opsledger.lib import ids
from opsledger.rules.bulk import HOLDS_MAX, Verb
from opsledger.rules.states import HoldReason

SOON_SECONDS = 1800


@require_GET
def inbox_page(request: ConsoleRequest) -> HttpResponse:
    seen = saved_views.chosen_filter(request)
    chosen = seen.filter
    found = _found(seen)
    counts = hold_counts.counts(request.team.pk, request.user.pk)
    may = _may(request)
    proposers = proposers_of([line.id for line in found.lines])
    maker = RowMaker(
        found.now, chosen.query(), request.user.pk, may["may_assign"], may["may_check"], proposers
    )
    context = {
        "filter": chosen,
        "views": saved_views.tabs_of(request, seen, counts),
        "counts": counts,
        "rows": [maker.row(line) for line in found.lines],
        "now": found.now,
        "since": ids.public("hold", inbox.floor_id(found.now)),
        **_links(chosen, found),
        **_choices(request, chosen),
        **_incidents(request, chosen, found.now, may),
        **may,
        "once": uuid4(),
        "all_count": _all_count(chosen, counts, found) if may["can_tick"] else 0,
    }
    context |= {
        "saved": seen.line,
        "whose": seen.whose(request.user.pk),
        "gone": saved_views.gone(seen, context),
    }
    if counts.first_due_opened_at is not None:
        context["first_due_open_for"] = words_of_span(
            (found.now - counts.first_due_opened_at).total_seconds()
        )
    if not found.lines:
        context["watching"] = watching(request.team.pk)
    return page(request, "inbox/inbox.html", context)


def _all_count(chosen: InboxFilter, counts: hold_counts.Counts, found: inbox.Page) -> int:
    """How many holds the view has, over all its pages; one more than a selection takes stands for more."""
    if not chosen.narrowed and chosen.wanted.view in counts.by_view:
        return counts.by_view[chosen.wanted.view]
    if not found.has_earlier and not found.has_later:
        return len(found.lines)
    return hold_counts.count_of(chosen.wanted, HOLDS_MAX + 1)


@require_GET
def inbox_news(request: ConsoleRequest) -> HttpResponse:
    """What changed since the page was made: counts, and how many holds are new. The rows stay as they are."""
    seen = saved_views.chosen_filter(request)
    chosen = seen.filter
    if not wants_fragment(request):
        return see_other(f"{reverse('inbox')}?{chosen.address()}")
    counts = hold_counts.counts(request.team.pk, request.user.pk)
    since = ids.parse("hold", request.GET.get("since", ""))
    context = {
        "filter": chosen,
        "views": saved_views.tabs_of(request, seen, counts),
        "counts": counts,
        "since": request.GET.get("since", "") if since else "",
        "new_count": hold_counts.new_since(chosen.wanted, since) if since and not seen.unreadable else 0,
    }
    return page(request, "inbox/news.html", context, fragments=("inbox-news",), fragment="inbox-news")


@require_POST
@needs(Permission.ASSIGN)
def assign(request: ConsoleRequest) -> HttpResponse:
    """Gives the ticked holds, or the one whose button was pressed, to a person of the team."""
    try:
        owner = new_owner(request)
    except Refused as why:
        messages.error(request, why.why)
        return see_other(back_to(request, reverse("inbox")))
    if "one" in request.POST:
        return _take_one(request)
    facts = {"owner": str(owner.pk) if owner else None}
    return act_on_ticked(request, Verb.ASSIGN, facts, owner.display_name if owner else "")


def _take_one(request: ConsoleRequest) -> HttpResponse:
    try:
        versions = _of_team(request)
        if settle_assign(versions, request.user.pk, by_person(request.user), versions=versions):
            said = _("One hold is %(name)s’s now.") % {"name": request.user.display_name}
            messages.success(request, said)
        else:
            messages.info(
                request, _("Nothing changed: this hold changed since you looked, or was yours already.")
            )
    except Refused as why:
        messages.error(request, why.why)
    return see_other(back_to(request, reverse("inbox")))


@require_POST
@needs(Permission.CHECK_NOW)
def check_now(request: ConsoleRequest) -> HttpResponse:
    """Asks the destinations of the ticked holds now, or of the one whose button was pressed. Nothing is sent."""
    if "one" not in request.POST:
        return act_on_ticked(request, Verb.CHECK_NOW)
    try:
        steps = holds.steps_of(list(_of_team(request)))
        if not steps:
            raise Refused(_("There is nothing to look up for this hold."))
        for operation_id, step_number in steps:
            settle_check(operation_id, step_number, None, by_person(request.user))
        messages.success(request, _("One lookup is due now."))
    except Refused as why:
        messages.info(request, why.why)
    return see_other(back_to(request, reverse("inbox")))


def _of_team(request: ConsoleRequest) -> dict[UUID, int]:
    """The posted holds that exist in the chosen team, with the versions that were shown; others do not."""
    versions = ticked(request.POST)
    return {hold_id: versions[hold_id] for hold_id in holds.existing(list(versions), [request.team.pk])}


# Rows, made before the template sees them: fifty of them are most of the page.
# Everything that is not ours goes through `escape` here, and what is marked safe is made of nothing else.
# ruff: noqa: S308


@dataclass(frozen=True, slots=True)
class RowWords:
    """What rows say, as HTML. Names of holds come in escaped; `hidden` to `end` is heard and not seen."""

    select: str
    take: str
    check: str
    late: str
    due: str


def row_words() -> RowWords:
    return RowWords(
        select=escape(_("Select %(name)s")),
        take=escape(_("Take%(hidden)s %(name)s%(end)s")),
        check=escape(_("Check%(hidden)s %(name)s now%(end)s")),
        late=escape(_("%(span)s late")),
        due=escape(_("in %(span)s")),
    )


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows for one answer. What is the same in many rows is made once."""

    now: datetime
    query: str  # of the view, kept in the rows’ links
    person_id: UUID
    may_assign: bool = False
    may_check: bool = False
    proposers: Mapping[UUID, list[str]] = field(default_factory=dict)  # by hold
    words: RowWords = field(default_factory=row_words)

    def row(self, line: HoldLine) -> dict[str, Any]:
        known = desk.known_of(line, self.now)
        hold = ids.public("hold", line.id)
        text_id = line.operation_text_id or line.event_text_id
        called, version = text_id or line.title, f"{hold}~{line.version}"
        return {
            "id": hold,
            "tick": self._tick(version, called) if self.may_assign or self.may_check else "",
            "url": url_of(line, self.query, hold),
            "badge": badge(line.reason, "hold"),
            "title": line.title or known.event,
            "sub": _sub(text_id, line.destination_slug),
            "knows": with_proposals(what_we_know(known), self.proposers.get(line.id, [])),
            "next": mark_safe(f"{icon('arrow')}<span>{escape(next_decision(known))}</span>"),
            "protection": self._protection(line),
            "own": self._own(line, version, called),
            "age": words_of_span((self.now - line.opened_at).total_seconds()),
            "due": self._due(line.due_at),
        }

    def _tick(self, version: str, called: str) -> str:
        said = self.words.select % {"name": escape(called)}
        return mark_safe(
            f'<label class="hit-a"><input type="checkbox" name="hold" value="{version}">'
            f'<span class="vh">{said}</span></label>'
        )

    def _protection(self, line: HoldLine) -> str:
        words = desk.protection_words(
            line.protected,
            state=line.state,
            attempts=line.attempts,
            may_have_had_effect=line.may_have_had_effect,
            accepted=line.accepted_at is not None,
            now=self.now,
        )
        if words is None:
            return _stopped(line)
        shape = words.state
        return mark_safe(
            f'<span class="st" data-state="{shape}">{icon(shape)}<span>{escape(words.text)}</span></span>'
        )

    def _own(self, line: HoldLine, hold: str, called: str) -> str:
        """Who has it, and what this person may do to this one hold."""
        parts: list[str] = [who(line.owner_name)]
        if self.may_assign and line.owner_id != self.person_id:
            parts.append(_button(hold, called, "inbox_assign", "a", self.words.take))
        if self.may_check and (line.next_look_at is not None or line.state in {"unknown", "accepted"}):
            parts.append(_button(hold, called, "inbox_check", "c", self.words.check))
        return mark_safe("".join(parts))

    def _due(self, due_at: datetime) -> str:
        seconds = (due_at - self.now).total_seconds()
        span = words_of_span(abs(seconds))
        if seconds < 0:
            state, text = "late", self.words.late % {"span": span}
        else:
            state, text = "soon" if seconds < SOON_SECONDS else "", self.words.due % {"span": span}
        return mark_safe(
            f'<time datetime="{due_at:%Y-%m-%dT%H:%M:%SZ}">{desk.clock(due_at, self.now)}</time>'
            f'<span class="sub"><span class="{state}">{text}</span></span>'
        )


def _stopped(line: HoldLine) -> str:
    """Where no single request is in question: nothing leaves, neither for an event nor to a stopped destination."""
    words = event_protection() if line.event_id else stopped_protection(line.reason)
    return mark_safe(
        f'<span class="st" data-state="{words.state}">{icon(words.state)}<span>{escape(words.text)}</span></span>'
    )


def _sub(text_id: str, destination: str) -> str:
    shown_id = f'<span class="id">{escape(text_id)}</span> ' if text_id else ""
    slug = f'<span class="dest">{escape(destination)}</span>' if destination else ""
    return mark_safe(shown_id + slug)


def _button(hold: str, called: str, page_name: str, key: str, words: str) -> str:
    said = words % {"hidden": '<span class="vh">', "end": "</span>", "name": escape(called)}
    return (
        f'<button class="lnk take" name="one" value="{hold}" formaction="{address(page_name)}"'
        f' aria-keyshortcuts="{key}">{said}</button>'
    )


def url_of(line: HoldLine, query: str = "", hold: str = "") -> str:
    """Where a hold is answered: its operation, its destination, what is to be approved, or its own page."""
    hold = hold or ids.public("hold", line.id)
    if line.reason is HoldReason.APPROVAL_NEEDED:
        return address("approval_of_hold", hold)
    if line.operation_id is not None:
        operation = address("operation", ids.public("op", line.operation_id))
        return f"{operation}?{query}{'&' if query else ''}hold={hold}#decide"
    if line.destination_id is not None:
        return f"{address('destinations')}#d-{line.destination_slug}"
    return address("hold", hold)


def _found(seen: saved_views.Chosen) -> inbox.Page:
    """A page of the filter; nothing where a saved view asks for what can’t be read any more."""
    if seen.unreadable:
        return inbox.Page([], False, False, database_now())
    return inbox.page_of(seen.filter.wanted, after=seen.filter.after, before=seen.filter.before)


def _links(chosen: InboxFilter, found: inbox.Page) -> dict[str, str]:
    links = {}
    if found.has_earlier and found.lines:
        links["earlier_url"] = f"?{chosen.address(before=cursor_text(found.lines[0].place))}"
    if found.has_later and found.lines:
        links["later_url"] = f"?{chosen.address(after=cursor_text(found.lines[-1].place))}"
    return links


def _choices(request: ConsoleRequest, chosen: InboxFilter) -> dict[str, Any]:
    known = choices(request.team.pk)
    people = [member.person for member in members_of(request.team) if member.person.is_active]
    return {
        "reasons": [(row.value, row.word) for row in rows_of("hold")],
        "owners": [("none", _("Unowned")), *((str(one.pk), one.display_name) for one in people)],
        "destinations": known.destinations,
        "workflows": known.workflows,
        "people": people,
        "chosen": chosen.chosen,
        "chosen_words": chosen_words(chosen.chosen, people),
    }


def _incidents(
    request: ConsoleRequest, chosen: InboxFilter, now: datetime, may: dict[str, Any]
) -> dict[str, Any]:
    """The largest incidents above the whole list; on a narrowed one, the incident that it is narrowed to."""
    if chosen.wanted.incident is not None:
        found = incidents.name_of(chosen.wanted.incident, request.team_ids)
        return {"incident": incident_pages.heading(found, now) if found else None}
    if chosen.narrowed or chosen.after or chosen.before or chosen.wanted.view is not View.ALL:
        return {}
    cards = incidents.cards(request.team.pk, request.user.pk)
    return {
        "incidents": [incident_pages.card(line, now, may) for line in cards.lines],
        "incidents_more": cards.more_count,
    }


def _may(request: ConsoleRequest) -> dict[str, Any]:
    """What is offered to this person, and one line for what is not."""
    assign_ok = allowed(request.roles, Permission.ASSIGN)
    check_ok = allowed(request.roles, Permission.CHECK_NOW)
    return {
        "can_tick": assign_ok or check_ok,
        "may_assign": assign_ok,
        "may_check": check_ok,
        "why_not": "" if assign_ok else why_not(request.roles, Permission.ASSIGN, request.team),
    }

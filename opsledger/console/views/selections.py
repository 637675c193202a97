"""Selections and bulk runs: ticked rows or a whole view are frozen, and one verb is applied to each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.models import Person, Team
from opsledger.accounts.roles import Permission, Role, members_of, people_of
from opsledger.console import selection_pages
from opsledger.console.filters import InboxFilter, read_last
from opsledger.console.forms import TEXT_MAX, by_person, new_owner, next_check, ticked, version_of
from opsledger.console.http import (
    ConsoleRequest,
    back_to,
    conflict,
    page,
    see_other,
    unprocessable,
    wants_fragment,
)
from opsledger.console.inbox_words import chosen_words
from opsledger.console.kept import in_kept_words
from opsledger.console.permissions import why_not
from opsledger.console.views.replays import csv_file
from opsledger.engine.bulk import carry_at_once
from opsledger.ledger.actions.bulk import (
    PERMISSIONS,
    Press,
    RunMoved,
    abort,
    begin,
    begun_before,
    freeze,
    freeze_view,
)
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import BulkRun, Selection
from opsledger.ledger.queries import bulk
from opsledger.ledger.queries.bulk import OPEN, RunLine, SelectionLine
from opsledger.ledger.queries.inbox import View
from opsledger.lib import ids
from opsledger.lib.csv_lines import lines
from opsledger.rules.bulk import BulkResult, Verb

SELECTION, RUN = "selections/selection.html", "selections/run.html"
# Whose reason is what the verb is about; the others keep one where somebody gives it.
NEEDS_REASON = frozenset({Verb.NOTE, Verb.NEXT_CHECK, Verb.END_FAILED, Verb.CANCEL})
# Each view of the inbox, as a selection of it is called.
VIEW_WORDS = {
    View.MINE: noop("My holds"),
    View.UNOWNED: noop("Unowned holds"),
    View.OLD_UNKNOWN: noop("Unknown over 1 h"),
    View.AWAITING: noop("Holds that await my approval"),
    View.DISPUTED: noop("Disputed holds"),
    View.DESTINATIONS: noop("Holds at destinations"),
    View.ALL: noop("All open holds"),
}
RESULTS = frozenset({OPEN, *(result.value for result in BulkResult)})


# Selecting


@require_POST
def select_ticked(request: ConsoleRequest) -> HttpResponse:
    """Freezes the ticked rows, each at the version that it showed."""
    return _selected(request, lambda: _freeze_ticked(request))


@require_POST
def select_view(request: ConsoleRequest) -> HttpResponse:
    """Freezes every hold of a view that was there when its page was made."""
    return _selected(request, lambda: _freeze_view(request))


def _selected(request: ConsoleRequest, make: Any) -> HttpResponse:
    require_any(request.roles, request.team)
    try:
        made: Selection = make()
    except Refused as why:
        messages.error(request, why.why)
        return see_other(back_to(request, reverse("inbox")))
    verb = request.POST.get("verb", "")
    # no fragment: a browser that goes to one leaves the cursor out of the reason
    query = f"?verb={verb}" if verb in {one.value for one in selection_pages.SHOWN} else ""
    return see_other(reverse("selection", args=[ids.public("sel", made.pk)]) + query)


def require_any(roles: frozenset[Role], team: Team) -> None:
    """Somebody who may use no verb at all has nothing to select for."""
    if len(selection_pages.refused(roles, team)) == len(PERMISSIONS):
        raise PermissionDenied(why_not(roles, Permission.ASSIGN, team))


def _freeze_ticked(request: ConsoleRequest) -> Selection:
    versions = ticked(request.POST)
    count = len(versions)
    with in_kept_words():
        words = ngettext("One ticked hold", "%(count)s ticked holds", count) % {"count": count}
    return freeze(request.team.pk, request.user.pk, versions, words=words)


def _freeze_view(request: ConsoleRequest) -> Selection:
    chosen = InboxFilter.read(QueryDict(request.POST.get("view_query", "")), request.team.pk, request.user.pk)
    seen = ids.parse("hold", request.POST.get("seen", ""))
    if seen is None:
        raise Refused(
            _("This page does not say when it was made. Reload it and choose again; nothing was done.")
        )
    people = [member.person for member in members_of(request.team)]
    with in_kept_words():
        words = ", ".join([_(VIEW_WORDS[chosen.wanted.view]), *chosen_words(chosen.chosen, people)])
    return freeze_view(chosen.wanted, words=words, query=chosen.query(), up_to=seen)


def act_on_ticked(
    request: ConsoleRequest, verb: Verb, facts: Mapping[str, Any] | None = None, owner: str | None = None
) -> HttpResponse:
    """One verb on the ticked rows at once."""
    return act_at_once(request, verb, lambda: _freeze_ticked(request), reverse("inbox"), facts, owner)


def act_at_once(
    request: ConsoleRequest,
    verb: Verb,
    make: Callable[[], Selection],
    fallback: str,
    facts: Mapping[str, Any] | None = None,
    owner: str | None = None,
) -> HttpResponse:
    """One verb on what `make` freezes: begun, and carried for about two seconds. Says in one line what became of the holds,
    with the way to each, on the page that asked (`fallback`, where it does not say which it was)."""
    once = _once(request.POST) or uuid4()
    try:
        known = begun_before(request.user.pk, once, Press(verb, facts=facts))
        if known is None:
            known = begin(make(), verb, by_person(request.user), once=once, facts=facts).run
        _say(request, carry_at_once(known), owner)
    except Refused as why:
        messages.error(request, why.why)
    return see_other(back_to(request, fallback))


def _say(request: ConsoleRequest, run: BulkRun, owner: str | None) -> None:
    line = bulk.run_of(run.pk, [run.team_id])
    assert line is not None
    said = selection_pages.summary(line, owner=owner)
    address = reverse("bulk_run", args=[ids.public("run", run.pk)])
    all_done = line.counts[BulkResult.DONE] == line.item_count
    tell = messages.success if all_done else messages.info
    tell(request, format_html('{} <a href="{}">{}</a>', said, address, _("See each")))


def _once(post: QueryDict) -> UUID | None:
    try:
        return UUID(post.get("once", ""))
    except ValueError:
        return None


# One selection


@require_GET
def selection_page(request: ConsoleRequest, selection: str) -> HttpResponse:
    return page(request, SELECTION, _selection_context(request, selection_of_teams(request, selection)))


def selection_of_teams(request: ConsoleRequest, text: str) -> SelectionLine:
    """The selection of an address; 404 where none of the person's teams has it."""
    number = ids.parse("sel", text)
    line = bulk.selection_of(number, request.team_ids) if number else None
    if line is None:
        gone = _(
            "There is no such selection in your teams. One with which nothing is done goes after %(days)s days."
        )
        raise Http404(gone % {"days": settings.KEEP_UNUSED_SELECTIONS_DAYS})
    return line


def team_of(request: ConsoleRequest, team_id: UUID) -> tuple[Team, frozenset[Role]]:
    """A team of the person's, which may be another than the chosen one, with the roles there."""
    return next((team, roles) for team, roles in request.teams.items() if team.pk == team_id)


def _selection_context(request: ConsoleRequest, line: SelectionLine, **more: Any) -> dict[str, Any]:
    after = _position(request.GET.get("after", "0"))
    team, roles = team_of(request, line.team_id)
    groups, found = bulk.groups_of(line.id), bulk.lines_of(line.id, after=after)
    shown = found[: bulk.PAGE]
    offers = selection_pages.offers(groups, roles, team)
    of_steps = selection_pages.of_steps(groups)
    if of_steps:
        request.shown_under = reverse("destinations")
    people = people_of(team)
    return {
        "line": line,
        "public": ids.public("sel", line.id),
        "groups": groups,
        "of_steps": of_steps,
        "moved_count": sum(group.moved for group in groups),
        "left_count": sum(group.chosen.count - group.moved for group in groups),
        "rows": [selection_pages.chosen_row(one) for one in shown],
        "next_after": shown[-1].position if len(found) > bulk.PAGE else None,
        "is_later": after > 0,
        "runs": [selection_pages.run_row(run) for run in bulk.runs_of(line.id)],
        "offered": [one for one in offers if not one["why"]],
        "not_offered": [one for one in offers if one["why"]],
        "people": people,
        "asked": request.GET.get("verb", ""),
        "typed": {},
        "errors": {},
        "now": database_now(),
        **more,
    }


def _position(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadRequest(_("This link to a part of the list can’t be read. Start again from the first page."))
    return int(text)


# Beginning a run


@require_POST
def begin_run(request: ConsoleRequest, selection: str) -> HttpResponse:
    """Applies one verb to what is left of the selection. What does not fit, or lacks its reason, is said there."""
    line = selection_of_teams(request, selection)
    team, roles = team_of(request, line.team_id)
    verb = _verb(request.POST)
    if why := selection_pages.refused(roles, team).get(verb):
        raise PermissionDenied(why)
    once = _once(request.POST) or uuid4()
    try:
        owner = _owner_facts(request, team) if verb is Verb.ASSIGN else None
        press = Press(verb, line.id, _typed_reason(request.POST), owner)
        run = begun_before(request.user.pk, once, press)
        if run is None:
            run = _begin(request, line, verb, once)
    except Refused as why_refused:
        errors = {why_refused.field or "form": why_refused.why}
        more = {"errors": errors, "typed": request.POST, "asked": verb.value}
        return unprocessable(request, SELECTION, _selection_context(request, line, **more))
    carry_at_once(run)
    return see_other(reverse("bulk_run", args=[ids.public("run", run.pk)]))


def _verb(post: QueryDict) -> Verb:
    try:
        verb = Verb(post.get("verb", ""))
    except ValueError:
        verb = Verb.PLAN_REPLAY
    if verb not in FACTS:
        raise BadRequest(_("This form does not say what is to be done. Reload the page; nothing was done."))
    return verb


def _begin(request: ConsoleRequest, line: SelectionLine, verb: Verb, once: UUID) -> BulkRun:
    team, roles = team_of(request, line.team_id)
    if why := selection_pages.why_not_verb(verb, bulk.groups_of(line.id), roles, team):
        raise Refused(why)
    facts = FACTS[verb](request, team)
    reason = _typed_reason(request.POST)
    if verb in NEEDS_REASON and not reason.strip():
        what = (
            _("Write the note.")
            if verb is Verb.NOTE
            else _("Write the reason; it is kept with each decision.")
        )
        raise Refused(what, field="reason")
    made = Selection.objects.get(pk=line.id)
    return begin(made, verb, by_person(request.user), once=once, reason=reason, facts=facts).run


def _typed_reason(post: QueryDict) -> str:
    return post.get("reason", "").replace("\r\n", "\n")


def _no_facts(request: ConsoleRequest, team: Team) -> dict[str, Any]:
    return {}


def _owner_facts(request: ConsoleRequest, team: Team) -> dict[str, Any]:
    owner: Person | None = new_owner(request, team=team)
    return {"owner": str(owner.pk) if owner else None}


def _check_facts(request: ConsoleRequest, team: Team) -> dict[str, Any]:
    return {"next_check_at": next_check(request.POST, database_now(), None).isoformat()}


# The verbs that a form of the selection's page begins, and what is said with each.
FACTS: dict[Verb, Any] = {
    Verb.TAKE: _no_facts,
    Verb.ASSIGN: _owner_facts,
    Verb.CHECK_NOW: _no_facts,
    Verb.NEXT_CHECK: _check_facts,
    Verb.NOTE: _no_facts,
    Verb.END_FAILED: _no_facts,
    Verb.CANCEL: _no_facts,
}


# Runs


@require_GET
def runs_page(request: ConsoleRequest) -> HttpResponse:
    """The team's bulk runs, newest first."""
    before = read_last("run", request.GET.get("before", ""))
    found = bulk.page_of(request.team.pk, before=before)
    shown = found[: bulk.PAGE]
    context = {
        "rows": [selection_pages.run_row(line) for line in shown],
        "next_url": f"?before={ids.public('run', shown[-1].id)}" if len(found) > bulk.PAGE else "",
        "is_later": before is not None,
        "now": database_now(),
    }
    return page(request, "selections/runs.html", context)


@require_GET
def run_page(request: ConsoleRequest, run: str) -> HttpResponse:
    return page(request, RUN, _run_context(request, _run_of_teams(request, run)))


@require_GET
def run_progress(request: ConsoleRequest, run: str) -> HttpResponse:
    """The part that is asked for again and again, until it comes without an address to ask."""
    line = _run_of_teams(request, run)
    if not wants_fragment(request):
        return see_other(reverse("bulk_run", args=[run]))
    context = selection_pages.progress_context(line) | {"now": database_now(), "asked_again": True}
    return page(
        request, "selections/progress.html", context, fragments=("run-progress",), fragment="run-progress"
    )


@require_GET
def run_file(request: ConsoleRequest, run: str) -> HttpResponseBase:
    """Every item with its result, as a file."""
    line = _run_of_teams(request, run)
    return csv_file(
        f"{run}.csv", lines(selection_pages.HEADER, selection_pages.cells(bulk.every_item(line.id)))
    )


@require_POST
def abort_run(request: ConsoleRequest, run: str) -> HttpResponse:
    """Leaves alone what had no turn yet."""
    line = _run_of_teams(request, run)
    if why := _why_not(request, line):
        raise PermissionDenied(why)
    reason = request.POST.get("reason", "")[: TEXT_MAX * 2]
    try:
        abort(line.id, version_of(request.POST), reason, by_person(request.user))
    except RunMoved as moved:
        fresh = _run_of_teams(request, run)
        return conflict(request, RUN, _run_context(request, fresh, changed=str(moved), typed=reason))
    except Refused as why_refused:
        more = {"error": why_refused.why, "typed": reason}
        return unprocessable(request, RUN, _run_context(request, line, **more))
    messages.success(request, _("Aborted. What was done stays done; the rest was left alone."))
    return see_other(reverse("bulk_run", args=[run]))


def _run_of_teams(request: ConsoleRequest, text: str) -> RunLine:
    number = ids.parse("run", text)
    line = bulk.run_of(number, request.team_ids) if number else None
    if line is None:
        raise Http404(_("There is no such bulk run in your teams."))
    return line


def _why_not(request: ConsoleRequest, line: RunLine) -> str:
    team, roles = team_of(request, line.team_id)
    return selection_pages.refused(roles, team).get(line.verb, "")


def _run_context(request: ConsoleRequest, line: RunLine, **more: Any) -> dict[str, Any]:
    result, after = request.GET.get("show", ""), _position(request.GET.get("after", "0"))
    if result and result not in RESULTS:
        raise BadRequest(_("This link to a part of the list can’t be read. Start again from the first page."))
    found = bulk.items_of(line.id, result=result, after=after, size=bulk.ITEMS_PAGE)
    shown = found[: bulk.ITEMS_PAGE]
    return selection_pages.progress_context(line) | {
        "word": _(selection_pages.WORDS[line.verb]),
        "selection_url": reverse("selection", args=[ids.public("sel", line.selection_id)]),
        "reason": _reason(line),
        "said": _said(line),
        "rows": [selection_pages.item_row(item) for item in shown],
        "next_after": shown[-1].position if len(found) > bulk.ITEMS_PAGE else None,
        "is_later": after > 0,
        "result": result,
        "why_not": _why_not(request, line),
        "now": database_now(),
        "changed": "",
        "typed": "",
        "error": "",
        **more,
    }


def _reason(line: RunLine) -> str:
    kept = line.facts.get("reason")
    if not kept:
        return ""
    text = bulk.text_of(kept)
    return _("(The reason was erased.)") if text is None else text


def _said(line: RunLine) -> dict[str, Any]:
    """What was said with the verb, for the head of the page."""
    if line.verb is Verb.ASSIGN:
        owner = line.facts.get("owner")
        found = Person.objects.filter(pk=owner).first() if owner else None
        return {"owner": found.display_name if found else "", "has_owner": "yes"}
    if line.verb is Verb.NEXT_CHECK:
        return {"until": datetime.fromisoformat(line.facts["next_check_at"])}
    return {}

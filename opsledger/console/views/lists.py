"""Lists of references: pasted or attached, shown row by row, and applied as *it happened* to the holds that they name."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.console import list_pages, selection_pages
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, conflict, page, see_other, unprocessable
from opsledger.console.uploads import attached, pasted
from opsledger.console.views.replays import csv_file
from opsledger.console.views.selections import selection_of_teams, team_of
from opsledger.engine.bulk import carry_at_once
from opsledger.engine.lists import read_alone
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.lists import ListMoved, begin_happened, keep_list
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Selection
from opsledger.ledger.queries import lists
from opsledger.ledger.queries.bulk import SelectionLine, groups_of, remaining
from opsledger.ledger.queries.lists import ListLine, Look
from opsledger.lib import ids
from opsledger.lib.csv_lines import lines
from opsledger.rules.bulk import Verb
from opsledger.rules.list_matching import Match

FORM, LIST = "lists/form.html", "lists/list.html"


def _require(request: ConsoleRequest, line: SelectionLine, verb: Verb) -> None:
    team, roles = team_of(request, line.team_id)
    if why := selection_pages.refused(roles, team).get(verb):
        raise PermissionDenied(why)


def why_not_here(request: ConsoleRequest, line: SelectionLine, verb: Verb) -> str:
    """Why this can't be said of what is left of the selection; "" = it can. Refuses who may not say it at all."""
    _require(request, line, verb)
    team, roles = team_of(request, line.team_id)
    return selection_pages.why_not_verb(verb, groups_of(line.id), roles, team)


# Keeping one


@require_GET
def list_form(request: ConsoleRequest, selection: str) -> HttpResponse:
    line = selection_of_teams(request, selection)
    why = why_not_here(request, line, Verb.HAPPENED)
    return page(request, FORM, _form_context(line, why=why))


def _form_context(line: SelectionLine, **more: Any) -> dict[str, Any]:
    targets = lists.targets_of(line.id, Verb.HAPPENED)
    return {
        "line": line,
        "public": ids.public("sel", line.id),
        "identities": [target.identity for target in targets[:2]],
        "headings": list_pages.headings(targets),
        "kept": [list_pages.list_row(one) for one in lists.lists_of(line.id)],
        "reads": any(lists.can_be_read(one.definition) for one in targets),
        "destination": targets[0].destination if targets else "",
        "now": database_now(),
        "why": "",
        "typed": "",
        "errors": {},
        **more,
    }


@require_POST
def keep(request: ConsoleRequest, selection: str) -> HttpResponse:
    """Keeps what was pasted or attached, and shows it. Nothing of it is applied."""
    line = selection_of_teams(request, selection)
    _require(request, line, Verb.HAPPENED)
    content, file_name = attached(request, "file")
    try:
        if not content:
            content, file_name = pasted(request, "list"), ""
        if not content:
            raise Refused(_("Paste the list, or attach it as a file."), field="list")
        made = Selection.objects.get(pk=line.id)
        kept = keep_list(made, content, by_person(request.user), file_name=file_name)
    except Refused as why:
        errors = {why.field or "form": why.why}
        context = _form_context(line, errors=errors, typed=request.POST.get("list", ""))
        return unprocessable(request, FORM, context)
    return see_other(reverse("reference_list", args=[selection, ids.public("lst", kept.pk)]))


# One list


@require_GET
def list_page(request: ConsoleRequest, selection: str, given: str) -> HttpResponse:
    line, one = _of_selection(request, selection, given)
    return page(request, LIST, _list_context(request, line, _look(one)))


def _of_selection(request: ConsoleRequest, selection: str, given: str) -> tuple[SelectionLine, ListLine]:
    line, number = selection_of_teams(request, selection), ids.parse("lst", given)
    one = lists.list_of(number, [line.team_id]) if number else None
    if one is None or one.selection_id != line.id:
        raise Http404(_("There is no such list of this selection."))
    _require(request, line, Verb.HAPPENED)
    return line, one


def _look(one: ListLine) -> Look:
    return lists.look(one, remaining(groups_of(one.selection_id)))


def _list_context(request: ConsoleRequest, line: SelectionLine, seen: Look, **more: Any) -> dict[str, Any]:
    shown, after = request.GET.get("show", ""), request.GET.get("after", "0")
    known = {one.value for one in Match}
    if (shown and shown not in known) or not (after.isascii() and after.isdecimal() and len(after) < 9):
        raise BadRequest(_("This link to a part of the list can’t be read. Start again from the first page."))
    return list_pages.list_context(seen, shown=shown, after=int(after)) | {
        "selection": line,
        "public": ids.public("sel", line.id),
        "once": request.POST.get("once") or str(uuid4()),
        "now": database_now(),
        "typed": "",
        "errors": {},
        "changed": "",
        **more,
    }


@require_GET
def rows_file(request: ConsoleRequest, selection: str, given: str) -> HttpResponseBase:
    """Every row with its verdict, as a file."""
    _line, one = _of_selection(request, selection, given)
    return csv_file(f"{given}.csv", lines(list_pages.HEADER, list_pages.cells(_look(one))))


@require_POST
def read(request: ConsoleRequest, selection: str, given: str) -> HttpResponse:
    """Reads references that stand alone, for about two seconds. Reads only; nothing is applied."""
    _line, one = _of_selection(request, selection, given)
    count = read_alone(_look(one))
    said = ngettext("One reference was read.", "%(count)s references were read.", count) % {"count": count}
    messages.info(request, said)
    return see_other(reverse("reference_list", args=[selection, given]))


@require_POST
def apply(request: ConsoleRequest, selection: str, given: str) -> HttpResponse:
    """Begins *it happened* for what was shown, and only for that."""
    line, one = _of_selection(request, selection, given)
    reason = request.POST.get("reason", "").replace("\r\n", "\n")
    seen = _look(one)
    try:
        begun = begin_happened(
            seen, request.POST.get("shown", ""), reason, by_person(request.user), once=_once(request)
        )
    except ListMoved:
        said = _(
            "What the list would settle changed while you were reading. Nothing was done; look at it again."
        )
        return conflict(request, LIST, _list_context(request, line, seen, changed=said, typed=reason))
    except Refused as why:
        errors = {why.field or "form": why.why}
        return unprocessable(request, LIST, _list_context(request, line, seen, errors=errors, typed=reason))
    carry_at_once(begun.run)
    return see_other(reverse("bulk_run", args=[ids.public("run", begun.run.pk)]))


def _once(request: ConsoleRequest) -> UUID:
    try:
        return UUID(request.POST.get("once", ""))
    except ValueError:
        return uuid4()

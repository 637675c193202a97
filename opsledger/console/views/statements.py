"""Provider's statements that actions did not happen: kept with a selection, shown by what they cover, then planned."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.console import list_pages, selection_pages
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, no_store, page, see_other, unprocessable
from opsledger.console.uploads import attached, pasted
from opsledger.console.views.lists import why_not_here
from opsledger.console.views.selections import selection_of_teams, team_of
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.statements import Said, keep_statement
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import Selection
from opsledger.ledger.queries import lists, statements
from opsledger.ledger.queries.bulk import SelectionLine
from opsledger.ledger.queries.statements import StatementLine
from opsledger.lib import ids
from opsledger.rules.bulk import Verb

FORM, STATEMENT = "statements/form.html", "statements/statement.html"
TYPED = ("words", "how", "ticket", "list")


@require_GET
def statement_form(request: ConsoleRequest, selection: str) -> HttpResponse:
    line = selection_of_teams(request, selection)
    why = why_not_here(request, line, Verb.ABSENT)
    return page(request, FORM, _form_context(line, why=why))


def _form_context(line: SelectionLine, **more: Any) -> dict[str, Any]:
    targets = lists.targets_of(line.id, Verb.ABSENT)
    return {
        "line": line,
        "public": ids.public("sel", line.id),
        "headings": list_pages.headings(targets),
        "kept": [list_pages.statement_row(one) for one in statements.statements_of(line.id)],
        "destination": targets[0].destination if targets else "",
        "open_count": sum(not one.sought.changed for one in targets),
        "now": database_now(),
        "why": "",
        "typed": {},
        "errors": {},
        **more,
    }


@require_POST
def keep(request: ConsoleRequest, selection: str) -> HttpResponse:
    """Keeps a statement, and shows what it covers. Nothing follows from it yet."""
    line = selection_of_teams(request, selection)
    _require(request, line)
    try:
        said = _said(request)
        kept = keep_statement(Selection.objects.get(pk=line.id), said, by_person(request.user))
    except Refused as why:
        errors = {why.field or "form": why.why}
        typed = {name: request.POST.get(name, "") for name in TYPED}
        return unprocessable(request, FORM, _form_context(line, errors=errors, typed=typed))
    return see_other(reverse("statement", args=[selection, ids.public("stm", kept.pk)]))


def _require(request: ConsoleRequest, line: SelectionLine) -> None:
    team, roles = team_of(request, line.team_id)
    if why := selection_pages.refused(roles, team).get(Verb.ABSENT):
        raise PermissionDenied(why)


def _said(request: ConsoleRequest) -> Said:
    file, file_name = attached(request, "file")
    listed, _name = attached(request, "list_file")
    return Said(
        how=request.POST.get("how", "").replace("\r\n", "\n"),
        words=request.POST.get("words", "").replace("\r\n", "\n"),
        file=file,
        file_name=file_name,
        listed=listed or pasted(request, "list") or None,
        ticket=request.POST.get("ticket", ""),
    )


@require_GET
def statement_page(request: ConsoleRequest, selection: str, given: str) -> HttpResponse:
    line, one = _of_selection(request, selection, given)
    after = request.GET.get("after", "0")
    if not (after.isascii() and after.isdecimal() and len(after) < 9):
        raise BadRequest(_("This link to a part of the list can’t be read. Start again from the first page."))
    context = list_pages.cover_context(statements.covers_of(one), after=int(after)) | {
        "selection": line,
        "public": ids.public("sel", line.id),
        "line": one,
        "given": given,
        "plan_url": f"{reverse('plan_replay')}?statement={given}",
        "in_chosen_team": line.team_id == request.team.pk,
        "now": database_now(),
    }
    return page(request, STATEMENT, context)


def _of_selection(request: ConsoleRequest, selection: str, given: str) -> tuple[SelectionLine, StatementLine]:
    line, number = selection_of_teams(request, selection), ids.parse("stm", given)
    one = statements.statement_of(number, [line.team_id]) if number else None
    if one is None or one.selection_id != line.id:
        raise Http404(_("There is no such statement about this selection."))
    _require(request, line)
    return line, one


@require_GET
def file(request: ConsoleRequest, selection: str, given: str) -> HttpResponse:
    """The provider's file as it was attached; never shown inside the page."""
    _line, one = _of_selection(request, selection, given)
    if not one.file_bytes:
        raise Http404(_("Nothing was attached to this statement."))
    response = HttpResponse(statements.file_of(one.id), content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{given}"'
    no_store(response)
    return response

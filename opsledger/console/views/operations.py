"""The list of operations, and the search at the top of every page."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from opsledger.accounts.roles import people_of
from opsledger.console import desk
from opsledger.console.http import ConsoleRequest, page, see_other
from opsledger.console.views.search import single_hit
from opsledger.console.vocabulary import rows_of, shown
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries.choices import choices
from opsledger.ledger.queries.operation_filter import OperationFilter
from opsledger.ledger.queries.operation_lines import OperationLine
from opsledger.ledger.queries.operations import page_of
from opsledger.lib import ids

FIELDS = ("q", "state", "owner", "workflow", "destination", "cursor")


@require_GET
def operations_page(request: ConsoleRequest) -> HttpResponse:
    """Newest first. A search that means exactly one operation goes straight to it."""
    text = request.GET.get("q", "")
    if text and set(request.GET) <= {"q"}:
        found = single_hit(text, request.team.pk)
        if found is not None:
            return see_other(reverse("operation", args=[ids.public("op", found)]))
    asked, problems = OperationFilter.read(
        {name: values for name, values in request.GET.lists() if name in FIELDS and any(values)}
    )
    if problems:
        raise BadRequest(" ".join(f"{name} {what}." for name, what in problems))
    found_page, now = page_of(request.team.pk, asked), database_now()
    known = choices(request.team.pk)
    context = {
        "rows": [row_of(line, now) for line in found_page.lines],
        "chosen": chosen_of(request),
        "text": text,
        "trimmed": text.strip() if text != text.strip() else "",
        "states": [(row.value, row.word) for row in rows_of("operation")],
        "workflows": known.workflows,
        "destinations": known.destinations,
        "people": people_of(request.team),
        "next_url": f"?{_query(request, cursor=found_page.next)}" if found_page.next else "",
        "is_later": bool(asked.cursor),
        "first_url": f"?{_query(request)}",
        "filter_query": _query(request),
        "looked_at_part": bool(found_page.next) and len(found_page.lines) < asked.limit,
        "now": now,
    }
    return page(request, "operations/operations.html", context)


def chosen_of(request: ConsoleRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "") for name in FIELDS if name != "cursor" and request.GET.get(name)}


def _query(request: ConsoleRequest, **changes: str | None) -> str:
    values = chosen_of(request) | {name: value for name, value in changes.items() if value}
    return urlencode(values)


def row_of(line: OperationLine, now: Any) -> dict[str, Any]:
    """One row, made before the template sees it."""
    return {
        "url": reverse("operation", args=[ids.public("op", line.id)]),
        "public": ids.public("op", line.id),
        "title": line.title,
        "text_id": line.operation_id,
        "state": line.state,
        "workflow": line.workflow,
        "steps": [(step.state, step.title, step.destination) for step in line.steps],
        "references": line.references,
        "owner": line.owner_name,
        "asks": [shown(hold.reason).word for hold in line.holds],
        "updated": line.updated_at,
        "updated_text": desk.clock(line.updated_at, now),
    }

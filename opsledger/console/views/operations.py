"""The list of operations, and the search at the top of every page."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from opsledger.accounts.roles import people_of
from opsledger.console.addresses import address
from opsledger.console.http import ConsoleRequest, page, see_other
from opsledger.console.templatetags.ops import badge, id_text, local_time, state_word, who
from opsledger.console.views.search import single_hit
from opsledger.console.vocabulary import rows_of, shown
from opsledger.ledger.clock import lately_now
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
    found_page, now = page_of(request.team.pk, asked), lately_now()
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


def row_of(line: OperationLine, now: datetime) -> dict[str, str]:
    """One row, made before the template sees it."""
    public = ids.public("op", line.id)
    return {
        "public": public,
        "url": address("operation", public),
        "title": line.title,
        "text_id": line.operation_id,
        "shown_id": id_text(line.operation_id),
        "workflow": line.workflow,
        "state": badge(line.state, "operation"),
        "asks": ", ".join(shown(hold.reason).word for hold in line.holds),
        "steps": _one_below_another(state_word(step.state, "step", step.title) for step in line.steps),
        "references": _one_below_another(id_text(one) for one in line.references),
        "owner": who(line.owner_name),
        "updated": local_time(line.updated_at, "short", now),
    }


def _one_below_another(parts: Iterable[str]) -> SafeString:
    return format_html_join("", '<span class="sub">{}</span>', ((part,) for part in parts))

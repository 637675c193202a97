"""“Maria is reading this too”: an open page tells that it is being read, and is told by whom else."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from opsledger.accounts.models import Person
from opsledger.console.http import ConsoleRequest, no_content, page, wants_fragment
from opsledger.console.presence import installed_presence
from opsledger.ledger.queries.owning_teams import PAGES, team_of
from opsledger.lib import ids

NAMED_MAX = 3


@require_POST
def presence(request: ConsoleRequest, kind: str, thing: str) -> HttpResponse:
    """Writes to Redis only. Keyed by the team that the page belongs to, whichever is chosen now."""
    number = ids.parse(PAGES[kind][0], thing) if kind in PAGES else None
    team_id = team_of(kind, number, request.team_ids) if number else None
    if team_id is None:
        raise Http404(_("There is no such page in your teams."))
    others = installed_presence().beat(team_id, f"{kind}:{thing}", request.user.pk)
    if not wants_fragment(request):
        return no_content()
    people = _people(others, team_id)
    named, more_count = people[:NAMED_MAX], len(people[NAMED_MAX:])
    listed = named if more_count else named[:-1]
    context = {
        "people": named,
        "names": format_html_join(", ", "<b>{}</b>", ((one.display_name,) for one in listed)),
        "last_name": format_html("<b>{}</b>", named[-1].display_name) if named else "",
        "more_count": more_count,
    }
    return page(request, "presence.html", context, fragments=("presence",), fragment="presence")


def _people(person_ids: list[UUID], team_id: UUID) -> list[Person]:
    """Those who are still of the team, by name."""
    if not person_ids:
        return []
    found = Person.objects.filter(pk__in=person_ids, is_active=True, memberships__team_id=team_id)
    return list(found.distinct().order_by("display_name", "pk"))

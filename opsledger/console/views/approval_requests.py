"""One changed request that is approved by itself: what would be sent now beside what was sent before, and the decision."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.roles import Permission
from opsledger.console import approval_pages as pages
from opsledger.console import desk
from opsledger.console.forms import by_person
from opsledger.console.http import ConsoleRequest, page, see_other, wants_fragment
from opsledger.console.views.approvals import (
    FRAGMENTS,
    Asked,
    approved_words,
    asked_again,
    reason_of,
    who_may,
)
from opsledger.console.views.operation import require_in, team_and_roles
from opsledger.engine.bell import ring
from opsledger.ledger.actions.approve import ContentStale, NotEligible, settle_revision_approval
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.actions.settle import Refused
from opsledger.ledger.clock import database_now
from opsledger.ledger.queries import approvals
from opsledger.ledger.queries import content as contents
from opsledger.ledger.queries.timeline import names_of
from opsledger.lib import ids


def place_here(request: ConsoleRequest, public: str) -> tuple[UUID, approvals.Place]:
    number = ids.parse("stp", public)
    place = approvals.place_of(number, request.team_ids) if number else None
    if number is None or place is None:
        raise Http404(_("There is no such request in your teams."))
    return number, place


@require_GET
def request_page(request: ConsoleRequest, step: str) -> HttpResponse:
    step_id, place = place_here(request, step)
    return _request_page(request, step_id, place, Asked())


def _request_page(
    request: ConsoleRequest, step_id: UUID, place: approvals.Place, asked: Asked, *, status: int = 200
) -> HttpResponse:
    team, roles = team_and_roles(request, place.team_id)
    covered = contents.covered_revision(step_id)
    unable = approvals.unable_for([step_id])[step_id]
    names = names_of([place.author])
    context = {
        "place": place,
        "public": ids.public("stp", step_id),
        "step_public": ids.public("stp", step_id),
        "op": ids.public("op", place.operation_id),
        "covered": covered,
        "author": names.get(place.author, ""),
        "diff": pages.request_diff(step_id, approved_number=None, reveal=asked.reveal),
        "approval": approvals.approvals_of(place.operation_id).get(place.number),
        **who_may(
            request, team, roles, approvals.approvers(team.pk, unable), asked, unable.get(request.user.pk, "")
        ),
    }
    fragment = "approval" if wants_fragment(request) else None
    return page(
        request, "approvals/request.html", context, fragments=FRAGMENTS, fragment=fragment, status=status
    )


@require_POST
def reveal_request(request: ConsoleRequest, step: str) -> HttpResponse:
    step_id, place = place_here(request, step)
    require_in(request, place.team_id, Permission.REVEAL)
    record_revealed(place.operation_id, f"request:{place.number}", by_person(request.user))
    return _request_page(request, step_id, place, Asked(reveal=True))


@require_POST
def decide_request(request: ConsoleRequest, step: str) -> HttpResponse:
    """Approves one changed request, once."""
    step_id, place = place_here(request, step)
    require_in(request, place.team_id, Permission.APPROVE_CONTENT)
    digest, revision = request.POST.get("covered_digest", "")[:64], request.POST.get("revision", "")
    try:
        approved = settle_revision_approval(
            step_id,
            int(revision) if revision.isdecimal() and len(revision) < 6 else 0,
            covered_digest=digest,
            by=by_person(request.user),
            reason=reason_of(request),
        )
    except Refused as why:
        asked = asked_again(request, errors={why.field or "form": why.why})
        return _request_page(request, step_id, place, asked, status=422)
    except NotEligible as not_this_person:
        raise PermissionDenied(not_this_person.why) from not_this_person
    except ContentStale as stale:
        return _stale_request(request, step_id, place, revision, stale)
    ring("dispatch")
    messages.success(request, approved_words(approved))
    return see_other(reverse("approval_of_request", args=[step]))


def _stale_request(
    request: ConsoleRequest, step_id: UUID, place: approvals.Place, revision: str, stale: ContentStale
) -> HttpResponse:
    found = approvals.approvals_of(place.operation_id).get(place.number)
    changed = _("%(what)s Nothing of yours was recorded.") % {"what": stale.sentence}
    if found is not None and found.approved_by and str(place.revision) == revision:
        if found.approved_by_id == request.user.pk:
            messages.info(request, _("Your decision was recorded already."))
            return see_other(reverse("approval_of_request", args=[ids.public("stp", step_id)]))
        changed = _("%(name)s approved this request at %(time)s. Nothing of yours was recorded.") % {
            "name": found.approved_by,
            "time": desk.clock(found.approved_at, database_now()),
        }
    return _request_page(request, step_id, place, asked_again(request, changed=changed), status=409)

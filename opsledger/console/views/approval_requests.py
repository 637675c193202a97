"""One changed request that is approved by itself: what would be sent now beside what was sent before, and the decision."""

from __future__ import annotations

from typing import Any
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
from opsledger.console.forms import by_person, version_of
from opsledger.console.http import ConsoleRequest, page, see_other, wants_fragment
from opsledger.console.permissions import require_in, team_and_roles
from opsledger.console.views.approvals import (
    FRAGMENTS,
    Asked,
    approved_words,
    asked_again,
    reason_of,
    who_may,
)
from opsledger.engine.bell import ring
from opsledger.ledger.actions.approve import ContentStale, NotEligible, settle_revision_approval
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.reject_request import RejectedRequest, settle_revision_rejection
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.approvals import ApprovedBefore, approved_before, replaced_by
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
    replaced = replaced_by([place.operation_id]).get(place.operation_id, "") if covered else ""
    context: dict[str, Any] = {
        "place": place,
        "public": ids.public("stp", step_id),
        "step_public": ids.public("stp", step_id),
        "op": ids.public("op", place.operation_id),
        "covered": covered,
        "author": names.get(place.author, ""),
        "diff": pages.request_diff(step_id, approved_number=None, reveal=asked.reveal),
        "approval": approvals.approvals_of(place.operation_id).get(place.number),
        "back": None if replaced else _back(step_id, covered),
        "rejected": None if covered else approvals.rejected_last(place.operation_id, place.number),
        **who_may(
            request, team, roles, approvals.approvers(team.pk, unable), asked, unable.get(request.user.pk, "")
        ),
    }
    if replaced:
        why = _(
            "Operation %(name)s replaces this one, and both would take effect: nobody approves it any more."
        )
        context |= {"may_approve": False, "cannot": why % {"name": replaced}}
    fragment = "approval" if wants_fragment(request) else None
    return page(
        request, "approvals/request.html", context, fragments=FRAGMENTS, fragment=fragment, status=status
    )


def _back(step_id: UUID, covered: contents.Covered | None) -> ApprovedBefore | None:
    """The approved request that a rejection may return to; None where it is what waits."""
    found = approved_before(step_id) if covered else None
    if covered is None or found is None or covered.steps[0].content_digest == found.request_digest:
        return None
    return found


@require_POST
def reveal_request(request: ConsoleRequest, step: str) -> HttpResponse:
    step_id, place = place_here(request, step)
    require_in(request, place.team_id, Permission.REVEAL)
    record_revealed(place.operation_id, f"request:{place.number}", by_person(request.user))
    return _request_page(request, step_id, place, Asked(reveal=True))


@require_POST
def decide_request(request: ConsoleRequest, step: str) -> HttpResponse:
    """Approves or rejects one changed request, once."""
    step_id, place = place_here(request, step)
    require_in(request, place.team_id, Permission.APPROVE_CONTENT)
    revision = _revision_of(request)
    try:
        said = _decided(request, step_id, place, revision)
    except Refused as why:
        asked = asked_again(request, errors={why.field or "form": why.why})
        return _request_page(request, step_id, place, asked, status=422)
    except NotEligible as not_this_person:
        raise PermissionDenied(not_this_person.why) from not_this_person
    except ContentStale as stale:
        return _stale_request(request, step_id, place, revision, stale)
    ring("dispatch")
    messages.success(request, said)
    return see_other(reverse("approval_of_request", args=[step]))


def _revision_of(request: ConsoleRequest) -> int:
    text = request.POST.get("revision", "")
    return int(text) if text.isdecimal() and len(text) < 6 else 0


def _decided(request: ConsoleRequest, step_id: UUID, place: approvals.Place, revision: int) -> str:
    answer, reason = request.POST.get("answer", ""), reason_of(request)
    digest, by = request.POST.get("covered_digest", "")[:64], by_person(request.user)
    if answer == "approve":
        return approved_words(
            settle_revision_approval(step_id, revision, covered_digest=digest, by=by, reason=reason)
        )
    if answer == "reject":
        rejected = settle_revision_rejection(
            step_id,
            revision,
            covered_digest=digest,
            version=version_of(request.POST),
            by=by,
            reason=reason,
            returns=request.POST.get("return") == "yes",
        )
        return _rejected_words(rejected, place)
    raise Refused(_("Choose whether you approve or reject it."), field="answer")


def _rejected_words(rejected: RejectedRequest, place: approvals.Place) -> str:
    if rejected.returned_to is None:
        return _("Rejected. Step %(number)s is ended.") % {"number": place.number}
    said = _("Rejected. It is back at the request of revision %(number)s, under a new key") % {
        "number": rejected.returned_to
    }
    if rejected.approved_again:
        return _("%(said)s, and approved by you.") % {"said": said}
    return _("%(said)s, and waits for somebody else’s approval.") % {"said": said}


def _stale_request(
    request: ConsoleRequest, step_id: UUID, place: approvals.Place, revision: int, stale: ContentStale
) -> HttpResponse:
    """409 with the new state and who decided; the same decision pressed twice is answered as the first time."""
    found = approvals.approvals_of(place.operation_id).get(place.number)
    changed = _("%(what)s Nothing of yours was recorded.") % {"what": stale.sentence}
    mine = request.POST.get("answer") == "reject" and _rejected_by_me(request, place, revision)
    if found is not None and found.approved_by and place.revision == revision:
        mine = mine or found.approved_by_id == request.user.pk
        changed = _("%(name)s approved this request at %(time)s. Nothing of yours was recorded.") % {
            "name": found.approved_by,
            "time": desk.clock(found.approved_at, database_now()),
        }
    if mine:
        messages.info(request, _("Your decision was recorded already."))
        return see_other(reverse("approval_of_request", args=[ids.public("stp", step_id)]))
    return _request_page(request, step_id, place, asked_again(request, changed=changed), status=409)


def _rejected_by_me(request: ConsoleRequest, place: approvals.Place, revision: int) -> bool:
    last = approvals.rejected_last(place.operation_id, place.number)
    return last is not None and (last.actor, last.revision) == (by_person(request.user).actor, revision)

"""Approvals: what waits for one, what exactly would be sent, and the decision over it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from opsledger.accounts.models import Team
from opsledger.accounts.roles import Permission, Role, allowed
from opsledger.console import approval_pages as pages
from opsledger.console import approval_rows as rows
from opsledger.console import desk
from opsledger.console.filters import read_last
from opsledger.console.forms import TEXT_MAX, by_person, too_long
from opsledger.console.forms import version_of as version_of_post
from opsledger.console.http import ConsoleRequest, page, see_other, wants_fragment
from opsledger.console.permissions import require_in, team_and_roles, why_not
from opsledger.console.story.contents import content_items
from opsledger.console.wording.approvers import RECORDED_ALL, somebody_else_has_to
from opsledger.engine.bell import ring
from opsledger.ledger import approvals as rules_of_approval
from opsledger.ledger.actions.approve import (
    Approved,
    ContentStale,
    NotEligible,
    settle_approval,
)
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.reject import Rejected, settle_rejection
from opsledger.ledger.actions.reveal import record_revealed
from opsledger.ledger.clock import database_now
from opsledger.ledger.models import ContentVersion
from opsledger.ledger.queries import approvals, holds
from opsledger.ledger.queries import content as contents
from opsledger.ledger.queries.content import Covered, Version
from opsledger.ledger.queries.timeline import names_of, story_of
from opsledger.lib import ids
from opsledger.rules.content import VersionState
from opsledger.rules.states import HoldReason

PAGE = "approvals/version.html"
FRAGMENTS = ("approval",)


@dataclass(slots=True)
class Asked:
    """The form as it is shown again: what was typed, what is wrong, what changed meanwhile."""

    typed: dict[str, str] = field(default_factory=dict)
    returns: frozenset[str] | None = None  # ticked operations; None: as at first
    errors: dict[str, str] = field(default_factory=dict)
    changed: str = ""
    reveal: bool = False


def version_here(request: ConsoleRequest, public: str) -> Version:
    number = ids.parse("cv", public)
    version = contents.version_of(number, request.team_ids) if number else None
    if version is None:
        raise Http404(_("There is no such content version in your teams."))
    return version


# The list


@require_GET
def approvals_page(request: ConsoleRequest) -> HttpResponse:
    """What waits for this person, what waits for others and why, and what was decided lately."""
    waiting = contents.approvals_waiting([request.team.pk])
    unable = approvals.unable_for([one.step_id for one in waiting.revisions])
    may = allowed(request.roles, Permission.APPROVE_CONTENT)
    names = names_of(
        {one.version.requested_by for one in waiting.versions}
        | {f"person:{one.version.author_person_id}" for one in waiting.versions}
        | {one.author for one in waiting.revisions}
    )
    me, now = request.user.pk, database_now()
    lines = [rows.version_row(one, names, me, now) for one in waiting.versions]
    lines += [
        rows.revision_row(one, names, unable.get(one.step_id, {}).get(me, ""), now)
        for one in waiting.revisions
    ]
    lines.sort(key=lambda row: (row["due_at"] is None, row["due_at"] or row["opened_at"]))
    mine = [row for row in lines if may and not row["why_not"]]
    context = {
        "mine": mine,
        "others": [row for row in lines if row not in mine],
        "may_approve": may,
        "why": "" if may else why_not(request.roles, Permission.APPROVE_CONTENT, request.team),
        "fallback": request.team.fallback_owner.display_name,
        "decided": [rows.decided_row(one) for one in approvals.decided_lately([request.team.pk])],
        "now": now,
    }
    return page(request, "approvals/approvals.html", context)


@require_GET
def approval_of_hold(request: ConsoleRequest, hold: str) -> HttpResponse:
    """Where a question *approval needed* is decided; once it has ended, its operation."""
    number = ids.parse("hold", hold)
    row = holds.hold_of(number, request.team_ids) if number else None
    if row is None:
        raise Http404(_("There is no such hold in your teams."))
    if row.closed_at is None and row.step_id is not None and row.reason == HoldReason.APPROVAL_NEEDED:
        return see_other(address_of_step(row.step_id, request.team_ids))
    return see_other(reverse("hold", args=[hold]))


def address_of_step(step_id: UUID, team_ids: list[UUID]) -> str:
    """The page on which the step’s present request is approved: its content version’s, or its own."""
    place = approvals.place_of(step_id, team_ids)
    version = contents.version_shown(step_id)
    if version is not None and place is not None and place.kind != "revised":
        return reverse("approval", args=[ids.public("cv", version)])
    return reverse("approval_of_request", args=[ids.public("stp", step_id)])


# One content version


@require_GET
def approval_page(request: ConsoleRequest, version: str) -> HttpResponse:
    return _version_page(request, version_here(request, version), Asked())


def _version_page(
    request: ConsoleRequest, version: Version, asked: Asked, *, status: int = 200
) -> HttpResponse:
    return page(
        request,
        PAGE,
        context_of(request, version, asked),
        fragments=FRAGMENTS,
        fragment="approval" if wants_fragment(request) else None,
        status=status,
    )


def context_of(request: ConsoleRequest, version: Version, asked: Asked) -> dict[str, Any]:
    team, roles = team_and_roles(request, version.team_id)
    covered = contents.covered(version)
    covers, replaced = pages.without_replaced(covered)
    barred = contents.left_out(version, covers.steps, request.user.pk)
    wanted = request.POST.get("step", "") or request.GET.get("step", "")
    chosen = pages.chosen_step(covers, wanted)
    text = approvals.text_of(version.id, request.team_ids)
    standing = approvals.approved_text(version.of_id, other_than=version.number)
    assert text is not None
    told = story_of(version.of_id)
    actors = {entry.actor for entry in told.told} | {version.requested_by, version.decided_by}
    names = names_of(actors | {f"person:{version.author_person_id}"})
    given = approvals.given(version.id)
    after = _after(request)
    waits = version.state in {VersionState.PROPOSED, VersionState.APPROVED}
    unable = rules_of_approval.barred_by_version(version.author_person_id, version.requested_by_person_id)
    # who may not approve the version leaves nothing of it out
    apart = {} if request.user.pk in unable else barred
    mine_alone = bool(covers.steps) and all(one.step_id in barred for one in covers.steps)
    why = unable.get(request.user.pk, "") or (RECORDED_ALL if mine_alone else "")
    latest = given[0] if given else None
    return {
        "version": version,
        "public": ids.public("cv", version.id),
        "step_public": ids.public("stp", chosen) if chosen else "",
        "heading": _("Content version %(number)s of %(content)s")
        % {"number": version.number, "content": version.content_id},
        "author": pages.author_words(version, names),
        "asked_by": names.get(version.requested_by, version.requested_by),
        "decided_by": names.get(version.decided_by, version.decided_by),
        "covered": covered,
        "covers": covers,
        "replaced": replaced[: pages.COVERED_PAGE],
        "replaced_count": len(replaced),
        "covered_page": pages.covered_page(covers, apart, after=after, chosen=chosen),
        "after": after,
        "left_out_count": len({one.operation_id for one in covers.steps if one.step_id in apart}),
        "step_title": next((one.title for one in covers.steps if one.step_id == chosen), ""),
        "diff": pages.request_diff(
            chosen, approved_number=standing.number if standing else None, reveal=asked.reveal
        )
        if chosen
        else None,
        "fields": pages.field_rows(standing, text, reveal=asked.reveal),
        "standing": standing,
        "returns_to": standing if standing and standing.state == VersionState.APPROVED else None,
        "latest": latest,
        "given": given,
        "open": waits and (version.state is VersionState.PROPOSED or bool(covered.steps)),
        "newest": text.latest_number == version.number,
        "versions": [
            {
                "number": one.number,
                "state": one.state.value,
                "url": reverse("approval", args=[ids.public("cv", one.id)]),
            }
            for one in contents.versions_of(version.team_id, version.content_id, size=10)
        ],
        "items": content_items(told.told, names),
        "may_propose": allowed(roles, Permission.PROPOSE),
        **who_may(request, team, roles, approvals.approvers(team.pk, unable), asked, why),
    }


def who_may(
    request: ConsoleRequest,
    team: Team,
    roles: frozenset[Role],
    people: list[approvals.Approver],
    asked: Asked,
    barred: str,
) -> dict[str, Any]:
    """Who may decide, what this person may do, and why not."""
    may_here = allowed(roles, Permission.APPROVE_CONTENT)
    cannot = "" if may_here else why_not(roles, Permission.APPROVE_CONTENT, team)
    if barred:
        cannot = somebody_else_has_to(barred)
    return {
        "here_team": team,
        "approvers": pages.approver_lines(people, request.user.pk),
        "nobody": not any(not one.why_not for one in people),
        "fallback": team.fallback_owner.display_name,
        "may_approve": may_here and not barred,
        "may_reject": may_here,
        "cannot": cannot,
        "may_reveal": allowed(roles, Permission.REVEAL),
        "why_reveal": why_not(roles, Permission.REVEAL, team),
        "asked": asked,
        "typed": asked.typed,
        "errors": asked.errors,
        "revealed": asked.reveal,
        "now": database_now(),
    }


def _after(request: ConsoleRequest) -> str:
    """The last step of the page before, among those that the version covers."""
    text = request.POST.get("after", "") or request.GET.get("after", "")
    read_last("stp", text)
    return text


@require_POST
def reveal(request: ConsoleRequest, version: str) -> HttpResponse:
    """Shows masked values once; written to the journals of the content and of the operation before."""
    known = version_here(request, version)
    require_in(request, known.team_id, Permission.REVEAL)
    _after(request)  # refused, if it is, before the line is written
    by = by_person(request.user)
    record_revealed(known.of_id, f"version {known.number}", by, kind="content")
    chosen = pages.chosen_step(contents.covered(known), request.POST.get("step", ""))
    place = approvals.place_of(chosen, request.team_ids) if chosen else None
    if place is not None:
        record_revealed(place.operation_id, f"request:{place.number}", by)
    return _version_page(request, known, Asked(reveal=True))


@require_POST
def decide(request: ConsoleRequest, version: str) -> HttpResponse:
    """Approves or rejects, once. Another state than the one that was read changes nothing, and shows the new one."""
    known = version_here(request, version)
    require_in(request, known.team_id, Permission.APPROVE_CONTENT)
    answer = request.POST.get("answer", "")
    try:
        said = _decided(request, known, answer)
    except Refused as why:
        return _version_page(
            request, known, asked_again(request, errors={why.field or "form": why.why}), status=422
        )
    except NotEligible as not_this_person:
        raise PermissionDenied(not_this_person.why) from not_this_person
    except ContentStale as stale:
        return _stale(request, known, answer, stale)
    ring("dispatch")
    messages.success(request, said)
    return see_other(reverse("approval", args=[version]))


def _decided(request: ConsoleRequest, known: Version, answer: str) -> str:
    reason = reason_of(request)
    number, digest, by = (
        version_of_post(request.POST),
        request.POST.get("covered_digest", "")[:64],
        by_person(request.user),
    )
    if answer == "approve":
        approved = settle_approval(known.id, covered_digest=digest, version=number, by=by, reason=reason)
        return approved_words(approved)
    if answer == "reject":
        returns = _returns(request, contents.covered(known))
        rejected = settle_rejection(
            known.id, covered_digest=digest, version=number, by=by, reason=reason, returns=returns
        )
        return _rejected_words(rejected)
    raise Refused(_("Choose whether you approve or reject it."), field="answer")


def reason_of(request: ConsoleRequest) -> str:
    text = request.POST.get("reason", "").replace("\r\n", "\n")
    if len(text) > TEXT_MAX:
        raise Refused(too_long(TEXT_MAX), field="reason")
    return text


def _returns(request: ConsoleRequest, covered: Covered) -> list[UUID]:
    """The ticked operations of the page that was shown, and the others by the choice made for all of them.

    What another operation replaces is not listed for a return; it is cancelled.
    """
    covered, _replaced = pages.without_replaced(covered)
    ticked = {number for text in request.POST.getlist("return") if (number := ids.parse("op", text))}
    if request.POST.get("others") != "return":
        return sorted(ticked)
    shown = pages.covered_page(covered, {}, after=_after(request), chosen=None)
    listed = {line.step.operation_id for line in shown.lines}
    return sorted(ticked | {one.operation_id for one in covered.steps if one.operation_id not in listed})


def approved_words(approved: Approved) -> str:
    said = ngettext(
        "Approved: one request may be sent.",
        "Approved: %(count)s requests may be sent.",
        approved.approved_count,
    ) % {"count": approved.approved_count}
    if not approved.approved_count:
        said = _("Approved. Nothing waits for it now; what comes to wait is approved by itself.")
    replaced = sum(1 for one in approved.left_out if one.replaced)
    barred = len(approved.left_out) - replaced
    if barred:
        said += " " + ngettext(
            "One operation is left for somebody else, because you recorded it.",
            "%(count)s operations are left for somebody else, because you recorded them.",
            barred,
        ) % {"count": barred}  # fmt: skip
    if replaced:
        said += " " + ngettext(
            "One operation is not approved, because another one replaces it.",
            "%(count)s operations are not approved, because others replace them.",
            replaced,
        ) % {"count": replaced}  # fmt: skip
    return said


def _rejected_words(rejected: Rejected) -> str:
    said = [_("Rejected.")]
    if rejected.returned_count:
        said.append(
            ngettext(
                "One operation is back at the approved version.",
                "%(count)s operations are back at the approved version.",
                rejected.returned_count,
            )
            % {"count": rejected.returned_count}
        )
    if rejected.cancelled_count:
        said.append(
            ngettext("One is cancelled.", "%(count)s are cancelled.", rejected.cancelled_count)
            % {"count": rejected.cancelled_count}
        )
    return " ".join(said)


def asked_again(request: ConsoleRequest, *, errors: dict[str, str] | None = None, changed: str = "") -> Asked:
    typed = {name: request.POST.get(name, "")[:TEXT_MAX] for name in ("answer", "reason", "others")}
    return Asked(typed, frozenset(request.POST.getlist("return")), errors or {}, changed)


def _stale(request: ConsoleRequest, known: Version, answer: str, stale: ContentStale) -> HttpResponse:
    """409 with the new state and who decided; the same decision pressed twice is answered as the first time."""
    row = stale.version
    if row is not None and _was_mine(request, row, answer):
        messages.info(request, _("Your decision was recorded already."))
        return see_other(reverse("approval", args=[ids.public("cv", known.id)]))
    fresh = contents.version_of(known.id, request.team_ids)
    assert fresh is not None
    return _version_page(
        request, fresh, asked_again(request, changed=_what_changed(request, fresh, stale)), status=409
    )


def _was_mine(request: ConsoleRequest, row: ContentVersion, answer: str) -> bool:
    wanted = {"approve": VersionState.APPROVED, "reject": VersionState.REJECTED}.get(answer)
    made_on = version_of_post(request.POST)
    return (
        row.state == wanted and row.decided_by == by_person(request.user).actor and row.version == made_on + 1
    )


def _what_changed(request: ConsoleRequest, fresh: Version, stale: ContentStale) -> str:
    if fresh.state is VersionState.SUPERSEDED:
        return _("A newer version took the place of this one. Nothing of yours was recorded.")
    if fresh.decided_at is None or fresh.version == version_of_post(request.POST):
        return _("%(what)s Nothing of yours was recorded; look at it again.") % {"what": stale.sentence}
    name = names_of([fresh.decided_by]).get(fresh.decided_by, _("Somebody"))
    words = {
        VersionState.APPROVED: _(
            "%(name)s approved this version at %(time)s. Nothing of yours was recorded."
        ),
        VersionState.REJECTED: _(
            "%(name)s rejected this version at %(time)s. Nothing of yours was recorded."
        ),
    }.get(fresh.state, stale.sentence)
    return words % {"name": name, "time": desk.clock(fresh.decided_at, database_now())}

"""Content versions and approvals: proposed, read, approved, rejected. An automation proposes; only people decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from opsledger.api.answers import plain, record_answer, respond
from opsledger.api.caller import Caller
from opsledger.api.operations import here, operation_id_of, operation_ids_of, refused
from opsledger.api.paging import bad_cursor, cursor_of, page_of
from opsledger.api.problems import Problem
from opsledger.api.reading import invalid
from opsledger.api.shapes.content import (
    Approval,
    Author,
    NewVersion,
    Rejection,
    RevisionApproval,
    RevisionRejection,
    VersionOfContent,
)
from opsledger.api.versions import version_of
from opsledger.engine import bell
from opsledger.ledger.actions.approve import (
    ContentStale,
    NotEligible,
    settle_approval,
    settle_revision_approval,
)
from opsledger.ledger.actions.content import BadContent, Proposal, open_content_version
from opsledger.ledger.actions.deciding import Refused
from opsledger.ledger.actions.reject import settle_rejection
from opsledger.ledger.actions.reject_request import settle_revision_rejection
from opsledger.ledger.actions.report import NoSuchThing, step_row
from opsledger.ledger.approvals import CoveredStep
from opsledger.ledger.models import Step
from opsledger.ledger.queries import content as queries
from opsledger.ledger.queries.requests import ShownRequest, shown_request
from opsledger.ledger.queries.timeline import names_of
from opsledger.lib.ids import parse, public
from opsledger.rules.content import AuthorKind
from opsledger.rules.identity import allowed_in_path

T = TypeVar("T")
NO_VERSION = "This team has no such content version."


# Proposing


def propose(caller: Caller, request: HttpRequest, given: NewVersion) -> HttpResponse:
    return _propose(caller, given.content_id, given)


def propose_at(caller: Caller, request: HttpRequest, content: str, given: VersionOfContent) -> HttpResponse:
    return _propose(caller, _content_id(content), given)


def _propose(caller: Caller, content_id: str, given: VersionOfContent) -> HttpResponse:
    kind, name = author_of(caller, given.author)
    proposal = Proposal(content_id, given.workflow, given.fields, kind, name, given.origin, given.client_key)
    try:
        opened = open_content_version(caller.team_id, proposal, caller.by)
    except BadContent as why:
        raise invalid(why.problems) from why
    version = _found(caller, opened.id)
    body = {
        "version": version_answer(version),
        "result": "proposed" if opened.new else "same",
        "moved": opened.moved_count,
    }
    return respond(201 if opened.new else 200, body, _tagged(version.version))


def author_of(caller: Caller, given: Author | None) -> tuple[AuthorKind, str]:
    """Who wrote it, by the caller's word: the caller, where nothing is said."""
    person = caller.token.person
    if given is not None:
        return AuthorKind(given.kind), given.name
    return (AuthorKind.PERSON, person.email) if person else (AuthorKind.AUTOMATION, caller.by.name)


# Reading


def listed(caller: Caller, request: HttpRequest) -> HttpResponse:
    return _listed(caller, request.GET.get("content_id", ""), request)


def listed_at(caller: Caller, request: HttpRequest, content: str) -> HttpResponse:
    return _listed(caller, _content_id(content), request)


def _listed(caller: Caller, content_id: str, request: HttpRequest) -> HttpResponse:
    limit, cursor = page_of(request)
    before = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 10 else None
    if cursor and before is None:
        raise bad_cursor()
    if not content_id or "\x00" in content_id:
        raise invalid([("content_id", "must name a content")])
    found = queries.versions_of(caller.team_id, content_id, before=before, size=limit + 1)
    following = cursor_of(str(found[limit - 1].number)) if len(found) > limit else None
    return respond(200, {"items": [version_answer(one) for one in found[:limit]], "next": following})


def read_one(caller: Caller, request: HttpRequest, version: str) -> HttpResponse:
    found = find(caller, version)
    return respond(200, version_answer(found), _tagged(found.version))


def covered(caller: Caller, request: HttpRequest, version: str) -> HttpResponse:
    """What an approval would cover, in pages; the digest is over all of it."""
    found = find(caller, version)
    limit, cursor = page_of(request)
    after = _after(cursor)
    whole = queries.covered(found)
    steps = sorted(whole.steps, key=lambda one: one.step_id)
    rest = [one for one in steps if after is None or one.step_id > after]
    following = cursor_of(str(rest[limit - 1].step_id)) if len(rest) > limit else None
    body = {
        "version": found.version,
        "covered_digest": whole.digest,
        "covered_count": len(steps),
        "items": [_step(one) for one in rest[:limit]],
        "next": following,
    }
    return respond(200, body, _tagged(found.version))


def _after(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        raise bad_cursor() from None


def request_of(caller: Caller, request: HttpRequest, operation: str, step: str) -> HttpResponse:
    """What the step would send as it stands, masked; with the digest for an approval where it is approved by itself."""
    row = _row(caller, operation, step)
    version = here(
        caller, row.operation_id
    ).version  # read first: what changes after it makes a decision stale
    shown = shown_request(row.pk)
    assert shown is not None  # its row is there
    alone = queries.covered_revision(row.pk)
    body = _request(shown) | {"covered_digest": alone.digest if alone else None}
    return respond(200, body, _tagged(version))


# Deciding


def approve(caller: Caller, request: HttpRequest, version: str, given: Approval) -> HttpResponse:
    found, at = find(caller, version), version_of(request)
    made = _decided(
        caller,
        found.id,
        lambda: settle_approval(
            found.id, covered_digest=given.covered_digest, version=at, by=caller.by, reason=given.reason
        ),
    )
    bell.ring()
    after = _found(caller, found.id)
    body = {
        "approval": public("appr", made.approval_id),
        "version": version_answer(after),
        "approved": made.approved_count,
        "left_out": [
            {
                "operation": public("op", one.operation_id),
                "operation_id": one.operation_text_id,
                "why": one.why,
            }
            for one in made.left_out
        ],
        "until": made.until,
    }
    return respond(200, body, _tagged(after.version))


def reject(caller: Caller, request: HttpRequest, version: str, given: Rejection) -> HttpResponse:
    found, at = find(caller, version), version_of(request)
    returns = operation_ids_of(caller, given.returns)
    made = _decided(
        caller,
        found.id,
        lambda: settle_rejection(
            found.id,
            covered_digest=given.covered_digest,
            version=at,
            by=caller.by,
            reason=given.reason,
            returns=returns,
        ),
    )
    bell.ring()
    after = _found(caller, found.id)
    body = {
        "version": version_answer(after),
        "returned": made.returned_count,
        "approved_again": made.approved_again_count,
        "cancelled": made.cancelled_count,
    }
    return respond(200, body, _tagged(after.version))


def approve_step(
    caller: Caller, request: HttpRequest, operation: str, step: str, given: RevisionApproval
) -> HttpResponse:
    row = _row(caller, operation, step)
    made = _decided(
        caller,
        None,
        lambda: settle_revision_approval(
            row.pk, given.revision, covered_digest=given.covered_digest, by=caller.by, reason=given.reason
        ),
    )
    bell.ring()
    body = {"approval": public("appr", made.approval_id), "revision": given.revision, "until": made.until}
    return respond(200, body)


def reject_step(
    caller: Caller, request: HttpRequest, operation: str, step: str, given: RevisionRejection
) -> HttpResponse:
    row, version = _row(caller, operation, step), version_of(request)
    try:
        made = settle_revision_rejection(
            row.pk, given.revision, covered_digest=given.covered_digest, version=version, by=caller.by,
            reason=given.reason, returns=given.returns,
        )  # fmt: skip
    except ContentStale as why:
        record = here(caller, row.operation_id)
        current = plain(record_answer(record))
        raise Problem("stale", str(why), headers=_tagged(record.version), current=current) from why
    except NotEligible as why:
        raise Problem("not_allowed", _unchanged(why.why)) from why
    except Refused as why:
        raise refused(why) from why
    bell.ring()
    record = here(caller, row.operation_id)
    body = {
        "revision": made.revision,
        "returned_to": made.returned_to,
        "approved_again": made.approved_again,
        "operation": record_answer(record),
    }
    return respond(200, body, _tagged(record.version))


def _decided(caller: Caller, version_id: UUID | None, decide: Callable[[], T]) -> T:
    """The decision, or the problem that it ends in."""
    try:
        return decide()
    except ContentStale as why:
        if version_id is None:
            raise Problem("not_now", str(why)) from why
        current = _found(caller, version_id)
        answer = plain(version_answer(current))
        raise Problem("stale", str(why), headers=_tagged(current.version), current=answer) from why
    except NotEligible as why:
        raise Problem("not_allowed", _unchanged(why.why)) from why
    except Refused as why:
        raise refused(why) from why


def _unchanged(sentence: str) -> str:
    return sentence if sentence.endswith("Nothing was changed.") else f"{sentence} Nothing was changed."


# Shared


def find(caller: Caller, text: str) -> queries.Version:
    number = parse("cv", text)
    if number is None:
        raise Problem("not_found", NO_VERSION)
    return _found(caller, number)


def _found(caller: Caller, version_id: UUID) -> queries.Version:
    found = queries.version_of(version_id, [caller.team_id])
    if found is None:
        raise Problem("not_found", NO_VERSION)
    return found


def _row(caller: Caller, operation: str, step: str) -> Step:
    try:
        return step_row(caller.team_id, operation_id_of(caller, operation), step)
    except NoSuchThing as why:
        raise Problem("not_found", "This operation has no such step.") from why


def _content_id(text: str) -> str:
    """Of a path: safe characters only, as for operations; any other is named in the body or the query."""
    if not allowed_in_path(text):
        raise Problem(
            "not_found", "A content id in a path is made of A-Z a-z 0-9 - _ ~ : only; see /api/docs."
        )
    return text


def version_answer(version: queries.Version) -> dict[str, Any]:
    names = names_of([actor for actor in (version.requested_by, version.decided_by) if actor])
    return {
        "id": public("cv", version.id),
        "content_id": version.content_id,
        "workflow": version.workflow,
        "number": version.number,
        "version": version.version,
        "state": version.state.value,
        "author": {"kind": version.author_kind, "name": version.author},
        "origin": version.origin,
        "requested_by": names.get(version.requested_by, version.requested_by),
        "created_at": version.created_at,
        "decided_by": names.get(version.decided_by, version.decided_by) or None,
        "decided_at": version.decided_at,
        "reason": version.reason,
        "digest": version.digest,
        "fields": [
            {"name": one.name, "label": one.label, "value": one.value, "masked": one.masked}
            for one in version.fields
        ],
    }


def _step(one: CoveredStep) -> dict[str, Any]:
    return {
        "operation": public("op", one.operation_id),
        "operation_id": one.operation_text_id,
        "title": one.title,
        "step": one.number,
        "name": one.step_name,
        "destination": one.destination,
        "action": one.action,
        "revision": one.revision,
        "request_digest": one.content_digest,
    }


def _request(shown: ShownRequest) -> dict[str, Any]:
    return {
        "method": shown.method,
        "url": shown.url,
        "headers": [list(pair) for pair in shown.headers],
        "fields": [{"name": path, "value": text} for path, text in shown.fields],
        "revision": shown.revision,
        "content_version": shown.content_number,
        "missing": list(shown.missing),
    }


def _tagged(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"'}

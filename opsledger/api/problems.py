"""What can go wrong, as RFC 9457 problems: what happened, that nothing was lost, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse

from opsledger.lib import chunked_body
from opsledger.lib.strict_json import dumps

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: its status, its title, and what a caller does about it."""

    status: int
    title: str
    todo: str


KINDS: Mapping[str, Kind] = {
    "bad_request": Kind(400, "This request can’t be taken", chunked_body.REMEDIES["bad_request"]),
    "bad_json": Kind(400, "The body can’t be read", "Mend the body and send it again."),
    "not_signed_in": Kind(
        401, "No valid token", "Send `Authorization: Bearer opl_…` with a token that is live."
    ),
    "not_allowed": Kind(403, "This token may not do this", "Use a token that may; ask an admin of the team."),
    "not_found": Kind(404, "There is nothing at this address", "Check the id and the token’s team."),
    "method": Kind(405, "This address does not take this method", "See the header Allow."),
    "operation_conflict": Kind(
        409,
        "This operation_id is taken by another action",
        "Use the recorded one, or give a deliberately new action a new operation_id.",
    ),
    "replaced_is_open": Kind(
        409, "The operation to be replaced is not settled", "Settle or cancel it first, then send this again."
    ),
    "replaced_already": Kind(
        409,
        "Another operation replaces it already",
        "Use the one in `operation`; or name that one in `replaces`, once it is settled.",
    ),
    "not_claimable": Kind(409, "This step is not to be done now", "Do what `next` says."),
    "not_now": Kind(409, "This can’t be done in the present state", "Read it again, then decide anew."),
    "length_required": Kind(411, "The body’s length is missing", chunked_body.REMEDIES["length_required"]),
    "reference_differs": Kind(
        409,
        "The record at the destination differs",
        "Compare `rows`. To settle all the same, send `accept_difference: true`.",
    ),
    "stale": Kind(
        412,
        "This changed while you were reading it; nothing was changed",
        "Read `current`, and decide anew with its version in If-Match.",
    ),
    "plan_moved": Kind(
        412,
        "The plan is not true any more; nothing was started",
        "Read `differences`, then start the plan in `now` with its own `plan_digest`.",
    ),
    "body_too_large": Kind(413, "The body is too large", "Send less at once."),
    "content_type": Kind(
        415, "This kind of body is not taken", "Send `Content-Type: application/json`, UTF-8."
    ),
    "invalid": Kind(
        422, "Something in the request can’t be taken", "Mend what `errors` names and send it again."
    ),
    "version_needed": Kind(
        428, "The version is missing", 'Send the version that you read as `If-Match: "3"`.'
    ),
    "broken": Kind(
        500,
        "Something went wrong here",
        "Send it again; recording is safe to repeat. If it fails twice, tell the operators its X-Request-Id.",
    ),
    "transfer_encoding": Kind(
        501, "This transfer encoding is not taken", chunked_body.REMEDIES["transfer_encoding"]
    ),
    "unavailable": Kind(
        503, "The database can’t be reached", "Send it again after Retry-After; recording is safe to repeat."
    ),
    "busy": Kind(503, "Others are at the same rows", "Send the same again: recording is safe to repeat."),
}


class Problem(Exception):
    """Ends a call with a problem of a kind. `errors` are (field, message); `more` are further members."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.errors = code, detail, tuple(errors)
        self.headers, self.more = dict(headers or {}), more

    @property
    def kind(self) -> Kind:
        return KINDS[self.code]

    def body(self) -> dict[str, Any]:
        kind = self.kind
        made: dict[str, Any] = {
            "type": f"/api/docs#problem-{self.code}",
            "title": kind.title,
            "status": kind.status,
            "code": self.code,
            "detail": self.detail,
            "todo": kind.todo,
        }
        if self.errors:
            made["errors"] = [{"field": field, "message": message} for field, message in self.errors]
        return made | self.more


def busy() -> Problem:
    return Problem(
        "busy",
        "Others were recording at the same rows at the same moment. Nothing was recorded.",
        headers={"Retry-After": "1"},
    )


def respond(problem: Problem) -> HttpResponse:
    return problem_response(problem.kind.status, problem.body(), problem.headers)


def problem_response(
    status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> HttpResponse:
    response = HttpResponse(dumps(dict(body)), status=status, content_type=MEDIA_TYPE)
    response["Cache-Control"] = "no-store"
    for name, value in (headers or {}).items():
        response[name] = value
    return response
